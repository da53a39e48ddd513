"""What the lemmas of Arora 2018 promise of a compressed net, observed on the sample."""
