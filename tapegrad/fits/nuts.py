"""nutpie, a sampler in Rust, fed with a log density of ours: the one file that knows how it is called.

Its threads call C functions by their addresses, as they call what PyMC compiles: `_density` for value and gradient, and one for the numbers of
a draw.  That interface is private to nutpie, so it is used in the versions that it was tried with, `TRIED`; in others nutpie calls
Python, by the interface that it documents.  `_density` runs the code of a compiled function, without the interpreter's lock.
What that does not answer (another path than the one that was compiled, a number that is not finite) is asked of Python, under the lock,
which records the other path: only a density or gradient that is not finite there, too, is a divergence.
(A. Seyboldt et al., nutpie; M. Hoffman, A. Gelman, "The No-U-Turn Sampler", 2014.)
"""

import ctypes
import importlib.metadata
import importlib.util
import re
from types import SimpleNamespace

import numpy as np

from ..codegen.compile import compiled, plain_address
from ..codegen.memory import call4_int, call_entry, load_double, load_int, store_double
from ..common.errors import MissingPackageError
from ..common.uninterrupted import imported
from ..program.handle import H_ENTRY

#: Versions of nutpie, from and below, whose private interface is as it is used here.
TRIED = (0, 14), (0, 17)
#: What nutpie is told: there is a number; it is not finite, which is a divergence; it was not called as it should be.
GOOD, DIVERGED, FATAL = 0, 3, -1


@compiled("int64(int64, int64, int64, int64, int64)")
def _density(dim, x, g, value, words):
    """The logarithm of a density and its gradient, as nutpie calls it; at `words` are a handle (or 0), the entry of Python, and how many numbers `x` has."""
    handle, python = load_int(words), load_int(words + 8)
    if dim != load_int(words + 16):
        return FATAL
    if handle != 0:
        status, number = call_entry(load_int(handle + 8 * H_ENTRY), handle, x, g)
        good = status == 0 and number - number == 0.0
        if good:
            for k in range(dim):
                slope = load_double(g + 8 * k)
                good = good and slope - slope == 0.0
        if good:
            store_double(value, number)
            return GOOD
    return call4_int(python, words, x, g, value)


_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
_EXPAND = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, *[ctypes.c_void_p] * 3)


def nutpie():
    """The package."""
    if importlib.util.find_spec("nutpie") is None:
        raise MissingPackageError('tg.sample draws by nutpie: pip install "tapegrad[sample]"')
    return imported("nutpie")


def by_address():
    """Whether nutpie is one of the versions in `TRIED`."""
    return TRIED[0] <= tuple(map(int, re.findall(r"\d+", importlib.metadata.version("nutpie"))[:2])) < TRIED[1]


class Target:
    """A log density as nutpie asks for it.

    Parameters
    ----------
    size : int
    answer : callable
        ``answer(y)`` gives value and gradient; in Python, by any thread that holds the lock.
    code : Compiled or None
        The same, compiled for one path.
    expand : callable
        ``expand(y)`` gives the arrays of a draw, one for each of `names`.
    begin : callable
        ``begin(seed)`` gives a point to start from.
    names, shapes : list

    Attributes
    ----------
    error : BaseException or None
        What ended the run: to be raised when nutpie has come back.
    asked : int
        How often compiled code had to ask Python.
    """

    def __init__(self, size, answer, code, expand, begin, names, shapes):
        self.size, self._answer, self._code, self._expand, self.begin = size, answer, code, expand, begin
        self.names, self.shapes = names, shapes
        self.dims = {name: tuple(f"{name}_dim_{k}" for k in range(len(shape))) for name, shape in zip(names, shapes)}
        self.coords = {dim: np.arange(n) for name, shape in zip(names, shapes) for dim, n in zip(self.dims[name], shape)}
        self.error, self.asked = None, 0
        self._entry = _ENTRY(self._by_python)
        self._words = np.array([code.handle_address if code is not None else 0, ctypes.cast(self._entry, ctypes.c_void_p).value, size], np.int64)

    def asked_python(self, y):
        """Value and gradient in Python, and what nutpie is told."""
        self.asked += 1
        try:
            if self.error is None:
                with np.errstate(all="ignore"):
                    value, gradient = self._answer(y)
                return GOOD if np.isfinite(value) and np.isfinite(gradient).all() else DIVERGED, value, gradient
        except np.linalg.LinAlgError:
            # NumPy's word for a matrix that it refuses: the density is zero there.
            pass
        except BaseException as error:
            self._end(error)
        return DIVERGED, np.nan, np.full(self.size, np.nan)

    def _end(self, error):
        """Keep an exception, which nutpie would lose or panic at: from now on every step diverges, so the run is soon over."""
        self.error, self._words[0] = self.error or error, 0

    def _by_python(self, _, x, g, value):
        status, number, gradient = self.asked_python(_at(x, self.size).copy())
        _at(value, 1)[0], _at(g, self.size)[:] = number, gradient
        return status

    def _numbers(self, dim, count, x, out, _):
        try:
            _at(out, count)[:] = np.concatenate([np.ravel(part) for part in self._expand(_at(x, dim).copy())])
        except BaseException as error:
            self._end(error)
        return GOOD

    def model(self):
        """The same as a model of nutpie's."""
        if not by_address():
            return imported("nutpie.compiled_pyfunc").from_pyfunc(
                self.size, lambda: lambda y: self.asked_python(np.array(y))[1:], lambda *_: lambda y: dict(zip(self.names, map(np.asarray, self._expand(y)))),
                ["float64"] * len(self.names), self.shapes, self.names, coords=self.coords, dims=self.dims, make_initial_point_fn=self.begin,
            )  # fmt: skip
        self._expander = _EXPAND(self._numbers)
        # (What has the addresses that PyMC's compiled functions have, and keeps alive what is called at them.)
        density = SimpleNamespace(address=plain_address(_density), of=self)
        expand = SimpleNamespace(address=ctypes.cast(self._expander, ctypes.c_void_p).value, of=self)
        return imported("nutpie.compile_pymc").CompiledPyMCModel(
            dims=self.dims, compiled_logp_func=density, compiled_expand_func=expand, initial_point_func=self.begin, shared_data={}, user_data=self._words,
            n_expanded=int(sum(np.prod(shape) for shape in self.shapes)), shape_info=(self.names, None, self.shapes), logp_func=None, expand_func=None,
            _n_dim=self.size, _shapes=dict(zip(self.names, self.shapes)), _coords=self.coords,
        )  # fmt: skip


def _at(address, count):
    """The numbers at an address."""
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))
