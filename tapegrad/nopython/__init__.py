"""Derivatives inside Numba's nopython mode: dual numbers as a Numba extension type.

Imports: common, rules, tape, codegen, array.

Nothing here but `api` is imported by ``import tapegrad``; it imports Numba when one of its functions is first called, and the
rest when something has to be compiled.  In the order in which to read:

`api`        the public functions, ``tg.njit_grad`` and its like.
`request`    a derivative that was asked for, and its dispatcher: compiled, or loaded from disk; `key`, what its code depends on.
`drivers`    the loops over chunks of directions around the user's function, written for its types.
`types`      the dual number as a Numba type.
`scalars`    operations on it, from the rules table; Python's builtins, ways in and out; element-wise rows that Numba does not know.
`arrays`     arrays of dual numbers, and their constructors.
`loops`      NumPy's functions that are loops, for both modes; linear algebra.
`vectorized` functions of ``@numba.vectorize`` as loops over functions of numbers.
`compile`    the user's function compiled with these passes, and failures explained.
"""
