"""`python -m infuse` is the command `infuse`."""

from __future__ import annotations

import sys

from infuse.cli.entry import start

sys.exit(start())
