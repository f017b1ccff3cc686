"""Packages of other languages that run a compiled model."""
