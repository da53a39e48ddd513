"""A net seen as it runs: layers and blocks found by hooks, without a graph of its operations."""
