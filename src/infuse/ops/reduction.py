"""Reductions: many elements along some axes become one."""
