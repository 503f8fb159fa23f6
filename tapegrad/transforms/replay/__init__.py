"""Functions under `jit`: which tape answers a call, and when a function is recorded.

In the order in which to read, from the outside in:

`function`     `Replayed`, which every transformation is made of: which tape answers a call, and when one is recorded.
`arguments`    inputs of the tape, and everything else, which is part of the key.
`surroundings` what the function reads besides its arguments, as far as it is looked at.
`cache`        the tapes of one kind of arguments, found by what guards saw.
`running`      the user's function, run: recorded, or plainly.
`kernels`      when a tape becomes machine code; `directions`, the same for Jacobians.
`short`        the short way of a call that is like the last one: a `site`; `planned`, what transformations say of it; `miss`.
`gathered`     Jacobians and their kin as one call and one indexing.
`answers`      what the result of a call is made of.
`site`         the call of an executable, written out for one kind of arguments.
`entry`        calls in users' nopython code (`tg.compile`).
`stats`        what `g.stats()` says of all this.
"""
