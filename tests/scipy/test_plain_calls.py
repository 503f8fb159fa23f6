"""SciPy's functions as they are, without a mirror: on tensors right, or refused; SciPy that asks for the array API makes more of them right."""

import json
from collections import Counter

import pytest

from tests.scipy import plain_calls
from tests.test_import import fresh


def counted(outcomes):
    """How many calls do what, where something is differentiated under `jit`; first that none is wrong in any mode."""
    assert len(outcomes) > 150
    assert [(name, mode) for name, said in outcomes.items() for mode, what in said.items() if what == "wrong"] == []
    return Counter(said["jit"].partition(" ")[0] for said in outcomes.values())


@pytest.fixture(scope="module")
def plain():
    return plain_calls.outcomes()


@pytest.fixture(scope="module")
def asking():
    """The same where SciPy asks arrays for their namespace, which it decides when it is imported."""
    return json.loads(fresh("import json; from tests.scipy.plain_calls import outcomes; print(json.dumps(outcomes()))", SCIPY_ARRAY_API="1"))


def test_no_derivative_is_lost(plain):
    assert counted(plain)["right"] >= 15
    # A constant has none to lose; SciPy takes it for an array.
    assert {said["constant"] for said in plain.values()} == {"right"}
    assert {said["reverse"] for name, said in plain.items() if said["jit"] != "right"} <= {"raises LeaveTapeError", "raises UnsupportedFunctionError"}


def test_no_derivative_is_lost_by_the_array_api(asking):
    assert counted(asking)["right"] >= 20
    for name in ("special.logsumexp", "stats.skew", "stats.gmean", "optimize.rosen", "integrate.trapezoid"):
        assert set(asking[name].values()) == {"right"}, name
