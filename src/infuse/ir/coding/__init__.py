"""Weights in fewer bytes: clusters of equal values, and entropy coding of what is stored."""
