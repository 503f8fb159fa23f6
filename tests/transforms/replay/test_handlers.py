"""What could catch a floating-point error, or a warning, which a replay does not raise, is not recorded."""

import contextlib
import logging
import os
import sys
import threading
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.handlers import catcher
from tests.transforms.replay.test_exceptions import GOOD, check, recorded


def inner(x):
    return x[0] / x[1]


def plain_handler(x):
    try:
        return inner(x)
    except ZeroDivisionError:
        return x[0]


def of_all(x):
    try:
        return inner(x)
    except:  # noqa: E722
        return x[0]


def of_exception(x):
    try:
        return np.sum(1.0 / x)
    except Exception:
        return x[0]


def of_a_tuple(x):
    try:
        return inner(x)
    except (KeyError, OverflowError):
        return x[0]


def of_a_warning(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.sum(np.log(x))
        except RuntimeWarning:
            return x[0]


def outside(x):
    try:
        try:
            return inner(x)
        except KeyError:
            return x[1]
    except ArithmeticError:
        return x[0]


def around_a_finally(x):
    try:
        try:
            return inner(x)
        finally:
            x = None
    except FloatingPointError:
        return 0.0


def raising(x):
    with np.errstate(all="raise"):
        try:
            return np.sum(1.0 / x)
        except FloatingPointError:
            return 5.0 * np.sum(x)


def suppressing(x):
    with contextlib.suppress(FloatingPointError):
        return inner(x)
    return x[0]


def by_return(x):
    try:
        y = inner(x)
    finally:
        return y  # noqa: B012


def called_before(x):
    first = inner(x)
    try:
        second = inner(x)
    except Exception:
        second = 1.0
    return first * second


def of_classes_in_a_name(x):
    errors = (KeyError, FloatingPointError)
    try:
        return inner(x)
    except errors:
        return x[0]


def of_a_group(x):
    try:
        return inner(x)
    except* FloatingPointError:
        pass
    return x[0]


def around_one_that_logs(x):
    try:
        return only_logs(x)
    except ArithmeticError:
        return x[0]


def logs_or_not(x):
    try:
        return inner(x)
    except Exception:
        if LOG.name == "tests":
            return x[0]
        raise


def another_error(x):
    try:
        return inner(x)
    except Exception as error:
        raise KeyError from error


class Swallowing(contextlib.ContextDecorator):
    def __init__(self, errors=(FloatingPointError,)):
        self.errors = errors

    def __enter__(self):
        return self

    def __exit__(self, kind, error, place):
        return kind is not None and issubclass(kind, self.errors)

    @contextlib.contextmanager
    def quiet(self):
        try:
            yield
        except FloatingPointError:
            pass


@contextlib.contextmanager
def quiet(errors=FloatingPointError):
    try:
        yield
    except errors:
        pass


@contextlib.contextmanager
def quietly(more=True):
    with quietly(False) if more else Swallowing().quiet():
        yield


def by_a_class(x):
    with Swallowing():
        return inner(x)
    return x[0]


def by_a_generator(x):
    with contextlib.suppress(KeyError), quiet() as nothing:
        try:
            y = x
        finally:
            x = None
        return inner(y) if nothing is None else x
    return y[0]


def by_a_method(x):
    swallowing = Swallowing()
    with swallowing.quiet():
        return inner(x)
    return x[0]


def by_an_object(x):
    manager = quiet()
    with manager:
        return inner(x)
    return x[0]


def by_one_inside_of_another(x):
    with quietly():
        return inner(x)
    return x[0]


def by_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(FloatingPointError))
        return inner(x)
    return x[0]


def by_one_of_two(x):
    with Swallowing() if len(x) else warnings.catch_warnings():
        return inner(x)
    return x[0]


def by_what_is_in_a_list(x):
    with [contextlib.nullcontext, quiet][1]():
        return inner(x)
    return x[0]


def by_what_a_name_was(x):
    manager = Swallowing()
    with manager as manager.was:
        manager = None
        return inner(x)
    return x[0]


def by_suppress_of_a_list(x):
    with contextlib.suppress(*[KeyError, FloatingPointError]):
        return inner(x)
    return x[0]


WITH = (
    by_a_class, by_a_generator, by_a_method, by_an_object, by_one_inside_of_another, by_a_stack, by_one_of_two, by_what_is_in_a_list, by_what_a_name_was,
    by_suppress_of_a_list,
)  # fmt: skip

REFUSED = (
    *WITH,
    around_one_that_logs, logs_or_not, another_error,
    plain_handler, of_all, of_exception, of_a_tuple, of_a_warning, outside, around_a_finally, raising, suppressing, by_return, called_before,
    of_classes_in_a_name, of_a_group,
)  # fmt: skip


@pytest.mark.parametrize("first", [GOOD, 0.0 * GOOD], ids=["nothing raised", "something raised"])
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_a_handler_that_could_catch_a_floating_point_error_is_refused(function, first):
    g = recorded(function, "never")
    with np.errstate(all="ignore"):
        for x in (first, GOOD, 0.0 * GOOD, GOOD + 1.0):
            value, _ = g(x)
            np.testing.assert_allclose(value, np.asarray(function(tg.tensor(x)).item()))
    file, line, text = g.stats().fallback.split(":", 2)
    assert file == __file__ and "could catch a floating-point error" in text
    first_line = function.__code__.co_firstlineno
    assert first_line < int(line) < first_line + 12


def by_a_decorator(x):
    return decorated(quiet(), x)


def by_a_class_as_a_decorator(x):
    return decorated(Swallowing(), x)


def decorated(decorator, x):
    y = [x[0]]

    @decorator
    def assign():
        y[0] = inner(x)

    assign()
    return y[0]


@pytest.mark.parametrize("function", [*WITH, by_a_decorator, by_a_class_as_a_decorator], ids=lambda f: f.__name__)
def test_a_context_manager_that_catches_an_error_catches_it_under_jit(function):
    g = recorded(function, "never")
    with np.errstate(all="raise"):
        for x in (GOOD, 0.0 * GOOD, GOOD + 1.0):
            value, gradient = tg.value_and_grad(function)(x)
            again, slope = g(x)
            assert again == value and np.array_equal(slope, gradient)


def of_others(x):
    try:
        return inner(x)
    except (KeyError, np.linalg.LinAlgError):
        return x[0]


def elsewhere(x):
    try:
        scale = float("nothing")
    except Exception:
        scale = 2.0
    return scale * inner(x)


def in_the_handler(x):
    try:
        raise KeyError
    except Exception:
        return inner(x)


def with_a_finally(x):
    try:
        return inner(x)
    finally:
        x = None


def with_contexts(x):
    with np.errstate(all="ignore"), contextlib.suppress(KeyError), warnings.catch_warnings():
        return inner(x)


LOCK = threading.RLock()


@contextlib.contextmanager
def timed():
    with LOCK, contextlib.suppress(KeyError):
        try:
            yield
        finally:
            LOG.info("it took a while")


@timed()
def with_other_contexts(x):
    counted = Counted(x)
    with counted, counted.lock, timed() as nothing, open(os.devnull) as file, contextlib.redirect_stderr(file):
        return inner(x if nothing is None else file)


def in_a_loop(x):
    for _ in range(3):
        try:
            result = inner(x)
            break
        except ValueError as error:
            result = error
    return result + sum(inner(x) for _ in range(2)) + [inner(x) for _ in range(2)][0]


LOG = logging.getLogger("tests")


def only_logs(x):
    try:
        return inner(x)
    except Exception as error:
        LOG.error("at %s: %s", x, error)
        raise


def only_logs_sometimes(x):
    try:
        return inner(x)
    except:
        for name in ("one", "two"):
            if name in LOG.name:
                LOG.error("that is %s", name)
        raise


OTHERS = [of_others, elsewhere, in_the_handler, with_a_finally, with_contexts, with_other_contexts, in_a_loop, only_logs, only_logs_sometimes]


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.__name__)
def test_other_handlers_are_not(function):
    g = recorded(function, "never")
    for n in range(5):
        check(function, g, GOOD + 0.1 * n)
    assert not g.stats().fallback and g.stats().tapes == 1


class Counted:
    def __init__(self, x):
        self.x, self.reads, self.lock = x, 0, threading.Lock()

    @property
    def energy(self):
        self.reads += 1
        return np.sum(self.x**2) * self.reads

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def test_looking_for_handlers_runs_no_property():
    def f(x):
        counted = Counted(x)
        total = counted.energy + counted.energy
        with counted as c:
            return total + c.energy * c.x[1]

    g = recorded(f, "never")
    check(f, g, GOOD)
    check(f, g, GOOD + 1.0)
    assert not g.stats().fallback


def test_handlers_around_the_call_do_not_count():
    g = recorded(inner, "never")
    try:
        g(GOOD)
        g(GOOD + 1.0)
    except Exception:
        raise
    assert not g.stats().fallback


def test_the_line_of_a_handler():
    seen = []

    def look(base):
        seen.append(catcher(sys._getframe(1), base))

    try:
        look(sys._getframe(1).f_code)
    except OverflowError:
        pass
    try:
        # Not called from there.
        look(check.__code__)
    except OverflowError:
        pass
    line = look.__code__.co_firstlineno + 5
    assert seen.pop() is None
    assert seen == [f"{__file__}:{line}: the handler `except OverflowError` could catch a floating-point error, which a replay does not raise"]
