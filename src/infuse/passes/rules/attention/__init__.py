"""Attention and what belongs to it: masks, heads, rotary embedding."""
