"""`python -m cushion` is the `cushion` command."""

import sys

from cushion.cli import main

if __name__ == "__main__":
    sys.exit(main())
