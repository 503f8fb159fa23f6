"""The page `docs/supported.md`, made from the rules table, the dispatch tables and the refusals.

``python -m tapegrad supported`` prints it; a test keeps the committed page equal to it.
"""

from __future__ import annotations

import numpy as np

from ...numpy_api.dispatch import DIRECT, FUNCTIONS, VALUES, name_of
from ...numpy_api.refused import REFUSED, WITHOUT_DERIVATIVE
from ...rules import BY_FUNCTION, BY_NAME, ROWS
from ...rules.special import SCIPY_UFUNCS
from ...rules.table import zero

_HEAD = """# What is supported

*Made by `python -m tapegrad supported` from the rules table, with NumPy {version}; do not edit.*

Every function is called by its own name, `np.f(tensor)`. A primitive is what one call writes on the
tape; the others are compositions of primitives. Kinks and poles are in [numbers](numerics.md), other
refusals in [limits](limits.md).

```python
>>> from tapegrad.rules import BY_NAME
>>> print(BY_NAME["hypot"].doc)
sqrt(x**2 + y**2); derivative 0 at the origin

```
"""


def _table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows]


def _short(function):
    name = getattr(function, "__name__", "")
    if isinstance(function, np.ufunc):
        return f"np.{name}"
    return name_of(function).replace("numpy.", "np.", 1)


def zero_derivative(row):
    """Whether every partial derivative of an element-wise row is the constant 0."""
    return row.elementwise and all(p is None or p is zero for p in row.partials)


def _modes(row):
    modes = ["reverse", *(["forward"] if row.elementwise or row.jvp else [])]
    return ", ".join(modes) + (" (zero)" if zero_derivative(row) else "")


def _primitives():
    for row in sorted(ROWS, key=lambda row: row.name):
        numpy = ", ".join(f"`{_short(f)}`" for f in row.numpy)
        yield f"`{row.name}`", row.doc, numpy, _modes(row)


def _functions():
    """Rows of NumPy's functions: name, and what it does on a tape."""
    found = {}
    for function in {*FUNCTIONS, *BY_FUNCTION, *DIRECT, *VALUES}:
        name = _short(function)
        full = name.replace("np.", "numpy.", 1)
        if full in REFUSED:
            continue
        row = BY_FUNCTION.get(function)
        if full in WITHOUT_DERIVATIVE:
            note = f"a plain value: {WITHOUT_DERIVATIVE[full]}"
        elif function in VALUES:
            note = "a plain value"
        elif row is not None:
            note = f"`{row.name}`" + (": derivative 0" if zero_derivative(row) else "")
        elif name.rpartition(".")[2] in BY_NAME:
            note = f"`{name.rpartition('.')[2]}`, and compositions for its other parameters"
        else:
            note = "a composition"
        found[name] = note
    return [(f"`{name}`", note) for name, note in sorted(found.items())]


def page():
    """The text of `docs/supported.md`.

    Returns
    -------
    str

    Examples
    --------
    >>> page().splitlines()[0]
    '# What is supported'
    """
    lines = _HEAD.format(version=".".join(np.__version__.split(".")[:2])).splitlines()
    lines += ["", "## NumPy", "", *_table(("function", "on a tensor"), _functions())]
    scipy = [(f"`scipy.special.{name}`", f"`{row}`: {BY_NAME[row].doc}") for name, row in sorted(SCIPY_UFUNCS.items())]
    lines += ["", "## SciPy's ufuncs", "", *_table(("function", "on a tensor"), scipy)]
    lines += ["", "## Primitives", "", *_table(("primitive", "what it is", "recorded by", "modes"), _primitives())]
    reasons = [(f"`{name}`", why) for name, why in sorted(REFUSED.items())]
    lines += ["", "## Refused, and why", "", *_table(("function", "reason"), reasons)]
    return "\n".join(lines) + "\n"
