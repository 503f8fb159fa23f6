"""The committed list of supported functions is the one that the tables give."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad.common.errors import LeaveTapeError, TapegradError, UnsupportedFunctionError
from tapegrad.rules import BY_NAME, ROWS
from tapegrad.rules.special import SCIPY_UFUNCS
from tapegrad.tools.commands.supported import answer, page
from tests.every import every
from tests.numpy_api.test_every_public_function import PUBLIC, V, calls_of, floats_of, parts, run
from tests.rules.checker import leaf

COMMITTED = Path(__file__).parents[3] / "docs" / "supported.md"


def test_the_page_is_up_to_date():
    committed = COMMITTED.read_text(encoding="utf-8")
    if f"with NumPy {'.'.join(np.__version__.split('.')[:2])};" in committed:
        assert page() == committed, "run `python -m tapegrad supported > docs/supported.md`"
    else:
        # Another NumPy has other functions, but says the same of those it shares.
        rows = {line.split("|")[1]: line for line in committed.splitlines() if line.startswith("| `")}
        assert all(rows.get(line.split("|")[1], line) == line for line in page().splitlines() if line.startswith("| `"))


def test_every_row_has_a_line():
    text = page()
    for row in ROWS:
        assert f"| `{row.name}` | {row.doc.replace('|', chr(92) + '|')} |" in text


def test_zero_derivatives():
    assert all(BY_NAME[name].steps for name in ("floor", "ceil", "rint", "trunc", "sign", "floor_divide", "is_less", "is_nan"))
    assert not any(BY_NAME[name].steps for name in ("absolute", "heaviside", "copysign", "sum", "relu"))


def test_command():
    found = subprocess.run([sys.executable, "-m", "tapegrad", "supported"], capture_output=True, text=True, check=True)
    assert found.stdout == page()


# ---- what it says is what calls do; their arguments here are those of another test ---------

NOTES = dict(re.findall(r"^\| `(np\.[\w.]+)` \| (.*) \|$", COMMITTED.read_text(encoding="utf-8").split("## SciPy")[0], re.MULTILINE))


@pytest.mark.filterwarnings("ignore")
@every("name", sorted(name for name in PUBLIC if name.replace("numpy.", "np.", 1) in NOTES and floats_of(calls_of(name, PUBLIC[name])[0], [])))
def test_a_function_does_what_is_said_of_it(name):
    call = calls_of(name, PUBLIC[name])[0]
    found = parts(run(name, call, [leaf(a.copy()) for a in floats_of(call, [])]))
    tracked = any(isinstance(f, tg.Differentiable) and f.requires_grad for f in tg.tree.leaves(found))
    note = NOTES[name.replace("numpy.", "np.", 1)]
    assert tracked != note.startswith("a plain value") or name == "numpy.full_like", note


@pytest.mark.parametrize("name", sorted(name for name, note in NOTES.items() if note.startswith("refused")))
def test_a_function_that_cannot_be_called_by_its_name_says_what_to_write(name):
    t = tg.tensor(V, requires_grad=True)
    shape, function = V.shape, getattr(np, name.removeprefix("np."))
    with pytest.raises(LeaveTapeError):
        function(shape, t) if name == "np.full" else function(t)
    (instead,) = re.findall(r"^refused; write `(.*)`$", NOTES[name])
    found = eval(instead, {"np": np, "t": t, "shape": shape})
    assert found.requires_grad and found.tolist() == V.tolist()


def test_what_cannot_be_called_by_its_name():
    assert {name for name, note in NOTES.items() if note.startswith("refused")} == {
        "np.array", "np.asarray", "np.asanyarray", "np.ascontiguousarray", "np.asfortranarray", "np.full"
    }  # fmt: skip


@every("name", sorted(SCIPY_UFUNCS))
def test_a_ufunc_of_scipy_gives_a_tensor(name):
    function = getattr(scipy.special, name)
    assert function(*[V] * (function.nin - 1), leaf(V)).requires_grad
    for k in range(function.nin):
        try:
            function(*[leaf(V) if j == k else V for j in range(function.nin)])
            refused = False
        except UnsupportedFunctionError:
            refused = True
        (line,) = [line for line in COMMITTED.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `scipy.special.{name}` |")]
        assert (f"refused if only argument {k + 1} is a tensor" in line) == refused


@pytest.mark.filterwarnings("ignore")
@every("row", [row for row in ROWS if row.numpy])
def test_a_primitive_is_recorded_by_the_functions_it_names(row):
    for function in row.numpy:
        if isinstance(function, np.ufunc):
            with tg.Tape() as tape:
                function(*[tg.tensor(0.5 * V, requires_grad=True) for _ in range(function.nin)])
                assert [i.row.name for i in tape.instructions] == [row.name]
        else:
            assert not isinstance(answer(function)[0], (TapegradError, type(None)))
