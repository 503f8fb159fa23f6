"""Machine code by LLVM: of single rows of the rules table, and of functions written for Numba; kept on disk.

Imports: common, rules, tape.

Nothing here knows tapes or tensors; the sweeps, replays and kernels are made with it.  In the order in which to read:

from expressions to LLVM
    `emit`              lowers an expression of the rules' language.
    `library`           what stands for its functions: intrinsics, libm, SciPy's special functions, some of our own
                        (`gamma`).
    `of_rows`           one switch over all scalar rows, in one function a direction, and strided loops over arrays (`row_modules`).
    `ufuncs`            addresses of loops inside NumPy's and SciPy's; `lapack`, those of functions of stacks of matrices.

from functions to machine code
    `compile`           functions of numbers, written in Python for Numba, as object code that loads without Numba.
    `array_functions`   the same for functions that index arrays.
    `numba_inside`      all that is used of Numba and not documented there, and which versions of it are known.
    `memory`            what such functions are made of: loads and stores by address, calls by address, atomic flags; and
                        a function called for chunks of work by several of the system's threads.
    `python_api`        CPython's functions, by which they read objects, and the address of an array.

from LLVM to addresses
    `code`              machine code by key: come with the package (`pack`), from the disk (`disk`), or made now.
    `llvm`              LLVM itself: from text to object code, from that to addresses.
    `symbols`           names of the functions outside that it calls.
    `host`              the processor that code is made for, the versions of what makes it, and glibc's functions on vectors.
"""
