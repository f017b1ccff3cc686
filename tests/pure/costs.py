"""Operands of expressions whose cost is counted."""

from infuse.ir.expression import Variable

X, Y, Z = Variable("x"), Variable("y"), Variable("z")
