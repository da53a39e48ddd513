"""A classifier and the few rows of the sample that it needs: rounds, learners, certificates."""
