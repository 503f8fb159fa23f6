"""Example operands of every row of the table, for the checks that go through all rows.

`examples_of` gives them: scalars, 0-d, empty, broadcast, non-contiguous and 3-d
operands, in float64 (and one in float32), away from kinks except for ties and
zeros whose convention is documented.  Those of a structural row are what its
cases (`tests.rules.structural_cases`) record, plus some of unusual layout.
"""

from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from tapegrad.array import record
from tapegrad.rules import BY_NAME, ROWS
from tapegrad.tape.store import thread_state
from tests.rules.checker import generator, wrap
from tests.rules.structural_cases import CASES

ANY = (-2.0, 2.0)
POSITIVE = (0.2, 3.0)
UNIT = (-0.9, 0.9)

#: Element-wise row -> domain of each operand.
DOMAINS = {
    **dict.fromkeys(
        "negative absolute sign square power2 cbrt exp exp2 expm1 sin cos arctan sinh cosh tanh arcsinh erf sigmoid "
        "softplus relu floor ceil trunc rint clone".split(),
        (ANY,),
    ),
    **dict.fromkeys("sqrt log log2 log10 log1p reciprocal lgamma digamma".split(), (POSITIVE,)),
    **dict.fromkeys("arcsin arccos arctanh".split(), (UNIT,)),
    **dict.fromkeys("absolute_product add subtract multiply maximum minimum logaddexp arctan2 hypot copysign".split(), (ANY, ANY)),
    **dict.fromkeys("divide remainder fmod floor_divide".split(), (ANY, POSITIVE)),
    **dict.fromkeys("deg2rad rad2deg sinc erfc erfcx log_ndtr ndtr log_expit i0 i1 i0e i1e j0 j1".split(), (ANY,)),
    **dict.fromkeys("logaddexp2 fmax fmin heaviside".split(), (ANY, ANY)),
    **dict.fromkeys("gamma rgamma gammasgn entr".split(), (POSITIVE,)),
    **dict.fromkeys("beta betaln rel_entr kl_div".split(), (POSITIVE, POSITIVE)),
    **dict.fromkeys("xlogy xlog1py".split(), (ANY, POSITIVE)),
    **dict.fromkeys("logit ndtri".split(), ((0.1, 0.9),)),
    **dict.fromkeys("gammainc gammaincc".split(), ((0.3, 4.0), POSITIVE)),
    **dict.fromkeys("gammaincinv gammainccinv stdtrit".split(), ((0.5, 4.0), (0.1, 0.9))),
    **dict.fromkeys("betainc betaincc betaincinv betainccinv".split(), ((0.5, 4.0), POSITIVE, (0.1, 0.9))),
    "stdtr": (POSITIVE, ANY),
    "owens_t": (ANY, ANY),
    "ndtri_exp": ((-3.0, -0.1),),
    "erfinv": (UNIT,),
    "y0": (POSITIVE,),
    "y1": (POSITIVE,),
    "erfcinv": ((0.1, 1.9),),
    **dict.fromkeys("jv yv iv ive".split(), (None, POSITIVE)),
    "ldexp": (ANY, None),
    "tan": ((-1.2, 1.2),),
    "arccosh": ((1.2, 3.0),),
    "power": (POSITIVE, ANY),
    "where": (None, ANY, ANY),
    **dict.fromkeys("is_less is_less_equal is_equal if_true if_false".split(), (ANY, ANY)),
    "is_nan": (ANY,),
    **dict.fromkeys([f"complex_{part}" for part in "scaled_real scaled_imag sqrt_real sqrt_imag log_size log1p_size".split()], (ANY, ANY)),
    "clip": (ANY, (-1.0, -0.5), (0.5, 1.0)),
    **dict.fromkeys("polygamma gammainc_da".split(), (None, POSITIVE)),
    **dict.fromkeys("betainc_da betainc_db".split(), (None, None, (0.1, 0.9))),
    "stdtr_ddf": (None, ANY),
}
#: `loop` has no derivative: `loop_results` has it.
DIFFERENTIABLE = [row for row in ROWS if row.name != "loop"]
ELEMENTWISE = [row.name for row in ROWS if row.elementwise]


def drawn(rng, domain, shape, name=None, position=None):
    """Values of the domain, away from the kinks at integers."""
    if domain is None:
        if name in ("polygamma", "gammainc_da", "stdtr_ddf", "betainc_da", "betainc_db", "ldexp", "jv", "yv", "iv", "ive"):
            return np.full(shape, 2.0)
        return rng.integers(0, 2, shape).astype(bool)
    values = np.asarray(rng.uniform(*domain, shape))
    near = np.abs(values - np.rint(values)) < 0.05
    return np.where(near, values + np.copysign(0.1, values - np.rint(values)), values)


class Example(NamedTuple):
    """Operands of one operation.

    Attributes
    ----------
    row : Row
    operands : tuple
        All operands, constants included: Python floats and ndarrays.
    attrs : tuple of (str, hashable)
        Attributes that the signature keeps.
    integer : int or None
        The dynamic attribute of rows that have one.
    """

    row: object
    operands: tuple
    attrs: tuple
    integer: int | None

    @property
    def keywords(self):
        """All attributes, the dynamic one included."""
        found = dict(self.attrs)
        if self.row.dynamic:
            found[self.row.dynamic] = self.integer
        return found

    @property
    def value(self):
        """The result as an ndarray."""
        with np.errstate(all="ignore"):
            return np.asarray(self.row.value(*map(np.asarray, self.operands), **self.keywords))

    def __str__(self):
        shapes = ", ".join(f"{np.asarray(o).dtype.char}{list(np.shape(o))}" for o in self.operands)
        keywords = ", ".join(f"{name}={value}" for name, value in self.keywords.items())
        return f"{self.row.name}({shapes}{', ' if keywords else ''}{keywords})"


def _cube(*shape, seed=20):
    return generator(seed).uniform(0.5, 2.0, shape)


#: Non-contiguous, 3-d and empty operands; name -> (array, ...) shared by the rows of one operand.
ARRAYS = {
    "transposed": _cube(4, 3).T,
    "reversed": _cube(4, 6, seed=21)[::-1, ::-2],
    "moved": np.moveaxis(_cube(2, 3, 4, seed=22), 0, -1),
    "strided": _cube(4, 3, 6, seed=23)[::2, :, 1::2],
    "empty": np.zeros((0, 3)),
    "hollow": np.zeros((2, 0, 3)),
    "0-d": np.array(1.25, "f"),
}
_REDUCTIONS = ("sum", "mean", "prod", "var", "std", "norm", "logsumexp", "max", "min")


def _reductions():
    for name in _REDUCTIONS:
        for kind, x in ARRAYS.items():
            for axis in (None, 0, -1, (0, 1), ())[: 5 if x.ndim > 1 else 1]:
                if name in ("max", "min") and x.size == 0:
                    continue
                if name == "mean" and x.size == 0 or name == "std" and x.ndim == 0:
                    continue
                yield name, (x,), dict(axis=axis, keepdims=kind in ("moved", "hollow"))
    # Ties of two: there central differences give the even share.
    ties = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 5.0], [0.0, -1.0, -1.0]])
    for name in ("max", "min"):
        for axis in (None, 0, 1):
            yield name, (ties,), dict(axis=axis, keepdims=False)
            yield name, (-ties,), dict(axis=axis, keepdims=False)
    zeros = np.array([[0.0, 2.0, 3.0], [0.0, 2.0, 0.0], [1.0, 4.0, 2.0]])
    for axis in (None, 0, 1):
        yield "prod", (zeros,), dict(axis=axis, keepdims=False)
    flat = np.zeros((2, 3))
    yield "norm", (np.array([[0.0, 0.0], [3.0, 4.0]]),), dict(axis=1, keepdims=False)
    yield "std", (flat,), dict(axis=1, ddof=0, keepdims=False)
    yield "var", (flat,), dict(axis=1, ddof=0, keepdims=False)


def _moves():
    for x in ARRAYS.values():
        n, shape = x.ndim, x.shape
        flat = np.arange(x.size)[::-1].copy()
        yield "reshape", (x,), dict(shape=(x.size,))
        for axes in {tuple(range(n))[::-1], tuple(range(n))}:
            yield "transpose", (x,), dict(axes=axes)
            yield "flip", (x,), dict(axes=axes)
        for name in ("gather", "roll", "repeat", "tile"):
            yield name, (x, flat), dict(shape=shape[::-1])
        if not n:
            continue
        yield "cumsum", (x,), dict(axis=0)
        yield "cumsum", (x,), dict(axis=n - 1)
        yield "concatenate", (x, x, np.ones((1, *shape[1:]))), dict(axis=0)
        yield "concatenate", (x, x), dict(axis=n - 1)
        yield "stack", (x, x * 2.0), dict(axis=n)
        yield "stack", (x, x * 2.0), dict(axis=0)
        if x.size:
            for name in ("softmax", "log_softmax"):
                yield name, (x,), dict(axis=0)
                yield name, (x,), dict(axis=-1)
            yield "put", (x, np.ones(2), np.array([x.size - 1, 0])), dict(shape=(2,))
            yield "getitem", (x,), dict(shape=(2,), strides=(-1,), offset=1)
            yield "setitem", (x, np.array([3.0, 4.0])), dict(shape=(2,), strides=(-1,), offset=1)
        yield "setitem", (x, np.ones((0,))), dict(shape=(0,), strides=(1,), offset=0)
        yield "put", (x, np.ones((0,)), np.zeros(0, int)), dict(shape=(0,))
        yield "binary_cross_entropy_with_logits", (x, 0.25), dict(reduction="none")
        yield "binary_cross_entropy_with_logits", (x[:1], x), dict(reduction="sum")
    yield "cross_entropy", (_cube(2, 3, 4), np.array([1, 4, 8, 15, 17, 20])), dict(reduction="none")
    yield "cross_entropy", (_cube(2, 3, 4)[:, ::2], np.array([1, 4, 8, 15])), dict(reduction="mean")
    yield "diag", (_cube(6)[::-2],), dict(k=1, shape=(4, 4))
    yield "diag", (np.zeros(0),), dict(k=-2, shape=(2, 2))
    yield "astype", (_cube(2, 3).T,), dict(dtype="d")


def _matrices():
    square = _cube(2, 3, 3, seed=24) + 2.0 * np.eye(3)
    positive = square @ np.swapaxes(square, -1, -2)
    wide, tall = _cube(3, 5, seed=25), _cube(2, 4, 3, seed=26)
    flipped = square[::-1].swapaxes(-1, -2)
    for name in ("inv", "det", "logabsdet", "pinv", "cofactors"):
        for x in (square, flipped, square[0], np.zeros((0, 3, 3))):
            yield name, (x,), {}
    for name in ("det", "cofactors"):
        yield name, (np.array([[1.0, 2.0], [2.0, 4.0]]),), {}
    for name in ("pinv", "svd"):
        for x in (wide, tall, wide.T):
            yield name, (x,), {}
    for x in (tall, wide.T, square):
        yield "qr", (x,), {}
    for x in (positive, positive[0], positive.swapaxes(-1, -2)):
        yield "cholesky", (x,), dict(upper=False)
        yield "cholesky", (x,), dict(upper=True)
        yield "eigh", (x,), dict(UPLO="L")
        yield "eigh", (x,), dict(UPLO="U")
    for a, b in ((square, square[0]), (square[0], tall.swapaxes(-1, -2)), (flipped, _cube(2, 3, 0))):
        yield "solve", (a, b), {}
    for a, b in ((flipped, tall.swapaxes(-1, -2)), (wide[:, ::2], wide[::-1, :2]), (square, square[0, ::-1, 1])):
        yield "matmul", (a, b), {}


def _example(name, operands, keywords):
    row = BY_NAME[name]
    keywords = dict(keywords)
    integer = keywords.pop(row.dynamic) if row.dynamic else None
    return Example(row, tuple(operands), tuple(keywords.items()), integer)


def _recorded(name):
    """What the cases of a structural row record."""
    found, write = [], record._write

    def note(row, operands, values, metas, flags, attrs, value, integer, depth=3):
        if row.name == name:
            # An assignment goes on in the memory of its operand.
            kept = [np.array(v) if name in ("setitem", "put") and isinstance(v, np.ndarray) else v for v in values]
            found.append(Example(row, tuple(kept), tuple(attrs), integer if row.dynamic else None))
        return write(row, operands, values, metas, flags, attrs, value, integer, depth)

    record._write = note
    # While results are looked at, nothing takes the short way.
    thread_state().set_checking(SimpleNamespace(result=lambda *what: None))
    try:
        for function, operands, *_ in CASES[name]:
            function(*[wrap(o) for o in operands])
            if name != "astype":
                continue
            function(*[wrap(np.asarray(o, "f")) for o in operands])
    finally:
        record._write = write
        thread_state().set_checking(None)
    return found


#: Shapes of up to three operands that broadcast.
BROADCAST = [
    ((3, 1), (1, 4), (4,)), ((), (4,), (1,)), ((2, 3), (), ()), ((2, 1, 3), (4, 1), (3,)), ((3,), (0, 3), ()),
]  # fmt: skip


def elementwise_example(name, shapes, rng):
    """An example of an element-wise row whose operands have the shapes given (one too many is left out)."""
    row = BY_NAME[name]
    return Example(row, tuple(_operand(row, rng, shape, k) for k, shape in zip(range(row.arity), shapes)), (), None)


def _elementwise(name):
    row, rng = BY_NAME[name], generator(30)
    for shape in ((), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)):
        yield elementwise_example(name, [shape] * row.arity, rng)
    single, layouts = (elementwise_example(name, [shape] * row.arity, rng).operands for shape in ((5,), (4, 6)))
    for operands in (
        [o.astype("f") if o.dtype.kind == "f" else o for o in single],
        [o.T for o in layouts],
        [o[::-1, ::-2] for o in layouts],
    ):
        yield Example(row, tuple(operands), (), None)
    for shapes in BROADCAST if row.arity > 1 else ():
        yield elementwise_example(name, shapes, rng)


def _operand(row, rng, shape, k):
    value = np.asarray(drawn(rng, DOMAINS[row.name][k], shape, row.name))
    return float(value) if value.ndim == 0 and value.dtype.kind == "f" else value


@cache
def examples_of(name):
    """The examples of a row, each once.

    Parameters
    ----------
    name : str

    Returns
    -------
    tuple of Example
    """
    if BY_NAME[name].elementwise:
        return tuple(_elementwise(name))
    if name == "loop_results":
        examples_of("loop_pull")  # of the same loops: what these keep depends on whether a kernel has run them
    more = [_example(*given) for part in (_reductions, _moves, _matrices) for given in part() if given[0] == name]
    known = {}
    for example in _recorded(name) + more:
        arrays = [np.asarray(o) for o in example.operands]
        key = (example.attrs, example.integer, *((a.shape, a.strides, a.dtype.char, a.tobytes()) for a in arrays))
        known.setdefault(key, example)
    assert known, f"no case of {name} records that row"
    return tuple(known.values())


def free_phases(example):
    """Whether results are eigenvectors of complex Hermitian matrices: as real ones have a free sign, these have a free phase, which
    differences see.  What does not depend on it is in `tests.numpy_api.test_complex`.
    """
    return example.row.name == "complex_eig" and example.keywords["kind"] in ("L", "U")
