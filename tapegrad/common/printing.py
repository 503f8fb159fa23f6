"""Printing of numbers and tensors in PyTorch's layout, and plain tables.

People who come from PyTorch read ``tensor([1.0000, 2.5000])`` at a glance, and
documents written for it contain such lines, so tapegrad prints the same text
character for character.  The only differences are the spelling of dtypes
(``float32``, not ``torch.float32``) and that float64 is the default one.

The rules, in the order they are applied:

* more than `THRESHOLD` elements: along each axis longer than twice
  `EDGE_ITEMS` only the first and last `EDGE_ITEMS` are shown, with ``...``
  between them, and only those decide how all are written;
* floats are written as integers with a point (``7.``) if every one of them is
  an integer, else with `PRECISION` digits; in scientific notation if the
  largest is above 1e8, the smallest below 1e-4 or their ratio above 1000
  (magnitudes; zeros, infinities and nan have no say);
* all elements take the width of the widest; rows break before `LINE_WIDTH`;
* what the tensor is (size of an empty one, dtype, grad_fn) follows after the
  closing bracket.

Everything here is a pure function of its arguments and imports nothing from
the rest of the package: values come in as plain numbers and arrays.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

PRECISION = 4
THRESHOLD = 1000
EDGE_ITEMS = 3
LINE_WIDTH = 80

_PREFIX = "tensor("

#: dtypes that go without saying; every other one is named in the print.
_SILENT_DTYPES = ("int64", "bool")


def format_tensor(value: Any, *, grad_fn_name: str | None = None, requires_grad: bool = False, default_dtype: str = "float64") -> str:
    """Write a value as a tensor is printed.

    Parameters
    ----------
    value : float, int, bool, numpy scalar or numpy.ndarray
        The numbers to print.
    grad_fn_name : str, optional
        Name of the operation the tensor came from, such as ``AddBackward0``.
        It takes the place of ``requires_grad=True``.
    requires_grad : bool
        Whether a leaf asks for a gradient.
    default_dtype : str
        Name of the floating dtype that is not worth mentioning.

    Returns
    -------
    str
        One line or several, beginning with ``tensor(``.

    Examples
    --------
    >>> print(format_tensor(7.0, grad_fn_name="AddBackward0"))
    tensor(7., grad_fn=<AddBackward0>)
    >>> print(format_tensor(np.array([[1.0, -2.5], [3.0, 40.0]]), requires_grad=True))
    tensor([[ 1.0000, -2.5000],
            [ 3.0000, 40.0000]], requires_grad=True)
    """
    array = np.asarray(value)
    dtype_name = array.dtype.name
    suffixes = []
    body = _format_elements(array) if array.size else "[]"
    if not array.size and array.ndim != 1:
        suffixes.append(f"size={array.shape}")
    # No element of an empty one shows what kind they would be.
    if dtype_name != default_dtype and not (array.size and dtype_name in _SILENT_DTYPES):
        suffixes.append(f"dtype={dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _join_suffixes(_PREFIX + body, suffixes)


def format_number(value: Any, spec: str = "") -> str:
    """Write a single number by a format specification, as in ``f"{loss:.3f}"``.

    Parameters
    ----------
    value : float, int, bool, numpy scalar or numpy.ndarray
        A number or an array without axes.  Arrays with axes are accepted
        with an empty `spec` only and are then printed by `format_tensor`.
    spec : str
        What stands behind the colon in an f-string.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If `spec` is given for an array that has axes.

    Examples
    --------
    >>> format_number(np.float64(2) / 3, ".3f")
    '0.667'
    """
    array = np.asarray(value)
    if array.ndim == 0:
        return format(array.item(), spec)
    if not spec:
        return format_tensor(array)
    raise TypeError(
        f"the format {spec!r} applies to a single number, but this tensor has shape {array.shape}; format one element of it, as in "
        f"f'{{t[0]:{spec}}}', or print the whole tensor with f'{{t}}'"
    )


class Printed:
    """What a notebook and the interpreter's prompt show as it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="font-family: monospace">{escape(str(self))}</pre>'


class PlainTable(Printed, str):
    """A table of several lines."""

    __slots__ = ()


class Picture(str):
    """A picture as SVG, which a notebook shows."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def markdown(head, rows):
    """Lines of a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Columns of text, a line each for the head and every row.

    Parameters
    ----------
    head : sequence of str
    rows : sequence of sequence of str
        Each as long as `head`.
    numbers : bool
        Whether the columns after the first are aligned to the right.

    Returns
    -------
    str

    Examples
    --------
    >>> print(table(("way", "time"), [("sweep", "1.5"), ("kernel", "12")], numbers=True))
    way     time
    sweep    1.5
    kernel    12
    """
    lines = [head, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    adjusted = [[c.rjust(w) if numbers and k else c.ljust(w) for k, (c, w) in enumerate(zip(line, widths))] for line in lines]
    return "\n".join("  ".join(cells).rstrip() for cells in adjusted)


def _format_elements(array: np.ndarray) -> str:
    """Write all elements, or the edges of a large array, with their brackets."""
    summarize = array.size > THRESHOLD
    cuts = tuple(summarize and length > 2 * EDGE_ITEMS for length in array.shape)
    for axis, cut in enumerate(cuts):
        if cut:
            length = array.shape[axis]
            keep = [*range(EDGE_ITEMS), *range(length - EDGE_ITEMS, length)]
            array = np.take(array, keep, axis=axis)
    texts, width = _written(array)
    return _nested(np.array(texts, object).reshape(array.shape).tolist(), cuts, len(_PREFIX), width)


def _nested(texts: Any, cuts: tuple[bool, ...], indent: int, width: int) -> str:
    """Write nested lists with brackets aligned `indent` columns from the left.

    `cuts` says for each remaining axis whether its middle was left out.
    """
    if not cuts:
        return texts
    if len(cuts) == 1:
        if cuts[0]:
            texts.insert(EDGE_ITEMS, " ...")
        per_line = max(1, (LINE_WIDTH - indent) // (width + len(", ")))
        rows = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        separator = ",\n"
    else:
        rows = [_nested(part, cuts[1:], indent + 1, width) for part in texts]
        if cuts[0]:
            rows.insert(EDGE_ITEMS, "...")
        separator = "," + "\n" * (len(cuts) - 1)
    return "[" + (separator + " " * (indent + 1)).join(rows) + "]"


def _written(array: np.ndarray) -> tuple[list[str], int]:
    """All elements as text, aligned to the right, and the width of their column.

    Integers and booleans are written as Python does; floats in one way, chosen by their sizes.  Zeros, infinities and nan neither choose
    it nor widen the column.  That leaves a column of zeros and nan one
    character "wide", and the rows of such an array long: PyTorch does the same.
    """
    values = array.ravel().tolist()
    telling, spec, point = values, "", ""
    if array.dtype.kind == "f":
        telling = [v for v in values if v and math.isfinite(v)]
        sizes = [abs(v) for v in telling] or [1.0]
        # The point shows that an integer is a float.
        spec, point = ".0f", "."
        if max(sizes) / min(sizes) > 1000.0 or max(sizes) > 1.0e8 or min(sizes) < 1.0e-4:
            spec, point = f".{PRECISION}e", ""
        elif not all(size.is_integer() for size in sizes):
            spec, point = f".{PRECISION}f", ""

    def text(value):
        return format(value, spec) + point * math.isfinite(value)

    width = max((len(text(v)) for v in telling), default=1)
    return [text(v).rjust(width) for v in values], width


def _join_suffixes(text: str, suffixes: list[str]) -> str:
    """Append the suffixes and close the bracket, breaking before `LINE_WIDTH`."""
    # One column is set aside for the closing bracket, one more as PyTorch does.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + len(", ") > LINE_WIDTH:
            text += ",\n" + " " * len(_PREFIX) + suffix
            column = len(_PREFIX) + len(suffix)
        else:
            text += ", " + suffix
            column += len(", ") + len(suffix)
    return text + ")"


def plural(number, what):
    """``3 inputs``, ``1 input``, ``2 passes``."""
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


def count_text(value):
    return f"{value:.0f}" if value < 1e5 else f"{value:.2e}"


def _scaled(value, *units):
    """A number in the first unit that it reaches, of (name, size)."""
    name, size = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{value / size:.3g} {name}"


def seconds_text(value):
    return _scaled(value, ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def bytes_text(value):
    return _scaled(value, ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
