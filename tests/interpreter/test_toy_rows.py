"""The core with two toy primitives: tape, planner and walk know nothing of the real rules."""


import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules import table


@pytest.fixture
def toys(monkeypatch, tmp_path):
    """A table of two rows, and the scalar switch made from it."""
    from tapegrad.codegen import code, row_modules
    from tapegrad.interpreter import native

    rows = []
    monkeypatch.setattr(table, "ROWS", rows)
    monkeypatch.setattr(table, "BY_NAME", {})
    monkeypatch.setattr(table, "BY_FUNCTION", {})
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    cube = table.elementwise(
        "cube", lambda x: x * x * x, lambda x: x * x * x, (lambda x, z: 3.0 * x * x,),
        scalar=lambda x: x * x * x, node="Cube", doc="x ** 3",
    )  # fmt: skip
    mix = table.elementwise(
        "mix", lambda x, y: 5.0 * x + y * y, lambda x, y: 5.0 * x + y * y, (lambda x, y, z: 5.0, lambda x, y, z: y + y),
        scalar=lambda x, y: 5.0 * x + y * y, node="Mix", doc="5 x + y ** 2",
    )  # fmt: skip
    (switch,) = code.machine_code("toys", lambda: str(row_modules.switch_module("reverse", False)), ["reverse"])
    monkeypatch.setattr(native, "reverse_switch", lambda special: switch)
    return cube, mix


def test_two_toy_rows_on_scalars(toys):
    cube, mix = toys
    x, y = (tg.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    with tg.Tape() as tape:
        a = apply(cube, (x,))
        b = apply(mix, (a, y))
        c = apply(mix, (b, a))
        assert [i.row.name for i in tape.instructions] == ["cube", "mix", "mix"]
        assert c.item() == 5 * (5 * 8 + 9) + 64
        c.backward()
    # c = 5 (5 x^3 + y^2) + x^6
    assert x.grad.item() == 25 * 12 + 6 * 32
    assert y.grad.item() == 5 * 6
    assert a.grad_fn.name() == "CubeBackward0"


def test_two_toy_rows_on_arrays(toys):
    cube, mix = toys
    x = tg.tensor([1.0, 2.0, -3.0], requires_grad=True)
    y = tg.tensor([[2.0], [5.0]], requires_grad=True)
    z = apply(mix, (apply(cube, (x,)), y))  # broadcast
    seed = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    z.backward(seed)
    v = np.array([1.0, 2.0, -3.0])
    assert x.grad.tolist() == (15 * v * v * seed.sum(axis=0)).tolist()
    assert y.grad.tolist() == (2 * np.array([[2.0], [5.0]]) * seed.sum(axis=1, keepdims=True)).tolist()


def test_a_toy_row_that_moves_data(toys):
    twist = table.structural(
        "twist", 1, lambda x: np.flip(x, 0).T, lambda g, x, z: (g.transpose((1, 0)).flip((0,)),),
        node="Twist", doc="flipped and transposed", shape=lambda x: (x.shape[::-1], x.char), effect="move",
    )  # fmt: skip
    x = tg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    seed = np.arange(6.0).reshape(3, 2)
    apply(twist, (x,)).backward(seed)
    assert x.grad.tolist() == np.flip(seed.T, 0).tolist()
