"""Signals and forks wait for what must not be left in the middle."""

import ast
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from _frozen_importlib import _ModuleLockManager
from importlib import import_module
from importlib.machinery import ModuleSpec

import pytest

from tapegrad.common.uninterrupted import cached_property, remade, uninterrupted
from tests.sources import PACKAGE, tree_of

LIBRARIES = ("numba", "scipy", "llvmlite.")

pytestmark = pytest.mark.usefixtures("interruptible")


@pytest.fixture
def handled():
    """Handlers for some signals: what they were called with."""
    calls, before = [], {}
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, lambda number, frame: calls.append((number, frame is not None)))
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number=signal.SIGINT):
    os.kill(os.getpid(), number)


# -- signals ----------------------------------------------------------------------------------
def test_ctrl_c_waits_until_the_end():
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        send()
        done.append(1)
    assert done and signal.getsignal(signal.SIGINT) is before
    # It comes once.
    with uninterrupted:
        pass


def test_nested_it_waits_for_the_outer_end():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        with uninterrupted:
            send()
        done.append(1)
    assert done


def test_as_a_decorator():
    done = []

    @uninterrupted
    def work():
        send()
        done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done


def test_handlers_of_users_are_called_once_each_for_every_signal(handled):
    with uninterrupted:
        for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
            send(number)
        assert not handled
    assert handled == [(signal.SIGUSR2, True), (signal.SIGUSR1, True)]


def test_all_handlers_are_called_though_one_raises(handled):
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        send(), send(signal.SIGUSR1)
    assert handled == [(signal.SIGUSR1, True)]


def test_an_error_inside_and_ctrl_c():
    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted:
        send()
        raise ValueError("inside")
    assert type(caught.value.__context__) is ValueError


def test_a_handler_set_inside_stays(handled):
    with uninterrupted:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN and callable(signal.getsignal(signal.SIGUSR2))


def test_what_has_no_handler_in_python_is_left_alone(handled):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with uninterrupted:
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        send(signal.SIGUSR1)


def test_in_another_thread_signals_are_not_held(handled):
    inside, go_on = threading.Event(), threading.Event()

    def work():
        with uninterrupted:
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    send(signal.SIGUSR1)
    found = list(handled)
    go_on.set(), thread.join()
    assert found == [(signal.SIGUSR1, True)]


def test_signals_at_any_moment_are_never_lost_and_handlers_always_come_back(handled):
    """From a timer, so that they come between any two lines of it."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    came = missed = 0
    try:
        for k in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (10 + k))
                with uninterrupted, uninterrupted:
                    pass
                time.sleep(0.005)
                missed += 1
            except KeyboardInterrupt:
                came += 1
            assert signal.getsignal(signal.SIGINT) is before and signal.getsignal(signal.SIGALRM) is signal.default_int_handler
            assert not uninterrupted._depth
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert came == 400 and not missed


# -- forks ------------------------------------------------------------------------------------
def in_child(work):
    """The exit code of a child that is forked here and does `work`; None if it hangs."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    for _ in range(1000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def held_elsewhere(lock):
    """Another thread that holds a lock until it is told to stop."""
    held, stop = threading.Event(), threading.Event()

    def work():
        with lock:
            held.set()
            stop.wait(20)

    threading.Thread(target=work, daemon=True).start()
    held.wait(10)
    return stop


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_child_gets_locks_anew(make):
    lock = remade(make())
    stop = held_elsewhere(lock)
    assert in_child(lambda: None if lock.acquire(timeout=5) else os._exit(2)) == 0
    stop.set()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_what_another_thread_does():
    done, inside = [], threading.Event()

    def work():
        with uninterrupted:
            inside.set()
            time.sleep(0.2)
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)

    def child():
        assert done
        with uninterrupted:
            pass

    assert in_child(child) == 0
    thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_the_compiler_locks_of_numba_and_llvm():
    ffi, locks = pytest.importorskip("llvmlite.binding.ffi"), pytest.importorskip("numba.core.compiler_lock")

    def child():
        with locks.global_compiler_lock, ffi.lib._lock, uninterrupted:
            pass

    for lock in (locks.global_compiler_lock, ffi.lib._lock):
        stop = held_elsewhere(lock)
        threading.Timer(0.2, stop.set).start()
        assert in_child(child) == 0 and stop.is_set()
    child()  # the parent has them free, too


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_inside_and_while_other_threads_go_in_and_out():
    stop = []

    def busy():
        while not stop:
            with uninterrupted:
                pass

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child():
        with uninterrupted:
            pass

    try:
        with uninterrupted:
            assert in_child(child) == 0
        assert [in_child(child) for _ in range(5)] == [0] * 5
    finally:
        stop.append(1)
        for thread in threads:
            thread.join()


# -- imports ----------------------------------------------------------------------------------
def modules():
    """Name -> (path, whether it is a package)."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if package else parts)] = path, package
    return found


def names(module, package, node):
    """Modules that an import statement may import."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    base = module.split(".") if package else module.split(".")[:-1]
    start = ".".join([*base[: len(base) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module
    return {start, *(f"{start}.{alias.name}" for alias in node.names)}


def test_libraries_are_imported_uninterrupted():
    """What is imported inside of a function, and imports Numba, LLVM or SciPy, stands under `uninterrupted` (or is `imported`)."""
    found, top, late = modules(), {}, []
    for module, (path, package) in found.items():
        top[module] = set()

        def visit(node, inside, held, module=module, package=package, path=path):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.Import, ast.ImportFrom)):
                    if not inside:
                        top[module] |= names(module, package, child)
                    elif not held:
                        late.append((f"{path.relative_to(PACKAGE)}:{child.lineno}", names(module, package, child)))
                    continue
                if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                    continue
                held_here = held or isinstance(child, ast.With) and "uninterrupted" in ast.dump(child.items[0])
                visit(child, inside or isinstance(child, (ast.FunctionDef, ast.Lambda)), held_here)

        visit(tree_of(path), False, False)

    def heavy(module, seen):
        if module == "scipy" or f"{module}.".startswith(LIBRARIES) and module != "llvmlite":
            return True
        if module not in top or module in seen:
            return False
        seen.add(module)
        return any(heavy(each, seen) for each in (*top[module], module.rpartition(".")[0]))

    wrong = [place for place, imports in late if any(heavy(each, set()) for each in imports)]
    # These run while code is compiled, which is not interrupted as a whole.
    allowed = ("nopython/compile.py", "codegen/of_rows.py")
    assert [place for place in wrong if not place.startswith(allowed)] == []


# -- whole programs ---------------------------------------------------------------------------
PROGRAMS = {
    "imports": """
        import signal
        import numpy as np, tapegrad as tg
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        def call():
            c = tg.compile(lambda x: np.sum(np.exp(x) * tg.erf(x)), np.ones(5)); c(np.ones(5), np.empty(5))
            assert tg.njit_grad(lambda x: x * x)(3.0) == 6.0
            tg.sparse_jacobian(lambda x: np.sin(x))(np.ones(3)); tg.optimize.minimize(lambda x: np.sum(x * x), np.ones(2))
        delay = 0.02
        for k in range(90):
            signal.setitimer(signal.ITIMER_REAL, delay); delay *= 1.12
            try: call(); signal.setitimer(signal.ITIMER_REAL, 0); print("finished after", k); break
            except KeyboardInterrupt: pass
    """,
    "kernels": """
        import os, random, signal, threading, time
        import numpy as np, tapegrad as tg
        random.seed(5)
        armed, stop = [], []
        def bomber():
            while not stop:
                time.sleep(random.uniform(0.0005, 0.02))
                if armed: os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=bomber); thread.start()
        end, came = time.time() + 10.0, 0
        def body():
            s = random.random()
            for make in (lambda f: tg.jit(tg.grad(f), kernel="always"), tg.jit, lambda f: tg.jit(tg.hessian(f), kernel="always")):
                g = make(lambda x: np.sum(np.sin(x) * s + x[0] * x))
                for k in range(3): g(np.linspace(0.1, 1.0, 5))
        while time.time() < end:
            try:
                armed.append(1); body()
            except KeyboardInterrupt: came += 1
            finally:
                try: armed.clear(); time.sleep(0.03)
                except KeyboardInterrupt: pass
        stop.append(1); thread.join()
        body(); print("finished after", came)
    """,
    # As a job that a shell starts with `&`: Ctrl-C is for others.
    "ignored": """
        import os, signal, threading, time
        import numpy as np, tapegrad as tg
        from tapegrad.common import pool
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop = []
        def bomber():
            while not stop: os.kill(os.getpid(), signal.SIGINT); time.sleep(0.002)
        thread = threading.Thread(target=bomber); thread.start()
        x = np.linspace(0.1, 0.9, 5)
        g = tg.jit(tg.grad(lambda x: np.sum(np.sin(x) * x)), kernel="always")
        for k in range(1, 4): np.testing.assert_allclose(g(k * x), np.cos(k * x) * k * x + np.sin(k * x), rtol=1e-12)
        assert pool.run(abs, 50) == list(range(50))
        assert tg.derivative(lambda t: tg.while_loop(lambda c: c < 1e5, lambda c: c + t, t))(0.5) > 1e5
        found = tg.optimize.gradient_descent(lambda x: np.sum((x - 1.0) ** 2), x, learning_rate=0.1)
        assert found.success and np.allclose(found.x, 1.0), found
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        stop.append(1); thread.join(); print("finished after", k)
    """,
    "forks": """
        import multiprocessing as mp, threading, time
        import numpy as np, tapegrad as tg
        x, stop = np.arange(4.0), []
        def work():
            h = tg.jit(tg.grad(lambda z: np.sum(np.exp(z) * 1.5)), kernel="always")
            for _ in range(3): h(x)
            assert tg.njit_grad(lambda z: z * z)(2.0) == 4.0
        def busy():
            k = 0
            while not stop:
                k += 1
                g = tg.jit(tg.grad(lambda z: np.sum(np.sin(z * k))), kernel="always")
                for _ in range(3): g(x)
                tg.njit_grad(lambda z: z * k)(2.0)
        thread = threading.Thread(target=busy, daemon=True); thread.start(); time.sleep(2.0)
        for n in range(6):
            child = mp.get_context("fork").Process(target=work); child.start(); child.join(60)
            hung = child.is_alive(); child.kill()
            assert not hung and child.exitcode == 0, child.exitcode
        stop.append(1); thread.join(); print("finished after", n)
    """,
}


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs(name):
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAMS[name])], capture_output=True, text=True, timeout=300, cwd=PACKAGE.parent
    )
    assert ended.returncode == 0 and "finished after" in ended.stdout, ended.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_property_that_another_thread_is_making_is_made_by_the_child():
    inside, go_on = threading.Event(), threading.Event()

    class Thing:
        wait = True

        @cached_property
        def number(self):
            inside.set()
            return self.wait and go_on.wait(30)

    thread = threading.Thread(target=lambda: Thing().number)
    thread.start()
    inside.wait(30)

    def work():
        Thing.wait = False
        assert Thing().number is False

    code = in_child(work)
    go_on.set(), thread.join()
    assert code == 0


def test_all_properties_that_are_kept_are_of_this_kind():
    sources = [path for path in PACKAGE.rglob("*.py") if path.name != "uninterrupted.py"]
    assert not [path.name for path in sources if re.search(r"@functools\.cached_property|functools import .*cached_property", path.read_text(encoding="utf-8"))]


@pytest.fixture
def slow_module(monkeypatch):
    """A module of ours whose import lasts until it is told to end; what it does is `slow_module.body`."""
    name, begun, go_on = "tapegrad.slow_module", threading.Event(), threading.Event()

    class Slow:
        def find_spec(self, wanted, path=None, target=None):
            return ModuleSpec(name, self) if wanted == name else None

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            begun.set()
            slow.body()
            go_on.wait(10)
            module.whole = True

    slow = types.SimpleNamespace(name=name, begun=begun, go_on=go_on, body=lambda: None)
    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    yield slow
    go_on.set()
    sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_imports_of_our_own_modules(slow_module):
    thread = threading.Thread(target=import_module, args=(slow_module.name,))
    thread.start()
    slow_module.begun.wait(10)
    threading.Timer(0.2, slow_module.go_on.set).start()
    assert in_child(lambda: import_module(slow_module.name).whole) == 0 and slow_module.go_on.is_set()
    thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_inside_of_such_an_import_for_which_another_thread_waits(slow_module):
    """The other thread imports a module of ours itself, which imports this one."""
    codes, waits = [], threading.Event()

    def other():
        with _ModuleLockManager("tapegrad.other"):
            waits.set()
            import_module(slow_module.name)

    def body():
        thread.start()
        waits.wait(10)
        time.sleep(0.2)
        codes.append(in_child(lambda: None))
        slow_module.go_on.set()

    slow_module.body, thread = body, threading.Thread(target=other)
    import_module(slow_module.name)
    thread.join()
    assert codes == [0]


FIRST_CALL = """
import os, random, signal, sys, threading, time
import numpy as np, tapegrad as tg
from _frozen_importlib import _module_locks
from importlib import import_module
forks, seed = map(int, sys.argv[1:])
draw, x = random.Random(seed), np.arange(4.0)

def call():
    return tg.jit(tg.grad(lambda z: np.sum(np.exp(z) * 1.5)))(x)

def child(whole):
    signal.alarm(100)
    for name in [*_module_locks, *sys.modules]:
        if name.startswith("tapegrad"):
            import_module(name)
    with tg.common.uninterrupted.uninterrupted:
        pass
    if whole:
        assert np.allclose(call(), np.exp(x) * 1.5)

thread = threading.Thread(target=call)
thread.start()
children = []
for k in range(forks):
    time.sleep(draw.uniform(0.0, 0.4))
    pid = os.fork()
    if not pid:
        try:
            child(k % 10 == 5)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    children.append(pid)
busy = thread.is_alive()
thread.join()
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children].count(0), busy)
"""


@pytest.mark.long
def test_no_child_hangs_that_is_forked_during_a_first_call_with_a_cold_cache(tmp_path):
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", FIRST_CALL, "30", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.split()[:1] == ["30"], done.stderr
