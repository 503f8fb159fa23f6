"""How a test gets at an example: `load` imports the file."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def load():
    """``load("name")``: the module ``examples/name.py``."""

    def imported(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported


@pytest.fixture
def picture(tmp_path):
    """A path for a picture; that a PNG was written there is checked after the test."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.png"
    yield path
    assert path.read_bytes().startswith(b"\x89PNG")
