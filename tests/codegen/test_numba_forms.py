"""What is assumed of Numba's representation of a function and of what its compiler does with it; another version may do otherwise.

`codegen.numba_inside` has all that is taken from Numba.  Here each thing that is *known* of it is seen in code that Numba compiles, so that
a new version fails by name and not by a wrong derivative.
"""

import math
import re
import sys

import numpy as np
import pytest

import tapegrad as tg

numba = pytest.importorskip("numba")
from numba.core import types  # noqa: E402
from numba.core.runtime import rtsys  # noqa: E402
from numba.core.runtime._nrt_python import memsys_enable_stats  # noqa: E402

from tapegrad.codegen.numba_inside import Compiler, contents, ir, new_pass, nopython_passes  # noqa: E402
from tapegrad.nopython.reverse.threads import shown  # noqa: E402


def statements(function, *tys):
    """The statements of a function, and those that it inlines, after its types are found: as reverse mode is given them."""
    found = []

    def look(state):
        found.extend(s for block in state.func_ir.blocks.values() for s in block.body)
        return False

    looking = new_pass("look", look)

    class Looking(Compiler):
        def define_pipelines(self):
            return nopython_passes(self.state, new_pass("before", lambda state: False), looking)

    numba.njit(pipeline_class=Looking)(function).compile(tys)
    return found


@numba.njit(inline="always")
def helper(value, by=2.0):
    doubled = value * by
    return doubled


def program(x, n):
    total = 0.0
    for i in range(n):
        item = helper(x[i], by=3.0)
        pair = (item, -item)
        if item > 1.0:
            total += pair[0] * x.shape[0]
        else:
            total = math.sin(item)
        x[i] = total
    return total


#: What the expressions of a program are made of: operation -> names of its parts (`contents`).
PARTS = {
    "binop": {"fn", "lhs", "rhs", "static_lhs", "static_rhs"}, "inplace_binop": {"fn", "immutable_fn", "lhs", "rhs", "static_lhs", "static_rhs"}, "unary": {"fn", "value"},
    "call": {"func", "args", "kws", "vararg", "varkwarg", "target"}, "getattr": {"value", "attr"}, "getitem": {"value", "index", "fn"},
    "static_getitem": {"value", "index", "index_var", "fn"}, "build_tuple": {"items"}, "cast": {"value"}, "getiter": {"value"},
    "iternext": {"value"}, "pair_first": {"value"}, "pair_second": {"value"}, "phi": {"incoming_values", "incoming_blocks"},
}  # fmt: skip


def test_expressions_are_made_of_the_parts_that_are_rewritten():
    parts = {}
    for s in statements(program, types.float64[::1], types.int64):
        if isinstance(s, ir.Assign) and isinstance(s.value, ir.Expr):
            parts.setdefault(s.value.op, set()).update(contents(s.value))
    assert parts.keys() - PARTS.keys() == set()
    assert {op: found - PARTS[op] for op, found in parts.items() if found - PARTS[op]} == {}
    assert {"binop", "inplace_binop", "call", "getattr", "phi", "cast"} <= parts.keys()


def test_statements_are_of_the_kinds_that_are_read():
    kinds = {type(s) for s in statements(program, types.float64[::1], types.int64)}
    assert kinds <= {ir.Assign, ir.SetItem, ir.StaticSetItem, ir.Branch, ir.Jump, ir.Return, ir.Del}


def test_each_variable_is_assigned_once():
    names = [s.target.name for s in statements(program, types.float64[::1], types.int64) if isinstance(s, ir.Assign)]
    assert sorted(set(names)) == sorted(names)


def test_messages_name_variables_as_the_user_does():
    """Numba numbers the assignments of a variable, and marks those of a function that it inlines."""
    names = {s.target.name for s in statements(program, types.float64[::1], types.int64) if isinstance(s, ir.Assign)}
    named = {name for name in names if not re.search(r"\$|__v\d+", name)}  # others are values in between
    assert {shown(name) for name in named} == {"x", "n", "total", "i", "item", "pair", "value", "by", "doubled"}
    assert {shown(name) for name in names - named} == {"a value"}


# ---- counted references -----------------------------------------------------------------------
def overwritten(x):
    """Each array is overwritten by the next, and read on the way back: only the frames of the forward sweep hold it."""
    s, t = 0.0, x
    for _ in range(20):
        t = np.exp(t * 0.01)
        s += np.sum(t * t)
    return s


def test_arrays_that_only_a_frame_holds_live_until_the_way_back():
    """Numba drops pairs of incref and decref, and must not see through the frames of reverse mode."""
    gradient, forward = tg.njit_grad(overwritten, mode="reverse"), tg.njit_grad(overwritten, mode="forward")
    x = np.linspace(0.1, 2.0, 1000)
    expected = forward(x[:8])
    memsys_enable_stats()
    gradient(x), gradient(x[:8])
    before, references = rtsys.get_allocation_stats(), sys.getrefcount(x)
    for _ in range(20):
        # What were freed too early would be taken by the next array of this size.
        np.testing.assert_allclose(gradient(x[:8]), expected, rtol=1e-13)
        np.testing.assert_allclose(gradient(x)[:8], expected, rtol=1e-13)
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0
    assert (after.alloc - before.alloc, sys.getrefcount(x)) == (after.free - before.free, references)


def test_references_are_hidden_by_code_that_llvm_keeps_and_that_does_nothing():
    gradient = tg.njit_grad(overwritten, mode="reverse")

    @numba.njit
    def calling(x):
        return gradient(x)

    calling(np.ones(3))
    (text,) = calling.inspect_llvm().values()
    assert re.search(r'call \S+ asm "", "=r,0"', text)
    assert text.count("NRT_incref") > 1


def test_arenas_that_wait_are_bounded():
    """Of a function that is called on several threads at once each has an arena; they wait in a pool of fixed size."""
    gradient = tg.njit_grad(overwritten, mode="reverse")

    @numba.njit(parallel=True)
    def calling(x, out):
        for k in numba.prange(64):
            out[k] = gradient(x)[0]

    x, out = np.ones(100), np.zeros(64)
    calling(x, out)
    memsys_enable_stats()
    waiting = set()
    for _ in range(30):
        calling(x, out)
        stats = rtsys.get_allocation_stats()
        waiting.add(stats.alloc - stats.free)
    assert max(waiting) - min(waiting) <= 3 * numba.config.NUMBA_NUM_THREADS
    np.testing.assert_array_equal(out, gradient(x)[0])
