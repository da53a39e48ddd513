"""How the format refuses, for readers that import nothing else of cushion (the verifier)."""

from cushion.errors import BadInput, Malformed

__all__ = ["BadInput", "Malformed"]
