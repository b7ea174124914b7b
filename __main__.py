"""`python -m fairhand` is the command `fairhand`."""

from __future__ import annotations

import sys

from .codegen.cli import main

if __name__ == "__main__":
    sys.exit(main())
