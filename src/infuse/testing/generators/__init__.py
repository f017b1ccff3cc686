"""Random networks: values, operators, control flow and layers drawn from a generator of numbers."""
