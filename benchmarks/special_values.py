"""Native code beside the interpreter on special values and sizes, over the whole operator table.

    python -m benchmarks.special_values [GROUP…] [--seeds 4] [--types] [--full]

Prints what differs and is not listed in tests/native/special_cases.py, and ends with 1 where
something does.
"""

from __future__ import annotations

import argparse
import sys

from infuse import dtypes
from tests.native.op_cases import ALL_FLOATS, GROUPS
from tests.native.special_cases import sweep


def main() -> int:
    """How many groups differ, as 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--seeds", type=int, default=4, help="draws of each kind of values")
    parser.add_argument("--types", action="store_true", help="all floating types")
    parser.add_argument("--full", action="store_true", help="all samples of each operator")
    options = parser.parse_args()
    differing = 0
    for group in options.groups or GROUPS:
        for dtype in ALL_FLOATS if options.types else (dtypes.float32,):
            messages = sweep(group, range(options.seeds), dtype, options.full)
            print(f"{group}, {dtype.name}: {len(messages)} differ", *messages, sep="\n  ")
            differing += len(messages)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
