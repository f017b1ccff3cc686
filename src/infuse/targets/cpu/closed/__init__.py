"""Programs of functions that no model has to itself: all that differs from one model to the next is
data, so that a library of these functions runs any of them without a compiler.
"""
