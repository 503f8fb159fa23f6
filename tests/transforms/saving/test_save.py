"""Saved tapes: the same bits after loading, in another process, through pickle; damaged files are refused."""

import io
import itertools
import json
import os
import pickle
import random
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError, GuardError, ShapeError, TapeFileError, TapegradError
from tapegrad.program.workspace import Workspace
from tapegrad.rules import ROWS
from tapegrad.tape.layout import SCALAR, c_array
from tapegrad.transforms.saving.recorder import planned
from tapegrad.transforms.saving.save import from_bytes, to_bytes
from tests.kernel.agreement import close_in_ulps
from tests.threads import in_threads
from tests.transforms.saving import fuzz, greedy

X = fuzz.POINT
OTHER = 0.97 * X + 0.01


def tape_of(function, *arguments, argnums=0):
    return tg.value_and_grad(function, argnums).tape(*arguments)


def changed(data, change):
    """A file whose members (and header) `change` has changed."""
    members = dict(np.load(io.BytesIO(data)))
    header = json.loads(members["header"].tobytes())
    change(members, header)
    members["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return fuzz.written(members)


def agree(function, one, other):
    """Whether gradients agree within 4 units in the last place of the largest entry; `scores` computes in float32."""
    like = np.float32 if function is fuzz.scores else np.float64
    close_in_ulps([one.astype(like)], [other.astype(like)])


@pytest.mark.parametrize("function", fuzz.FUNCTIONS, ids=lambda f: f.__name__)
def test_a_loaded_tape_gives_the_same_bits(function, tmp_path):
    g = tg.jit(tg.value_and_grad(function), kernel="never")
    for _ in range(2):
        value, gradient = g(X)
    assert g.stats().sweeps == 1
    agree(function, gradient, tg.grad(function)(X))
    tape = g.tape(X)
    tape.save(tmp_path / "f.npz")
    loaded = tg.load_tape(tmp_path / "f.npz")
    assert os.listdir(tmp_path) == ["f.npz"]
    assert len(loaded) == len(tape)
    found, slope = loaded.value_and_grad(X)
    assert found == value == loaded(X)
    assert slope.tobytes() == gradient.tobytes()
    assert to_bytes(loaded) == to_bytes(tape)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tape)).value_and_grad(X)[1], gradient)


@pytest.mark.parametrize("function", [f for f in fuzz.FUNCTIONS if f is not fuzz.branches], ids=lambda f: f.__name__)
def test_a_loaded_tape_is_right_at_another_point(function):
    loaded = from_bytes(to_bytes(tape_of(function, X)))
    found, slope = loaded.value_and_grad(OTHER)
    value, gradient = tg.value_and_grad(function)(OTHER)
    assert found == pytest.approx(value, rel=1e-15)
    agree(function, slope, gradient)
    size, close = (1e-2, 1e-3) if function is fuzz.scores else (1e-6, 1e-5)
    g = tg.value_and_grad(function)
    for k in range(6):
        step = np.eye(6)[k] * size
        difference = (g(OTHER + step)[0] - g(OTHER - step)[0]) / (2 * size)
        assert slope[k] == pytest.approx(difference, rel=close, abs=close)


def test_a_failed_guard_names_the_line():
    loaded = from_bytes(to_bytes(tape_of(fuzz.branches, X)))
    with pytest.raises(GuardError, match=r"fuzz\.py:\d+"):
        loaded(1.0 - X)
    assert loaded(X) == fuzz.branches(X)


def test_places_are_kept():
    tape = tape_of(fuzz.branches, X)
    loaded = from_bytes(to_bytes(tape))
    for slot in range(1, len(tape.records)):
        assert str(loaded.place(slot)) == str(tape.place(slot))


def test_another_process_loads_it(tmp_path):
    tape_of(fuzz.order, X).save(tmp_path / "f.npz")
    code = "import sys, numpy as np, tapegrad as tg; print(tg.load_tape(sys.argv[1])(np.linspace(0.1, 0.9, 6)).hex())"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "f.npz")], capture_output=True, text=True, check=True)
    assert float.fromhex(run.stdout) == fuzz.order(X)


def test_several_arguments_and_structured_results():
    tape = tg.value_and_grad(lambda x, y, s: (np.sum(x * y) * s, {"n": x.size, "twice": 2 * y}), (0, 2), has_aux=True).tape(
        X, OTHER, 3.0
    )
    loaded = from_bytes(to_bytes(tape))
    (value, rest), (to_x, to_s) = loaded.value_and_grad(X, OTHER, 3.0)
    assert value == 3.0 * np.sum(X * OTHER) and rest["n"] == 6
    np.testing.assert_array_equal(rest["twice"], 2 * OTHER)
    assert type(to_s) is float and to_s == np.sum(X * OTHER)
    assert to_x.shape == (6,)


def test_wrong_arguments():
    loaded = from_bytes(to_bytes(tape_of(fuzz.scores, X)))
    for arguments in [(), (X, X), (X[:5],), (X + 1j,)]:
        with pytest.raises(ShapeError):
            loaded(*arguments)


def test_what_cannot_be_saved_is_named():
    tape = tape_of(fuzz.order, X)
    item = next(i for i in tape.items if i.entry.kind == "host")
    known, item.entry.function.function = item.entry.function.function, lambda v: v
    with pytest.raises(TapeFileError, match=r"slot \d+, recorded at .*fuzz\.py:\d+: <lambda> is not a function"):
        to_bytes(tape)
    item.entry.function.function = known
    assert from_bytes(to_bytes(tape))(X) == fuzz_value(fuzz.order)


def test_a_result_of_a_class_of_ones_own_is_named():
    tape = tg.value_and_grad(lambda x: (np.sum(x), re.compile("x")), has_aux=True).tape(X)
    with pytest.raises(TapeFileError, match="something constant: Pattern"):
        to_bytes(tape)


def test_rows_are_found_by_name():
    data = to_bytes(tape_of(fuzz.branches, X))
    header = json.loads(np.load(io.BytesIO(data))["header"].tobytes())
    assert {"sin", "add", "multiply"} <= set(header["rows"])

    def rename(members, header):
        header["rows"][header["rows"].index("sin")] = "cos"

    found = from_bytes(changed(data, rename))(X)
    assert found == pytest.approx(fuzz.branches(X) + np.sum((np.cos(X) - np.sin(X))[X > 0.5]), rel=1e-14)


def spoil(name):
    """Changes to the file of `fuzz.writing`, each of which would make compiled code read or write outside."""

    def entry(header, row):
        return next(i for i in header["entries"] if i[0] == row)

    def version(members, header):
        header["version"] += 1

    def row(members, header):
        header["rows"] = ["frobnicate"]
        members["records"] = np.where(members["records"] == -4, 0, members["records"])

    def window(members, header):
        entry(header, "getitem")[4] = 10**6

    def stride(members, header):
        entry(header, "getitem")[1]["dict"][1][1] = {"tuple": [1 << 20]}

    def shape(members, header):
        entry(header, "concatenate")[5][1][0] += 1

    def dtype(members, header):
        entry(header, "concatenate")[5][0] = "f"

    def later(members, header):
        entry(header, "concatenate")[2][0] = len(members["records"]) - 1

    def positions(members, header):
        for key in [k for k in members if k.startswith("array_") and members[k].dtype == np.int64]:
            members[key] = members[key] + 1000

    def twice(members, header):
        for key in [k for k in members if k.startswith("array_") and members[k].dtype == np.int64]:
            members[key] = members[key] * 0

    def huge(members, header):
        header["inputs"][0][1] = [1 << 32]

    def objects(members, header):
        members["array_0"] = members["array_0"].astype("g")

    def missing(members, header):
        del members["numbers"]

    def function(members, header):
        next(i for i in header["entries"] if type(i[0]) is dict)[0] = {"numpy": "save"}

    def guard(members, header):
        header["arguments"] = [[0, -1, len(members["records"]) + 5]]

    return locals()[name]


@pytest.mark.parametrize(
    "name", "version row window stride shape dtype later positions twice huge objects missing function guard".split()
)
def test_a_damaged_file_is_refused(name):
    data = to_bytes(tape_of(fuzz.writing, X))
    assert from_bytes(changed(data, lambda members, header: None))(X) == fuzz_value(fuzz.writing)
    with pytest.raises(TapeFileError):
        from_bytes(changed(data, spoil(name)))


def fuzz_value(function):
    return tg.value_and_grad(function)(X)[0]


def test_files_that_are_none(tmp_path):
    np.savez_compressed(tmp_path / "zipped.npz", header=np.zeros(10**6, np.uint8))
    np.savez(tmp_path / "other.npz", x=X)
    np.save(tmp_path / "objects.npz", np.array([print], object), allow_pickle=True)
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in os.listdir(tmp_path):
        with pytest.raises(TapeFileError, match="not a tape that can be loaded"):
            tg.load_tape(tmp_path / name)


def test_positions_that_are_computed_are_looked_at():
    def spoilt(members, header):
        function = next(i[0] for i in header["entries"] if type(i[0]) is dict and i[0].get("tapegrad") == "at_classes")
        function["data"]["tuple"][0] = 40

    def f(x, t):
        return tg.nn.functional.cross_entropy(np.reshape(x, (2, 3)), np.argmin(np.reshape(t, (2, 3)), axis=1))

    target = np.array([3.0, 1.0, 2.0, 5.0, 6.0, 4.0])
    tape = tape_of(f, X, target)
    data = to_bytes(tape)
    assert from_bytes(data)(X, target) == tape(X, target)
    tape, where = from_bytes(changed(data, spoilt)), "at_classes of a loaded tape gives positions outside an array of 6"
    for way in (lambda t: t, tg.grad, tg.jit, lambda t: tg.jit(tg.grad(t)), tg.jacfwd):
        with pytest.raises(TapeFileError, match=where):
            way(tape)(X, target)
    # A recording of the tape looks at other points as well.
    first = from_bytes(data)
    taken = tg.jit(tg.grad(first))
    taken(X, target)
    function = next(i for i in first.items if getattr(i.entry.function, "__name__", "") == "at_classes").entry.function.function
    function.keep_below(2, False)
    for _ in range(3):
        with pytest.raises(TapeFileError, match="gives positions outside an array of 2"):
            taken(X + 0.1, target)


def test_what_is_assigned_to_has_no_position_twice():
    first = from_bytes(to_bytes(tape_of(fuzz.assigning, X)))
    sorting = next(i for i in first.items if getattr(i.entry.function, "__name__", "") == "argsort").entry.function.function
    sorting.function = lambda x: np.zeros(x.shape, np.int64)
    for way in (lambda t: t, tg.grad, lambda t: tg.jit(tg.grad(t))):
        with pytest.raises(TapeFileError, match="gives a position twice, where something is assigned"):
            way(first)(X)


def test_no_gradient_of_an_array():
    tape = tape_of(lambda x: np.sum(x), X)
    tape.outputs[0] = (tape.leaves[0] or 1, tape.inputs[0])
    with pytest.raises(GradientError, match="one number"):
        tape.value_and_grad(X)


def test_a_loaded_tape_in_eight_threads():
    data = to_bytes(tape_of(fuzz.order, X))
    alone = from_bytes(data)
    points = [X, OTHER, X * X]
    wanted = [(value, slope.tobytes()) for value, slope in map(alone.value_and_grad, points)]
    together, start, found = from_bytes(data), threading.Barrier(8), []

    def work(_):
        start.wait()
        for k in range(60):
            own = from_bytes(data) if k % 20 == 0 else together
            value, slope = own.value_and_grad(points[k % 3])
            found.append((value, slope.tobytes()) == wanted[k % 3])

    in_threads(work, 8)
    assert len(found) == 480 and all(found)


# ---- hostile files -----------------------------------------------------------------------


def test_a_file_of_the_version_before_says_so():
    old = changed(to_bytes(tape_of(fuzz.writing, X)), lambda members, header: header.update(version=6, items=header.pop("entries")))
    with pytest.raises(TapeFileError, match="it is of version 6 of the format, this tapegrad reads version 7; save the tape again"):
        from_bytes(old)
    members = dict(np.load(io.BytesIO(to_bytes(tape_of(fuzz.writing, X)))))
    header = json.loads(members["header"].tobytes())
    del header["version"], members["checksum"]
    members["header"], members["declared"] = np.frombuffer(json.dumps(header).encode(), np.uint8), np.array([2, 1 << 20])
    file = io.BytesIO()
    np.savez(file, **members)
    with pytest.raises(TapeFileError, match="version 2 of the format, this tapegrad reads version 7; save the tape again"):
        from_bytes(file.getvalue())


@pytest.mark.parametrize("name", ["records", "numbers", "array_0", "header"])
def test_a_changed_member_has_another_checksum(name):
    members = dict(np.load(io.BytesIO(to_bytes(tape_of(fuzz.writing, X)))))
    members[name].view(np.uint8).reshape(-1)[-1] ^= 1
    file = io.BytesIO()
    np.savez(file, **members)
    with pytest.raises(TapeFileError, match="its checksum is another"):
        from_bytes(file.getvalue())


@pytest.mark.parametrize("kind", greedy.KINDS, ids=lambda k: k.__name__)
def test_files_that_would_take_much_memory(kind):
    data = to_bytes(tape_of(fuzz.writing, X))
    for seed in range(12):
        with pytest.raises(TapeFileError):
            from_bytes(kind(data, random.Random(seed)), fuzz.MAX_BYTES)


def test_a_file_larger_than_the_limit_is_not_read(tmp_path):
    path = tmp_path / "f.npz"
    with open(path, "wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(TapeFileError, match="its file has 17179869184 bytes; the limit, max_bytes, is 1073741824"):
        tg.load_tape(path)


def test_values_larger_than_the_limit_are_refused():
    x = np.zeros(300_000)
    data = to_bytes(tape_of(lambda x: np.sum(np.sin(x) * x), x))
    assert len(data) < 10_000 and from_bytes(data)(x) == 0.0
    with pytest.raises(TapeFileError, match="its values take 7200[0-9]* bytes; the limit, max_bytes, is 7000000"):
        from_bytes(data, 7_000_000)


def test_a_long_header_is_refused():
    with pytest.raises(TapeFileError, match="its header has .* raise max_bytes"):
        from_bytes(to_bytes(tape_of(fuzz.order, X)), 1 << 14)


def test_what_a_derivative_takes_in_between_is_limited():
    """The adjoint of a product of many rows with one matrix adds up products as large as all of them together."""
    rows, n = 300, 40

    def f(x):
        return np.sum(np.matmul(np.reshape(x, (rows, 1, n)), x[: n * n].reshape(n, n)))

    x = np.linspace(-1.0, 1.0, rows * n)
    data, products = to_bytes(tape_of(f, x)), 8 * rows * n * n
    assert from_bytes(data, 2 * products).value_and_grad(x)[1].shape == x.shape
    with pytest.raises(TapeFileError, match="matmul in slot .* in between, more than the limit"):
        from_bytes(data, products)


def test_a_comparison_may_not_make_more_than_the_limit():
    x = np.linspace(0.1, 0.9, 400)
    data = to_bytes(tape_of(lambda x: np.sum(np.where(np.searchsorted(x, x[::-1]) < 0, x, 2.0 * x)), x))
    assert from_bytes(data)(x) == np.sum(2.0 * x)

    def table(members, header):
        entry = next(i for i in header["entries"] if i[0] == {"numpy": "searchsorted"})
        flipped = next(k for k, i in enumerate(header["entries"]) if i[0] in ("flip", "getitem"))
        window = {"dict": [["shape", {"tuple": [400, 1]}], ["strides", {"tuple": [1, 0]}]]}
        header["entries"][flipped] = ["getitem", window, header["entries"][flipped][2], False, 0, ["d", [400, 1], []]]
        assert int(np.flatnonzero(members["records"][:, 0] == -4)[flipped]) in entry[2]

    with pytest.raises(TapeFileError, match="searchsorted in slot .* may make arrays of 160000 elements"):
        from_bytes(changed(data, table), 1 << 22)


def test_the_result_of_a_ufunc_without_derivative_has_the_shape_of_its_operands():
    """It is computed by compiled code, which would write beyond a smaller one."""
    x = np.linspace(0.1, 0.9, 400)
    data = to_bytes(tape_of(lambda x: np.sum(x * np.less(x, 0.5)), x))

    def smaller(members, header):
        less, product, _ = header["entries"]
        less[5], product[2] = ["?", [2], []], [1, 1]

    with pytest.raises(TapeFileError, match=r"less in slot 2: its shape is \(400,\), not \(2,\)"):
        from_bytes(changed(data, smaller))


@pytest.mark.parametrize(
    "change",
    [
        {"axes": {"tuple": [0, 0]}}, {"axes": {"tuple": [0]}}, {"axes": {"tuple": [0, 1, 2]}}, {"axes": {"list": [1, 0]}},
        {"axes": {"dict": []}}, {"axes": None}, {"axes": {"operand": 0}},
    ],
    ids=str,
)  # fmt: skip
def test_a_transposed_matrix_has_each_axis_once(change):
    x = np.linspace(0.1, 0.9, 6)
    data = to_bytes(tape_of(lambda x: np.sum(np.reshape(x, (2, 3)).T @ x[:2]), x))

    def turned(members, header):
        entry = next(i for i in header["entries"] if i[0] in ("t", "transpose"))
        entry[1] = {"dict": [list(pair) for pair in change.items()]}

    with pytest.raises(TapeFileError):
        from_bytes(changed(data, turned))


def test_a_row_that_cannot_take_its_operands_is_refused_when_it_is_run():
    x = np.linspace(0.1, 0.9, 4)
    data = to_bytes(tape_of(lambda x: np.linalg.slogdet(np.reshape(x, (2, 2)))[1], x))

    def wide(members, header):
        reshape = next(i for i in header["entries"] if i[0] == "reshape")
        reshape[1]["dict"][0][1], reshape[5] = {"tuple": [1, 4]}, ["d", [1, 4], []]

    with pytest.raises((TapeFileError, np.linalg.LinAlgError)):
        from_bytes(changed(data, wide))(x)


@pytest.mark.parametrize(("seed", "count"), [(0, 400), pytest.param(1, 2000, marks=pytest.mark.long)])
def test_mutated_files(seed, count):
    found = fuzz.fuzz(count, seed)
    assert sum(found.values()) == count
    assert found["refused"] > count / 2 and found["replayed"] > count / 40


def test_a_fence_sees_what_is_written_beyond_an_array(monkeypatch):
    monkeypatch.setattr(Workspace, "_own", Workspace._own)
    fuzz.fence()
    tape = tape_of(fuzz.order, X)
    assert fuzz.whole()
    workspace = Workspace(tape)
    # All that holds floats of the replay has a fence: arguments and what is computed.
    assert len(fuzz.FENCED) == sum(slot == root for slot, root in workspace._roots.items()) > len(tape.inputs)
    assert workspace.run([X], True) == -1 and fuzz.whole()
    np.testing.assert_array_equal(workspace.gradients[0], tape.value_and_grad(X)[1])
    assert fuzz.whole()
    Workspace(tape)
    around, nbytes = fuzz.FENCED[-1]
    around[fuzz.FENCE + nbytes] = 1
    assert not fuzz.whole() and fuzz.whole()


IMPORTS = """
import sys
import numpy as np
import tapegrad as tg
from tapegrad.transforms.saving.recorder import planned
from tapegrad.rules import ROWS
from tapegrad.tape.layout import SCALAR, c_array

before = set(sys.modules)
for row in ROWS:
    for meta in (SCALAR, c_array((1,), "f"), c_array((2, 2), "d"), c_array((2,), "i")):
        try:
            planned(row, [meta] * max(1, row.arity + len(row.constants)), {}, 0, meta, 1 << 20, True)
        except Exception:
            pass
print(sorted({"scipy", "numba", "llvmlite.binding"} & set(sys.modules) - before))
"""


def test_to_check_a_file_imports_no_library():
    """SciPy is eight megabytes, whoever asks for it first."""
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stdout + run.stderr


def test_results_of_rows_of_scipy_have_the_dtypes_that_are_allowed():
    rows = [row for row in ROWS if row.elementwise and (row.calls_scipy or row.name == "erf")]
    assert len(rows) > 5
    for row in rows:
        for chars in itertools.product("Sdf?bhl", repeat=row.arity):
            metas = [SCALAR if c == "S" else c_array((1,), c) for c in chars]
            values = [1.0 if c == "S" else np.ones(1, c) for c in chars]
            try:
                with np.errstate(all="ignore"):
                    value = np.asarray(row.value(*values))
            except (TypeError, ValueError, TapegradError):
                continue
            planned(row, metas, {}, 0, c_array(value.shape, value.dtype.char), 1 << 20, False)


def test_threads_that_write_the_same_file(tmp_path):
    """Each writes it as a whole, the last one for good."""
    path = tmp_path / "state"

    def work(k):
        for _ in range(10):
            tg.save(np.full(20_000, float(k)), path)
            assert len(set(tg.load(path).tolist())) == 1

    in_threads(work, 4)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
