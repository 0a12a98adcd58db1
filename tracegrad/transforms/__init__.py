"""Transformations of functions: jit, grad, value_and_grad."""
