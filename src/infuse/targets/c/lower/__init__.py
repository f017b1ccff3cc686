"""How operators become calls of the kernels in kernels/plain.h."""
