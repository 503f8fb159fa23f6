"""What the body of a loop changes besides its carry: random generators, counters, lists, arrays that it captures.

A body is recorded once for each path, and more often where a first recording did not do; in the Python loop it runs in every iteration.
That is the same as long as it changes nothing.  So what it reads is looked at before and after (`transforms.contents`).  If
something is another thing then, it is put back to what it was, and the loop runs as the Python loop that it stands for, iteration by iteration.
Under `jit` nothing is looked at: there a body is under the contract of `jit`.
"""

from ...common.observers import LISTENERS
from ...tape.places import function_name
from ...tape.store import thread_state
from ..contents import OBJECTS, Contents
from .body import Unrecordable, records_for_jit

#: Bytes of an array of which a copy is kept.
COPIED = 1 << 24


def state_of(functions):
    """What functions read, to be put back."""
    return Contents(functions[0], OBJECTS, [(function_name(function), function) for function in functions[1:]], COPIED)


def run(functions, what, recorded, plainly, state=None):
    """``recorded()``, or what ``plainly()`` gives if that cannot be, or changes something that the functions read.

    Parameters
    ----------
    functions : sequence of callable
    what : str
        How they are named in messages.
    recorded, plainly : callable
    state : Contents, optional
        What they read before; by default, now.
    """
    if thread_state().checking is not None or LISTENERS:
        return plainly()
    jit = records_for_jit()
    state = None if jit else state or state_of(functions)
    if jit or not state.iterates:
        try:
            result = recorded()
            if jit or not state.changed():
                return result
        except Unrecordable:
            pass
        except Exception:
            if jit or not state.changed():
                raise
        if not jit:
            state.put_back(what)
    return plainly()
