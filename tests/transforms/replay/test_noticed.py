"""Each row of the table of docs/functional.md is a program: what is noticed is recorded again, what is not stays as it was.

A program defines `f`; the lines after it are changes.  Each is made between two calls of ``tg.jit(tg.grad(f))``, and each
changes what `tg.grad(f)` gives, which runs `f`.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from benchmarks.plain_and_jit import NOTICED, OTHERS, STALE, UNNOTICED, defined
from tapegrad.common.errors import ClearedTapeError
from tapegrad.transforms.environment import ITEMS, SMALL
from tests.transforms.replay.agreement import quiet

PAGE = Path(__file__).parents[3] / "docs" / "functional.md"

#: Row -> programs, each with its changes.
CHANGES = {
    "the code of the function": (
        ("def f(x, *, k=2.0): return k * x", ["f.__code__ = (lambda x, *, k=2.0: k * x * x).__code__", "f.__kwdefaults__ = {'k': 3.0}"]),
        ("def f(x, k=2.0): return k * x", ["f.__defaults__ = (3.0,)"]),
        ("f = functools.partial(lambda k, x: k[0] * x, [2.0])", ["f.args[0][0] = 3.0", "f.__setstate__((f.func, ([4.0],), {}, None))"]),
        ("f = functools.partial(lambda x, k: k * x, k=2.0)", ["f.keywords['k'] = 3.0"]),
    ),
    "globals, closure cells and defaults that its code names": (
        ("k = 2.0\ndef f(x): return k * x", ["k = 3.0", "k = np.ones(2).sum()"]),
        ("def f(x): return abs(-2.0 * x)", ["abs = lambda y: -3.0 * y", "del abs"]),
        ("def outer(k):\n    def f(x): return k * x\n    return f\nf = outer(2.0)", ["f.__closure__[0].cell_contents = 3.0"]),
        ("def f(x, k=[2.0]): return k[0] * x", ["f.__defaults__[0][0] = 3.0"]),
    ),
    "Python functions among these, and what their code names": (
        ("k = 2.0\ndef inner(x): return k * x\ndef f(x): return inner(x)", ["k = 3.0", "inner = lambda x: 5.0 * x"]),
        ("k = 2.0\ndef inner(x, n=1): return k * n * x\ndef f(x): return inner(x)", ["inner.__defaults__ = (2,)"]),
        ("k = 2.0\ninner = tg.checkpoint(tg.jit(lambda x: k * x)).__wrapped__\ndef f(x): return inner(x)", ["k = 3.0"]),
        (
            "k = 2.0\nclass B:\n    def g(self, x): return k * x\nclass C(B):\n    def g(self, x): return super().g(x)\n"
            "    def f(self, x): return self.g(x)\nf = C().f",
            ["k = 3.0"],
        ),
        ("k = 2.0\nclass C:\n    g = property(lambda self: k)\n    def __call__(self, x): return self.g * x\nf = C()", ["k = 3.0"]),
        ("k = 2.0\nclass C:\n    @staticmethod\n    def g(): return k\n    @classmethod\n    def f(c, x): return c.g() * x\nf = C.f", ["k = 3.0"]),
    ),
    "rules of custom primitives, methods of a `tg.autograd.Function`": (
        ("k = 2.0\ninner = tg.custom_vjp(lambda x: k * x, lambda g, r, x: k * g)\ndef f(x): return inner(x)", ["k = 3.0"]),
        (
            "inner = tg.custom_vjp(lambda x: 2.0 * x, lambda g, r, x: 2.0 * g)\ndef f(x): return inner(x)",
            ["inner = tg.custom_vjp(lambda x: 3.0 * x, lambda g, r, x: 3.0 * g)"],
        ),
    ),
    "numbers, strings, `None`, ranges, dtypes": (
        ("k = 1\ndef f(x): return {int: 1.0, float: 2.0, bool: 3.0}[type(k)] * x", ["k = 1.0", "k = True", "k = 1"]),
        ("k = 0.0\ndef f(x): return np.copysign(1.0, k) * x", ["k = -0.0", "k = 0.0"]),
        ("k = np.float32(1.0)\ndef f(x): return k.itemsize * x", ["k = np.float64(1.0)"]),
        ("k = 'one'\ndef f(x): return len(k) * x", ["k = 'three'", "k = b'four'"]),
        ("k = None\ndef f(x): return x if k is None else 2.0 * x", ["k = ...", "k = None"]),
        ("k = range(3)\ndef f(x): return sum(k) * x", ["k = range(4)"]),
        ("k = np.dtype('f4')\ndef f(x): return k.itemsize * x", ["k = np.dtype('f8')"]),
    ),
    "lists, tuples, named tuples and dicts": (
        ("C = collections.namedtuple('C', 'a')\nk = C([2.0])\ndef f(x): return k.a[0] * x", ["k.a[0] = 3.0", "k = C([5.0])"]),
        ("k = collections.OrderedDict(a=2.0)\ndef f(x): return k['a'] * x", ["k['a'] = 3.0"]),
        ("k = collections.defaultdict(float, a=2.0)\ndef f(x): return k['a'] * x", ["k['a'] = 3.0"]),
        ("k = [1.0, 2.0]\ndef f(x): return k[0] * x * len(k)", ["k[0] = 3.0", "k.append(1.0)", "k.reverse()"]),
        ("k = ([2.0], 1.0)\ndef f(x): return k[0][0] * x", ["k[0][0] = 3.0"]),
        ("k = {'a': 1.0, 'b': 2.0}\ndef f(x): return [*k.values()][0] * x", ["k['a'] = 3.0", "k['a'] = k.pop('a')", "k['c'] = k.pop('b')"]),
        ("k = {1: 2.0}\ndef f(x): return k[1] * x if type([*k][0]) is int else x", ["k[True] = k.pop(1)"]),
        (f"k = [1.0] * {ITEMS}\ndef f(x): return k[-1] * x", ["k[-1] = 2.0"]),
        ("k = [np.ones(2)]\ndef f(x): return k[0].sum() * x", ["k[0][1] = 3.0"]),
    ),
    f"arrays and tensors of up to {SMALL >> 10} KB": (
        (f"k = np.ones({SMALL // 8})\ndef f(x): return k.flat[-1] * k.ndim * x", ["k[-1] = 2.0", "k.shape = (2, -1)"]),
        ("k = np.ones(4, 'i4')\ndef f(x): return k[-1] * x", ["k = k * 2", "k = k.view('u4') * 2"]),
        ("k = tg.tensor([1.0, 2.0])\ndef f(x): return (k[0] * x).sum()", ["k[0] = 3.0"]),
    ),
    "larger arrays": (
        (f"k = np.ones({SMALL // 8 + 2})\ndef f(x): return k.flat[-1] * k.ndim * x", ["k = k * 2.0", "k.shape = (2, -1)"]),
        ("k = np.ones(10_000)\ndef f(x): return 2.0 * x if k.flags.writeable else x", ["k.flags.writeable = False"]),
        ("k = np.ones(10_000)\ndef f(x): return k.itemsize * x", ["k = k.astype('f4')"]),
    ),
    "attributes of `self` of a method, in its `__dict__` and slots; those of a `tg.nn.Module`": (
        ("class C:\n    def f(self, x): return self.k * x\nc = C()\nc.k = 2.0\nf = c.f", ["c.k = 3.0", "c.k = np.ones(()) * 4.0"]),
        ("class C:\n    def f(self, x): return self.k[0] * x\nc = C()\nc.k = [2.0]\nf = c.f", ["c.k[0] = 3.0"]),
        ("class C:\n    def __call__(self, x): return self.k * x\nf = C()\nf.k = 2.0", ["f.k = 3.0"]),
        ("class B:\n    def __call__(self, x): return self.k * x\nclass C(B): pass\nf = C()\nf.k = 2.0", ["f.k = 3.0"]),
        ("class C(tg.nn.Module):\n    def forward(self, x): return self.k * x\nf = C()\nf.k = 2.0", ["f.k = 3.0"]),
        ("m = tg.nn.Sequential(tg.nn.Linear(1, 1).requires_grad_(False))\ndef f(x): return m(x * np.ones(1))[0]", ["m[0].weight += 1.0"]),
        ("class C:\n    __slots__ = ('k', 'n')\n    def f(self, x): return self.k * getattr(self, 'n', 1.0) * x\nc = C()\nc.k = 2.0\nf = c.f", ["c.k = 3.0", "c.n = 4.0", "del c.n"]),
        ("class C:\n    __slots__ = '__k'\n    def __call__(self, x): return self.__k[0] * x\nf = C()\nf._C__k = [2.0]", ["f._C__k[0] = 3.0", "f._C__k = [5.0]"]),
    ),
    "anything else": (
        ("C = types.SimpleNamespace\nk = C(a=2.0)\ndef f(x): return k.a * x", ["k = C(a=3.0)"]),
        ("k = {2, 3}\ndef f(x): return len(k) * x", ["k = {2}"]),
    ),
}  # fmt: skip

def programs(of_rows):
    return [pytest.param(*program, id=f"{row[:30]}-{k}") for row, listed in of_rows.items() for k, program in enumerate(listed)]


@pytest.fixture
def process(monkeypatch):
    """What a program may change of the process is put back."""
    import decimal
    import warnings

    monkeypatch.setenv("NO_SUCH_NAME", "-")
    with np.errstate(divide="warn"), np.printoptions(), decimal.localcontext(), warnings.catch_warnings():
        yield


def test_each_row_is_a_program_and_the_page_has_the_table():
    assert list(CHANGES) == [row[0] for row in NOTICED]
    assert list(STALE) == [row[0] for row in UNNOTICED]
    assert "<!-- table: noticed -->" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("program", "changes"), programs(CHANGES))
def test_what_is_noticed_is_recorded_again(program, changes, process):
    scope = defined(program)
    g, x = tg.jit(tg.grad(scope["f"]), kernel="never"), 0.75
    before = tg.grad(scope["f"])(x)
    assert g(x) == before and g(x) == before and g.stats().records == 1
    for k, change in enumerate(changes):
        exec(change, scope)
        now = tg.grad(scope["f"])(x)
        assert now != before, "a change that changes nothing"
        assert g(x) == now and g(x) == now and g.stats().records == k + 2
        before = now


@pytest.mark.parametrize(("program", "change"), programs(STALE | OTHERS))
def test_what_is_not_noticed_is_as_it_was_when_it_was_recorded(program, change, process):
    scope = defined(program)
    plain, g, args = tg.grad(scope["f"]), tg.jit(tg.grad(scope["f"]), kernel="never"), lambda: scope.get("args", (scope["x"],))
    first, before = plain(*args()), g(*args())
    exec(change, scope)
    assert g(*args()) == before and g.stats().records == 1
    assert plain(*args()) != before and (plain(*args()) != first or "args" in scope), "a change that changes nothing"


def test_an_equal_value_in_another_object_is_no_change():
    scope = defined("k, a = 1000.5, {'b': (1000.5, np.ones(3))}\ndef f(x): return k * x * a['b'][0]")
    g = tg.jit(tg.grad(scope["f"]), kernel="never")
    before = g(2.0)
    exec("k, a = float('1000.5'), {'b': (float('1000.5'), a['b'][1])}", scope)
    assert g(2.0) == before and g.stats().records == 1


@pytest.mark.parametrize(
    "program",
    [
        "k = [0.0]\ndef f(x):\n    k[0] += 1.0\n    return k[0] * x",
        "k = []\ndef f(x):\n    k.append(1.0)\n    return len(k) * x",
        "k = 0.0\ndef f(x):\n    global k\n    k += 1.0\n    return k * x",
        "class C:\n    k = 0.0\n    def f(self, x):\n        self.k += 1.0\n        return self.k * x\nf = C().f",
    ],
)
def test_a_function_that_changes_what_it_reads_is_run_plainly(program):
    g = tg.jit(tg.grad(defined(program)["f"]), kernel="never")
    with pytest.warns(tg.PathWarning, match=r"(k|self).* changes"):
        assert [g(1.0) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert re.search(r"<string>:[3-7]:", g.stats().fallback) and (g.stats().records, g.stats().runs) == (3, 0)
    assert [g(1.0) for _ in range(10)] == [4.0 + n for n in range(10)]


def test_a_function_that_changes_what_it_reads_now_and_then_is_recorded():
    """A cache that is filled at the first call, a count until something is loaded."""
    scope = defined("k = {}\ndef f(x):\n    k.setdefault(np.size(x), 2.0)\n    return np.sum(k[np.size(x)] * x)")
    g = tg.jit(tg.grad(scope["f"]), kernel="never")
    for n in (1, 2, 1, 2, 2, 1):
        np.testing.assert_array_equal(g(np.ones(n)), np.full(n, 2.0))
    assert not g.stats().fallback and (g.stats().records, g.stats().replays) == (4, 2)


def test_the_best_value_so_far_is_a_number_in_later_calls():
    """What a recording leaves somewhere is known by its value; what has its derivative is gone."""
    best, x0 = {"value": np.inf}, np.array([0.5, 1.0, 1.5])

    def f(x):
        value = np.sum((x - 1.0) ** 2)
        if value < best["value"] and not best["value"] < value:
            best.update(value=value, x=x.copy(), least=np.argmin(x))
        return value

    g = tg.jit(tg.grad(f))
    with quiet():
        for x in (x0, 2.0 * x0, 1.5 * x0, 1.2 * x0, 1.1 * x0):
            np.testing.assert_array_equal(g(x), 2.0 * (x - 1.0))
    # Left by the first call, which was recorded.
    assert best["value"].item() == 0.5 and best["x"].numpy().tolist() == best["x"].detach().tolist() == x0.tolist()
    assert best["value"] < 1.0 and bool(best["least"] == 0) and np.argmax(best["x"]) == 2
    for used in (best["value"], best["x"]):
        with pytest.raises(ClearedTapeError, match="kept from an earlier call"):
            np.sum(used * 2.0).backward()


def test_a_start_without_derivative_is_a_number_in_later_calls():
    kept = {"scale": 1.0, "y": np.ones(3)}

    def f(x):
        y = kept["scale"] * x + 0.0 * kept["y"]
        product = kept["y"] * kept["scale"]
        kept.update(y=y.detach(), scale=(x[0] / x[0]).detach())
        return np.sum(y * y) + 0.0 * np.sum(product)

    g = tg.jit(tg.grad(f))
    with quiet():
        for k in range(1, 7):
            np.testing.assert_array_equal(g(np.arange(1.0, 4.0) * k), 2.0 * k * np.arange(1.0, 4.0))
    assert g.stats().records == 3


def test_an_array_that_is_filled_is_made_in_the_function():
    kept = tg.zeros(2)

    def f(x):
        kept[:] = x * x
        return np.sum(kept)

    for make in (tg.grad, lambda f: tg.jit(tg.grad(f))):
        kept = tg.zeros(2)
        assert make(f)(np.ones(2)).tolist() == [2.0, 2.0]
        with pytest.raises(ClearedTapeError, match="make arrays that are filled in the function, too"):
            make(f)(np.ones(2))


@pytest.mark.parametrize("first", [tg.grad, lambda f: tg.jit(tg.grad(f))])
@pytest.mark.parametrize("then", [tg.jit, lambda f: tg.jit(tg.grad(f)), lambda f: tg.jit(tg.hessian(f))])
def test_a_result_of_an_earlier_call_is_no_operand_of_a_recording(first, then):
    """(It was 0, without a word.)"""
    kept = []

    def keeps(x):
        kept.append(x * x)
        return kept[0]

    first(keeps)(2.0)
    with pytest.raises(ClearedTapeError, match="kept from an earlier call: .*t.item()"):
        then(lambda x: x * kept[0])(1.0)


def test_installed_packages_are_not_looked_into(monkeypatch):
    scope = defined("from json import dumps\ndef f(x): return len(dumps([1])) * x")
    g = tg.jit(tg.grad(scope["f"]), kernel="never")
    assert g(1.0) == 3.0
    monkeypatch.setattr("json._default_encoder", None)
    assert g(1.0) == 3.0 and g.stats().records == 1


def test_printing_and_floating_point_warnings_belong_to_the_recording(capsys, recwarn):
    def f(x):
        print("running")
        return 1.0 / x

    g = tg.jit(f, kernel="never")
    g(1.0)
    with np.errstate(all="raise"):
        assert g(0.0) == np.inf
    with np.errstate(all="warn"):
        assert g(0.0) == np.inf
    assert capsys.readouterr().out == "running\n" and not recwarn
