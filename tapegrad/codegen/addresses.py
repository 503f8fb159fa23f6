"""Where the memory of an array is, asked through the buffer protocol; by compiled code, and from Python.

NumPy's arrays stay where they are as long as they live and are not resized, so an address holds while somebody keeps the
array; no view is held meanwhile.
"""

from __future__ import annotations

from .compile import compiled, helper
from .memory import load_int
from .python_api import DATA, STRIDED, get_buffer, new_int, release_buffer, room_for_view


@helper
def address_of(thing):
    """The address of the data of an array, or of what else has a buffer; -1 and an exception if it has none."""
    view = room_for_view()
    if get_buffer(thing, view, STRIDED) != 0:
        return -1
    address = load_int(view + DATA)
    release_buffer(view)
    return address


@compiled("object(object)")
def data_address(array):
    """The address of the data of an ndarray of any layout."""
    address = address_of(array)
    return 0 if address == -1 else new_int(address)
