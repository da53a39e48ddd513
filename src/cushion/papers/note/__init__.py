"""The note on Arora 2018: Figures 1 to 6."""
