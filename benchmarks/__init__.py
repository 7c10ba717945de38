"""How fast and how large: the paper's method written the plain way against this package, in one run."""
