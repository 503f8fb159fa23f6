"""Derivatives inside Numba's nopython mode: dual numbers as a Numba extension type.

Nothing here is imported by ``import tapegrad``: `api` holds the public functions and
imports Numba when one of them is first called.  `types` is the number, `scalars`,
`builtins` and `arrays` are what can be done with it, `rewrite` changes a user's function
so that its arrays and helpers can hold it, `compile` compiles and explains failures,
`drivers` are the loops over chunks of directions.
"""
