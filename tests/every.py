"""Lists of cases in one test: all of them run, and every fault is reported with its case."""

import functools
import inspect
import itertools
import traceback

import pytest


def faults(check, cases):
    """Pairs of a case and what `check` raises there; a case that is skipped is none."""
    found = []
    for case in cases:
        try:
            check(case)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as error:
            found.append((case, "".join(traceback.format_exception(error))))
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
            said_of_each = [f"{', '.join(map(_said, cases[k]))}\n{text}" for k, text in found]
            if said_of_each:
                raise AssertionError("\n".join([f"{len(found)} of {len(cases)} cases fail", *said_of_each]))

        signature = inspect.signature(test)
        over_all.__signature__ = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in names])
        return over_all

    return one_test


def _said(value):
    return getattr(value, "__name__", None) or str(value)


def pairs(*factors):
    """Cases in which any two values of two factors meet at least once: few of a product.

    Parameters
    ----------
    factors : sequence
        Values of each factor.  Which of them meet does not depend on what they are, nor on chance.

    Returns
    -------
    list of tuple
    """
    factors = [list(values) for values in factors]
    sizes = [range(len(values)) for values in factors]

    def meeting(case):
        """The pairs in a case, by factor the number of its value."""
        return set(itertools.combinations(sorted(case.items()), 2))

    missing = set().union(*(meeting(dict(zip((i, j), two))) for i, j in itertools.combinations(range(len(factors)), 2) for two in itertools.product(sizes[i], sizes[j])))
    found = []
    while missing:
        case = dict(min(missing))
        for k in range(len(factors)):
            if k not in case:
                case[k] = max(sizes[k], key=lambda value: len(missing & meeting({**case, k: value})))  # noqa: B023
        missing -= meeting(case)
        found.append(tuple(values[case[k]] for k, values in enumerate(factors)))
    return found
