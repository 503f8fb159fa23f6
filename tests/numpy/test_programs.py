"""Programs written for HIPS autograd (`programs.py`, `more_programs.py`), with nothing but the import changed."""

import types
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.tree import flatten, unflatten

SOURCES = [Path(__file__).with_name(name) for name in ("programs.py", "more_programs.py")]


def loaded(package, source):
    """The programs of a file, written for `package`."""
    module = types.ModuleType(f"programs_of_{package}")
    text = source.read_text(encoding="utf-8").replace("import autograd.", f"import {package}.").replace("from autograd", f"from {package}")
    exec(compile(text, str(source), "exec"), vars(module))
    return module


OURS = {source: loaded("tapegrad", source) for source in SOURCES}
PROGRAMS = {program.__name__: (source, program) for source, module in OURS.items() for program in module.PROGRAMS}


def test_there_are_many():
    assert len(PROGRAMS) == sum(len(module.PROGRAMS) for module in OURS.values()) >= 60


def same(found, expected, rtol):
    found, expected = flatten(found)[0], flatten(expected)[0]
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert np.shape(f) == np.shape(e)
        np.testing.assert_allclose(np.asarray(f), np.asarray(e), rtol=rtol, atol=rtol)


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("autograd")
    return {source: loaded("autograd", source) for source in SOURCES}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_hips_autograd(name, theirs):
    source, program = PROGRAMS[name]
    same(OURS[source].answer(program), theirs[source].answer(getattr(theirs[source], name)), 1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_differences_and_in_other_modes(name):
    function, argument = PROGRAMS[name][1]()
    leaves, structure = flatten(argument)
    value, gradient = tg.value_and_grad(function)(argument)
    assert float(value) == pytest.approx(float(function(argument)), rel=1e-12)  # on plain arrays
    rng = np.random.default_rng(0)
    ways = [rng.standard_normal(np.shape(x)) for x in leaves]

    def along(s):
        return float(function(unflatten(structure, [x + s * d for x, d in zip(leaves, ways)])))

    measured = (along(1e-6) - along(-1e-6)) / 2e-6
    slope = sum(float(np.sum(g * d)) for g, d in zip(flatten(gradient)[0], ways))
    assert slope == pytest.approx(measured, rel=1e-5, abs=1e-7)
    _, tangent = tg.jvp(function, (argument,), (unflatten(structure, ways),))
    assert float(tangent) == pytest.approx(slope, rel=1e-9, abs=1e-11)
    replayed = tg.jit(tg.grad(function))
    for _ in range(2):
        same(replayed(argument), gradient, 1e-9)
    moved = unflatten(structure, [x * 1.01 for x in leaves])
    same(replayed(moved), tg.grad(function)(moved), 1e-9)
