"""Operators that only one runtime has."""
