"""Numba compilation kept on disk under a key of our own.

Numba's ``cache=True`` looks only at the stamp of the file that defines a
function, and writes next to it.  Here the stamp is a digest of the package, the
place is `tapegrad.config.cache_dir`, and a directory that cannot be used costs
one log line, never a failure.
"""

from __future__ import annotations

import hashlib
import pickle

import numba
from numba.core import serialize
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.runtime import rtsys

from ..config import cache_dir, package_hash, warn_no_cache

#: How many functions were compiled and loaded since import.
COUNTS = {"compiled": 0, "loaded": 0}


class _Locator(_CacheLocator):
    def __init__(self, py_func):
        self._name = py_func.__module__

    def get_cache_path(self):
        return str(cache_dir() / "numba" / package_hash())

    def get_source_stamp(self):
        return package_hash()

    def get_disambiguator(self):
        return self._name

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func)


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Locator]

    def reduce(self, cres):
        data = serialize.dumps(super().reduce(cres))
        return hashlib.sha256(data).digest(), data

    def rebuild(self, target_context, payload):
        check, data = payload
        if hashlib.sha256(data).digest() != check:
            raise ValueError("a damaged file")
        return super().rebuild(target_context, pickle.loads(data))


class _Cache(FunctionCache):
    _impl_class = _Impl

    def load_overload(self, sig, target_context):
        try:
            # Numba would first fill the context with all that it can compile, for 0.2 s; to load code takes
            # only its runtime.
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except OSError:
            raise
        except Exception:
            # A file was cut or overwritten: forget the index, so that both are written again.
            self.flush()
            return None


def compiled(signature):
    """Decorator: compile a function for one signature now, through our cache.

    Parameters
    ----------
    signature : str
        A Numba signature of plain numbers, e.g. ``"int64(int64, float64)"``.
    """

    def decorate(function):
        try:
            dispatcher = numba.njit(nogil=True)(function)
            dispatcher._cache = _Cache(function)
            dispatcher.compile(signature)
            hits = sum(dispatcher.stats.cache_hits.values())
        except OSError as error:
            warn_no_cache(str(cache_dir()), error.strerror or str(error))
            dispatcher = numba.njit(nogil=True)(function)
            dispatcher.compile(signature)
            hits = 0
        COUNTS["loaded" if hits else "compiled"] += 1
        dispatcher.disable_compile()
        return dispatcher

    return decorate


def native_address(dispatcher):
    """Address of the machine code of a function made by `compiled` (Numba's calling convention)."""
    (result,) = dispatcher.overloads.values()
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
