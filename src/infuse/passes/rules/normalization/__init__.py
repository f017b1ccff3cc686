"""Normalizations of every spelling, and the softmax family."""
