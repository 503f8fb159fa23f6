"""What holds for all tests."""

import gc
import os

import pytest

from tapegrad.common import config
from tapegrad.tape.store import thread_state

# A fault while a kernel is made is raised here, and in processes that tests start; users get the sweep's answer.
config.strict, os.environ["TAPEGRAD_STRICT"] = True, "1"


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_searched_again():
    """What a file leaves behind on purpose (tables, kernels, imported libraries) is not searched for garbage ever after.

    Nor do the next files record behind the long tapes of this one, which are forgotten only when there is no more room.
    """
    yield
    gc.collect()
    gc.freeze()
    store = thread_state().anonymous
    if not store.pinned:
        store.flush()
        store.reclaim()
