"""``python -m interpose`` is the command line, like the script ``interpose``."""

import sys

from interpose.cli import main

if __name__ == "__main__":
    sys.exit(main())
