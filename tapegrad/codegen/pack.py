"""Machine code that came with the package: one file of data in it, which a wheel has (`tools.building`).

It has the code for one processor, or for several levels of them (`host.LEVELS`), the best first.  A process takes the first that
its processor can run.  What is in the file is found by a digest of the sources and of what is computed, as what is kept on disk, and
else by nothing: the code knows no version of Python, NumPy, Numba or llvmlite (`symbols.require_known`).

First the digest of the header, its length, and the header: a line a level, of processor, instruction sets, system, vector functions,
and where its index is, how long, and the digest of that.  An index is digest after digest, each with the place and the length of the
code, which has a digest of its own.  What does not fit or is not whole is not there.
"""

from __future__ import annotations

import struct
from functools import cache
from hashlib import sha256
from pathlib import Path

from .host import LEVELS, enabled, features, target
from .vector_math import names

FILE = Path(__file__).with_name("ahead.bin")
_HEAD, _ENTRY = struct.Struct("<32sH"), struct.Struct("<32sQQ")


def level():
    """What this process makes code for, as a header says it."""
    return "\t".join((*target(), " ".join(names())))


def write(path, levels):
    """Write a pack.

    Parameters
    ----------
    path : Path
    levels : dict
        What `level` says -> code by digest, as `code.sealed` made it.
    """
    # Lengths are the same whatever stands in their place.
    header = "\n".join(f"{said}\t{0:016x}\t{0:016x}\t{'':64}" for said in levels)
    at, lines, parts = _HEAD.size + len(header), [], []
    for said, codes in levels.items():
        index, start = b"", at + _ENTRY.size * len(codes)
        for digest, code in codes.items():
            index += _ENTRY.pack(bytes.fromhex(digest), start, len(code))
            start += len(code)
        lines.append(f"{said}\t{at:016x}\t{len(index):016x}\t{sha256(index).hexdigest()}")
        parts += [index, *codes.values()]
        at = start
    header = "\n".join(lines).encode()
    path.write_bytes(b"".join((_HEAD.pack(sha256(header).digest(), len(header)), header, *parts)))


def _fits(cpu, wanted, system, vectors):
    """Whether code that was made for that runs here.  What a processor of no level has is known to LLVM alone: only such run it."""
    mine, _, here = target()
    return system == here and (cpu == mine or cpu in LEVELS) and enabled(wanted) <= features() and set(vectors.split()) <= set(names())


def _part(file, at, length):
    file.seek(at)
    return file.read(length)


@cache
def _index():
    """The index of the code that runs here; empty if there is none."""
    try:
        with open(FILE, "rb") as file:
            check, length = _HEAD.unpack(_part(file, 0, _HEAD.size))
            header = file.read(length)
            if sha256(header).digest() == check:
                for line in header.decode().split("\n"):
                    *needs, at, length, check = line.split("\t")
                    if _fits(*needs):
                        index = _part(file, int(at, 16), int(length, 16))
                        return index if sha256(index).hexdigest() == check else b""
    except (OSError, struct.error):
        pass
    return b""


def packed(digest):
    """What was sealed under a digest, if it is there."""
    index, key = _index(), bytes.fromhex(digest)
    at = index.find(key)
    if at < 0 or at % _ENTRY.size:
        return b""
    _, start, length = _ENTRY.unpack_from(index, at)
    try:
        with open(FILE, "rb") as file:
            return _part(file, start, length)
    except OSError:
        return b""
