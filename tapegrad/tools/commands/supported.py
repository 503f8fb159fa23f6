"""The page `docs/supported.md`, made from the rules table, the dispatch tables and the refusals.

What it says of a function is what a call of it with tensors does (`answer`).
``python -m tapegrad supported`` prints it; a test keeps the committed page equal to it.
"""

import warnings
from functools import cache

import numpy as np
from scipy import special

from ...array import trees
from ...array.differentiable import Differentiable
from ...array.tensor import tensor
from ...common.errors import TapegradError
from ...common.printing import markdown
from ...numpy_api.dispatch import DIRECT, FUNCTIONS, VALUES, name_of
from ...numpy_api.refused import REFUSED, WITHOUT_DERIVATIVE
from ...rules import BY_FUNCTION, BY_NAME, ROWS
from ...rules.special import SCIPY_UFUNCS

_HEAD = """# What is supported

*Made by `python -m tapegrad supported` from the rules table, with NumPy {version}; do not edit.*

Every function is called by its own name, `np.f(tensor)`: this page was made by such calls. The few that NumPy does not
let a library answer by that name say what to write. An array that a tensor is written into has to be a tensor, too: make
it with `tg.zeros`, or use [`tapegrad.numpy`](numpy.md). A primitive is what one call writes on the tape; the others are compositions of primitives. Kinks and
poles are in [numbers](numerics.md), other refusals in [limits](limits.md).

```python
>>> from tapegrad.rules import BY_NAME
>>> print(BY_NAME["hypot"].doc)
sqrt(x**2 + y**2); derivative 0 at the origin

```
"""


_S = np.array([[2.1, 0.3, 0.4], [0.3, 1.7, 0.2], [0.4, 0.2, 1.4]])
_V = np.array([0.4, 0.2, 0.7])
_AT = np.array([1, 0, 2])
#: What functions are called with: their own arguments ...
_ARGUMENTS = {
    "apply_along_axis": (np.sum, 0, _S), "apply_over_axes": (np.sum, _S, 0), "choose": (_AT, [_V, _V, _V]), "einsum": ("ij->ji", _S),
    "extract": (_S > 1, _S), "compress": (_V > 0.3, _S), "full": ((3,), _V), "interp": (_V, [0.0, 0.5, 1.0], _V),
    "piecewise": (_V, [_V < 0.5], [np.sin]), "place": (_V, _V > 0.5, _V), "putmask": (_V, _V > 0.5, _V), "put_along_axis": (_V, _AT, _V, 0),
    "put": (_V, _AT, _V), "ravel_multi_index": ((_AT, _AT), (3, 3)), "select": ([_S > 1], [_S]), "unravel_index": (_AT, (3, 3)),
    "take": (_V, _AT), "take_along_axis": (_V, _AT, 0), "where": (_S > 1, _S, _S), "partition": (_V, 1),
    "argpartition": (_V, 1), "can_cast": (_S, "d"), "arccosh": (_V + 1.0,),
    "copyto": (_S, _V), "astype": (_S, float), "roll": (_V, 1),
    "dsplit": (_S[None], 1), "fill_diagonal": (_S, _V), "full_like": (_S, _V), "polyfit": (_V, _V, 1), "bincount": (_AT, _V),
}  # fmt: skip
#: ... or the first of these that NumPy takes.
_OTHERS = (
    (_S,), (_V,), (_S, _S), (_V, _V), (_S, 1), (_V, 1), (_S, (3, 3)), ([_S, _S],), ([_V, _V],), (_S, 0, 1), (_V, _V, _V), (_V, _V, 4), (_V, [1], 2.0),
    ([_V, _V], _V), (_S, _V, None),
)  # fmt: skip


def _arrays(value):
    """The arrays of floats in arguments or a result."""
    return [a for a in trees.leaves(value) if isinstance(a, Differentiable) or isinstance(a, np.ndarray) and a.dtype.kind == "f"]


def _with_tensors(args, alone=None):
    """Arguments with tensors, which are computed, in place of the arrays of floats; only in that at position `alone` if it is given."""

    def changed(value):
        return tensor(value, requires_grad=True) * 1.0 if _arrays(value) else value

    return [trees.map(changed, a) if k == alone or alone is None else a for k, a in enumerate(args)]


def _called(function, arguments):
    """What a call with tensors gives, as `answer` says it."""
    target = arguments[0]
    before = getattr(target, "grad_fn", None)
    try:
        result = function(*arguments)
    except TapegradError as error:
        return error
    written = result is None and getattr(target, "grad_fn", None) is not before
    return "tensor" if written or any(isinstance(a, Differentiable) and a.requires_grad for a in _arrays(result)) else "value"


@cache
def answer(function):
    """What a NumPy or SciPy function does when it is called with tensors.

    Parameters
    ----------
    function : callable

    Returns
    -------
    str or TapegradError or None
        "tensor": a tensor with a derivative (or one is written into its first argument); "value"; what it raises; None if it
        takes no floats.
    args : tuple or None
        Plain arguments of the call.
    """
    own = _ARGUMENTS.get(function.__name__)
    for args in _OTHERS if own is None else (own,):
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                function(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
            except (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError):
                continue
            return _called(function, _with_tensors(args)), args
    return None, None


def _instead(function, args):
    """What to write in place of a call that NumPy does not let us answer: the call with ``like=``, if it answers."""
    arguments = _with_tensors(args)
    result = function(*arguments, like=_arrays(arguments)[0])
    text = ", ".join("shape" if isinstance(a, tuple) else "t" for a in args)
    return (
        f"refused; write `{_short(function)}({text}, like=t)`"
        if isinstance(result, Differentiable) and result.requires_grad
        else "refused"
    )


def _alone(function, args):
    """What a function of several arrays does otherwise where only one of them is a tensor."""
    positions = [k for k, a in enumerate(args) if _arrays(a)]
    if len(positions) < 2:
        return ""
    answers = [(k + 1, _called(function, _with_tensors(args, k))) for k in positions]
    said = [(k, "a plain value" if what == "value" else "refused") for k, what in answers if what != "tensor"]
    return "".join(f"; {what} if only argument {k} is a tensor" for k, what in said)


def _short(function):
    return name_of(function).replace("numpy.", "np.", 1)


def _modes(row):
    modes = ["reverse", *(["forward"] if row.elementwise or row.jvp else [])]
    return ", ".join(modes) + (" (zero)" if row.steps else "")


def _primitives():
    for row in sorted(ROWS, key=lambda row: row.name):
        yield f"`{row.name}`", row.doc, ", ".join(f"`{_short(f)}`" for f in row.numpy), _modes(row)


def _functions():
    """Rows of NumPy's functions: name, and what it does on a tape."""
    notes = {}
    for function in {*FUNCTIONS, *BY_FUNCTION, *DIRECT, *VALUES}:
        name = _short(function)
        full = name.replace("np.", "numpy.", 1)
        if full in REFUSED:
            continue
        row = BY_FUNCTION.get(function)
        what, args = answer(function)
        if what is None:
            continue
        if isinstance(what, TapegradError):
            note = _instead(function, args)
        elif what == "value":
            note = "a plain value" + (f": {WITHOUT_DERIVATIVE[full]}" if full in WITHOUT_DERIVATIVE else "")
        elif row is not None:
            note = f"`{row.name}`" + (": derivative 0" if row.steps else "")
        elif name.rpartition(".")[2] in BY_NAME:
            note = f"`{name.rpartition('.')[2]}`, and compositions for its other parameters"
        else:
            note = "a composition"
        if what == "tensor":
            note += _alone(function, args)
        notes[name] = note
    return [(f"`{name}`", note) for name, note in sorted(notes.items())]


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
    lines += ["", "## NumPy", "", *markdown(("function", "on a tensor"), _functions())]
    scipy = []
    for name, row in sorted(SCIPY_UFUNCS.items()):
        function = getattr(special, name)
        scipy.append((f"`scipy.special.{name}`", f"`{row}`: {BY_NAME[row].doc}{_alone(function, answer(function)[1])}"))
    lines += ["", "## SciPy's ufuncs", "", *markdown(("function", "on a tensor"), scipy)]
    lines += ["", "## Primitives", "", *markdown(("primitive", "what it is", "recorded by", "modes"), _primitives())]
    reasons = [(f"`{name}`", why) for name, why in sorted(REFUSED.items())]
    lines += ["", "## Refused, and why", "", *markdown(("function", "reason"), reasons)]
    return "\n".join(lines) + "\n"
