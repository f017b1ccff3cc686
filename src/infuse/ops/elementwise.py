"""Families of elementwise operators: which element types they take and what they give."""
