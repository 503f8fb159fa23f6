"""Plain arrays in an uncompressed ``.npz``, read from bytes that nobody vouches for.

`zipfile` and `numpy.load` believe much of what a file says: a compressed member may
unpack to any size, entries of the directory may overlap, the header of an array is
parsed as Python, and each entry costs several times its length.  Here the members are
walked from the first byte on, each must begin where the last one has ended, be stored
as it is, have the checksum it says, and hold one array of exactly its own bytes; what
follows them must say that there are as many.  Nothing is copied before the caller has
seen what there is.
"""

from __future__ import annotations

import math
import re
import struct
import zlib

import numpy as np

from ...common.errors import TapeFileError

#: signature, version, flags, method, time, date, checksum, packed size, size, length of name, length of extra
_MEMBER = struct.Struct("<4s5H3L2H")
#: signature, disk, disk, members here, members, size of directory, its offset, length of comment
_END = struct.Struct("<4s4H2LH")
_IN_EXTRA = 0xFFFFFFFF
#: What NumPy writes before an array's elements, in version 1.0 of its format.
_ARRAY = re.compile(
    rb"\{'descr': '([<|])([a-zA-Z?])(\d{1,2})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,15}, ?)*(?:\d{1,15})?)\), \} *\n"
)
#: Dtypes that may be read, and the most axes an array may have.
CHARS = "df?bBhHiIlLqQ"
AXES = 16
#: Numbers in a file are below this: extents, positions, attributes; and the elements of an array.
LARGEST = 1 << 40


class Archive:
    """The arrays in the bytes of a file, not read yet.

    Parameters
    ----------
    data : bytes

    Attributes
    ----------
    names : list of str
    nbytes : int
        Of the file.

    Raises
    ------
    TapeFileError
        If it is not such a file.
    """

    def __init__(self, data):
        self._view, self.nbytes = memoryview(data), len(data)
        self._places = {}
        at = 0
        while data[at : at + 4] == b"PK\x03\x04":
            at = self._member(at)
        self._end(data, at)
        self.names = list(self._places)

    def _member(self, at):
        """Note the member that begins here; where it ends."""
        need(at + _MEMBER.size <= self.nbytes, "a member that is cut off")
        _, _, flags, method, _, _, checksum, packed, size, named, extra = _MEMBER.unpack_from(self._view, at)
        start = at + _MEMBER.size + named + extra
        need(start <= self.nbytes and flags & ~0x800 == 0 and named < 64, "a member of an unknown kind")
        name = bytes(self._view[at + _MEMBER.size : at + _MEMBER.size + named])
        need(method == 0, f"its member {name!r} is compressed")
        if size == packed == _IN_EXTRA:
            need(extra == 20, "a member of an unknown kind")
            kind, length, size, packed = struct.unpack_from("<HHQQ", self._view, start - extra)
            need((kind, length) == (1, 16), "a member of an unknown kind")
        need(size == packed and start + size <= self.nbytes, f"its member {name!r} is larger than the file")
        need(name[-4:] == b".npy" and name.isascii(), f"its member {name!r}")
        word = name[:-4].decode()
        need(word not in self._places, f"two members {word!r}")
        need(zlib.crc32(self._view[start : start + size]) == checksum, f"its member {name!r} has been changed")
        self._places[word] = start, start + size
        return start + size

    def _end(self, data, at):
        """What follows the members must be their directory."""
        need(at + _END.size <= self.nbytes, "its end is missing")
        mark, _, _, here, count, size, offset, comment = _END.unpack_from(data, self.nbytes - _END.size)
        need(mark == b"PK\x05\x06" and comment == 0 and here == count, "its end is missing")
        need(count == len(self._places) and offset == at and offset + size + _END.size == self.nbytes, "its directory")

    def array(self, name):
        """A copy of one array, read-only; raises `TapeFileError` if there is none, or it is not what it says."""
        need(name in self._places, f"no member {name!r}")
        start, stop = self._places[name]
        view = self._view
        need(stop - start >= 10 and view[start : start + 8] == b"\x93NUMPY\x01\x00", "an array in a format of another version")
        first = start + 10 + int.from_bytes(view[start + 8 : start + 10], "little")
        need(first <= stop and first - start <= 512, "an array with a long header")
        found = _ARRAY.fullmatch(view[start + 10 : first])
        need(found is not None, "an array with an unknown header")
        order, kind, itemsize, fortran, extents = found.groups()
        dtype = _dtype(order + kind + itemsize)
        shape = tuple(int(n) for n in extents.split(b",") if n.strip())
        need(len(shape) <= AXES, f"an array with {len(shape)} axes")
        need(math.prod(shape) * dtype.itemsize == stop - first, "an array of another size than it says")
        flat = np.frombuffer(view, np.uint8, stop - first, first).copy().view(dtype)
        need(dtype.char != "?" or not (flat.view(np.uint8) > 1).any(), "truth values that are neither true nor false")
        made = flat.reshape(shape, order="F" if fortran == b"True" else "C")
        made.flags.writeable = False
        return made


def _dtype(described):
    try:
        dtype = np.dtype(described.decode())
    except TypeError:
        dtype = None
    need(dtype is not None and dtype.char in CHARS and dtype.isnative, f"an array of {described.decode()}")
    return dtype


def need(condition, what):
    """Raise `TapeFileError` unless a condition holds."""
    if not condition:
        raise TapeFileError(what)
