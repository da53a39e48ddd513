"""From an encoded net and its error count to a stated, checkable bound. No torch."""
