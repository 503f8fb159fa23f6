"""The words in memory that bind the names of a function, for compiled code to compare.

`Surroundings.changed` asks Python whether every name that a function uses is bound to
the same object; that costs half a microsecond.  Nearly all of these bindings are one
word each, which compiled code compares in a nanosecond: the content of a cell, the value
in an entry of a dict (while the dict keeps the same table), code and defaults of a
function.  Their places are found by looking for what is known to stand there, so nothing
is taken for granted about the layout but that a key and its value are neighbours; a
binding whose place is not found is left to Python.

So for ``def f(x): return scale * x`` with a global `scale` there are three words to compare, each an
address and what it holds: the pointer of the globals to their table, the key in the entry of
"scale", and the value beside it.
"""

from __future__ import annotations

import ctypes

import numpy as np

#: Address of the word in a cell, and of the pointer to the table in a dict, from the address of the object.
_CELL, _TABLE = 16, 32


def _word(address):
    return ctypes.c_ssize_t.from_address(address).value


def _offsets():
    """Where a function object holds its code, defaults and keyword defaults; None where they are not found."""

    def probe(a=object(), *, b=object()):
        return a, b

    size = probe.__sizeof__()
    found = []
    for part in (probe.__code__, probe.__defaults__, probe.__kwdefaults__):
        at = [k for k in range(16, size, 8) if _word(id(probe) + k) == id(part)]
        if len(at) != 1:
            return None
        found += at
    return found


_FUNCTION = _offsets()


#: What is looked at for the counter: keys that leave room for one more, and bytes of the head of a table.
_KEYS, _HEAD = 20, 48


def _counter():
    """Where the table of a dict holds a number that changes by one with every new key."""
    scope = {f"key {k}": k for k in range(_KEYS)}
    table = _word(id(scope) + _TABLE)
    before = [_word(table + k) for k in range(0, _HEAD, 8)]
    scope["another"] = 0
    if _word(id(scope) + _TABLE) != table:
        return None
    at = [8 * k for k, word in enumerate(before) if abs(_word(table + 8 * k) - word) == 1]
    return at[0] if at else None


_COUNTER = _counter()


def _pointer(thing):
    """What a word holds that may be NULL for None."""
    return 0 if thing is None else id(thing)


def of_function(function, parts):
    """Words of the defaults, keyword defaults and code of a function: a flat list of addresses and contents, or None."""
    if _FUNCTION is None:
        return None
    defaults, named, code = parts
    words = []
    for offset, part in zip(_FUNCTION, (code, defaults, named)):
        words += [id(function) + offset, _pointer(part)]
    return words if holds(words) else None


def of_cell(cell, content):
    """Words of a cell, or None."""
    words = [id(cell) + _CELL, id(content)]
    return words if holds(words) else None


def of_item(scope, name, value):
    """Words of the entry of a dict: its table, the key and the value; or None."""
    table = _word(id(scope) + _TABLE)
    if name not in scope:
        # Found in the builtins, or nowhere: no key may be added.
        return None if _COUNTER is None else [id(scope) + _TABLE, table, table + _COUNTER, _word(table + _COUNTER)]
    # The table is what the dict takes beside its own object (32 bytes behind the pointer at most): read no further.
    held = np.frombuffer(ctypes.string_at(table, (dict.__sizeof__(scope) - _TABLE - 32) // 8 * 8 + 8), np.intp)
    # Names in code and keys of modules are interned: nearly always the key is this very object.
    for key in (name, next(k for k in scope if k == name)):
        at = np.flatnonzero((held[:-1] == id(key)) & (held[1:] == id(value)))
        if len(at):
            at = table + 8 * int(at[0])
            return [id(scope) + _TABLE, table, at, id(key), at + 8, id(value)]
    return None


def holds(words):
    """Whether all words hold what they held."""
    return all(_word(address) == content for address, content in zip(words[::2], words[1::2]))
