"""Compiled derivatives are kept on disk, and found by all that they were made of."""

import functools
import json
import math
import os
import subprocess
import sys
import textwrap
import types as python_types
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common import config
from tapegrad.nopython import key, request

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def what_other_tests_told_is_not_seen(monkeypatch):
    """Rows, and meanings for Numba, that tests before these have added: with them nothing has a key."""
    said = key.registered_by_others
    told = said()
    parts = lambda row: [part for each in vars(row).values() for part in (each if isinstance(each, tuple) else (each,))]  # noqa: E731
    monkeypatch.setattr(key, "ROWS", [row for row in key.ROWS if all(map(key.is_own, parts(row)))])
    monkeypatch.setattr(key, "registered_by_others", lambda: [each for each in said() if each not in told])


#: Derivatives of functions that read a global, cells, an attribute of a module and a default, and call others, some under `njit`; all beside
#: what recordings give.  Says for each what was compiled and loaded, and what came out.
PROGRAM = """
import json, math, sys
import numba, numpy as np, tapegrad as tg, tapegrad.scipy.special
import constants
from tapegrad.nopython import request

rate, captured, dtype = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]

def inner(x):
    return x * x

def helper(x):
    return inner(x) * rate

@numba.njit(cache=True, no_cpython_wrapper=True)
def within(n):
    return max(n, 0)

@numba.njit(cache=True)
def place(n):
    if n > 9:
        raise ValueError("past", n)
    return n

def as_it_is(x, n):
    return x * place(n) * within(n) * rate

def made(scale, helper, lgamma):
    def f(x):
        s = 0.0
        for i in range(len(x)):
            s += helper(x[i]) * scale + lgamma(x[i] + 2.0)
        return s * constants.FACTOR
    return f

def added(x):
    s = 0.0
    for i in numba.prange(len(x)):
        s += np.sin(x[i]) * inner(x[i]) * rate
    return s

def rows(x, w=2.0):
    return inner(x) * w

def of_rows(x):
    return rows(x).sum()

def raising(x):
    if x[0] > 9.0:
        raise ValueError("too large")
    return x[0] * x[1] * rate

def system(x):
    return np.linalg.solve(np.eye(3) + np.outer(x, x), x).sum()

def product(x):
    return (np.outer(x, x) @ x).sum()

x, v = np.array([0.5, 1.0, 2.0], dtype), np.array([1.0, -1.0, 0.5], dtype)
f, plain, threads = made(captured, numba.njit(helper), math.lgamma), made(captured, helper, tg.scipy.special.gammaln), numba.njit(parallel=True)(added)
cases = {
    "reverse": (tg.njit_value_and_grad(f, mode="reverse"), lambda: tg.value_and_grad(plain)(x), (x,)),
    "forward": (tg.njit_value_and_grad(f, mode="forward"), lambda: tg.value_and_grad(plain)(x), (x,)),
    "number": (tg.njit_derivative(helper), lambda: tg.grad(helper)(0.5), (0.5,)),
    "as_it_is": (tg.njit_derivative(as_it_is), lambda: 16.0 * rate, (0.5, 4)),
    "threads": (tg.njit_value_and_grad(threads), lambda: tg.value_and_grad(added)(x), (x,)),
    "jacobian": (tg.njit_jacobian(rows), lambda: tg.jacobian(rows)(x), (x,)),
    "rows": (tg.njit_jacobian(rows, mode="reverse"), lambda: tg.jacobian(rows)(x), (x,)),
    "jvp": (tg.njit_jvp(rows), lambda: tg.jvp(rows, (x,), (v,)), (x, 2.0, v)),
    "vjp": (tg.njit_vjp(rows), lambda: (rows(x), tg.grad(lambda x: (rows(x) * v).sum())(x)), (x, 2.0, v)),
    "hessian": (tg.njit_hessian(added), lambda: tg.hessian(added)(x), (x,)),
    "hvp": (tg.njit_hvp(of_rows), lambda: tg.hvp(of_rows)(x, v), (x, v)),
    "raising": (tg.njit_grad(raising), lambda: tg.grad(raising)(x), (x,)),
    "solve": (tg.njit_grad(system), lambda: tg.grad(system)(x), (x,)),
    "product": (tg.njit_grad(product), lambda: tg.grad(product)(x), (x,)),
}
said = {}
for name in sys.argv[4].split(",") if len(sys.argv) > 4 else cases:
    njit, expected, given = cases[name]
    before = dict(request.COUNTS)
    both = [np.concatenate([np.ravel(part) for part in (each if isinstance(each, tuple) else (each,))]) for each in (njit(*given), expected())]
    said[name] = [request.COUNTS["compiled"] - before["compiled"], request.COUNTS["loaded"] - before["loaded"], both[0].tolist()]
    np.testing.assert_allclose(*both, rtol=1e-4 if dtype == "float32" else 1e-12, err_msg=name)
    if name == "raising":
        try:
            njit(x * 30.0)
        except ValueError as error:
            assert str(error) == "too large"
        else:
            raise AssertionError("nothing was raised")
    if name == "reverse":
        assert next(iter(njit.modes().values()))["mode"] == "reverse"
    if name == "as_it_is":  # Python finds what was compiled for that, or what Numba has kept of it
        assert place(5) == 5 and len(place.overloads) == 1
        assert not said[name][0] or len(place.stats.cache_hits) == len(within.stats.cache_hits)
        try:
            place(11)
        except ValueError as error:
            assert error.args == ("past", 11)
    if name == "product":  # what Numba compiles later is its own, not what it finds in there
        assert np.isclose(numba.njit(product)(x), product(x))
print(json.dumps(said))
"""


class Programs:
    """`PROGRAM` and its module in a folder, and what runs of them have said."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        # What tapegrad compiles of its own is there already, if it is elsewhere.
        for code in (config.cache_dir() / "objects").glob("*/*.o"):
            there = self.cache / "objects" / code.parent.name
            there.mkdir(parents=True, exist_ok=True)
            os.link(code, there / code.name)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "constants.py").write_text("FACTOR = 1.5\n")

    def run(self, rate="2.0", captured="3.0", dtype="float64", wanted=(), **environment):
        paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}", "TAPEGRAD_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, self.folder / "program.py", rate, captured, dtype, *([",".join(wanted)] if wanted else [])]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **paths, **environment})
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        return {name: each[:2] for name, each in said.items()}, {name: each[2] for name, each in said.items()}

    def edit(self, name, old, new):
        path = self.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("kept"))


COMPILED, LOADED = [1, 0], [0, 1]


def test_the_second_process_compiles_nothing_and_a_changed_program_what_has_changed(programs):
    counts, first = programs.run()
    assert all(each == COMPILED for each in counts.values()), counts
    counts, second = programs.run()
    assert all(each == LOADED for each in counts.values()) and second == first, counts

    def compiled(*wanted, **changed):
        counts, _ = programs.run(wanted=wanted, **changed)
        assert all(each in (COMPILED, LOADED) for each in counts.values())
        return {name for name, each in counts.items() if each == COMPILED}

    # (What comes out is compared with recordings by the program.)  Each time something is wanted that does not depend on what has changed;
    # where two things have, they concern different functions.
    assert compiled("forward", "number", "as_it_is", "rows", rate="2.5") == {"forward", "number", "as_it_is"}
    programs.edit("program.py", "w=2.0", "w=4.0")
    assert compiled("reverse", "number", "rows", captured="3.5") == {"reverse", "rows"}
    assert compiled("number", "rows", dtype="float32") == {"rows"}
    programs.edit("constants.py", "1.5", "1.25")
    assert compiled("forward", "number", "rows") == {"forward"}
    programs.edit("program.py", "return x * x\n", "return x * x * x\n")
    wanted = ("reverse", "number", "rows", "solve")
    assert compiled(*wanted) == {"reverse", "number", "rows"}
    assert compiled(*wanted) == set()


def test_code_on_disk_that_is_not_whole_is_made_again(programs):
    wanted = ("raising",)
    if not [*programs.cache.rglob("*.njit")]:
        programs.run(wanted=wanted)
    for path in programs.cache.rglob("*.njit"):
        data = path.read_bytes()
        path.write_bytes(data[:-10] + bytes(10))
    assert programs.run(wanted=wanted)[0]["raising"] == COMPILED
    assert programs.run(wanted=wanted)[0]["raising"] == LOADED


# ---- in one process ------------------------------------------------------------------------------
@pytest.fixture
def kept_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    assert config.cache_dir() == tmp_path
    return lambda: len([*tmp_path.rglob("*.njit")])


def counted(call):
    before = dict(request.COUNTS)
    return call(), [request.COUNTS[name] - before[name] for name in before]


def module_of(text, **names):
    """A module's functions."""
    module = python_types.ModuleType("made_by_a_test")
    vars(module).update(numba=numba, np=np, **names)
    sys.modules["made_by_a_test"] = module
    exec(compile(textwrap.dedent(text), "made_by_a_test.py", "exec"), vars(module))
    return module


def test_a_function_made_again_shares_compiled_code(kept_here):
    def made(scale):
        return lambda x: x[0] * x[1] * scale

    def gradient(scale):
        return counted(lambda: tg.njit_grad(made(scale))(np.array([2.0, 3.0])).tolist())

    assert gradient(2.0) == ([6.0, 4.0], COMPILED)
    assert gradient(2.0) == ([6.0, 4.0], [0, 0])
    assert gradient(3.0) == ([9.0, 6.0], COMPILED)

    @numba.njit
    def caller(x, g):
        return g(x)

    first, second = tg.njit_grad(made(2.0)), tg.njit_grad(made(2.0))
    x = np.array([2.0, 3.0])
    assert np.array_equal(caller(x, first), caller(x, second))
    del first
    assert np.array_equal(caller(x, second), [6.0, 4.0])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_changed_global_reaches_helpers_that_were_compiled_before(kept_here, mode):
    module = module_of("""
        def inner(x): return x * x * C
        @numba.njit
        def helper(x): return inner(x)
        def f(x): return helper(x[0]) * 1.0
    """, C=1.0)
    x = np.array([3.0])
    assert counted(lambda: tg.njit_grad(module.f, mode=mode)(x).tolist()) == ([6.0], COMPILED)
    module.C = 2.0
    assert counted(lambda: tg.njit_grad(module.f, mode=mode)(x).tolist()) == ([12.0], COMPILED)
    assert kept_here() == 2
    # What is on disk is what the globals were.
    request._COMPILED.clear()
    assert counted(lambda: tg.njit_grad(module.f, mode=mode)(x).tolist()) == ([12.0], LOADED)
    module.C = 1.0
    assert counted(lambda: tg.njit_grad(module.f, mode=mode)(x).tolist()) == ([6.0], LOADED)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_functions_of_the_users_modules_are_those_of_now(kept_here, mode):
    tools = module_of("""
        import math
        C = 2.0
        @numba.njit
        def step(x): return math.sin(x) * C
        @numba.njit
        def power(x, n): return x if n == 0 else power(x, n - 1) * step(x)
        def plain(x): return power(x, 1) + x
    """)
    outer = module_of("def f(x): return tools.step(x[0]) + np.sum(np.array([tools.plain(v) for v in x])) * tools.power(x[1], 1)", tools=tools)

    def expected(x, step):
        return step(x[0]) + np.sum(x * step(x) + x) * x[1] * step(x[1])

    x, square = np.array([0.5, 1.5]), numba.njit(lambda x: x * x)
    for change, function, factor in ({}, np.sin, 2.0), ({"C": 3.0}, np.sin, 3.0), ({"step": square}, np.square, 1.0):
        vars(tools).update(change)
        found, counts = counted(lambda: tg.njit_grad(outer.f, mode=mode)(x))
        assert counts == COMPILED
        assert np.allclose(found, tg.grad(lambda x: expected(x, lambda v: factor * function(v)))(x), rtol=1e-13)  # noqa: B023


def test_code_with_a_function_that_was_compiled_earlier_is_not_kept(kept_here):
    module = module_of("""
        @numba.njit
        def deep(n): return n * C
        @numba.njit
        def helper(n): return deep(n)
        def f(x, n): return x * helper(n)
    """, C=2.0)
    assert tg.njit_derivative(module.f)(1.0, 3.0) == 6.0 and kept_here() == 1
    module.C = 5.0
    # Numba has frozen the global in `helper`, which is called as it is.
    assert tg.njit_derivative(module.f)(1.0, 3.0) == 6.0 and kept_here() == 1
    inner = tg.njit_grad(lambda a: a * a)
    assert inner(3.0) == 6.0 and kept_here() == 2
    outer = tg.njit_grad(lambda x: x[0] * inner(2.0))
    assert outer(np.ones(1)).tolist() == [4.0] and kept_here() == 2


def test_what_has_no_key_is_compiled_in_each_process(kept_here):
    @numba.vectorize
    def squared(a):
        return a * a

    functions = {"fine": lambda x: x[0] * x[1], "vectorized": lambda x: squared(x).sum(), "pair": lambda x, pair=(math.sin, numba.njit(lambda: 0)): x[0]}
    for name, f in functions.items():
        found, _ = key.digest(f, (numba.float64[::1],))
        assert (found is not None) == (name == "fine"), name
    x = np.array([2.0, 3.0])
    assert tg.njit_grad(functions["vectorized"], mode="forward")(x).tolist() == [4.0, 6.0] and not kept_here()
    assert tg.njit_grad(functions["fine"])(x).tolist() == [3.0, 2.0] and kept_here() == 1


def test_a_slice_of_another_shape_is_refused_as_numba_does(kept_here):
    def f(x, n):
        y = np.zeros(3)
        y[:n] = x * x
        return y.sum()

    x = np.array([1.0, 2.0])
    for mode in ("forward", "reverse"):
        gradient = tg.njit_grad(f, mode=mode)
        assert gradient(x, 2).tolist() == [2.0, 4.0]
        with pytest.raises(ValueError, match="cannot assign slice"):
            gradient(x, 3)
    with pytest.raises(ValueError, match=r"cannot assign slice of shape \(3,\) from input of shape \(2,\)"):
        numba.njit(f)(x, 3)


# ---- keys ------------------------------------------------------------------------------------------
Named = namedtuple("Named", "a b")


class Own:
    value = 1.0
    derivative = __module__ = 5


def test_keys_differ_where_what_is_read_differs():
    def made(value, default=1.0):
        def f(x, y=default):
            return x * value
        return f

    values = [
        1, 1.0, True, -0.0, 0.0, np.float64(1.0), np.float32(1.0), np.ones(2), np.ones(2, "f"), np.ones((2, 1)), np.asfortranarray(np.ones((2, 2))),
        np.ones((2, 2)), (1, 2), (1, 2.0), "1", b"1", None, math.sin, np.sin, math, np, np.linalg, Named, numba.float64, numba.float32, sum,
        lambda x: x, lambda x: x + 1, numba.njit(lambda x: x), numba.njit(fastmath=True)(lambda x: x), numba.njit(boundscheck=True)(lambda x: x),
        tg.njit_grad(lambda x: x), tg.njit_grad(lambda x: x, mode="reverse"), ValueError, np.random.normal, np.dtype("f8"),
    ]  # fmt: skip
    keys = [key.content(made(value)) for value in values]
    assert [value for value, each in zip(values, keys) if each is None] == []
    assert [(values[keys.index(each)], value) for each, value in zip(keys, values) if keys.count(each) > 1] == []
    assert keys == [key.content(made(value)) for value in values]
    assert key.content(made(1.0, 2.0)) not in keys
    for value in (Own, Own(), object(), {1.0: object()}, np.array([None]), np.zeros(1, [("a", "f8")]), (lambda: 0,), functools.partial(math.sin)):
        assert key.content(made(value)) is None, value
    types = [
        numba.float64[::1], numba.float64[:], numba.float64[::1, :], numba.float32[::1], numba.float64, numba.int64, numba.types.Omitted(1.0), numba.boolean,
        numba.types.Omitted(2.0), numba.typeof((1.0, 2)), numba.typeof(Named(1.0, 2.0)), numba.types.Array(numba.float64, 1, "C", readonly=True), numba.types.none,
        numba.types.Array(numba.float64, 1, "C", aligned=False), numba.types.literal(1), numba.types.literal(2), numba.types.unicode_type,
    ]  # fmt: skip
    keys = [key.digest((ty,))[0] for ty in types]
    assert None not in keys and len({*keys}) == len(keys)
    assert key.digest((numba.typeof(numba.njit(lambda: 0)),))[0] is None


def test_a_file_with_the_name_of_a_module_of_python_is_the_users(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "cmd", raising=False)
    keys = set()
    for factor in (2.0, 3.0):
        (tmp_path / "cmd.py").write_text(f"def helper(x):\n    return x * {factor}\n")
        monkeypatch.delitem(sys.modules, "cmd", raising=False)
        import cmd

        keys.add(key.content((lambda cmd: lambda x: cmd.helper(x))(cmd)))
    assert None not in keys and len(keys) == 2


def test_options_of_numba_are_in_the_key(monkeypatch):
    def meaning(x):
        return x

    before = key.digest(meaning)[0]
    assert before is not None
    for option in ("BOUNDSCHECK", "OPT"):
        with monkeypatch.context() as patch:
            patch.setattr(numba.config, option, 1)
            assert key.digest(meaning)[0] not in (None, before)
    assert key.digest(meaning)[0] == before


def test_what_users_tell_numba_is_in_the_key():
    def meaning(x):
        return x

    before = key.digest(meaning)[0]
    program = """
import numba, numpy as np
from tapegrad.nopython import key
def f(x): return x
first = key.digest(f)[0]
assert first == key.digest(f)[0]

@numba.extending.register_jitable
def mine(x): return x * 2
second = key.digest(f)[0]
assert second not in (None, first)

@numba.extending.overload(np.isin)
def other(x): return lambda x: x
third = key.digest(f)[0]
assert third not in (None, first, second)

@numba.extending.type_callable(mine)
def typed(context): return lambda x: x
assert key.digest(f)[0] is None
"""
    assert before is not None
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
