"""`python -m setpredict` runs the command line."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the current folder, which `python -m` searches first: modules there are not ours to import

from setpredict.cli.main import main

main()
