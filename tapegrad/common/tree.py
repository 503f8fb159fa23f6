"""Nested containers of scalars and arrays: flattened to a list of leaves, and put together again.

Dicts, lists, tuples, namedtuples, dataclasses and classes of attrs are containers, and so are classes that are `register`ed (those of
`collections` are), and a complex number or array, of its parts; anything else is a leaf; an array of
objects that holds tensors is the tensor of them.  A field of a dataclass whose metadata says ``static`` is part of the container.  The
`Structure` says what was where; it is hashable, and prints as the container with ``*`` for its leaves.

Other libraries have objects around arrays: tables of pandas, labelled arrays of xarray, sparse matrices of SciPy.  None of these
libraries is imported here: who has such an object has imported its library.
"""

import dataclasses
import sys
from collections import OrderedDict, defaultdict
from itertools import accumulate

import numpy as np

from .errors import StructureError
from .exact import exact
from .registry import registry

#: Class -> (its parts and what it holds besides, the container of these): by `register`.
REGISTERED = {
    OrderedDict: (lambda thing: (tuple(thing.values()), tuple(thing)), lambda keys, parts: OrderedDict(zip(keys, parts))),
    defaultdict: (
        lambda thing: (tuple(thing.values()), (thing.default_factory, *thing)),
        lambda held, parts: defaultdict(held[0], zip(held[1:], parts)),
    ),
}  # fmt: skip


def register(cls, flatten, unflatten):
    """Let instances of a class be containers: ``flatten(thing) -> (parts, held)``, ``unflatten(held, parts) -> thing``."""
    if not isinstance(cls, type) or cls in (dict, list, tuple, float, int, np.ndarray):
        raise StructureError(f"{cls!r} cannot be registered as a container: give a class of your own")
    REGISTERED[cls] = flatten, unflatten


class Structure:
    """A container without its leaves; of a registered one also `held`, what it holds besides parts."""

    __slots__ = ("kind", "keys", "parts", "held", "count", "_hash", "_exact")

    def __init__(self, kind=None, keys=(), parts=(), held=None):
        self.kind, self.keys, self.parts, self.held = kind, keys, parts, held
        self.count = 1 if kind is None else sum(p.count for p in parts)
        # 1, 1.0 and True are equal as keys.
        self._exact = tuple([k if k.__class__ is str else exact(k) for k in keys]) if kind is dict else exact(held) if kind in REGISTERED else keys
        try:
            self._hash = hash((kind, held, self._exact, parts))
        except TypeError:
            raise StructureError(
                f"a {kind.__name__} holds {held!r} besides its leaves, which must be hashable: it decides whether two containers have the same form"
            ) from None

    def __hash__(self):
        return self._hash

    def __reduce__(self):
        # Hashes of classes are others in another process.
        return Structure, (self.kind, self.keys, self.parts, self.held)

    def __eq__(self, other):
        return (
            isinstance(other, Structure)
            and self._hash == other._hash
            and (self.kind, self._exact, self.parts) == (other.kind, other._exact, other.parts)
        )

    def __str__(self):
        if self.kind is None:
            return "*"
        if self.kind is Static:
            return repr(self.held)
        inside = ", ".join(f"{k}: {p}" if k is not None else str(p) for k, p in zip(self.keys, self.parts))
        brackets = {dict: "{}", list: "[]", tuple: "()"}.get(self.kind)
        return f"{brackets[0]}{inside}{brackets[1]}" if brackets else f"{self.kind.__name__}({inside})"

    __repr__ = __str__


LEAF = Structure()
#: A complex number or array: its real and its imaginary part.
COMPLEX = Structure(complex, ("real", "imag"), (LEAF, LEAF))


def flatten(thing, none=False):
    """The leaves of `thing`, depth first, and its `Structure`; `none`: whether None is a leaf in containers, too, as it is alone."""
    if thing.__class__ is registry.Tensor or thing.__class__ is float:
        return [thing], LEAF
    leaves = []
    try:
        return (leaves, _flatten(thing, leaves, none)) if thing is not None else ([None], LEAF)
    except RecursionError:
        raise StructureError("a container holds itself, or containers are nested hundreds deep: there is no end to its leaves") from None


def _flatten(thing, leaves, none):
    kind = type(thing)
    if kind is float or kind is registry.Tensor or kind is np.ndarray and thing.dtype.char not in "OFD":
        # What nearly all leaves are.
        leaves.append(thing)
        return LEAF
    if kind is dict:
        return Structure(dict, tuple(thing), tuple(_flatten(v, leaves, none) for v in thing.values()))
    if kind is list or kind is tuple or isinstance(thing, tuple) and hasattr(thing, "_fields"):
        keys = getattr(thing, "_fields", (None,) * len(thing))
        return Structure(kind, keys, tuple(_flatten(v, leaves, none) for v in thing))
    if kind in REGISTERED:
        parts, held = REGISTERED[kind][0](thing)
        return Structure(kind, (None,) * len(parts), tuple(_flatten(part, leaves, none) for part in parts), held)
    if has_fields(kind):
        names = tuple(f.name for f in _fields(kind))
        parts = [(getattr(thing, field.name), field.metadata.get("static")) for field in _fields(kind)]
        return Structure(kind, names, tuple(Structure(Static, held=part) if static else _flatten(part, leaves, none) for part, static in parts))
    if thing is None and not none:
        return NOTHING
    thing = registry.objects.joined(thing)
    if type(thing) in registry.objects.COMPLEX and (parts := registry.objects.split(thing)) is not None:
        leaves += parts
        return COMPLEX
    leaves.append(thing)
    return LEAF


def has_fields(cls):
    """Whether it is a dataclass, or a class of attrs."""
    return hasattr(cls, "__attrs_attrs__") or dataclasses.is_dataclass(cls)


def _fields(cls):
    return cls.__attrs_attrs__ if hasattr(cls, "__attrs_attrs__") else dataclasses.fields(cls)


class Static:
    """Stands for a field that is part of its container: the value is held, and there are no leaves."""


REGISTERED[Static] = (lambda thing: ((), thing), lambda held, parts: held)
#: None in a container is part of it, and no leaf, as in JAX.
NOTHING = Structure(Static)


def flatten_result(thing):
    """`flatten` for what a function may do without: None has no leaves."""
    return flatten(thing) if thing is not None else ([], NOTHING)


def unflatten(structure, leaves):
    """The container of `structure` with these leaves (consumed in order)."""
    return next(iter(leaves)) if structure is LEAF else _unflatten(structure, iter(leaves))


def _unflatten(structure, leaves):
    if structure.kind is None:
        return next(leaves)
    parts = [_unflatten(p, leaves) for p in structure.parts]
    if structure.kind is complex:
        return of_complex(*parts)
    if structure.kind is np.ndarray:
        return np.reshape(parts[0], (1,) * structure.keys[0])
    if structure.kind is dict:
        return dict(zip(structure.keys, parts))
    if structure.kind in (list, tuple):
        return structure.kind(parts)
    if structure.kind in REGISTERED:
        return REGISTERED[structure.kind][1](structure.held, parts)
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*parts)
    made = object.__new__(structure.kind)
    for name, part in zip(structure.keys, parts):
        object.__setattr__(made, name, part)
    return made


def of_complex(re, im):
    """The complex value with these real and imaginary parts; of containers, such as the derivatives of both by several arguments, the container."""
    (ones, structure), (others, _) = flatten(re), flatten(im)
    if holds_complex(structure):
        raise StructureError(
            "the derivative of complex numbers by complex ones is four real arrays, not a complex one: pass holomorphic=True for the derivative "
            "of a holomorphic function, or differentiate the parts, z.real and z.imag, as two results (or arguments)"
        )
    return unflatten(structure, list(map(registry.objects.of_parts, ones, others)))


def holds_complex(structure):
    """Whether there is a complex number in a container of this structure."""
    return structure.kind is complex or any(map(holds_complex, structure.parts))


def conjugated(thing):
    """`thing` with the conjugates of its complex numbers."""
    leaves, structure = flatten(thing)
    return unflatten(structure, [-x if imag else x for x, imag in zip(leaves, _imaginary(structure))])


def _imaginary(structure):
    """For each leaf whether it is the imaginary part of a number."""
    if structure.kind is None or structure.kind is complex:
        return [False] if structure.kind is None else [False, True]
    return [imag for part in structure.parts for imag in _imaginary(part)]


def own(thing):
    """`thing` with copies of its arrays, so that it stays what it is whatever happens to them."""
    leaves, structure = flatten(thing)
    return unflatten(structure, [leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


def of_one(structure, ndim):
    """`structure` for numbers of which the first stands for an array of one element, with `ndim` axes."""
    if structure.kind is None:
        return Structure(np.ndarray, (ndim,), (LEAF,))
    first = next(k for k, part in enumerate(structure.parts) if part.count)
    parts = [of_one(part, ndim) if k == first else part for k, part in enumerate(structure.parts)]
    return Structure(structure.kind, structure.keys, tuple(parts), structure.held)


def alike(one, other):
    """Whether two structures differ in nothing but lists for tuples."""
    sequences = (list, tuple)
    same = one.kind == other.kind or one.kind in sequences and other.kind in sequences
    return same and one._exact == other._exact and len(one.parts) == len(other.parts) and all(map(alike, one.parts, other.parts))


def beside(structure, thing):
    """The parts of `thing` that stand where those of a structure are, a list perhaps for a tuple; None if it is another container."""
    kind, keys = structure.kind, structure.keys
    if kind is dict:
        return [thing[key] for key in keys] if isinstance(thing, dict) and thing.keys() == {*keys} else None
    if kind in (list, tuple) or hasattr(kind, "_fields"):
        return thing if isinstance(thing, (list, tuple)) and len(thing) == len(keys) else None
    if type(thing) is not kind:
        return None
    parts, held = REGISTERED[kind][0](thing) if kind in REGISTERED else ([getattr(thing, key) for key in keys], None)
    return parts if held == structure.held and len(parts) == len(keys) else None


def rearranged(leaves, found, structure):
    """Leaves of a container of structure `found` as `structure` has them; None if these differ in more than the order of keys."""
    if found == structure:
        return leaves
    if found.kind is None or found.kind != structure.kind or len(found.parts) != len(structure.parts):
        return None
    order = range(len(found.parts))
    if found._exact != structure._exact:
        if found.kind is not dict or {*found.keys} != {*structure.keys}:
            return None
        order = [list(found.keys).index(key) for key in structure.keys]
    ends = [0, *accumulate(part.count for part in found.parts)]
    parts = [rearranged(leaves[ends[k] : ends[k + 1]], found.parts[k], part) for k, part in zip(order, structure.parts)]
    return None if any(part is None for part in parts) else [leaf for part in parts for leaf in part]


def leaf_names(structure, name=""):
    """The path of every leaf as text: ``['w']['bias']``, in order."""
    if structure.kind is None:
        return [name]
    names = []
    for k, (key, part) in enumerate(zip(structure.keys, structure.parts)):
        at = f"[{key!r}]" if structure.kind is dict else f".{key}" if key is not None else f"[{k}]"
        names += leaf_names(part, name + at)
    return names


def parts_of(thing, kinds):
    """The instances of `kinds` in containers, slices, arrays of objects and complex tensors, each as often as it stands there."""
    if isinstance(thing, kinds):
        yield thing
        return
    if isinstance(thing, slice):
        thing = thing.start, thing.stop, thing.step
    elif isinstance(thing, dict):
        thing = thing.values()
    elif isinstance(thing, np.ndarray):
        thing = thing.ravel().tolist() if thing.dtype.char == "O" else ()
    elif isinstance(thing, registry.objects.Complex):
        thing = thing.real, thing.imag
    elif not isinstance(thing, (list, tuple)):
        thing = _parts(thing)
    for part in thing:
        yield from parts_of(part, kinds)


def mapped(function, thing, *more):
    """``function(part, *more)`` of the parts of a list, tuple or dict, in such a one; anything else as it is."""
    if isinstance(thing, (list, tuple)):
        parts = [function(part, *more) for part in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    return {key: function(part, *more) for key, part in thing.items()} if isinstance(thing, dict) else thing


def _parts(thing):
    """The parts of a registered container, or of an instance of a class with fields; nothing of anything else."""
    kind = type(thing)
    if thing is None or kind in (float, int, str, bool):
        # Most of what functions of NumPy are given besides tensors.
        return ()
    if kind in REGISTERED:
        return REGISTERED[kind][0](thing)[0]
    return [getattr(thing, field.name) for field in _fields(kind) if not field.metadata.get("static")] if has_fields(kind) else ()


#: Library -> its classes that are labels around an array, and how to get at that.
_LABELLED = {
    "pandas": (("Series", "DataFrame", "Index"), lambda table: table.to_numpy()),
    "xarray": (("DataArray", "Variable"), lambda labelled: labelled.data),
    f"{__package__.partition('.')[0]}.pandas": (("Labelled",), lambda labelled: labelled.to_numpy()),
}


def array_of(thing):
    """The array in a table or labelled array; anything else as it is."""
    for library, (names, array) in _LABELLED.items():
        if isinstance(thing, _classes(library, names)):
            return array(thing)
    return thing


def is_table(thing):
    """Whether it is a Series, a DataFrame or an Index of pandas."""
    return "pandas" in sys.modules and isinstance(thing, _classes("pandas", _LABELLED["pandas"][0]))


def labelled_as(thing, array):
    """`array` with the labels of `thing`, a table or labelled array; as it is where `thing` is neither."""
    if isinstance(thing, _classes("xarray", _LABELLED["xarray"][0])):
        return thing.copy(data=array)
    if isinstance(thing, _classes("pandas", ["Series"])):
        return type(thing)(array, index=thing.index, name=thing.name)
    return type(thing)(array, index=thing.index, columns=thing.columns) if isinstance(thing, _classes("pandas", ["DataFrame"])) else array


def is_sparse(thing):
    """Whether it is a sparse matrix or array of SciPy's."""
    return isinstance(thing, _classes("scipy.sparse", ["sparray", "spmatrix"]))


def is_matrix(thing):
    """Whether it is a sparse matrix, of which ``*`` is the matrix product."""
    return isinstance(thing, _classes("scipy.sparse", ["spmatrix"]))


def _classes(library, names):
    module = sys.modules.get(library)
    return () if module is None else tuple([getattr(module, name) for name in names if hasattr(module, name)])
