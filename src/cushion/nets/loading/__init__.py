"""What NET may be on disk: weights with their architecture, torch.export programs."""
