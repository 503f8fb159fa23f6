"""The JVP of every row: against differences, as the transpose of the VJP, and what it reads."""

import itertools

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from tapegrad.array.record import normalise
from tapegrad.array.recorded import Recorded
from tapegrad.interpreter import program as P
from tapegrad.interpreter.plan import Steps
from tapegrad.interpreter.planner import Atom
from tapegrad.interpreter.rule_array import accumulated
from tapegrad.interpreter.signature import Signature
from tapegrad.rules import BY_NAME, ROWS
from tapegrad.tape.layout import c_strides, meta_of
from tests.rules.checker import generator
from tests.rules.examples_of_rows import DIFFERENTIABLE, Example, elementwise_example, examples_of, free_phases

#: Rows of symmetric matrices: they read one triangle, their derivative is along symmetric changes.
SYMMETRIC = ("cholesky", "eigh")


def choices(example):
    """Sets of operands that may have tangents: all subsets, or a few where there are many."""
    kinds = [np.asarray(o).dtype.kind for o in example.operands]
    slots = [k for k in example.row.slots(len(kinds)) if kinds[k] == "f"]
    if len(slots) > 3:
        return [tuple(slots), tuple(slots[::3]), slots[:1], slots[-1:]]
    return [c for n in range(1, len(slots) + 1) for c in itertools.combinations(slots, n)]


def tangents_of(example, chosen, seed=0):
    """A random tangent for each of the chosen operands, else None; one entry per slot."""
    rng = generator(seed)
    found = []
    for k in example.row.slots(len(example.operands)):
        x = np.asarray(example.operands[k])
        found.append(rng.standard_normal(x.shape).astype(x.dtype) if k in chosen else None)
    return found


def eager(example, tangents):
    """The tangent of the result, by the rule on arrays."""
    row, value = example.row, example.value
    operands = [Recorded(o) for o in example.operands]
    given = [None if t is None else Recorded(t) for t in tangents]
    found = row.tangent(given, operands, Recorded(value), example.keywords)
    return np.zeros(value.shape) if found is None else np.broadcast_to(found.a, value.shape)


def single(*things):
    return any(np.asarray(x).dtype.char == "f" for x in things)


def differences(example, tangents):
    """Central differences of the value, in float64."""
    row = example.row
    slots = row.slots(len(example.operands))
    wide = [np.asarray(o, "d") if np.asarray(o).dtype.kind == "f" else np.asarray(o) for o in example.operands]

    def value(step):
        moved = list(wide)
        for k, t in zip(slots, tangents):
            if t is not None:
                way = (t + np.swapaxes(t, -1, -2)) / 2 if row.name in SYMMETRIC else t
                moved[k] = wide[k] + step * way
        with np.errstate(all="ignore"):
            return np.asarray(row.value(*moved, **example.keywords))

    if not any(t is not None and t.size for t in tangents):
        return np.zeros(value(0.0).shape)  # there is nowhere to go
    step = 1e-2 if value(0.0).dtype.char == "f" else 1e-5
    return (value(step).astype("d") - value(-step)) / (2 * step)


def test_every_row_has_both_modes_and_a_line_of_documentation():
    assert not [row.name for row in ROWS if not row.doc.strip() or "\n" in row.doc]
    assert not [row.name for row in DIFFERENTIABLE if not (row.partials if row.elementwise else callable(row.vjp) and callable(row.jvp))]


def compare_with_differences(example):
    """Compare for every set of operands; returns how many numbers were compared."""
    compared = 0
    for chosen in choices(example):
        tangents = tangents_of(example, chosen)
        found, expected = eager(example, tangents), differences(example, tangents)
        assert found.shape == expected.shape, str(example)
        scale = 1.0 + np.max(np.abs(found), initial=0.0, where=np.isfinite(found))
        tolerance = 2e-3 if single(*example.operands, example.value) else 2e-6
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale, err_msg=str(example))
        compared += found.size
    return compared


def compare_with_vjp(example):
    """The dot-product identity, for every set of operands."""
    row, value = example.row, example.value
    operands = [Recorded(o) for o in example.operands]
    weights = np.asarray(generator(1).standard_normal(value.shape), value.dtype)
    for chosen in choices(example):
        tangents = tangents_of(example, chosen, 2)
        forward = np.sum(weights * eager(example, tangents), dtype="d")
        backward = 0.0
        adjoints = row.contributions(Recorded(weights), operands, Recorded(value), chosen, example.keywords)
        for t, found in zip(tangents, adjoints):
            for part in found if isinstance(found, tuple) else (found,):
                if part is not None and t is not None:
                    backward += np.sum(accumulated(None, part, meta_of(t)).a * t, dtype="d")
        tolerance = 1e-4 if single(*example.operands, value) else 1e-10
        scale = 1.0 + np.nan_to_num(abs(forward)) + value.size
        np.testing.assert_allclose(forward, backward, rtol=0, atol=tolerance * scale, err_msg=str(example))


def tangents_against_differences(name):
    assert sum(compare_with_differences(example) for example in examples_of(name) if not free_phases(example))


def jvp_against_vjp(name):
    for example in examples_of(name):
        compare_with_vjp(example)


few = settings(max_examples=5, deadline=None, derandomize=True, database=None)


@few
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3, min_side=0))
def elementwise_of_drawn_shapes(name, drawn):
    example = elementwise_example(name, drawn.input_shapes, generator(31))
    compare_with_differences(example)
    compare_with_vjp(example)


@few
@given(st.data())
def test_reductions_of_drawn_shapes(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=3))
    axis, keepdims = data.draw(st.none() | hnp.valid_tuple_axes(len(shape))), data.draw(st.booleans())
    keywords = (("axis", axis), ("keepdims", keepdims))
    for name in ("sum", "mean", "prod", "var", "std", "norm", "logsumexp", "max", "min"):
        example = Example(BY_NAME[name], (generator(32).uniform(0.5, 2.0, shape),), keywords, None)
        compare_with_vjp(example)
        if name != "std" or example.value.min() > 1e-3:  # differences fail near its kink
            compare_with_differences(example)


@few
@given(hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, max_side=3))
def test_products_of_drawn_shapes(drawn):
    operands = tuple(generator(33).uniform(-1.0, 1.0, shape) for shape in drawn.input_shapes)
    example = Example(BY_NAME["matmul"], operands, (), None)
    compare_with_differences(example)
    compare_with_vjp(example)


def test_no_tangent_is_zero():
    for row in DIFFERENTIABLE:
        example = examples_of(row.name)[0]
        found = row.tangent(tangents_of(example, ()), example.operands, example.value, example.keywords)
        assert found is None


# ---- traced: what it reads -----------------------------------------------------------------


def described(example):
    return tuple(meta_of(normalise(np.asarray(o))) for o in example.operands), meta_of(normalise(example.value))


class TangentPlanner(Steps):
    """Plans a JVP: the tangents of the operands are C-contiguous, and in registers of their own, which are filled before it runs."""

    def __init__(self, metas, out):
        super().__init__(metas, out)
        self.tangents = {}

    def tangent(self, k):
        meta = self.metas[k]
        self.tangents[k] = reg = self.register()
        return self.sym(Atom(reg, 0, meta.shape, c_strides(meta.shape, meta.itemsize), meta.char))


def planned(example, chosen):
    """The plan of a JVP that writes the tangent of the result to register 0; None if it is zero."""
    row = example.row
    metas, out = described(example)
    planner = TangentPlanner(metas, out)
    operands = [planner.operand(k) for k in range(len(metas))]
    attrs = dict(example.attrs)
    if row.dynamic:
        attrs[row.dynamic] = Steps.DYNAMIC
    tangents = [planner.tangent(k) if k in chosen else None for k in row.slots(len(metas))]
    found = row.tangent(tangents, operands, planner.operand(-1), attrs)
    if found is None:
        return None
    whole = found.broadcast_to(out.shape)
    planner.loop([whole.expr], [planner.seed().atom], out.shape, [None])
    planner.step(P.END)
    return planner


def jvp_reads_no_value_that_the_vjp_does_not_read(name):
    traced = 0
    for example in examples_of(name):
        row = example.row
        metas, out = described(example)
        for chosen in choices(example):
            planner = planned(example, chosen)
            if planner is None:
                continue
            mask = tuple(k in chosen for k in row.slots(len(metas)))
            signature = Signature((row, example.attrs, metas, mask, out))
            assert set(planner.saved) <= set(signature.saves), (str(example), chosen)
            traced += 1
    assert traced or all(p(*"xyz"[: row.arity], "r") == 0.0 for p in row.partials if p), name


# ---- conventions ----------------------------------------------------------------------------


def along(name, operands, tangents, **attrs):
    """The tangent of one row, by hand."""
    row = BY_NAME[name]
    given = [None if t is None else Recorded(np.asarray(t, float)) for t in tangents]
    arrays = [np.asarray(o, float) for o in operands]
    with np.errstate(all="ignore"):
        value = row.value(*arrays, **attrs)
    return row.tangent(given, [Recorded(a) for a in arrays], Recorded(value), attrs).a


def test_three_way_ties_share_evenly():
    for name in ("max", "min"):
        assert along(name, [[2.0, 2.0, 2.0]], [[1.0, 2.0, 6.0]]) == 3.0


def test_a_kink_at_zero_has_derivative_zero():
    assert along("norm", [[0.0, 0.0]], [[1.0, 2.0]]) == 0.0
    assert along("std", [[3.0, 3.0]], [[1.0, 2.0]]) == 0.0
    assert along("sqrt", [0.0], [0.0]) == 0.0


def test_zero_is_absolute():
    # The partial derivatives of what has no tangent are infinite or NaN.
    assert along("prod", [[2.0, np.inf]], [[0.0, 1.0]]) == 2.0
    assert along("logsumexp", [[1.0, np.nan]], [[0.0, 0.0]]) == 0.0
    assert along("var", [[1.0, np.inf]], [[0.0, 0.0]]) == 0.0
    assert along("multiply", [np.inf, 2.0], [3.0, 0.0]) == 6.0
    assert along("log", [[0.0, 2.0]], [[0.0, 1.0]]).tolist() == [0.0, 0.5]


def test_repeated_eigenvalues_and_singular_values_leave_out_their_terms():
    way = generator(4).standard_normal((3, 3))
    packed = along("eigh", [np.eye(3)], [way], UPLO="L")
    np.testing.assert_allclose(packed[0], np.diag(way), rtol=1e-14)
    assert not packed[1:].any()
    u, s, v = np.split(along("svd", [np.eye(3)], [way]), [3, 4])
    assert np.isfinite(u).all() and np.isfinite(v).all()
    np.testing.assert_allclose(s[0], np.diag(way), rtol=1e-14)
