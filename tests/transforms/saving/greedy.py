"""Tape files that are made to take much memory; all of them are to be refused."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np


def made(data, chance):
    """A file like `data` that takes what it can; what is no archive any more stays as it is."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    return chance.choice(KINDS)(data, chance)


def _npy(array):
    part = io.BytesIO()
    np.lib.format.write_array(part, array, allow_pickle=array.dtype.hasobject)
    return part.getvalue()


def _written(members, how=zipfile.ZIP_STORED):
    """An archive of (name, bytes) pairs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, part in members:
            archive.writestr(f"{name}.npy", part)
    return file.getvalue()


def _members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name[:-4], archive.read(name)) for name in archive.namelist()]


def _place(members, name, part):
    """The members with another (or one more) of this name."""
    found = [(n, part if n == name else p) for n, p in members]
    return found if name in dict(members) else [*found, (name, part)]


def bomb(data, chance):
    """A member of many equal bytes, compressed."""
    name = chance.choice([n for n, _ in _members(data)])
    big = _npy(np.full(chance.choice([10**5, 10**6]), 32, np.uint8))
    return _written(_place(_members(data), name, big), zipfile.ZIP_DEFLATED)


def shape(data, chance):
    """An array that says it is huge."""
    members = _members(data)
    name, part = chance.choice(members)
    extents = chance.choice(["(1099511627776,)", "(65536, 65536)", "(999999999999999, 999999999999999)", "(4, 0, 999999999999999)", "(-1,)"])
    head = f"{{'descr': '{chance.choice(['<f8', '<i8', '|u1'])}', 'fortran_order': {chance.choice(['True', 'False'])}, 'shape': {extents}, }}"
    head = head.encode().ljust(117) + b"\n"
    return _written(_place(members, name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + part[-64:]))


def dtype(data, chance):
    """An array of objects, of records, of texts, or in a later version of the format."""
    members = _members(data)
    name, part = chance.choice(members)
    part = chance.choice([
        lambda: _npy(np.array([[], {}, "x"], object)), lambda: _npy(np.zeros(3, "U100000")), lambda: _npy(np.zeros(2, [("x", "f8", 9)])),
        lambda: part[:6] + bytes([chance.choice([2, 3, 200]), 0]) + part[8:], lambda: _npy(np.zeros(3, "c16")), lambda: _npy(np.zeros(3, ">f8")),
    ])()  # fmt: skip
    return _written(_place(members, name, part))


def overlapping(data, chance):
    """A directory whose entries all lie in the same bytes."""
    at = data.rindex(b"PK\x05\x06")
    offset, count = struct.unpack_from("<L", data, at + 16)[0], chance.choice([2, 300, 3000])
    entry = bytearray(data[offset : data.index(b"PK", offset + 4)])
    directory = b"".join(bytes(entry[:46]) + f"{k:05d}".encode().ljust(len(entry) - 46, b".") for k in range(count))
    return data[:offset] + directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), offset, 0)


def members(data, chance):
    """Very many arrays of nothing."""
    empty = _npy(np.zeros(0))
    return _written([*_members(data), *((f"array_{1000 + k}", empty) for k in range(chance.choice([100, 500])))])


KINDS = [bomb, shape, dtype, overlapping, members]
