"""Compiled code on disk is found by what it was made of; what a switch was not made of is an error."""

import importlib.util
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.codegen import code, compile, host, of_rows, pack
from tapegrad.common import config
from tapegrad.common.errors import InternalError
from tapegrad.program import walk
from tapegrad.program.sweeps import StoreWalk
from tapegrad.program.workspace import Workspace
from tapegrad.rules import BY_NAME, ROWS, by_opcode, table
from tapegrad.rules import lang as L
from tapegrad.rules.table import elementwise
from tapegrad.tape.layout import FIRST_ARRAY
from tapegrad.transforms.replay.directions import ReplayWalk

#: A program that adds a row of its own, a function of slope `argv[1]`, sweeps it back, and replays it.
PROGRAM = """
import faulthandler, sys
faulthandler.dump_traceback_later(120, exit=True)
import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules.table import elementwise
a = float(sys.argv[1])
elementwise("line", lambda x: a * x, lambda x: a * x, (lambda x, z: a,), scalar=lambda x: a * x, node="Line", doc="a * x")
f = lambda x: apply("line", (apply("line", (x,)) * x,))
x = tg.tensor(0.5, requires_grad=True)
f(x).backward()
g = tg.value_and_grad(f)
assert [x.grad.item(), g(0.5), g(0.5), g(0.25)] == [a * a, *[(a * a / 4, a * a)] * 2, (a * a / 16, a * a / 2)]
"""


def test_programs_with_different_rows_under_one_opcode_share_a_cache():
    # That of this run: it has the switches of the package's rows.
    for slope in ("3.0", "-2.0"):
        subprocess.run([sys.executable, "-c", PROGRAM, slope], env=os.environ | {"TAPEGRAD_CACHE_DIR": str(config.cache_dir())}, check=True)


@pytest.fixture
def more_rows():
    """Rows that a test adds are taken out of the table again."""
    count = len(ROWS)
    yield
    for row in ROWS[count:]:
        del BY_NAME[row.name]
    del ROWS[count:]


def slanted(name, a, **more):
    """A new row for ``a * x``."""
    return elementwise(name, lambda x: a * x, lambda x: a * x, (lambda x, z: a,), scalar=lambda x: a * x, node="Slanted", doc="a * x", **more)


def gradients(f, x):
    """The derivative of a function of one float, by each walk over a tape."""
    leaf = tg.tensor(x, requires_grad=True)
    f(leaf).backward()
    g = tg.grad(f)
    recording = StoreWalk(f, (x,), (0,))
    return [leaf.grad.item(), g(x), g(x), g(x), tg.jit(tg.grad(f), kernel="always")(x),
            recording.columns()[0].item(), recording.rows()[0].item(), tg.jvp(f, (x,), (1.0,))[1]]  # fmt: skip


def test_a_row_that_is_added_after_the_first_sweep_is_in_the_next(more_rows):
    assert gradients(lambda x: np.sin(x) * x, 0.0) == [0.0] * 8
    row = slanted("slanted", 3.0)
    assert gradients(lambda x: apply(row, (apply(row, (x,)),)), 0.5) == [9.0] * 8


def test_a_row_of_three_operands_one_of_which_is_constant_is_no_scalar_instruction(more_rows):
    row = elementwise(
        "between", lambda c, x, y: c * x + y, lambda c, x, y: c * x + y, (None, lambda c, x, y, z: c, lambda c, x, y, z: 1.0),
        node="Between", doc="c x + y",
    )  # fmt: skip
    assert gradients(lambda x: apply(row, (3.0, x, x * x)), 0.5) == [4.0] * 8


def test_a_row_of_scipy_that_does_not_say_so(more_rows):
    row = elementwise("aslgamma", lambda x: np.vectorize(math.lgamma)(x), lambda x: L.Expr("lgamma", (x,)) if isinstance(x, L.Expr) else x,
                      (lambda x, z: L.digamma(x),), scalar=math.lgamma, node="AsLgamma", doc="log of gamma")  # fmt: skip
    x = tg.tensor(2.5, requires_grad=True)
    apply(row, (x,)).backward()
    assert x.grad.item() == pytest.approx(0.7031566406452432)


def test_a_table_without_room_refuses_a_row(more_rows, monkeypatch):
    assert table.ROW_END == FIRST_ARRAY
    monkeypatch.setattr(table, "ROW_END", table.FIRST_ROW + len(ROWS))
    with pytest.raises(InternalError, match="no opcode left for the row 'one_more'"):
        slanted("one_more", 1.0)


# ---- instructions that nobody knows -------------------------------------------------------


def unknown(records):
    """Write an opcode of no row into the last scalar instruction."""
    at = np.flatnonzero((records["op"] > 1) & (records["op"] < FIRST_ARRAY))[-1]
    records["op"][at] = 900
    return f"instruction %{at}, whose opcode 900"


def at_scalars(x):
    return np.sin(x) * x


def among_arrays(x):
    y = np.exp(x * np.ones(3))
    return np.sum(y * y) * x


@pytest.mark.parametrize("f", [at_scalars, among_arrays])
def test_a_sweep_ends_at_an_unknown_instruction(f):
    x = tg.tensor(0.5, requires_grad=True)
    with tg.Tape():
        y = f(x)
        said = unknown(y._t.records())
        with pytest.raises(InternalError, match=said):
            y.backward()
    assert x.grad is None


def recorded(f):
    """What ran on a tape, and its records."""
    recording = StoreWalk(f, (0.5,), (0,))
    return recording, recording.store.records()


def replayed(f):
    """What a workspace has replayed, and its records."""
    workspace, x = Workspace(tg.grad(f).tape(0.5)), [np.array(0.5)]
    assert workspace.run(x, False) == -1
    return ReplayWalk.of(workspace, x), workspace.records


@pytest.mark.parametrize("way", [lambda recording: recording.rows(), lambda recording: recording.pull([1.0])])
@pytest.mark.parametrize("made", [recorded, replayed])
@pytest.mark.parametrize("f", [at_scalars, among_arrays])
def test_a_sweep_of_several_seeds_ends_at_an_unknown_instruction(f, made, way):
    recording, records = made(f)
    said = unknown(records)
    with pytest.raises(InternalError, match=said):
        way(recording)


@pytest.mark.parametrize("f", [at_scalars, among_arrays])
def test_a_replay_ends_at_an_unknown_instruction(f):
    workspace = Workspace(tg.grad(f).tape(0.5))
    x = np.array(0.5)
    assert workspace.run([x], True) == -1
    said = unknown(workspace.records)
    with pytest.raises(InternalError, match=said):
        workspace.run([x], True)
    assert walk.backward(workspace.pointer) == walk.UNKNOWN
    with pytest.raises(InternalError, match=said):
        workspace.sweep.checked(walk.UNKNOWN)


def test_a_replay_in_nopython_code_ends_at_an_unknown_instruction():
    c = tg.compile(lambda x: at_scalars(x[0]), np.array([0.5]), kernel="never", workspaces=1)
    unknown(c._replay._workspaces[0].records)
    with pytest.raises(tg.errors.TapegradError, match="an error inside tapegrad"):
        c(np.array([0.5]), np.empty(1))


@pytest.mark.parametrize("opcode", [0, 7, 900, -1])
def test_no_row_has_an_opcode_of_the_tape(opcode):
    with pytest.raises(InternalError, match=f"no row has the opcode {opcode}"):
        by_opcode(opcode)


# ---- keys ---------------------------------------------------------------------------------


def test_the_digest_of_the_package_is_of_every_source(tmp_path, monkeypatch):
    package = Path(tg.__file__).parent
    copy = shutil.copytree(package, tmp_path / "tapegrad", ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    digest = config.package_hash.__wrapped__
    monkeypatch.setattr(config, "__file__", str(copy / "common" / "config.py"))
    found = {config.package_hash(), digest()}
    assert len(found) == 1, "not where it lies"
    for k, path in enumerate(sorted(copy.rglob("*.py"))[::10]):
        with path.open("a") as file:
            file.write("# more\n")
        found.add(digest())
        assert len(found) == 2 + k, path
    (copy / "kernel" / "new.py").write_text("")
    found.add(digest())
    (copy / "kernel" / "new.py").rename(copy / "kernel" / "newer.py")
    assert digest() not in found


def test_functions_of_another_file_are_found_by_what_is_in_it(tmp_path):
    # Of unequal lengths: bytecode kept for the file is told apart by its length and by the second of the change.
    for body, expected in (("2 * x", 14), ("30 * x", 210), ("2 * x", 14)):
        path = tmp_path / "functions.py"
        path.write_text(f"from tapegrad.codegen.compile import compiled\n\n@compiled('int64(int64)')\ndef f(x):\n    return {body}\n")
        spec = importlib.util.spec_from_file_location("functions_of_a_test", path)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        compile._source.cache_clear()
        spec.loader.exec_module(module)
        assert module.f(7) == expected


def keys_of(monkeypatch, module, make):
    """The key under which something looks for its code."""
    keys = []
    monkeypatch.setattr(module, "machine_code", lambda key, build, symbols: keys.append(key) or [1] * len(symbols))
    make()
    (key,) = keys
    return key


def test_code_is_kept_for_the_vector_functions_that_there_are_by_name_and_width(monkeypatch):
    found = set()
    for variants in ([("_ZGVbN2v_exp", 2)], [("_ZGVbN2v_exp", 2), ("_ZGVdN4v_exp", 4)], None):
        monkeypatch.setattr(pack, "available", lambda variants=variants: {"exp": variants} if variants else {})
        found.add(code.makers.__wrapped__())
    assert len(found) == 3


@pytest.mark.parametrize("module, name, value", [
    (sys, "version", "3.99"), (host.llvmlite, "__version__", "9.9"), (pack, "target", lambda: ("another", "", "x86_64-unknown-linux-gnu")),
])  # fmt: skip
def test_code_is_kept_for_what_made_it_and_runs_it(monkeypatch, module, name, value):
    before = code.makers.__wrapped__()
    monkeypatch.setattr(module, name, value)
    assert code.makers.__wrapped__() != before


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", ["values", "reverse"])
def test_the_key_of_a_switch_has_rows_of_ones_own_with_their_expressions(more_rows, monkeypatch, name, special):
    found = []
    for slope in (None, 2.0, 3.0, 2.0):
        del ROWS[len(ROWS) - (slope is not None and "slanted" in BY_NAME) :]
        BY_NAME.pop("slanted", None)
        last = ROWS[-1] if slope is None else slanted("slanted", slope)
        found.append(keys_of(monkeypatch, of_rows, lambda last=last: of_rows._switch.__wrapped__(name, special, last)))
    assert len(set(found)) == 3 and found[1] == found[3]


@pytest.mark.parametrize("variable, kept", [("NUMBA_BOUNDSCHECK", False), ("NUMBA_NUM_THREADS", True)])
def test_numbas_options_are_in_the_key(monkeypatch, variable, kept):
    before = compile._options()
    monkeypatch.setenv(variable, "1")
    assert (compile._options() == before) == kept
