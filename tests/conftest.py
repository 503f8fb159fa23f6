"""What holds for all tests."""

import filecmp
import gc
import os
import signal
import site
import sys
import tempfile
import time
from pathlib import Path

# Before tapegrad is imported, here and in the processes that tests start: faults while kernels are made are raised (users get
# the sweep's answer), and descriptions are compared with values.  Nothing is said of waiting: what is compiled already, nobody knows.
os.environ["TAPEGRAD_STRICT"] = os.environ["TAPEGRAD_QUIET"] = "1"
# Numbers are native, compiled where they have to be; the suite is run with "never", too.
os.environ.setdefault("TAPEGRAD_NATIVE", "always")
# Programs that JAX compiles to be compared with run once: to optimize them takes longer than to run them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import pytest

from tapegrad.codegen import code, disk, pack
from tapegrad.common.waiting import busy
from tapegrad.interpreter.walks import walks
from tapegrad.kernel.kernel import Kernel
from tapegrad.tape.store import TapeStore, thread_state

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Bytecode goes elsewhere then: or every process that a test starts would compile all modules again.
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), "tapegrad-bytecode"))
    sys.dont_write_bytecode = False

# Asserts of what tests have in common are kept, too, when the tests run under `python -O` (those of tests always are).
_HERE = Path(__file__).parent
pytest.register_assert_rewrite(*(f"tests.{path.stem}" for path in _HERE.iterdir() if path.stem != "conftest"))


def pytest_configure(config):
    """What ``pip install .`` has compiled of these very sources is not compiled again, nor by processes that tests start."""
    if hasattr(config, "workerinput"):
        return
    here = pack.FILE.parents[1]
    names = [str(path.relative_to(here)) for path in here.rglob("*.py")]
    for folder in site.getsitepackages():
        there = Path(folder, here.name)
        file = there / pack.FILE.relative_to(here)
        if file.exists() and len(filecmp.cmpfiles(here, there, names, shallow=False)[0]) == len(names):
            for digest, kept in pack.codes(file).items():
                if not (path := code._path(digest, "o")).exists():
                    disk.write(path, kept)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tens of thousands of tests are made that stay to the end: searching them for garbage took a third of the time to collect them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Tests of kernels as users have them: of kernels themselves, frozen bits, programs of several features, examples, and those that are
#: sent to other processes; of rows the mode "kernel".
_OPTIMISED = ("compositions", "examples", "frozen", "gradbench", "kernel", "many", "ratchet", "test_docs.py")


@pytest.fixture(scope="module", autouse=True)
def kernels_are_not_optimised_elsewhere(request):
    """Thousands of kernels are run a few times each, by tests of what stands above them: to optimise one takes three times
    as long as to make it.

    ``pytest --optimised`` optimises all of them.
    """
    if request.config.getoption("--optimised") or request.path.relative_to(_HERE).parts[0] in _OPTIMISED:
        yield
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Kernel, "_chosen", lambda self: (0, 0))
            yield


@pytest.fixture(autouse=True)
def background_tasks_are_over():
    """A kernel that another thread still compiles for an earlier test keeps this one's from being compiled at once."""
    limit = time.monotonic() + 60.0
    while busy():
        assert time.monotonic() < limit, "a background task does not end"
        time.sleep(0.005)


def pytest_addoption(parser):
    parser.addoption("--optimised", action="store_true", help="optimise the kernels of all tests, as users' are")


@pytest.fixture
def fresh_store():
    """The test begins on a store of its own, where nothing of earlier tests lies (hooks, leaves)."""
    state = thread_state()
    state.store = state.anonymous = TapeStore(state)


@pytest.fixture
def interruptible():
    """Ctrl-C raises, here and in processes that a test starts: a job that a shell starts with ``&`` ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_searched_again():
    """What a file leaves behind on purpose (tables, kernels, imported libraries) is not searched for garbage ever after.

    Nor do the next files record behind the long tapes of this one, which are forgotten only when there is no more room.
    """
    yield
    gc.collect()
    gc.freeze()
    store = thread_state().anonymous
    if not store.pinned:
        walks.reclaim(store)
