"""One function per table or figure of a paper: registered, resumable, with its verdict computed
from records.
"""
