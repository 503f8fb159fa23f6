"""Sums computed by workers: the same bits, kernels that travel, workers that die, differ, or find what is not a number."""

import functools
import gc
import multiprocessing
import os
import pickle
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen import code
from tapegrad.many import engines
from tests.many.functions import Dying, Scaled, kernels, logistic, rows_of, with_holes

THETA = np.array([0.3, -0.7, 0.2])
DATA = rows_of(300)

processes = functools.partial(ProcessPoolExecutor, 2, multiprocessing.get_context("spawn"))


def bits(function, theta=THETA):
    value, gradient = function(theta)
    return value, gradient.tobytes()


@functools.cache
def here():
    """What one process gives."""
    return bits(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17)))


@pytest.fixture(scope="module")
def pool():
    with processes() as executor:
        yield executor


class Immediate(Executor):
    """Does everything at once, in the order of `choose`, after a trip through pickle; counts messages."""

    def __init__(self):
        self.messages = 0

    def submit(self, function, *arguments):
        self.messages += arguments[2] is not None
        future = Future()
        try:
            future.set_result(pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(arguments))))))
        except Exception as error:
            future.set_exception(error)
        return future


def test_processes_give_the_same_bits_and_compile_no_kernels(pool, monkeypatch):
    message = engines.Workers._message

    def forgotten(self, work, *rest):
        """What is on the disk goes once the message is made: workers have nothing but that."""
        made = message(self, work, *rest)
        for one in work.kernels():
            Path(code._path(one.object_code()[0], "kernel")).unlink(missing_ok=True)
        return made

    monkeypatch.setattr(engines.Workers, "_message", forgotten)
    total = tg.sum_over(logistic, DATA, chunk=17, client=pool)
    assert bits(tg.value_and_grad(total)) == here()
    counts = list(pool.map(kernels, range(8)))
    assert all(compiled == 0 for _, compiled, _ in counts) and any(loaded for *_, loaded in counts)
    alone = tg.sum_over(logistic, DATA, chunk=17)
    np.testing.assert_array_equal(tg.hessian(total)(THETA), tg.hessian(alone)(THETA))
    assert total(THETA) == alone(THETA)


def test_files_are_read_by_the_workers_several_chunks_a_task(pool, tmp_path):
    for name, array in zip("xy", DATA):
        np.save(tmp_path / f"{name}.npy", array)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]
    assert bits(tg.value_and_grad(tg.sum_over(logistic, tuple(mapped), chunk=17, client=pool))) == here()
    tasks = list(engines._tasks(tg.sum_over(logistic, tuple(mapped), chunk=1)._source, 8))
    assert len(tasks) == 38 and len(pickle.dumps(tasks[0].pieces)) < 5000
    assert bits(tg.value_and_grad(tg.sum_over(logistic, tuple(mapped), chunk=1, client=pool))) == bits(
        tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=1))
    )


def test_what_travels_travels_once():
    executor = Immediate()
    both = tg.distribute(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17)), executor)
    assert bits(both) == here()
    first = executor.messages
    assert 1 <= first <= tg.config.cores()
    assert bits(both) == here() and executor.messages == first
    # A worker that does not have it any more asks for it.
    engines._KNOWN.clear()
    assert bits(both) == here()
    second = executor.messages
    assert first < second <= first + engines.AHEAD * tg.config.cores()
    assert bits(both) == here() and executor.messages == second


@pytest.mark.parametrize("executor", [Immediate(), ThreadPoolExecutor(2)], ids=["pickled", "threads"])
def test_what_a_function_reads_is_sent_again_when_it_has_changed(executor):
    function = Scaled()
    both = tg.distribute(tg.value_and_grad(tg.sum_over(function, DATA, chunk=17)), executor)
    for function.factor in (1.0, 2.0, 2.0, 1.0):
        value, gradient = both(THETA)
        alone, slope = here()
        np.testing.assert_allclose(value, function.factor * alone)
        np.testing.assert_allclose(gradient, function.factor * np.frombuffer(slope))


@pytest.mark.parametrize("data", [lambda: iter([DATA[0], DATA[0] + 1.0]), DATA[0]])
def test_chunks_from_anywhere_by_threads(data):
    mean = tg.mean_over(lambda theta, x: np.sum(np.sin(x * theta)), data)
    with ThreadPoolExecutor(3) as executor:
        assert bits(tg.distribute(tg.value_and_grad(mean), executor)) == bits(tg.value_and_grad(mean))


def test_transformations_under_jit_and_optimisers_are_distributed():
    total = tg.sum_over(logistic, DATA, chunk=17)
    with ThreadPoolExecutor(2) as executor:
        assert bits(tg.distribute(tg.jit(tg.value_and_grad(total)), executor)) == here()
        for minimise in (tg.optimize.lbfgs, tg.optimize.gradient_descent, tg.optimize.adam, tg.optimize.minimize):
            options = {} if minimise is tg.optimize.minimize else {"max_iter": 5}
            np.testing.assert_array_equal(minimise(total, np.zeros(3), client=executor, **options).x, minimise(total, np.zeros(3), **options).x)


def test_a_worker_that_dies_is_replaced_and_its_chunks_are_computed_again(tmp_path):
    mark = tmp_path / "mark"
    alone = bits(tg.value_and_grad(tg.sum_over(Dying(str(mark)), DATA, chunk=17)))
    mark.write_text(str(os.getpid()))
    one = functools.partial(ProcessPoolExecutor, 1, multiprocessing.get_context("spawn"))
    assert bits(tg.value_and_grad(tg.sum_over(Dying(str(mark)), DATA, chunk=17, client=one))) == alone
    assert not mark.exists()


def test_workers_that_come_to_an_end_each_time():
    class Broken(Executor):
        made = 0

        def submit(self, *call):
            raise engines.BrokenExecutor

    def make():
        Broken.made += 1
        return Broken()

    with pytest.raises(tg.errors.WorkerError, match="that was done 3 times"):
        tg.sum_over(logistic, DATA, client=make)(THETA)
    assert Broken.made == 1 + engines.TRIES
    with pytest.raises(tg.errors.WorkerError, match=r"at one of: rows 0 to .*client=lambda: ProcessPoolExecutor"):
        tg.sum_over(logistic, DATA, chunk=17, client=Broken())(THETA)


def test_a_worker_with_another_version_says_so(pool, monkeypatch):
    monkeypatch.setattr(engines, "_release", lambda: ("0.0.1", "0123456789abcdef"))
    with pytest.raises(tg.errors.WorkerError, match=rf"process \d+ on .* has tapegrad {tg.__version__} .*, not 0\.0\.1 \(01234567\)"):
        tg.sum_over(logistic, DATA, client=pool)(THETA)


KilledWorker = type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})


@pytest.mark.parametrize(
    "error, kind, said",
    [
        (ModuleNotFoundError("No module named 'tapegrad'", name="tapegrad"), tg.errors.WorkerError, "cannot import tapegrad; install tapegrad"),
        (ModuleNotFoundError("No module named 'mine'", name="mine"), ModuleNotFoundError, "mine"),
        (KilledWorker("three times"), tg.errors.WorkerError, r"rows \d+ to \d+ has ended each worker .*: three times"),
        (ValueError("of the user's"), ValueError, "of the user's"),
    ],
)
def test_errors_that_engines_report(error, kind, said):
    class Failing(Executor):
        def submit(self, *call):
            future = Future()
            future.set_exception(error)
            return future

    with pytest.raises(kind, match=said):
        tg.sum_over(logistic, DATA, chunk=17, client=Failing())(THETA)


def test_what_is_not_a_number_is_named_by_chunk_and_worker(pool):
    data = np.ones(10)
    data[7] = -1.0
    with pytest.warns(RuntimeWarning, match=r"over rows 6 to 8 \(by process \d+ on .*\) of the data is not a number"):
        assert np.isnan(tg.sum_over(with_holes, data, chunk=3, client=pool)(1.0))


def test_an_error_in_a_worker_names_the_chunk(pool):
    data = (lambda: iter([rows_of(5), rows_of(5, columns=4)]))
    with pytest.raises(tg.errors.StructureError, match="chunk 1 is"):
        tg.sum_over(logistic, data, client=pool)(THETA)


def test_what_cannot_be_sent_or_distributed(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(tg.errors.StructureError, match="cannot be sent to workers: .*install cloudpickle"):
        tg.sum_over(lambda theta, rows: logistic(theta, rows), DATA, client=Immediate())(THETA)
    with ThreadPoolExecutor(1) as executor:
        total = tg.sum_over(lambda theta, rows: logistic(theta, rows), DATA, chunk=17)
        assert tg.distribute(total, executor)(THETA) == total(THETA)
        with pytest.raises(tg.errors.StructureError, match="is not a sum over data"):
            tg.distribute(logistic, executor)
        with pytest.raises(tg.errors.OptionError, match="threads= is for chunks"):
            tg.sum_over(logistic, DATA, threads=1, client=executor)
    for client in (3, lambda: 3):
        with pytest.raises(tg.errors.OptionError, match="give a distributed.Client"):
            tg.sum_over(logistic, DATA, client=client)


def test_code_that_was_sent_is_found_before_the_disk_and_checked(monkeypatch):
    monkeypatch.setattr(code, "RECEIVED", {})
    digest = code.digest_of("a key of this test")
    counts = {"compiled": 0, "loaded": 0}
    code.RECEIVED[digest] = code.sealed(digest, b"code")
    assert code.kept("a key of this test", lambda: b"made", counts) == b"code" and counts == {"compiled": 0, "loaded": 1}
    code.RECEIVED[digest] = code.sealed(digest, b"code")[:-1] + b"?"
    assert code.kept("a key of this test", lambda: b"made", counts) == b"made"
    Path(code._path(digest, "o")).unlink()


def test_joblib():
    joblib = pytest.importorskip("joblib")
    parallel = joblib.Parallel(2, backend="threading")
    both = tg.distribute(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17)), parallel)
    assert bits(both) == here() and bits(both) == here()


@pytest.mark.long
def test_processes_of_joblib():
    joblib = pytest.importorskip("joblib")
    assert bits(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17, client=joblib.Parallel(2)))) == here()


def test_dask():
    distributed, array = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        assert bits(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17, client=client))) == here()
        collections = tuple(array.from_array(a, chunks=(17, *a.shape[1:])) for a in DATA)
        for data in (collections, tuple(a.persist() for a in collections)):
            assert bits(tg.value_and_grad(tg.sum_over(logistic, data, client=client))) == here()


@pytest.mark.long
def test_processes_of_dask_of_which_one_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    mark = tmp_path / "mark"
    mark.write_text(str(os.getpid()))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, distributed.Client(cluster) as client:
        assert bits(tg.value_and_grad(tg.sum_over(logistic, DATA, chunk=17, client=client))) == here()
        assert bits(tg.value_and_grad(tg.sum_over(Dying(str(mark)), DATA, chunk=17, client=client))) == here()
    assert not mark.exists()


def test_threads_never_answer_with_a_function_of_before():
    """Its work had the address of its engine for a key: the next engine at that address was answered with another function."""
    x, found = np.arange(24.0).reshape(12, 2), []
    with ThreadPoolExecutor(2) as executor:
        for factor in range(30):
            total = tg.value_and_grad(tg.sum_over(lambda p, r, factor=factor: np.sum(r * p) * factor, x, client=executor))
            value, gradient = total(np.ones(2))
            found.append((value, *gradient))
            del total
            gc.collect()
    assert found == [(factor * x.sum(), *(factor * x.sum(0))) for factor in range(30)]
