"""Plain arrays in an uncompressed ``.npz``, read from untrusted bytes.

Nothing is unpacked, nothing is executed, and no array is larger than its bytes in the file.
A checksum over all arrays, in a member of its own, says whether the file is what was written.

Python data become JSON (`encoded`), with tuples, dicts, slices, arrays and operands marked;
functions are names from an allow-list (`NUMPY`, and tapegrad's own `host_function`s).
"""

import hashlib
import io
import json
import math
import reprlib
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...common.dtypes import check_class, readable
from ...common.errors import REPORT, InternalError, TapeFileError, reason
from ...common.host_functions import FUNCTIONS, HostFunction
from ...program.finish import FinishedTape
from ...program.trace import HostOperand, ResultOf
from ...tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED

#: Format and version of a tape.
TAPE = "tapegrad tape", 7
#: Dtypes that may be read, and the most axes an array may have.
CHARS = "df?bBhHiIlLqQ"
AXES = 16
#: Numbers in a file are below this: extents, positions, attributes; and the elements of an array.
LARGEST = 1 << 40
#: The most bytes of a file, and of the values of its tape, unless the caller says otherwise.
MAX_BYTES = 1 << 30
#: Opcodes of records of a tape that are no row, whose codes are counted from -1 down.
CODES = (0, SCALAR_LEAF, ARRAY_LEAF, TRACED, CONTINUES)
#: Containers of results.
KINDS = {kind.__name__: kind for kind in (dict, list, tuple, np.ndarray, complex)}
#: Bytes, at most about, of the Python objects that a byte of JSON stands for.
OBJECTS = 32
#: A function has fewer operands.
OPERANDS = 1 << 16
#: NumPy functions without derivative that a file may name: they need no more memory than their operands.
NUMPY = frozenset(
    "abs absolute add all any argmax argmin argpartition argsort bitwise_and bitwise_or bitwise_xor clip "
    "ceil count_nonzero divmod equal fabs flatnonzero floor floor_divide fmax fmin frexp greater greater_equal "
    "heaviside invert isfinite isinf isnan isneginf isposinf isreal iscomplex less less_equal logical_and "
    "logical_not logical_or logical_xor maximum minimum mod modf multiply nanargmax nanargmin negative not_equal "
    "rint searchsorted sign signbit spacing nextafter copysign subtract trunc".split()
)


def need(condition, what):
    """Raise `TapeFileError` unless a condition holds."""
    if not condition:
        raise TapeFileError(what)


def typed(thing, pattern):
    """`thing`, which is JSON: of a class, a list of what is like ``[each]``, a list like a tuple, or a dict like a dict."""
    if isinstance(pattern, type):
        fits = pattern is object or type(thing) is pattern and (pattern is not int or abs(thing) < LARGEST)
    elif type(pattern) is dict:
        fits = type(thing) is dict and thing.keys() == pattern.keys() and all(typed(thing[k], p) is thing[k] for k, p in pattern.items())
    else:
        each = pattern if type(pattern) is tuple else pattern * len(thing) if type(thing) is list else ()
        fits = type(thing) is list and len(thing) == len(each) and all(typed(t, p) is t for t, p in zip(thing, each))
    if not fits:
        raise TapeFileError(f"{reprlib.repr(thing)} in its header")
    return thing


def packed(header, arrays, form=TAPE, **members):
    """The bytes of a file of this format: a header, which becomes JSON, arrays by number, and by name, and their checksum."""
    file, text = io.BytesIO(), json.dumps({"format": form[0], "version": form[1], **header})
    members |= {"header": np.frombuffer(text.encode(), np.uint8), **{f"array_{k}": a for k, a in enumerate(arrays)}}
    # (`allow_pickle` is a member, not an option, before NumPy 2.1; every member is a plain array.)
    np.savez(file, **members, checksum=checksum(members))
    return file.getvalue()


def unpacked(data, limit=math.inf, form=TAPE):
    """Header, arrays by number, and by name, all read-only, of the bytes of a file; raises `TapeFileError` if it is not whole, or no such file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        need(all(i.compress_type == zipfile.ZIP_STORED and i.filename[-4:] == ".npy" for i in infos), "a member of an unknown kind")
        need(len({i.filename for i in infos}) == len(infos) and sum(i.file_size for i in infos) <= len(data), "members that overlap")
        members = {i.filename[:-4]: _array(archive.read(i)) for i in infos}
    check = members.pop("checksum", None)
    # (A file of an older version has none, and says so in its header.)
    need(check is None or np.array_equal(check, checksum(members)), "it has been changed since it was written: its checksum is another")
    need("header" in members, "it does not say that it is one")
    text = members.pop("header").tobytes()
    need(OBJECTS * len(text) <= limit, f"its header has {len(text)} bytes, which become up to {OBJECTS} times as many; raise max_bytes")
    header = json.loads(text.decode())
    need(type(header) is dict and header.get("format") == form[0], "it does not say that it is one")
    version = header.get("version", 2)
    need(version == form[1], f"it is of version {version!r} of the format, this tapegrad reads version {form[1]}; save the tape again")
    return header, [members.pop(f"array_{k}") for k in range(sum(name.startswith("array_") for name in members))], members


def checksum(members):
    """SHA-256 of arrays, with their names, dtypes and shapes."""
    digest = hashlib.sha256()
    for name in sorted(members):
        array = members[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _array(part):
    file = io.BytesIO(part)
    need(np.lib.format.read_magic(file) == (1, 0), "an array in a format of another version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    need(dtype.char in CHARS and dtype.isnative and len(shape) <= AXES, f"an array of {dtype} with {len(shape)} axes")
    need(math.prod(shape) * dtype.itemsize == len(part) - file.tell(), "an array of another size than it says")
    need(dtype.char != "?" or max(part[file.tell() :], default=0) < 2, "truth values that are neither true nor false")
    # A copy, aligned.
    array = np.frombuffer(part, dtype, -1, file.tell()).copy() if 0 not in shape else np.zeros(0, dtype)
    array = array.reshape(shape, order="F" if fortran else "C")
    array.flags.writeable = False
    return array


# ---- plain data and names of functions ----------------------------------------------------


def encoded(thing, arrays):
    """`thing` as JSON; arrays are appended to `arrays`."""
    kind = type(thing)
    if thing is None or kind in (bool, int, float, str):
        return thing
    if kind is HostOperand:
        return {"operand": int(thing)}
    if kind is tuple or kind is list:
        return {kind.__name__: [encoded(part, arrays) for part in thing]}
    if kind is dict and all(type(k) in (str, int) for k in thing):
        return {"dict": [[k, encoded(v, arrays)] for k, v in thing.items()]}
    if kind is slice:
        return {"slice": [encoded(part, arrays) for part in (thing.start, thing.stop, thing.step)]}
    if isinstance(thing, (np.ndarray, np.generic)) and thing.dtype.char in CHARS and thing.ndim <= AXES:
        check_class(thing, "save")
        arrays.append(readable(np.asarray(thing)))
        return {"array": len(arrays) - 1}
    which = f"{kind.__name__} of {thing.dtype} with {thing.ndim} axes" if isinstance(thing, np.ndarray) else kind.__name__
    raise TapeFileError(f"{which} cannot be written to a file; numbers, strings, arrays, and lists, tuples and dicts (by strings or ints) of them can")


def decoded(thing, arrays, limit):
    """What `encoded` wrote; integers are at most `limit`.

    Raises
    ------
    TapeFileError
    """
    if type(thing) is int and abs(thing) > limit:
        raise TapeFileError(f"the number {thing}")
    if thing is None or type(thing) in (bool, int, float, str):
        return thing
    if type(thing) is dict and len(thing) == 1:
        ((word, parts),) = thing.items()
        if word == "array" and type(parts) is int and 0 <= parts < len(arrays):
            return arrays[parts]
        if word == "operand" and type(parts) is int and 0 <= parts < OPERANDS:
            return HostOperand(parts)
        if word in ("tuple", "list") and type(parts) is list:
            found = [decoded(part, arrays, limit) for part in parts]
            return tuple(found) if word == "tuple" else found
        if word == "slice" and type(parts) is list and len(parts) == 3:
            return slice(*(decoded(part, arrays, limit) for part in parts))
        if word == "dict" and type(parts) is list and all(type(p) is list and len(p) == 2 and type(p[0]) in (str, int) for p in parts):
            return {k: decoded(v, arrays, limit) for k, v in parts}
    raise TapeFileError("data of an unknown kind")


def encoded_function(function, arrays):
    """The name of a function without derivative, with its data."""
    if isinstance(function, Checked):
        function = function.function
    if isinstance(function, ResultOf):
        return {"item": function.k, "of": encoded_function(function.function, arrays)}
    if isinstance(function, HostFunction):
        return {"tapegrad": function.name, "data": encoded(tuple(function.data), arrays)}
    name = getattr(function, "__name__", "")
    if name in NUMPY and getattr(np, name, None) is function:
        return {"numpy": name}
    raise TapeFileError(f"{getattr(function, '__name__', function)} is not a function that a saved tape can name")


def decoded_function(thing, arrays, limit):
    """The function of `encoded_function`; raises TapeFileError for any other."""
    if type(thing) is dict:
        if set(thing) == {"item", "of"} and type(thing["item"]) is int and 0 <= thing["item"] < 4:
            return ResultOf(decoded_function(thing["of"], arrays, limit), thing["item"])
        if set(thing) == {"tapegrad", "data"} and type(thing["tapegrad"]) is str and thing["tapegrad"] in FUNCTIONS:
            data = decoded(thing["data"], arrays, limit)
            if type(data) is tuple and all(_small(d, limit) for d in data):
                return HostFunction(thing["tapegrad"], data)
        if set(thing) == {"numpy"} and type(thing["numpy"]) is str and thing["numpy"] in NUMPY:
            return getattr(np, thing["numpy"])
    raise TapeFileError("a function that no tape may name")


def _small(data, limit):
    """Whether this cannot make a function ask for more than `limit` elements."""
    if type(data) is not tuple:
        return True
    return math.prod(max(1, abs(part)) for part in data if type(part) is int) <= limit and all(_small(part, limit) for part in data)


# ---- a tape that comes from a file, when it is run: whatever it cannot do is a `TapeFileError` -----------

#: Functions of our own whose data, and what depends on the result, do not say where to read or write.
_HARMLESS = ("truth", "cast", "all_finite")


@contextmanager
def _refusing(what):
    try:
        yield
    except Exception as error:
        ours = type(error).__module__.startswith("tapegrad") and not isinstance(error, InternalError)
        if ours or isinstance(error, (np.linalg.LinAlgError, MemoryError)):
            raise
        raise TapeFileError(f"{what} cannot be run: {reason(error).removesuffix(REPORT)}") from error


@dataclass(eq=False)
class LoadedTape(FinishedTape):
    """A `FinishedTape` whose rows may refuse their operands, as they were never run on them.

    Attributes
    ----------
    nbytes_of_values : int
        Bytes of records and values, with those of the tapes that its loops hold.
    """

    nbytes_of_values: int = 0

    def _run(self, arguments, backward):
        with _refusing("the loaded tape"):
            return super()._run(arguments, backward)

    def _applied(self, arguments):
        with _refusing("the loaded tape"):
            return super()._applied(arguments)


class Checked:
    """A function without derivative of a loaded tape, which kernels do not compute in their own way: that believes its data.

    Attributes
    ----------
    function : callable
    limit : int or None
        What it gives are positions, which must be in ``range(limit)``: that is looked at before they are used.
    once : bool
        Whether they must be all different, too, as something is assigned there.
    """

    limit, once = None, False

    @classmethod
    def of(cls, function):
        """The function, checked if it has to be."""
        return function if isinstance(function, HostFunction) and function.name in _HARMLESS else cls(function)

    def __init__(self, function):
        self.function, self.__name__, self.__module__ = function, function.__name__, getattr(function, "__module__", "")

    def keep_below(self, limit, once):
        """Positions are in an array of this many elements, too, and each is there `once`."""
        self.limit, self.once = limit if self.limit is None else min(limit, self.limit), self.once or once

    def __call__(self, *args, **kwargs):
        with _refusing(f"{self.__name__} of a loaded tape"):
            result = self.function(*args, **kwargs)
        if self.limit is not None and np.size(result) and not (np.min(result) >= 0 and np.max(result) < self.limit):
            raise TapeFileError(f"{self.__name__} of a loaded tape gives positions outside an array of {self.limit} elements")
        if self.once and len(np.unique(result)) != np.size(result):
            raise TapeFileError(f"{self.__name__} of a loaded tape gives a position twice, where something is assigned")
        return result
