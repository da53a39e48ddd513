"""Named sets, files in the usual layouts, fingerprints, splits and label corruption. No torch."""
