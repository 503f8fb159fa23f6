"""Numba-compiled passes over the columns of scalar instructions, linear in their number.

`scalars`          adjoints or tangents of a run of instructions, from the templates of their rows (`kernel.templates`).
`value_numbering`  what repeats is computed once, what is constant becomes a constant, what nobody needs is dropped
                   (`kernel.closing`).

So a derivative of a million scalar instructions costs no Python for each of them.
"""
