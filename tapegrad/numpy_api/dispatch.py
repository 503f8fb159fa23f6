"""NumPy's functions on tensors: ``np.sin(t)``, ``np.sum(t, axis=1)``, ``A @ t``.

``__array_ufunc__`` finds the row of a ufunc (SciPy's by name), and
``__array_function__`` the function of this library that stands for NumPy's.
Of numbers on a live tape it writes the instruction itself, as the operators do (`tapegrad.array.operators`).
What has neither raises `UnsupportedFunctionError`; nothing falls through to
plain arrays, where the derivative would be lost.

Lists and tuples may hold tensors: ``np.sum([t, u])``, ``np.concatenate([[t], [u, 0.0]])``.  NumPy asks tensors among its
arguments what to do, but not tensors in a list that stands for an array.  `taking_lists` makes of a function one that has such a
list stacked first, and then calls it.  Which arguments stand for arrays follows from the names of NumPy's parameters:
`SEQUENCES` are lists of arrays, each of which may be a list again; `NO_ARRAYS` say how long and where.
"""

import functools
import inspect
import operator
import sys
from operator import attrgetter

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable, into_plain, not_in_pandas
from ..array.objects import PLAIN, holds_tensors, in_objects, joined, operand
from ..array.record import apply, computed, normalise, plain, record_nondiff, trace_of, tracked
from ..array.tensor import Tensor
from ..array.whole import IntTensor, by_numpy, is_whole
from ..common.dtypes import NUMBERS
from ..common.errors import ComplexOperandError, UnsupportedFunctionError
from ..common.observers import LISTENERS, notify
from ..common.registry import attach, registry
from ..common.tree import flatten, is_table, mapped, parts_of, unflatten
from ..interpreter.fields import array_ufunc, share
from ..rules import BY_FUNCTION, BY_NAME
from ..rules.special import SCIPY_UFUNCS
from .refused import REFUSED, WITHOUT_DERIVATIVE

#: Parameters that are lists of arrays.
SEQUENCES = {"arrays", "tup", "condlist", "choicelist", "choices", "funclist", "keys", "sample"}
#: Parameters that are shapes, axes and the like: in a recording they may hold integers, one by one.
NO_ARRAYS = {"shape", "newshape", "new_shape", "axis", "axes", "reps", "window_shape", "out"}

#: Of lists of these only NumPy makes the arrays; an array of objects is one that NumPy computes with.
_all_plain = (PLAIN | {np.ndarray}).issuperset


def taking_lists(function):
    """`function` of NumPy, or a method of a ufunc, with a tensor in place of each list that holds tensors and stands for an array."""
    if function is np.block:
        # Its lists are no arrays, they say where arrays are; NumPy asks the tensors in them.
        return function

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        for a in (*args, *kwargs.values()) if kwargs else args:
            if (a.__class__ is list or a.__class__ is tuple) and not _all_plain(map(type, a)):
                names = () if isinstance(function, np.ufunc) else parameters(function)
                args = [_stacked(a, names[k] if k < len(names) else "") for k, a in enumerate(args)]
                kwargs = {name: _stacked(a, name) for name, a in kwargs.items()}
                break
        return function(*args, **kwargs)

    return call


#: Of functions in C, which say it themselves from NumPy 2.4 on.
_POSITIONAL = {
    "concatenate": "arrays axis out", "empty_like": "prototype dtype order subok shape", "dot": "a b out", "inner": "a b", "vdot": "a b",
    "where": "condition x y", "bincount": "x weights minlength", "copyto": "dst src casting where", "putmask": "a mask values",
    "lexsort": "keys axis", "can_cast": "from_ to casting", "min_scalar_type": "a", "result_type": "", "may_share_memory": "a b max_work",
    "shares_memory": "a b max_work", "packbits": "a axis bitorder", "unpackbits": "a axis count bitorder",
    "ravel_multi_index": "multi_index dims mode order", "unravel_index": "indices shape order",
    "busday_count": "begindates enddates weekmask holidays busdaycal out", "busday_offset": "dates offsets roll weekmask holidays busdaycal out",
    "is_busday": "dates weekmask holidays busdaycal out", "datetime_as_string": "arr unit timezone casting",
    "reduce": "array axis dtype out", "accumulate": "array axis dtype out", "reduceat": "array indices axis dtype out",
    "outer": "A B", "at": "a indices b",
    "array": "object dtype", "asarray": "a dtype order", "asanyarray": "a dtype order", "ascontiguousarray": "a dtype", "asfortranarray": "a dtype",
}  # fmt: skip


@functools.cache
def parameters(function):
    """The names of the parameters of a function that can be given by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return _POSITIONAL[function.__name__].split()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _stacked(argument, name):
    if name in NO_ARRAYS or not isinstance(argument, (list, tuple)) or not holds_tensors(argument):
        return argument
    return type(argument)([operand(part) for part in argument]) if name in SEQUENCES else operand(argument)


def of_numpy(names):
    """NumPy's functions of these names, a text."""
    return [attrgetter(name)(np) for name in names.split()]


#: ufuncs whose results carry no derivative; they give plain values.
VALUES = {function for name in WITHOUT_DERIVATIVE if isinstance(function := attrgetter(name.partition(".")[2])(np), np.ufunc)}
#: (ufunc, name of a method) -> what stands for it on tensors; `reductions` fills it.
METHODS = {}
#: ufuncs served by a function of ours, not by the row that stands for them (or by several).
DIRECT = {np.power: F.power, np.positive: F.clone}


def value_of(thing):
    """The value of a tensor, taken as a constant; anything else as it is."""
    return thing._let_out("a constant") if isinstance(thing, Differentiable) else thing


def name_of(function):
    """The public name of a NumPy or SciPy function: ``numpy.linalg.svd``."""
    name = getattr(function, "__name__", str(function))
    if name.endswith(" (vectorized)"):
        return f"a ufunc of np.frompyfunc ({name.removesuffix(' (vectorized)')})"
    module = getattr(function, "__module__", None) or ("numpy" if hasattr(np, name) else "scipy.special")
    return f"{module}.{name}"


def refuse(function, why=""):
    """The error for a NumPy function without a rule, with the reason if `tapegrad.numpy_api.refused` knows one."""
    name = name_of(function)
    reason = "" if why else REFUSED.get(name, "")
    return UnsupportedFunctionError(
        f"{name} has no derivative rule in tapegrad{why}{': ' * bool(reason)}{reason}. Use supported functions "
        "(tapegrad.rules.ROWS lists them), or leave the tape on purpose with .detach().numpy()"
    )


#: Comparisons, and what takes their operands the other way round.
_MIRRORED = {
    np.less: operator.gt, np.less_equal: operator.ge, np.greater: operator.lt, np.greater_equal: operator.le, np.equal: operator.eq,
    np.not_equal: operator.ne,
}  # fmt: skip


def ufunc_on_tensors(self, ufunc, method, *inputs, **kwargs):
    """``Differentiable.__array_ufunc__``."""
    if "pandas" in sys.modules:
        if any(map(is_table, inputs)) and method == "__call__" and len(inputs) == 2 and not kwargs:
            return registry.later.beside_table(ufunc, *inputs)
        not_in_pandas(inputs)
    if not kwargs and method == "__call__":
        row = BY_FUNCTION.get(ufunc)
        if row is not None and ufunc not in DIRECT:
            return apply(row, inputs, short=ufunc not in _OF_ONE and ufunc not in _OF_TWO)
        if ufunc in _MIRRORED:
            # (NumPy makes an array of its own number.)
            first = inputs[0][()] if inputs[0].__class__ is np.ndarray else inputs[0]
            if first.__class__ in NUMBERS:
                # (Beside float32 one of float64 is compared as such.)
                return _MIRRORED[ufunc](inputs[1], float(first) if self.dtype == float else first)
    out, dtype = kwargs.pop("out", None), kwargs.pop("dtype", None)
    kwargs.pop("subok", None)
    if out is not None and out[0] is Ellipsis:
        out = None
    if dtype is not None:
        result = ufunc_on_tensors(self, ufunc, method, *inputs, **kwargs, **({} if out is None else {"out": out}))
        if dtype not in (result.dtype, type(result.dtype)):
            raise refuse(ufunc, " with the argument dtype=")
        return result
    if method == "at":
        # Its indices may be a tuple.
        if (ufunc, method) not in METHODS:
            raise refuse(ufunc, " for its method .at()")
        return METHODS[ufunc, method](*inputs, **kwargs)
    inputs = tuple([operand(x) for x in inputs])
    if registry.objects.Complex in map(type, inputs):
        return registry.objects.complex_ufunc(ufunc, method, inputs, kwargs, out)
    where = kwargs.get("where", True) if method == "__call__" and ufunc.signature is None and ufunc not in VALUES else True
    if out is None and where is not True and any_tracked(inputs):
        # NumPy leaves the memory of the others as it is; zeros may have stood there.
        shape = np.broadcast_shapes(*map(np.shape, (*inputs, where)))
        out = (F.lift(np.zeros(shape, np.result_type(*map(_dtype_of, inputs)))),)
    if out is not None:
        return _into(ufunc, method, inputs, kwargs, out)
    if (ufunc, method) in METHODS:
        return METHODS[ufunc, method](*inputs, **kwargs)
    if method == "outer" and ufunc.signature is None and len(inputs) == 2 and not kwargs:
        a, b = (F.lift(x) for x in inputs)
        return ufunc(F.reshape(a, a.shape + (1,) * b.ndim), b)
    row = BY_FUNCTION.get(ufunc) or BY_NAME.get(SCIPY_UFUNCS.get(ufunc.__name__, ""))
    if (method != "__call__" or kwargs or not (row or ufunc in VALUES or ufunc in DIRECT)) and not any_tracked((inputs, kwargs)):
        # Constants have no derivative to lose.
        return plain_function(getattr(ufunc, method))(*inputs, **kwargs)
    if method != "__call__":
        raise refuse(ufunc, f" for its method .{method}()")
    if kwargs:
        raise refuse(ufunc, f" with the argument {', '.join(f'{k}=' for k in kwargs)}")
    if ufunc in VALUES:
        if LISTENERS:
            notify(f"comparison ({ufunc.__name__})", *inputs)
        return record_nondiff(ufunc, inputs, computed(ufunc, values_of(inputs, False), inputs))
    if ufunc in DIRECT:
        return DIRECT[ufunc](*inputs)
    if row is None:
        raise refuse(ufunc)
    return apply(row, inputs)


def _dtype_of(x):
    dtype = np.asarray(x.dtype.type() if hasattr(x, "dtype") else x).dtype
    return dtype if dtype.kind == "f" else np.float64


def _short_ways(arity):
    """Of the ufuncs whose rows have a value on floats: the row, and that function."""
    return {
        ufunc: (row, row.on_floats)
        for ufunc, row in BY_FUNCTION.items()
        if isinstance(ufunc, np.ufunc) and row.on_floats is not None and row.arity == arity and ufunc not in DIRECT
    }


#: By the ufunc its row, and a function of floats; squares have an instruction of their own, which is the affair of the short way.
_OF_ONE, _OF_TWO = _short_ways(1), {**_short_ways(2), np.power: (BY_NAME["power"], None), np.matmul: (BY_NAME["matmul"], np.matmul)}


def _into(ufunc, method, inputs, kwargs, out):
    """``np.add(a, b, out=t)`` is an assignment to t if that is a tensor or an array of objects; ``array += t`` is refused."""
    objects = len(out) == 1 and type(out[0]) is np.ndarray and out[0].dtype.char == "O"
    if objects or len(out) == 1 and isinstance(out[0], Differentiable):
        where = kwargs.pop("where", True) if method == "__call__" and ufunc.signature is None else True
        target, casting = ..., kwargs.pop("casting", "same_kind")
        if where is not True:
            # Elsewhere nothing is computed, so nothing there can warn or spoil a derivative.
            mask = np.broadcast_to(where, out[0].shape)
            if not np.any(mask):
                return out[0]
            if mask.ndim:
                target, inputs = mask, [np.broadcast_to(x, out[0].shape)[mask] for x in inputs]
        result = getattr(ufunc, method)(*inputs, **kwargs)
        if not objects:
            return _assigned(ufunc, result, out[0], target, casting)
        out[0][target] = in_objects(F.lift(result))
        return out[0]
    if any(isinstance(x, Differentiable) and x.requires_grad for x in (*inputs, *out)):
        raise into_plain(f"np.{ufunc.__name__} with out= (or `array += tensor`)", out[0])
    values = [np.asarray(value_of(x)) if isinstance(x, Differentiable) else x for x in inputs]
    targets = tuple(np.asarray(value_of(x)) for x in out)
    getattr(ufunc, method)(*values, **kwargs, out=targets)
    return out[0]


def _assigned(function, result, out, target=..., casting="same_kind"):
    """`out`, a tensor, with a result of NumPy's `function` written to it."""
    result = F.lift(result)
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast the output of {function.__name__!r} from {result.dtype!r} to {out.dtype!r} with casting rule {casting!r}"
        )
    out[target] = result
    return out


# ---- functions ------------------------------------------------------------------

#: The default of NumPy's signatures for arguments that are left out.
NO_VALUE = inspect.signature(np.mean).parameters["keepdims"].default


#: Functions that look at shapes, dtypes and memory only: their results are the same at every point of a replay.
_ABOUT_SHAPES = {*of_numpy(
    "shape ndim size can_cast common_type diag_indices_from iscomplexobj isrealobj may_share_memory result_type "
    "shares_memory tril_indices_from triu_indices_from empty_like zeros_like ones_like einsum_path"
)}  # fmt: skip


def constant_of(array):
    """An array that NumPy has computed as a tensor outside the tape."""
    return registry.objects.complex_tensor(array) if array.dtype.kind == "c" else plain(normalise(array))


def plain_function(function):
    """A NumPy function that looks only at shapes or gives values without derivative."""

    def call(*args, **kwargs):
        if LISTENERS and function not in _ABOUT_SHAPES:
            notify(name_of(function), *args, **kwargs)
        operands = list(parts_of((args, kwargs), Differentiable))
        result = computed(
            lambda *args: function(*args, **{k: values_of(v, False) for k, v in kwargs.items()}), values_of(args, False), operands
        )
        trace = trace_of(operands)
        if trace is None or function in _ABOUT_SHAPES:
            return constant_of(result) if isinstance(result, np.ndarray) else result
        return trace.host(function, args, kwargs, result)

    return call


def values_of(thing, constant=True):
    """`thing` with its tensors replaced by their values; `constant`: what is done with them is not repeated in a replay."""
    if isinstance(thing, Differentiable):
        return np.asarray(thing._let_out("a constant") if constant else thing._v)
    return mapped(values_of, thing, constant)


def only_defaults(function, **arguments):
    """Refuse the arguments that are not None."""
    if named := [k for k, v in arguments.items() if v is not None]:
        raise refuse(function, f" with the argument {', '.join(named)}=")


def _clip(a, a_min=NO_VALUE, a_max=NO_VALUE, *, min=NO_VALUE, max=NO_VALUE):
    if is_table(a):
        # NumPy calls the method of a Series.
        a = registry.later.beside_table(np.add, a, 0.0)
    ends = [one if one is not NO_VALUE else None if other is NO_VALUE else other for one, other in ((a_min, min), (a_max, max))]
    return (np.clip if hasattr(a, "_places") else F.clip)(a, *ends)


#: NumPy's functions that are no ufuncs -> what stands for them on tensors, without ``out=``; the other modules of this package add theirs.
FUNCTIONS = {np.clip: _clip, np.dot: F.dot, np.outer: F.outer}


def any_tracked(thing):
    """Whether something in nested lists, tuples and dicts carries a derivative."""
    if thing.__class__ is tuple and any([part.__class__ is Tensor and tracked(part) for part in thing]):
        return True
    return any(map(tracked, parts_of(thing, Differentiable)))


def implements(*functions, plainly=False):
    """Decorator: the function stands for these functions of NumPy when they are called on tensors.

    With `plainly` NumPy itself is called where none of them carries a derivative.
    """

    def register(ours):
        for function in functions:
            FUNCTIONS[function] = _where_tracked(function, ours) if plainly else ours
        return ours

    return register


def _where_tracked(function, ours):
    def call(*args, **kwargs):
        if any_tracked((args, kwargs)):
            return ours(*args, **kwargs)
        leaves, structure = flatten(function(*values_of(args), **{name: values_of(value) for name, value in kwargs.items()}))
        return unflatten(structure, [F.lift(np.asarray(leaf)) for leaf in leaves])

    return call


def function_on_tensors(self, function, types, args, kwargs):
    """``Differentiable.__array_function__``."""
    ours = FUNCTIONS.get(function)
    if "pandas" in sys.modules and function is np.where:
        not_in_pandas(args)
    if len(types) > 1:
        if registry.objects.Complex in types:
            return registry.objects.complex_function(function, args, kwargs)
        if np.ndarray in types:
            try:
                args, kwargs = _with_joined(args), _with_joined(kwargs)
            except ComplexOperandError:
                return registry.objects.complex_function(function, args, kwargs)
    if IntTensor in types and function not in _AS_TENSORS and is_whole((args, kwargs)):
        return by_numpy(function, args, kwargs)
    if ours is None:
        if any_tracked(args) or any_tracked(kwargs):
            raise refuse(function)
        # Constants have no derivative to lose.
        ours = plain_function(function)
    out = kwargs.pop("out", None)
    if len(args) > 2 and "out" in (names := parameters(function)[: len(args)]):
        k = names.index("out")
        out, args = args[k], (*args[:k], *args[k + 1 :])
    if out is None:
        try:
            return ours(*args, **kwargs)
        except ComplexOperandError:
            return registry.objects.complex_function(function, args, kwargs)
    if not isinstance(out, Differentiable):
        raise refuse(function, " with the argument out=")
    return _assigned(function, ours(*args, **kwargs), out)


def _with_joined(thing):
    """Arguments with a tensor in place of each array of objects that holds tensors."""
    if isinstance(thing, np.ndarray):
        if thing.dtype.char in "FD":
            raise ComplexOperandError("an array of complex numbers is an argument of a function of real tensors")
        return joined(thing)
    return mapped(_with_joined, thing)


#: Functions that do with integers what they do with floats: rows of the table, views, and what looks at shapes only.
_AS_TENSORS = _ABOUT_SHAPES.union(of_numpy(
    "reshape ravel transpose swapaxes matrix_transpose moveaxis rollaxis squeeze expand_dims atleast_1d atleast_2d atleast_3d "
    "broadcast_to broadcast_arrays concatenate stack vstack hstack dstack column_stack split array_split hsplit vsplit dsplit "
    "unstack diagonal flip fliplr flipud take take_along_axis where nonzero flatnonzero argwhere sum copy "
    "copyto put place putmask put_along_axis fill_diagonal"
))  # fmt: skip


def _ufunc_on_integers(self, ufunc, method, *inputs, **kwargs):
    """``IntTensor.__array_ufunc__``: beside a float it is an operation on that."""
    if not is_whole((inputs, kwargs)):
        return ufunc_on_tensors(self, ufunc, method, *inputs, **kwargs)
    return by_numpy(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)


attach(IntTensor, {"__array_ufunc__": _ufunc_on_integers})
share("ufunc", ufunc_on_tensors)
share("of one", _OF_ONE)
share("of two", _OF_TWO)
attach(Tensor, {"__array_ufunc__": array_ufunc(Tensor) or ufunc_on_tensors})
attach(Differentiable, {"__array_ufunc__": ufunc_on_tensors, "__array_function__": function_on_tensors})
