"""Plain arrays in an uncompressed ``.npz``, read from untrusted bytes.

Nothing is unpacked, nothing is executed, and no array is larger than its bytes in the file.
A checksum over all arrays, in a member of its own, says whether the file is what was written.
"""

import hashlib
import io
import math
import reprlib
import zipfile

import numpy as np

from ...common.errors import TapeFileError
from ...tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED

FORMAT, VERSION = "tapegrad tape", 7
#: Dtypes that may be read, and the most axes an array may have.
CHARS = "df?bBhHiIlLqQ"
AXES = 16
#: Numbers in a file are below this: extents, positions, attributes; and the elements of an array.
LARGEST = 1 << 40
#: The most bytes of a file, and of the values of its tape, unless the caller says otherwise.
MAX_BYTES = 1 << 30
#: Opcodes of records of a tape that are no row, whose codes are counted from -1 down.
CODES = (0, SCALAR_LEAF, ARRAY_LEAF, TRACED, CONTINUES)


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


def packed(members):
    """The bytes of a file of these arrays, by name, and their checksum."""
    file = io.BytesIO()
    # (`allow_pickle` is a member, not an option, before NumPy 2.1; every member is a plain array.)
    np.savez(file, **members, checksum=checksum(members))
    return file.getvalue()


def unpacked(data):
    """Name -> array, read-only, of the bytes of a file; raises `TapeFileError` if it is not whole, or no such file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        need(all(i.compress_type == zipfile.ZIP_STORED and i.filename[-4:] == ".npy" for i in infos), "a member of an unknown kind")
        need(len({i.filename for i in infos}) == len(infos) and sum(i.file_size for i in infos) <= len(data), "members that overlap")
        members = {i.filename[:-4]: _array(archive.read(i)) for i in infos}
    check = members.pop("checksum", None)
    # (A file of an older version has none, and says so in its header.)
    need(check is None or np.array_equal(check, checksum(members)), "it has been changed since it was written: its checksum is another")
    return members


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
