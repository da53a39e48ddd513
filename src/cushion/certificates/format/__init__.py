"""From an integer net to the exact bits that pay for it, and back. Integers and bytes only: no
torch.
"""
