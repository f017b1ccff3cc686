"""Operators whose steps are the same on every kind of machine: views, control flow, and the sizes
that steps find.
"""
