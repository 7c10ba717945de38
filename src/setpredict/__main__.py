"""`python -m setpredict`, the same as the command `setpredict`."""

from setpredict.cli.main import main

if __name__ == "__main__":
    main()
