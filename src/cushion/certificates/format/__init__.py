"""From an integer net to the exact bits that pay for it, and back. No torch."""
