"""What each name of NumPy stands for in `tapegrad.numpy`."""

import sys

import numpy as np

from ..common.public import only_public
from ..common.uninterrupted import imported
from ..numpy_api.dispatch import taking_lists
from . import makers

#: Those that make arrays, out of numbers and of arrays.
_MAKERS = "zeros ones empty eye identity tri".split()
_MAKERS_OF_ARRAYS = "zeros_like ones_like empty_like linspace logspace geomspace copy diag diagflat vander".split()
_JOINING = "array asarray asanyarray ascontiguousarray asfortranarray require".split()

#: What is not NumPy's own, and neither a ufunc nor a function that asks tensors what to do.
_OURS = {
    **{getattr(np, name): makers.making(getattr(np, name)) for name in _MAKERS},
    **{getattr(np, name): makers.making(taking_lists(getattr(np, name))) for name in _MAKERS_OF_ARRAYS},
    **{getattr(np, name): makers.joining(getattr(np, name)) for name in _JOINING},
    np.arange: makers.arange,
    np.full: makers.full,
    **{function: makers.either_way(function) for function in (np.sort, np.argsort)},
    np.full_like: makers.full_like,
    np.fromiter: makers.fromiter,
    np.ndarray: makers.ndarray,
    np.apply_along_axis: makers.of_lines(np.apply_along_axis, 2),
    np.piecewise: makers.of_lines(np.piecewise, 0),
    np.vectorize: makers.vectorize,
    np.r_: makers.Joiner(np.r_),
    np.c_: makers.Joiner(np.c_),
}
#: Versions of the array API standard, all of whose names are here.
_STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12")
#: The modules of NumPy that are modules here.
_MODULES = ("linalg", "fft", "random")
#: Attributes of a ufunc that are functions of arrays.
_METHODS = ("reduce", "accumulate", "reduceat", "outer")


def namespace(module):
    """``__all__``, ``__getattr__`` and ``__dir__`` of a module here that stands for the module of NumPy of that name."""
    here, source = vars(sys.modules[module]), imported(module.partition(".")[2])

    def get(name):
        if name.startswith("__") and name not in source.__all__:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            thing = getattr(source, name)
        except AttributeError as error:
            raise AttributeError(f"{module} has the names of NumPy {np.__version__}, but not {name!r}: {error}") from None
        here[name] = thing = _replaced(module, thing)
        return thing

    return list(source.__all__), get, only_public(module)


def of_version(standard):
    """`tapegrad.numpy`, for another library that asks for the names of a version of the array API standard, or of any."""
    if standard not in (None, *_STANDARDS):
        raise ValueError(f"version {standard!r} of the array API standard is not supported; {', '.join(_STANDARDS)} are")
    return sys.modules[__package__]


def _replaced(module, thing):
    """What stands for a thing of NumPy: one thing for all names that it has."""
    try:
        made = _OURS.get(thing)
    except TypeError:  # not hashable: data
        return thing
    if made is None and (isinstance(thing, np.ufunc) or hasattr(thing, "_implementation")):
        made = _OURS[thing] = taking_lists(thing)
        if isinstance(thing, np.ufunc):
            for name in dir(thing):
                if name[0] != "_":
                    method = getattr(thing, name)
                    setattr(made, name, taking_lists(method) if name in _METHODS else method)
    if made is None or made is thing:
        return thing
    made.__module__ = module
    return made
