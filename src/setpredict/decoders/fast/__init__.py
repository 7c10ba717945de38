"""The hand-derived inner step of the built-in set encoders, and its CPU kernels."""
