"""One function for each table or figure of a paper, with its verdict computed from records."""
