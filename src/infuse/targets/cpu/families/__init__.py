"""One file a family of kernels: sizes, the packing of weights, the work that is counted for its
cost, and the meaning in NumPy.
"""
