"""`python -m tacit` is `tacit`."""

import sys

from tacit.cli import main

if __name__ == "__main__":
    sys.exit(main())
