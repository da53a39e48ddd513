"""Rechecks certificate files from their bytes and the data, trusting nothing else."""

from cushion.verifier.check import verify

__all__ = ["verify"]
