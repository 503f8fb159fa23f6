"""Functions without derivative that tapegrad itself uses, by name, so that a saved tape can say which.

`record_aux` and `guard_on` (tapegrad.array.record) take any function of plain arrays.  A closure
would do for a replay, but not for a file: a function registered here is called with
the values and then with plain data that a file can hold.
"""

from .errors import require

#: Name -> function of ``(*values, *data)``.
FUNCTIONS = {}


class HostFunction:
    """A registered function with its data, to be called on values.

    Parameters
    ----------
    name : str
        In `FUNCTIONS`.
    data : tuple
        Numbers, strings, None, arrays, and tuples of these.
    """

    __slots__ = ("name", "data")

    def __init__(self, name, data):
        self.name, self.data = name, data

    @property
    def __name__(self):
        return self.name

    def __call__(self, *values):
        return FUNCTIONS[self.name](*values, *self.data)


def host_function(function):
    """Decorator: register ``function(*values, *data)``; what it becomes takes the data and gives the function of the values."""
    name = function.__name__.lstrip("_")
    require(name not in FUNCTIONS, f"two functions are named {name}")
    FUNCTIONS[name] = function

    def with_data(*data):
        return HostFunction(name, data)

    with_data.__name__, with_data.__doc__ = function.__name__, function.__doc__
    return with_data
