"""What holds for all tests."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_searched_again():
    """What a file leaves behind on purpose (tables, kernels, imported libraries) is not searched for garbage ever after."""
    yield
    gc.collect()
    gc.freeze()
