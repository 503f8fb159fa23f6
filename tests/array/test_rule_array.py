"""The rules' language on tensors: every VJP, run on tensors, gives what it gives on arrays, and can be differentiated."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.recorded import Recorded
from tapegrad.interpreter.contributions import Scattered, Windowed
from tapegrad.interpreter.symbolic import Sym
from tapegrad.rules import ROWS
from tests.array.dual.test_every_row import ran, usable
from tests.rules.checker import generator


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")} | {"__matmul__", "_apply"}


#: What is asked of arrays by rules is offered by the planner too, but for what each of the two is made of.
OWN = {"lanes", "lead", "plain", "recorded", "a", "aligned", "laned", "as_adjoint", "as_tangent", "cast", "value", "cofactors"}
OF_PLANS = {"plan", "char", "expr", "atom", "window", "product"}


def test_the_language_is_the_planners():
    assert public(Recorded) - OWN == public(Sym) - OF_PLANS


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_vjp_on_tensors(name):
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
