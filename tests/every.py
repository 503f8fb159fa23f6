"""Lists of cases in one test: all of them run, and every fault is reported with its case."""

import functools
import inspect
import traceback

import pytest


def faults(check, cases):
    """What `check` raises, by case; a case that is skipped is none."""
    found = {}
    for case in cases:
        try:
            check(case)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as error:
            found[case] = "".join(traceback.format_exception(error))
    return found


def every(names, values):
    """`pytest.mark.parametrize`, as one test.

    Thousands of tests that take a millisecond each cost more to be collected and reported than to be run.  The cases share fixtures.

    Parameters
    ----------
    names : str
        Parameters of the test, separated by commas.
    values : iterable, or callable that returns one
        Values of the parameter, tuples if there are several.  A callable is called by the test, not while tests are collected.
    """
    names = [name.strip() for name in names.split(",")]

    def one_test(test):
        @functools.wraps(test)
        def over_all(**fixtures):
            cases = [value if len(names) > 1 else (value,) for value in (values() if callable(values) else values)]
            passed = []

            def check(k):
                test(**fixtures, **dict(zip(names, cases[k], strict=True)))
                passed.append(k)

            found = faults(check, range(len(cases)))
            assert cases, "there are no cases"
            if not found and not passed:
                pytest.skip("every case is skipped")
            said_of_each = [f"{', '.join(map(_said, cases[k]))}\n{text}" for k, text in found.items()]
            if said_of_each:
                raise AssertionError("\n".join([f"{len(found)} of {len(cases)} cases fail", *said_of_each]))

        signature = inspect.signature(test)
        over_all.__signature__ = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in names])
        return over_all

    return one_test


def _said(value):
    return getattr(value, "__name__", None) or str(value)
