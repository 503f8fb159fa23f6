"""Functions under `jit`: which tape answers a call, and when a function is recorded.

In the order in which to read, from the outside in:

`function`     `Replayed`, which every transformation is made of: which kind of call, which path, interpreter or kernel.
`answers`      the arguments of a call: inputs of the tape, and everything else, which is part of the key; what the answer is made of.
`running`      the user's function, run: recorded, or plainly; and what `g.stats()` says of all this.
`kernels`      a recorded tape, run by the interpreter or by its kernels, and when it becomes one.
`directions`   walks over it for Jacobians and their kin, which are one call and one indexing.
`site`         the call of an executable, written out for one kind of arguments.
`entry`        calls in users' nopython code (`tg.compile`).
"""
