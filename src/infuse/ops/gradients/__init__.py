"""Gradients of operators that no formula gives, by family: each function is the method `gradient`
of the operators that it names (`@gradient_of(Conv)`).
"""
