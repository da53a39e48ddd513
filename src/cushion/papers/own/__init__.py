"""Tables of our own: what bits buy, and published certificates against ours."""
