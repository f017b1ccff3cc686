"""What code is made for: machines as numbers, and targets by name. No other room knows a width, a
cache or a unit.
"""

from infuse.targets.base import EXTENSIONS, Target
from infuse.targets.machine import Caches, DotType, DotUnit, Machine

__all__ = ["EXTENSIONS", "Caches", "DotType", "DotUnit", "Machine", "Target"]
