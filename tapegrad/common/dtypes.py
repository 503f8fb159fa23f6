"""Which arrays of the user's may stand beside a derivative, and in which form.

Everything that computes here, the compiled walks above all, reads plain memory in this
machine's byte order.  So an array from a file of another machine is copied, and one
whose class calculates in its own way (a mask, a unit) is refused: read as plain memory
it would silently lose that way.
"""

import numpy as np

from .errors import ComplexOperandError, DtypeError, StructureError

#: The classes of numbers that beside float64 are floats, as keys.
NUMBERS = dict.fromkeys((float, int, bool, np.float64, np.float32, np.bool_, *(np.dtype(char).type for char in np.typecodes["AllInteger"])))


def check_dtype(array, what):
    """Refuse dtypes that tapegrad cannot differentiate beside."""
    if array.dtype.kind == "c":
        raise ComplexOperandError(
            f"{what}: complex numbers (got {array.dtype} of shape {array.shape}) are not taken here; give real and imaginary parts as two "
            "real arrays (z.real, z.imag)"
        )
    if array.dtype.kind == "O":
        raise DtypeError(f"{what}: an array of Python objects cannot be differentiated; give it a float dtype")
    if array.dtype.char == "g":
        raise DtypeError(f"{what}: extended precision ({array.dtype}) is not supported; convert with .astype(float)")
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"{what}: dtype {array.dtype} is not numeric")


def check_derivative(thing, what):
    """Refuse results of truth values or integers; a Python int counts as a float."""
    value = getattr(thing, "_v", thing)
    if value.__class__ is float:
        return
    dtype = np.asarray(value).dtype
    if dtype.kind != "f" and type(thing) is not int:
        raise DtypeError(
            f"{what} is of dtype {dtype}, which has no derivative; return a float (what is computed from comparisons or "
            "positions is constant between jumps), convert a constant with float(...) or .astype(float), or return it as "
            "auxiliary data (has_aux=True)"
        )


def check_returned(result, what, plain=False):
    """Refuse what a function returned, no tensor, unless it is a number or an array; with `plain` it may have no derivative."""
    if result is None:
        raise StructureError(f"{what} is None: does the function return what it computes?")
    if isinstance(result, (str, bytes)) or callable(result):
        raise StructureError(
            f"{what} is not a number or an array but of type {type(result).__name__}; return numbers, arrays, or "
            "containers of them (with has_aux=True a pair of such, and anything else)"
        )
    array = np.asarray(result)
    if array.dtype.kind == "O":
        raise StructureError(f"{what} is of type {type(result).__name__}, which holds Python objects, not numbers")
    check_dtype(array, what)
    if not plain:
        check_derivative(result, what)


def has_own_arithmetic(array):
    """Whether an array is masked, an ``np.matrix``, a quantity with units, or the like."""
    kind = type(array)
    return kind.__mul__ is not np.ndarray.__mul__ or kind.__array_ufunc__ is not np.ndarray.__array_ufunc__


def check_class(thing, what):
    """Refuse arrays with an arithmetic of their own."""
    kind = type(thing)
    if kind is not np.ndarray and isinstance(thing, np.ndarray) and has_own_arithmetic(thing):
        raise DtypeError(
            f"{what}: an array of class {kind.__name__} calculates in its own way, which would be lost; give a plain array: "
            "a.filled(value) or a[~a.mask].data of a masked one, np.asarray(a) of any other"
        )


def check_classes(function, operands):
    """`check_class` of all operands of a function without derivative: a mask would be lost in a comparison, too."""
    for o in operands:
        if o.__class__ is not np.ndarray and isinstance(o, np.ndarray):
            check_class(o, getattr(function, "__name__", "operation"))


def readable(array):
    """`array`, or a copy that compiled loops can read.

    Files of other machines have the bytes of a number in the other order, and fields of packed
    records lie at addresses that are no multiples of their size: NumPy copies both before it calls its loops.
    """
    return array if array.dtype.isnative and array.flags.aligned else array.astype(array.dtype.newbyteorder("="))


def by_rows(array):
    """`array` with its axes in the order in which they lie in memory, from the longest stride on, and what axes these are."""
    axes = np.argsort([-abs(step) for step in array.strides], kind="stable").tolist()
    return array.transpose(axes), axes


def in_another_order(array):
    """Whether an array, read as it lies in memory, comes in another order than that of C."""
    return not array.flags.c_contiguous and not array.copy("K").flags.c_contiguous


def plain_array(data, what, **options):
    """`data` as an array that compiled loops can read, a new one unless `options` of ``np.array`` say otherwise.

    Refuses what calculates in its own way, and dtypes that cannot be differentiated beside.
    """
    check_class(data, what)
    array = readable(np.array(data, **options))
    check_dtype(array, what)
    return array
