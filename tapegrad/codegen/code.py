"""Machine code of the library: come with the package (`codegen.pack`), kept on disk, or made now.

It is found by a digest of all that it was made of: what is computed (each user of `machine_code` says; CONTRIBUTING.md lists them)
and all sources of the package; on the disk, by a file's name, also of what made it: Python, Numba, llvmlite and the processor.
Nothing there can be stale, and nothing random is in the key.  A file that cannot be read back whole is ignored and written again.

Kept is the object code as LLVM made it; LLVM links it (`codegen.llvm`).
"""

from __future__ import annotations

import hashlib
import threading
from functools import cache

from ..common.config import cache_dir, package_hash
from ..common.uninterrupted import remade, uninterrupted
from ..common.waiting import waiting
from . import pack
from .disk import alone, read, write
from .host import versions

_LOCK = remade(threading.RLock())

#: Counts since import, for tests and `tg.info`.
COUNTS = {"compiled": 0, "loaded": 0}

#: Code that another process has sent, whose `makers` are ours: by digest, as `sealed` made it.
RECEIVED: dict = {}


def digest_of(key):
    """The key of code: a digest of the sources, and of what it computes."""
    return hashlib.sha256(f"{package_hash()}\n{key}".encode()).hexdigest()


def _path(digest, ending):
    return cache_dir() / "objects" / digest[:2] / f"{digest}.{makers()}.{ending}"


@cache
def makers():
    """A digest of what makes code, and of the processor that it is for."""
    return hashlib.sha256(f"{versions()}\n{pack.level()}".encode()).hexdigest()[:32]


def sealed(digest, code):
    """Code as it is kept: with a digest of it and of the digest that it is kept under."""
    return hashlib.sha256(digest.encode() + code).digest() + code


def _opened(digest, data):
    """The code in what was `sealed`, or None."""
    return data[32:] if data is not None and sealed(digest, data[32:]) == data else None


def machine_code(key, build, symbols):
    """Machine code of an IR module, from the cache or compiled now.

    Parameters
    ----------
    key : str
        What the module computes; with the digest of the package it identifies the module.
    build : callable
        Makes the module's text; called only if it is not in the cache.
        What it calls is found as `codegen.symbols` says.
    symbols : sequence of str
        The functions wanted.

    Returns
    -------
    list of int
        Their addresses, valid for the life of the process.
    """
    with uninterrupted, _LOCK:
        from .llvm import linked, object_code

        def made():
            where = f"kept in {cache_dir()}; python -m tapegrad warm compiles all of them now"
            with waiting("functions", f"compiling functions of its own, once for this machine ({where})"):
                return object_code(build())

        return linked(kept(key, made, COUNTS), symbols)


def kept(key, build, counts, ending="o"):
    """Object code by key, from the cache or made now.

    Parameters
    ----------
    key : str
        As of `machine_code`.
    build : callable
        Makes the object code, or gives None where it is not to be kept.
    counts : dict
        As `COUNTS`, receives what happened.
    ending : str
        Of the file: ``o``, ``kernel`` or ``njit``.

    Returns
    -------
    bytes
        None if `build` has given that.
    """
    digest = digest_of(key)
    path = _path(digest, ending)
    code = _present(digest, path)
    if code is None:
        with alone(path.parent):
            # Another process may have made it meanwhile.
            code = _opened(digest, read(path))
            if code is None:
                code = build()
                counts["compiled"] += 1
                if code is not None:
                    write(path, sealed(digest, code))
                return code
    counts["loaded"] += 1
    return code


def _present(digest, path):
    """The code under a digest that came with the package, was sent, or is on the disk; or None."""
    return _opened(digest, pack.packed(digest)) or _opened(digest, RECEIVED.get(digest)) or _opened(digest, read(path))


def at_hand(key):
    """Whether nothing has to be compiled for a key of `machine_code`."""
    digest = digest_of(key)
    return _present(digest, _path(digest, "o")) is not None
