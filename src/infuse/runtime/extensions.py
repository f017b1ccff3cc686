"""Whether a program extends Infuse."""

from __future__ import annotations

import sys
from typing import Any


def is_extended() -> bool:
    """Whether this process has rules, passes, operators or lowerings that are not Infuse's: another
    process need not have them.
    """
    registry = sys.modules.get("infuse.passes.registry")
    operators = sys.modules.get("infuse.ops.core.base")
    kernels = sys.modules.get("infuse.lowering.kernel_table")
    things = [
        *(registry.registered() if registry else ()),
        *(operators.REGISTRY.registered() if operators else ()),
        *(
            family.lower
            for table in ((kernels.COMMON, *kernels.TABLES.values()) if kernels else ())
            for family in table.families.values()
        ),
    ]
    return any(_is_foreign(thing) for thing in things if thing is not None)


def _is_foreign(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] != "infuse"
