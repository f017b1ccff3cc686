"""Processors: what lowered programs are written as for them."""
