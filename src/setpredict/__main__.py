"""`python -m setpredict`, the same as the command `setpredict`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the current folder, which `python -m` would search first
    from setpredict.cli.main import main

    main()
