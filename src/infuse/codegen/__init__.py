"""Kernel groups to C++ to a shared library."""
