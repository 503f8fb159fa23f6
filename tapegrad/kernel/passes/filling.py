"""Fills of what is overwritten before it is read.

Adding to a window of an array begins with an array of zeros into which the window
is written.  Where nearly all of it is written before anything is read, only the
rest is filled, element by element::

    for i in range(100):                       t0[0] = 0.0
        t0[i] = 0.0                            for i in range(99):
    for i in range(99):                            t0[i + 1] = a0
        t0[i + 1] = a0
"""

from __future__ import annotations

from .. import ir
from .accesses import span

#: Elements, at most, that are filled one by one.
MOST = 4


def narrow(program):
    """Narrow fills in `program`, in place."""
    history = {}
    for position, top in enumerate(program.body):
        loads = set()
        for statement in ir.walk([top]):
            if isinstance(statement, ir.Load):
                loads.add(statement.buffer)
            elif isinstance(statement, ir.Run):
                loads |= statement.reads | statement.writes
        for buffer in loads:
            history.setdefault(buffer, []).append((position, None))
        for store in _stores(top):
            if store.buffer not in loads:
                history.setdefault(store.buffer, []).append((position, store))
    body = []
    for position, top in enumerate(program.body):
        body.append(top)
        if not isinstance(top, ir.Loop):
            continue
        own = set(ir.walk([top])) | set(top.carries)
        writes = [statement.buffer for statement in own if isinstance(statement, ir.Store)]
        for store in _stores(top):
            # What else the loop writes there would come before what is filled after it.
            alone = store.value not in own and writes.count(store.buffer) == 1
            missing = _missing(store, position, history[store.buffer]) if alone else None
            if missing is not None:
                top.body.remove(store)
                body += [ir.Store(store.buffer, ir.Index(element), store.value) for element in missing]
    program.body = [top for top in body if not isinstance(top, ir.Loop) or top.body or top.carries]
    return program


def _stores(top):
    """Stores of a loop, or of a statement by itself, to elements next to each other."""
    if isinstance(top, ir.Store):
        return [top] if span(top.index) and not top.index.steps and top.index.table is None else []
    if not isinstance(top, ir.Loop) or top.ragged:
        return []
    even = ((top, 1),), ((top, -1),)
    stores = (statement for statement in top.body if isinstance(statement, ir.Store))
    return [s for s in stores if s.index.table is None and s.index.plus is None and s.index.steps in even]


def _missing(fill, position, history):
    """Elements of `fill` that nothing writes before something is read; None if there are many or all."""
    if (position, fill) not in history:
        return None
    first, last = span(fill.index)
    left = [(first, last)]
    for later, store in history:
        if later <= position:
            continue
        if store is None:
            break
        low, high = span(store.index)
        parts = [part for a, b in left for part in ((a, min(b, low - 1)), (max(a, high + 1), b))]
        left = [(a, b) for a, b in parts if a <= b]
    count = sum(b - a + 1 for a, b in left)
    if count > min(MOST, last - first):
        return None
    return [element for a, b in left for element in range(a, b + 1)]
