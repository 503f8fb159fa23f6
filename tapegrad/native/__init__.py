"""Machine code for single rows of the rules table, made by LLVM.

`emit` lowers an expression of the rules' language, `scalars` makes one switch
over all scalar rows from it, `loops` makes strided array loops, `llvm` compiles
and keeps the results on disk, `ufuncs` finds the inner loops of NumPy's and
SciPy's own ufuncs.  Nothing here knows tapes or tensors.
"""
