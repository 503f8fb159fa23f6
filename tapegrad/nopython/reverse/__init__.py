"""Reverse mode of functions that Numba compiles, by transforming Numba's own representation of them.

Imports: common, rules, codegen, nopython.

In the order in which to read:

`program`     a typed function, tidied; `forms`, statements in few forms.
`rows`        what statements are made of, and what refuses them; element-wise operations: rows of the table; NumPy's functions of whole arrays.
`activity`    what has an adjoint; `adjoints`, what the reverse sweep does for a statement.
`plan`        what is kept, what is computed again, how the reverse sweep finds its way.
`segments`    outermost loops within `memory=`: iterations that are forgotten, and run once more.
`emit`        both sweeps as one control-flow graph; `runtime`, what it calls: memory, contributions to adjoints,
              also in dual numbers: the sweeps, typed for them, give products of the Hessian.
`threads`     `prange` loops whose iterations are independent, on threads.
`compile`     the passes, and helpers (`nopython.drivers` has the code around the sweeps).
"""
