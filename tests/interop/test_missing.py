"""Without the other library it is said what to install."""

import importlib.util

import pytest

from tapegrad.errors import MissingPackageError
from tapegrad.interop import to_jax, to_pytensor, to_torch


@pytest.mark.parametrize(("make", "name"), [(to_torch, "torch"), (to_jax, "jax"), (to_pytensor, "pytensor")])
def test_what_is_not_installed_is_said(make, name, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked, *more: None if asked == name else found(asked, *more))
    with pytest.raises(MissingPackageError, match=f"pip install {name}"):
        make(lambda x: x)
