"""Training that resumes: recipes of the papers, RUN folders, iterative magnitude pruning."""
