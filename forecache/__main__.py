"""`python -m forecache`: the same command line as the `forecache` script."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
