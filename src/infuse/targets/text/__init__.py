"""What texts of C and of C++ have in common: names, sizes, expressions, and the interface of a
compiled model.
"""
