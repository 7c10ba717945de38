"""`python -m setpredict`, and the command `setpredict`."""

import sys


def main() -> None:
    from setpredict.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
