"""Tensors that are cut, joined, reordered and stretched: cancelled, merged, moved."""
