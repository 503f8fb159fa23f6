"""What was recorded of a function or a method, kept as long as the function or the object lives.

A second optimisation of the same function need not record it again, nor a second call of a method under `jit`.  What is kept
hangs on the function or object itself, as an attribute: the two form a cycle, which Python's
garbage collector takes when nothing refers to it any more.
"""

import types

#: The attribute of a function or object under which its recordings are kept.
KEPT = "__tapegrad__"


class Keep:
    """Recordings of one function or object, by what they are for.

    Attributes
    ----------
    function : object
        Whose they are: an attribute may have been copied to another one.
    made : dict
    """

    __slots__ = ("function", "made")

    def __init__(self, function=None):
        self.function, self.made = function, {}

    def __reduce__(self):
        # A pickled or copied function begins anew.
        return Keep, ()


def kept(function, key, make):
    """``make(function)``, made once for each `key` and kept with the function.

    What is made of a bound method is kept with its object.  For what takes no attributes (builtins, objects with slots) it is made each time.
    """
    if isinstance(function, types.MethodType):
        return kept(function.__self__, (function.__func__, key), lambda _: make(function))
    attributes = getattr(function, "__dict__", None)
    if not isinstance(attributes, dict):
        return make(function)
    found = attributes.get(KEPT)
    if type(found) is not Keep or found.function is not function:
        found = Keep(function)
        try:
            setattr(function, KEPT, found)
        except (AttributeError, TypeError):
            return make(function)
    if key not in found.made:
        found.made[key] = make(function)
    return found.made[key]
