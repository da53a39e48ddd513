"""One reader per file layout; each hands over `Arrays` and knows nothing of names or downloads."""
