"""A file for each language: what its package consists of."""
