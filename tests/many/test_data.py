"""What may be summed over, and what is said of data that cannot be."""

import dataclasses

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.many.chunkwise import PartialSum
from tapegrad.many.data import BYTES, source_of
from tests.many.functions import logistic, logistic_by_hand, rows_of
from tests.near import near

THETA = np.array([0.3, -0.7, 0.2])


def gradient(data, **options):
    return tg.grad(tg.sum_over(logistic, data, **options))(THETA)


def by_columns(theta, rows):
    return np.sum((theta[0] * rows["a"] + theta[1] * rows["b"] - rows["c"]) ** 2)


COLUMNS = {"a": np.arange(50.0), "b": np.sqrt(np.arange(50.0)), "c": np.arange(50) % 3}


def columns_by_hand(theta):
    residuals = theta[0] * COLUMNS["a"] + theta[1] * COLUMNS["b"] - COLUMNS["c"]
    return np.array([2.0 * np.sum(residuals * COLUMNS["a"]), 2.0 * np.sum(residuals * COLUMNS["b"])])


def test_chunks_cover_all_rows_once_and_the_last_has_fewer():
    for count in (1, 2, 5, 6, 7, 99, 100):
        for chunk in (1, 3, 7, 100, 1000):
            pieces = list(source_of(np.arange(float(count)), chunk).pieces())
            assert [len(piece.load()) for piece in pieces[:-1]] == [min(chunk, count)] * (len(pieces) - 1)
            np.testing.assert_array_equal(np.concatenate([piece.load().copy() for piece in pieces]), np.arange(float(count)))


def test_chunks_depend_on_the_bytes_of_a_row_by_default():
    source = source_of({"x": np.zeros((BYTES // 80, 9)), "y": np.zeros(BYTES // 80)})
    assert source.count == 1 and source_of(np.zeros((BYTES // 8, 3))).count == 4
    assert source_of(np.zeros((3, BYTES))).count == 3


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_in_any_order_and_of_any_numbers(order):
    x, y = rows_of(90)
    expected = logistic_by_hand(THETA, (x, y))[1]
    near(gradient((np.array(x, order=order), y.astype(bool)), chunk=20), expected, 90.0)
    near(gradient((np.repeat(x, 2, axis=0)[::2], y.astype(np.int64)), chunk=20), expected, 90.0)
    single = gradient([x.astype(np.float32), y], chunk=20)
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)


def test_rows_come_in_the_containers_of_the_data():
    @dataclasses.dataclass
    class Table:
        x: np.ndarray
        y: np.ndarray

    table = Table(*rows_of(30))
    total = tg.sum_over(lambda theta, rows: logistic(theta, (rows.x, rows.y)), table, chunk=8)
    near(tg.grad(total)(THETA), logistic_by_hand(THETA, (table.x, table.y))[1], 30.0)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_mapped_arrays_and_parts_of_them(tmp_path, mode):
    x, y = rows_of(1000)
    np.save(tmp_path / "x.npy", x)
    y.tofile(tmp_path / "y.bin")
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode), np.memmap(tmp_path / "y.bin", mode=mode, dtype=float)
    same = gradient((x, y), chunk=64)
    np.testing.assert_array_equal(gradient(mapped, chunk=64), same)
    # Workers read the file; what is not in it is sent.
    assert source_of(mapped, 64).sent == (64 * 32 if mode == "c" else 0)
    for part in (slice(3, 700), slice(0, 1000, 3), slice(None, None, -1)):
        np.testing.assert_array_equal(gradient([a[part] for a in mapped], chunk=64), gradient((x[part].copy(), y[part].copy()), chunk=64))
    if mode != "r":
        mapped[0][5] = 100.0
        x[5] = 100.0
        np.testing.assert_array_equal(gradient(mapped, chunk=64), gradient((x, y), chunk=64))


def test_a_file_that_became_shorter_is_named(tmp_path):
    np.arange(100.0).tofile(tmp_path / "x.bin")
    total = tg.sum_over(lambda theta, x: np.sum(theta * x), np.memmap(tmp_path / "x.bin", dtype=float, mode="r"), chunk=30)
    assert total(1.0) == 4950.0
    with open(tmp_path / "x.bin", "r+b") as file:
        file.truncate(400)
    with pytest.raises(tg.errors.ShapeError, match=r"x\.bin has become shorter"):
        total(1.0)


class Chunks:
    """Can be iterated again."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __iter__(self):
        return iter(self.chunks)


def test_chunks_of_whatever_can_be_iterated_again():
    x, y = rows_of(70)
    parts = [(x[:20], y[:20]), (x[20:20], y[20:20]), (x[20:65], y[20:65]), (x[65:], y[65:])]
    expected = logistic_by_hand(THETA, (x, y))[1]
    near(gradient(Chunks(parts)), expected, 70.0)
    near(gradient(lambda: (part for part in parts)), expected, 70.0)
    near(tg.grad(tg.mean_over(logistic, Chunks(parts)))(THETA), expected / 70.0, 1.0)


def test_an_iterator_is_refused_and_one_that_ends_early_is_noticed():
    parts = [rows_of(5), rows_of(5), rows_of(5)]
    with pytest.raises(tg.errors.StructureError, match="generator.* can be read once.*lambda"):
        tg.sum_over(logistic, (part for part in parts))
    used_up = iter(parts)
    total = tg.sum_over(logistic, lambda: used_up)
    total(THETA)
    with pytest.raises(tg.errors.StructureError, match="gave 0 chunks, but 3 the first time"):
        total(THETA)
    data = Chunks(parts)
    total = tg.sum_over(logistic, data)
    total(THETA)
    for other, count in ((parts[:2], 2), (parts * 2, 6)):
        data.chunks = other
        with pytest.raises(tg.errors.StructureError, match=f"gave {count} chunks, but 3 the first time"):
            total(THETA)


@pytest.mark.parametrize(
    "other, said",
    [
        (lambda x, y: (x[:, :2], y), r"chunk 1 is .*shape \(2,\).*the first chunk is .*shape \(3,\)"),
        (lambda x, y: (x.astype(np.float32), y), "float32"),
        (lambda x, y: [x, y], "chunk 1 is"),
        (lambda x, y: (x, y[1:]), r"chunk 1\[1\] has 9 rows, chunk 1\[0\] has 10"),
        (lambda x, y: (x, 1.0), r"chunk 1\[1\] is a number"),
        (lambda x, y: (x, y.astype(str)), r"chunk 1\[1\] has dtype <U"),
    ],
)
def test_a_chunk_with_a_shape_of_its_own_is_named(other, said):
    x, y = rows_of(10)
    with pytest.raises((tg.errors.StructureError, tg.errors.ShapeError, tg.errors.DtypeError), match=said):
        tg.sum_over(logistic, lambda: [(x, y), other(x, y)].__iter__())(THETA)


def test_lengths_that_differ_and_what_has_no_rows_are_named():
    x, y = rows_of(10)
    with pytest.raises(tg.errors.ShapeError, match=r"data\['y'\] has 9 rows, data\['x'\] has 10"):
        tg.sum_over(logistic, {"x": x, "y": y[1:]})
    with pytest.raises(tg.errors.ShapeError, match="no rows"):
        tg.sum_over(logistic, (x[:0], y[:0]))
    with pytest.raises(tg.errors.ShapeError, match="no rows"):
        tg.sum_over(logistic, Chunks([(x[:0], y[:0])]))(THETA)
    with pytest.raises(tg.errors.DtypeError, match=r"data\[1\] has dtype object"):
        tg.sum_over(logistic, (x, y.astype(object)))
    with pytest.raises(tg.errors.StructureError, match=r"data\[1\] is a number"):
        tg.sum_over(logistic, (x, 3.0))
    with pytest.raises(tg.errors.StructureError, match="data has no arrays"):
        tg.sum_over(logistic, {})
    with pytest.raises(tg.errors.StructureError, match="data is of type int"):
        tg.sum_over(logistic, 3)


@pytest.mark.parametrize("chunk", [0, -3, 1.5, "2", True])
def test_numbers_of_rows_that_cannot_be(chunk):
    with pytest.raises(tg.errors.OptionError, match="number of rows of a chunk"):
        tg.sum_over(logistic, rows_of(10), chunk=chunk)


def test_data_with_chunks_of_its_own_takes_no_other():
    with pytest.raises(tg.errors.OptionError, match="chunk=3 is for arrays and DataFrames"):
        tg.sum_over(logistic, Chunks([rows_of(5)]), chunk=3)


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    theta, expected = np.array([0.5, 2.0]), columns_by_hand(np.array([0.5, 2.0]))
    near(tg.grad(tg.sum_over(by_columns, frame, chunk=16))(theta), expected, 1e4)
    near(tg.grad(tg.sum_over(by_columns, lambda: (frame[k : k + 20] for k in (0, 20, 40))))(theta), expected, 1e4)
    with pytest.raises(tg.errors.DtypeError, match=r"data\['c'\] has dtype"):
        tg.sum_over(by_columns, frame.assign(c=frame["c"].map(str).astype(object)))


def test_parquet_files_by_row_groups(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table(COLUMNS), path, row_group_size=16)
    total = tg.sum_over(by_columns, path)
    assert total._source.count == 4
    theta = np.array([0.5, 2.0])
    near(tg.grad(total)(theta), columns_by_hand(theta), 1e4)
    with pytest.raises(tg.errors.OptionError, match="row groups"):
        tg.sum_over(by_columns, str(path), chunk=5)


def test_a_parquet_file_without_pyarrow_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(tg.errors.MissingPackageError, match="pip install pyarrow"):
        tg.sum_over(by_columns, "rows.parquet")


def test_collections_of_dask():
    array = pytest.importorskip("dask.array")
    x, y = rows_of(100)
    same = gradient((x, y), chunk=30)
    np.testing.assert_array_equal(gradient((array.from_array(x, chunks=(30, 2)), array.from_array(y, chunks=30))), same)
    with pytest.raises(tg.errors.ShapeError, match=r"data\[1\] has chunks of \(50, 50\) rows, data\[0\] of \(30, 30, 30, 10\)"):
        tg.sum_over(logistic, (array.from_array(x, chunks=(30, 3)), array.from_array(y, chunks=50)))
    with pytest.raises(tg.errors.StructureError, match=r"data\[1\] is not a Dask array"):
        tg.sum_over(logistic, (array.from_array(x, chunks=(30, 3)), y))
    with pytest.raises(tg.errors.OptionError, match="rechunk"):
        tg.sum_over(logistic, (array.from_array(x, chunks=(30, 3)), array.from_array(y, chunks=30)), chunk=10)


def test_data_frames_of_dask():
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = frames.from_pandas(pandas.DataFrame(COLUMNS), npartitions=3)
    theta = np.array([0.5, 2.0])
    near(tg.grad(tg.sum_over(by_columns, frame))(theta), columns_by_hand(theta), 1e4)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 11, 64, 100, 1000])
def test_the_tree_has_one_shape_whatever_the_order_and_the_branches(count):
    rng = np.random.default_rng(count)
    parts = [[1, np.exp(10.0 * rng.normal(size=3))] for _ in range(count)]
    found = set()
    for level in range(5):
        size = 1 << level
        tree, branches = PartialSum(), []
        for number in range(-(-count // size)):
            branch = PartialSum()
            for k, part in enumerate(parts[number * size : (number + 1) * size]):
                branch.add(0, k, part)
            branches.append((level, number, branch.total()))
        for k in rng.permutation(len(branches)):
            tree.add(*branches[k])
        rows, total = tree.total()
        assert rows == count
        np.testing.assert_allclose(total, np.sum([part[1] for part in parts], axis=0), rtol=1e-12)
        found.add(total.tobytes())
    assert len(found) == 1
