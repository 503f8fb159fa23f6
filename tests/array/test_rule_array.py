"""The rules' language on tensors: every VJP, run on tensors, gives what it gives on arrays, and can be differentiated."""

import ast
import inspect

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.recorded import Recorded
from tapegrad.array.series import Series
from tapegrad.interpreter import rule_array
from tapegrad.interpreter.planner import STEPS, Sym
from tapegrad.interpreter.rule_array import RuleArray, Scattered, Windowed
from tapegrad.kernel.terms import Term
from tapegrad.rules import BY_NAME
from tests.array.dual.test_every_row import ran, usable
from tests.rules.checker import generator

#: Of the language, what each store does in its own way; all else is written once, in `RuleArray`.
OWN = {
    Recorded: {"ndim", "lanes", "recorded", "plain", "constant", "cast"},
    Series: {"recorded", "constant", "cast"},
    Term: {"constant", "cast", "own"},
    Sym: {"constant", "cast", "own", "svd", "assemble", "zeroed", "zeroed_at"},
}
#: Rows that only the operations call which the planner has its own for, or that only a recording asks for.
UNPLANNED = {"svd", "setitem", "stack"}


@pytest.mark.parametrize("store", OWN)
def test_the_language_is_written_once(store):
    assert issubclass(store, RuleArray)
    assert {name for name in vars(RuleArray) if not name.startswith("_")} & set(vars(store)) == OWN[store]
    assert "__matmul__" not in vars(store)


def test_every_row_of_the_language_is_a_step_of_the_planner():
    calls = [n for n in ast.walk(ast.parse(inspect.getsource(rule_array))) if isinstance(n, ast.Call)]
    named = {call.args[0] for call in calls if getattr(call.func, "attr", "") in ("_call", "_window", "_matrices") and call.args}
    rows = {c.value for node in named for c in ast.walk(node) if isinstance(c, ast.Constant)}
    rows = {name for name in rows if name in BY_NAME and not BY_NAME[name].elementwise}
    rows |= {*rule_array.REDUCTIONS.values(), "matmul", "absolute_matmul"}
    # Rules of loops call these rows by name.
    assert (rows - UNPLANNED) | {"loop", "loop_results", "loop_pull"} == set(STEPS) | {"fourier"}  # NumPy computes it


def vjp_on_tensors(name):
    rng = generator(50)
    for example, slots in usable(name):
        row = example.row
        leaves = {k: tg.tensor(example.operands[k], requires_grad=True) for k in slots}
        with np.errstate(all="ignore"):
            result = ran(example, slots, leaves.values())
            g = rng.standard_normal(np.shape(example.value))
            seed = tg.tensor(g, requires_grad=True)
            plain = [Recorded(o) for o in example.operands]
            lifted = [Recorded(leaves.get(k, o)) for k, o in enumerate(example.operands)]
            expected = row.contributions(Recorded(g), plain, Recorded(example.value), slots, example.keywords)
            found = row.contributions(Recorded(seed), lifted, Recorded(result), slots, example.keywords)
        for e, f in zip(expected, found, strict=True):
            assert (e is None) == (f is None)
            parts = [(e, f)] if not isinstance(e, tuple) else zip(e, f, strict=True)
            for one, other in parts if e is not None else ():
                # What depends on the adjoint depends on it as a tensor.
                one, other = (c.joined(None, c.source) if isinstance(c, (Windowed, Scattered)) else c for c in (one, other))
                assert isinstance(other.a, tg.Tensor) and other.a.requires_grad
                np.testing.assert_allclose(other.a.numpy(), one.a, rtol=1e-11, atol=1e-12, err_msg=str(example))


@pytest.mark.parametrize("x, y", [((4,), (4, 3)), ((2, 4), (4, 3)), ((3, 4), (4,)), ((3, 4), (4, 1)), ((3, 4), (4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2)), ((2, 3, 4), (4, 2))])
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_products_of_lanes(x, y, which):
    """Each lane's product is what it is alone."""
    rng = generator(51)
    given = [rng.standard_normal((5, *shape) if laned else shape) for shape, laned in zip((x, y), which)]
    found = Recorded(given[0], 5 if which[0] else None) @ Recorded(given[1], 5 if which[1] else None)
    for j in range(5):
        one, other = [a[j] if laned else a for a, laned in zip(given, which)]
        np.testing.assert_allclose(found.a[j], one @ other, rtol=1e-13, atol=1e-13)
