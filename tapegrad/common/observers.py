"""Whoever wants to know that a value leaves the tape: nobody, except inside `explain_zero`.

The places where a result is given without derivative (comparisons, ``.item()``,
operations under ``no_grad``) look at `LISTENERS`, and call `tell` if there is one.
"""

#: Functions of (how, operands), called in the thread in which it happens.
LISTENERS = []


def tell(how, *operands):
    """Tell every listener that the values of `operands` were used without derivative."""
    for listener in tuple(LISTENERS):
        listener(how, operands)
