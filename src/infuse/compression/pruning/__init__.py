"""Structured pruning: networks that are physically narrower."""
