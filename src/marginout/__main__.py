"""``python -m marginout``: the command."""

import sys

from marginout.cli import main

if __name__ == "__main__":
    sys.exit(main())
