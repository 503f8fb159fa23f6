"""What each row says of its result without values (`Row.shape`) is what its value has."""

import numpy as np
import pytest

from tapegrad.array.record import normalise
from tapegrad.rules import BY_NAME
from tapegrad.rules.table import described
from tapegrad.tape.layout import Meta, meta_of
from tests.rules.examples_of_rows import examples_of

EFFECTS = {"elementwise", "view", "move", "write", "reduce", "scan", "product", "dense"}


def single(value):
    """In float32, if it is a float array."""
    return value.astype("f") if isinstance(value, np.ndarray) and value.dtype.char == "d" else value


def description_against_value(name):
    row = BY_NAME[name]
    assert row.effect in EFFECTS and (row.effect == "elementwise" or not row.elementwise)
    for example in examples_of(name):
        operands = [np.asarray(o) for o in example.operands]
        arrays = [meta_of(o) for o in operands]
        metas = [Meta((), (), "d", 8) if m.shape == () and m.char == "d" else m for m in arrays]
        assert row.shape(*metas, **example.keywords) == (example.value.shape, example.value.dtype.char), str(example)
        for change in (normalise, single):
            # As they are recorded: numbers of Python among them.
            recorded = [change(o) for o in operands]
            try:
                with np.errstate(all="ignore"):
                    value = np.asarray(row.value(*recorded, **example.keywords))
            except TypeError:
                assert change is single  # SciPy has no loop
                continue
            metas = tuple(meta_of(o) for o in recorded)
            assert described(row, example.attrs, metas, example.integer) == (value.shape, value.dtype.char), (change, str(example))


@pytest.mark.parametrize(
    "name, operands, attrs",
    [
        ("add", ((2,), (3,)), {}),
        ("sum", ((2, 3),), {"axis": 2}),
        ("sum", ((2, 3),), {"axis": (0, -2)}),
        ("cumsum", ((2, 3),), {"axis": -3}),
        ("reshape", ((2, 3),), {"shape": (7,)}),
        ("reshape", ((2, 3),), {"shape": (-2, -3)}),
        ("transpose", ((2, 3),), {"axes": (0, 0)}),
        ("getitem", ((5,),), {"shape": (3,), "strides": (2,), "offset": 1}),
        ("getitem", ((5,),), {"shape": (3,), "strides": (-1,), "offset": 1}),
        ("setitem", ((5,), (2,)), {"shape": (3,), "strides": (1,), "offset": 0}),
        ("place", ((3,),), {"shape": (2, 2), "strides": (2,), "offset": 0}),
        ("add_window", ((4,), (3,)), {"shape": (3,), "strides": (2,), "offset": 0}),
        ("concatenate", ((2, 3), (2, 4)), {"axis": 0}),
        ("stack", ((2,), (3,)), {"axis": 0}),
        ("matmul", ((2, 3), (2, 3)), {}),
        ("matmul", ((2, 3), ()), {}),
        ("solve", ((3, 3), (2, 3)), {}),
        ("inv", ((3, 2),), {}),
        ("qr", ((2, 3),), {}),
        ("diag", ((3,),), {"k": 1, "shape": (3, 3)}),
    ],
)
def test_what_does_not_fit_is_refused(name, operands, attrs):
    with pytest.raises(Exception, match=r"shape|axes|axis|window|broadcast|product|system|matrix|arrays|diagonal"):
        BY_NAME[name].shape(*(meta_of(np.ones(shape) if shape else 1.0) for shape in operands), **attrs)


def test_positions_are_integers():
    with pytest.raises(Exception, match="positions"):
        BY_NAME["gather"].shape(meta_of(np.ones(3)), meta_of(np.zeros(2)), shape=(2,))
