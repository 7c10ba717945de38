"""Speed and memory: a plain PyTorch implementation of the paper against this package, in the same run."""
