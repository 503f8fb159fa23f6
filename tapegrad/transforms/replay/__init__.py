"""Functions under `jit`: which tape answers a call, and when a function is recorded.

In the order in which to read, from the outside in:

`function`     `Replayed`, which every transformation is made of: which kind of call, which path, interpreter or kernel.
`arguments`    inputs of the tape, and everything else, which is part of the key.
`running`      the user's function, run: recorded, or plainly.
`kernels`      a recorded tape, run by the interpreter or by its kernels, and when it becomes one.
`directions`   walks over it for Jacobians and their kin, which are one call and one indexing.
`answers`      what the result of a call is made of.
`site`         the call of an executable, written out for one kind of arguments.
`entry`        calls in users' nopython code (`tg.compile`).
`stats`        what `g.stats()` says of all this.
"""
