"""Importing this module registers the kinds of layers that all methods store, so that every file
can be read.
"""

from importlib import import_module

from cushion.compressors.registry import METHODS

for _module in sorted({module for method in METHODS.values() for module in method.stores}):
    import_module(f"cushion.compressors.{_module}")
