"""``dir()`` of public modules: what they offer."""

import importlib

import pytest

MODULES = (
    "tapegrad automata autograd errors hips interop nn nn.functional numpy optim optimize scipy scipy.fft scipy.integrate scipy.interpolate scipy.linalg "
    "scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.spatial scipy.spatial.distance scipy.special scipy.stats tree utils.data"
).split()


@pytest.mark.parametrize("name", MODULES)
def test_dir_lists_public_names_that_are_there(name):
    module = importlib.import_module(name if name == "tapegrad" else f"tapegrad.{name}")
    names = [n for n in dir(module) if not n.startswith("__")]
    assert names and not [n for n in names if n.startswith("_")]
    # What is imported to be used, not to be offered.
    assert not {"np", "Any", "Callable", "annotations", "own_names", "mirror", "only_public"} & set(names)
    assert [n for n in names if not hasattr(module, n)] == []
