"""Feeds mutated files to the verifier: it must never crash, hang, take much memory or accept a
false claim.
"""
