"""Search beyond rules: bounded equality saturation over the algebra of linear operators, a cost
model deciding.
"""

from infuse.search.cost import Prices, Roofline
from infuse.search.equalities import EQUALITIES
from infuse.search.improving import improve, search
from infuse.search.saturation import Bounds

__all__ = ["EQUALITIES", "Bounds", "Prices", "Roofline", "improve", "search"]
