"""Numba-compiled passes over the columns of scalar instructions, linear in their number."""
