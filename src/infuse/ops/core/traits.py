"""What operators have in common, stated on their classes: passes and code generation ask for a
trait and have no lists of names.
"""

from __future__ import annotations

from enum import Flag, auto

from infuse.ir.graph import Node


class Trait(Flag):
    """What is true of an operator, whatever its attributes are."""

    NONE = 0
    RESHAPE = auto()
    """Gives the elements of the first operand in their order, in another shape."""
    MOVEMENT = auto()
    """All elements of the results are elements of the first operand."""
    SELECTION = auto()
    """Reads of the first operand only what it gives."""
    ARITHMETIC = auto()
    """A sum, difference, product, quotient, power or extreme of two numbers."""
    TOTAL = auto()
    """Computes something from any elements once the shapes fit."""
    FLOAT32 = auto()
    """Kernels compute in float32 where its operands are narrower floats."""
    CONTINUOUS = auto()
    """Elementwise, and as exact from float32 as from operands that were rounded to fewer bits."""
    FINITE = auto()
    """Elementwise, and no NaN unless an operand is one or infinite."""
    NONNEGATIVE = auto()
    """No result is less than zero."""
    IDEMPOTENT = auto()
    """f(f(x)) = f(x)."""
    ODD = auto()
    """Elementwise, and f(-x) = -f(x)."""
    VIEW = auto()
    """Gives its first operand as it is: no memory is touched."""
    SIZES = auto()
    """Looks at no element of its operands, only at what they are."""
    ZERO_FLOPS = auto()
    """Moves, makes or lists elements, or runs a body, and computes nothing itself."""
    ZERO_GRADIENT = auto()
    """Its floats are constant wherever they have a derivative, or depend on no element."""
    STRAIGHT_THROUGH = auto()
    """Rounds to integers that are differentiated as if they had not been rounded."""
    PER_IMAGE = auto()
    """Each result along the first axis needs of the first operand only what lies at its place."""
    PER_CHANNEL = auto()
    """Each result along axis 1 needs of the first operand only what lies at its place there, and of
    vectors among the operands only the element at its place.
    """
    REDUCTION = auto()
    """Elements along axes become one."""
    FUNCTION = auto()
    """Elementwise, of one operand and of its type, which may be a float."""
    HOMOGENEOUS = auto()
    """f(s · x) = s · f(x) for the first operand and every s > 0, also one for each channel where
    the operator is elementwise or `PER_CHANNEL`.
    """


def has_trait(node: Node, trait: Trait) -> bool:
    """Whether a node's operator has all of these traits; those from outside of the registry have
    none.
    """
    return trait in getattr(node.op, "traits", Trait.NONE)
