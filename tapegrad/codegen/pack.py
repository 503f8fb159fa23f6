"""Machine code that came with the package: one file of data in it, which a wheel has (`tools.building`).

It has the code for one processor, or for several levels of them (`host.LEVELS`), the best first.  A process takes the first that
its processor can run.  What is in the file is found by a digest of the sources and of what is computed, as what is kept on disk, and
else by nothing: the code knows no version of Python, NumPy, Numba or llvmlite (`symbols.require_known`).

First the digest of the header, then the header up to a zero: a line a level, of processor, instruction sets, system, vector
functions, and digest, place and length of each code.  Then the code, which has digests of its own.  What does not fit or is not
whole is not there.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from .host import LEVELS, available, enabled, features, target

FILE = Path(__file__).with_name("ahead.bin")


def level():
    """The target of this process, as a header names it."""
    vectors = sorted(name for variants in available().values() for name, _ in variants)
    return "\t".join((*target(), " ".join(vectors)))


def write(path, levels):
    """Write a pack.

    Parameters
    ----------
    path : Path
    levels : dict
        What `level` says -> code by digest, as `code.sealed` made it.
    """
    lines, body = [], b""
    for said, codes in levels.items():
        places = []
        for digest, code in codes.items():
            places.append(f"{digest} {len(body)} {len(code)}")
            body += code
        lines.append(f"{said}\t{','.join(places)}")
    header = "\n".join(lines).encode()
    path.write_bytes(sha256(header).digest() + header + b"\0" + body)


def _fits(cpu, wanted, system, vectors):
    """Whether code that was made for that runs here.  What a processor of no level has is known to LLVM alone: only such run it."""
    mine, _, here, there = level().split("\t")
    return system == here and (cpu == mine or cpu in LEVELS) and enabled(wanted) <= features() and set(vectors.split()) <= set(there.split())


@cache
def codes(file):
    """The code in a file that runs here, by digest; empty if there is none."""
    try:
        data = file.read_bytes()
    except OSError:
        return {}
    end = data.find(b"\0", 32)
    if sha256(data[32:end]).digest() == data[:32]:
        for line in data[32:end].decode().split("\n"):
            *needs, places = line.split("\t")
            if _fits(*needs):
                starts = [(digest, end + 1 + int(at), int(size)) for digest, at, size in map(str.split, places.split(","))]
                return {digest: data[start : start + size] for digest, start, size in starts}
    return {}


def packed(digest):
    """The code sealed under a digest, if it is in the pack."""
    return codes(FILE).get(digest, b"")
