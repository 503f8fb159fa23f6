"""Arrays that are written element by element keep one place.

``y[i] = v`` makes a new version of `y`.  Where nobody reads the old one any more, the
new one takes its place, so that a loop over elements costs as much as it has
elements.  A *storage* is one buffer for the versions of several templates: writes, which
change what is there, and whatever computes the first version.  It is sound if each version is read
for the last time before the next one of the same storage is made (or by the write that
makes it); that is checked instruction by instruction, on the recorded order, which is
the order of execution.  What comes from outside is copied into the storage before the
loop whose first iteration wants it.
"""

from __future__ import annotations

import numpy as np

from ..replay.trace import GUARD, ROW
from ..rules import BY_NAME
from .arrays_views import VIEWS

#: Rows that give their first operand with some elements changed.
WRITES = {BY_NAME[name] for name in ("setitem", "put", "add_window", "add_at")}


class Storage:
    """One buffer for the versions of several templates.

    Attributes
    ----------
    templates : list of Template
        All of them.
    writes : set of Template
        Those that change what is there.
    copies : dict
        (body, place) -> reference to something from outside that is copied there before that node.
    """

    def __init__(self, templates, writes):
        self.templates, self.writes = templates, writes
        self.copies = {}
        self.buffer = None


class _Unsound(Exception):
    pass


def place_writes(references):
    """Give templates of indexed assignments, and what they write into, their storages.

    Parameters
    ----------
    references : References
        Not resolved yet; `storage` of its templates is set.
    """
    columns = references.columns
    items = columns.tape.items
    if not any(item.entry.kind == ROW and item.entry.function in WRITES for item in items):
        return
    readings = _Readings(references)
    writes = {t for t in readings.writers if readings.gives_way(t)}
    for storage in _classes(references, writes):
        try:
            _check(storage, readings, references)
        except _Unsound:
            continue
        for t in storage.templates:
            t.storage = storage
        for (body, place), r in storage.copies.items():
            body.copies.setdefault(place, []).append((storage, r))


class _Readings:
    """When arrays are read, for each array the last time.

    Attributes
    ----------
    last : dict
        Instruction (or reference to something from outside) -> number of the last one that reads it, or a window on it.
    root : dict
        Windows -> what they look at.
    writers : list of Template
    """

    def __init__(self, references):
        self.references, columns = references, references.columns
        tape, first, operands = columns.tape, columns.first.tolist(), columns.operands
        self.last, self.root = {}, {}
        numbers = np.flatnonzero(columns.item >= 0)
        writers = {}
        for i, k in zip(numbers.tolist(), columns.item[numbers].tolist()):
            entry = tape.items[k].entry
            for r in operands[first[i] : first[i + 1]].tolist():
                self.last[self.root.get(r, r)] = i
            if entry.kind == ROW and entry.meta.shape and entry.function in VIEWS:
                r = int(operands[first[i]])
                self.root[i] = self.root.get(r, r)
            elif entry.kind == ROW and entry.function in WRITES:
                writers[references.owner[i]] = None
        for slot, _ in tape.outputs:
            if slot:
                r = int(columns.reference[slot])
                self.last[self.root.get(r, r)] = len(columns)
        self.writers = [references.templates[number] for number in writers]

    def operand(self, t, k):
        """References of operand `k` of a template."""
        columns = self.references.columns
        return columns.operands[columns.first[t.members] + k]

    def gives_way(self, t):
        """Whether every execution of the write `t` is the last reader of what it changes."""
        targets, values = self.operand(t, 0).tolist(), self.operand(t, 1).tolist()
        if max(targets) < 0:
            return False
        for i, r, v in zip(t.members.tolist(), targets, values):
            if r >= 0 and (self.root.get(r, r) != r or self.last[r] > i or self.root.get(v, v) == r):
                return False
        return True


def _classes(references, writes):
    """Storages of writes and the templates whose results they change."""
    group = {}

    def find(number):
        while group.setdefault(number, number) != number:
            number = group[number]
        return number

    columns = references.columns
    for t in writes:
        refs = columns.operands[columns.first[t.members]]
        for owner in np.unique(references.owner[refs[refs >= 0]]).tolist():
            group[find(owner)] = find(t.number)
    found = {}
    for number in sorted(group):
        found.setdefault(find(number), []).append(references.templates[number])
    return [Storage(templates, {t for t in templates if t in writes}) for templates in found.values()]


def _check(storage, readings, references):
    """Raise `_Unsound` unless the storage may hold all its versions; note what is copied into it."""
    columns, owner = references.columns, references.owner
    own = np.zeros(len(references.templates), bool)
    own[[t.number for t in storage.templates]] = True
    #: Reads of what was copied from outside.
    reads = []
    for t in references.templates:
        begin = int(columns.first[t.members[0]])
        for k in range(int(columns.first[t.members[0] + 1]) - begin):
            refs = columns.operands[columns.first[t.members] + k]
            inside = refs >= 0
            mine = inside & own[owner[np.where(inside, refs, 0)]]
            if not mine.any():
                continue
            if (inside & ~mine).any():
                raise _Unsound
            if not inside.all():
                _copied(storage, refs, t.body, t.place)
                reads += t.members[~inside].tolist()
    versions = [(int(i), i, t in storage.writes) for t in storage.templates for i in t.members.tolist()]
    for (body, place), r in storage.copies.items():
        versions += [(time - 0.5, r, False) for time in body.nodes[place].begun.tolist()]
    versions.sort()
    times = np.array([time for time, _, _ in versions])
    last = [readings.last.get(r, -1) if r >= 0 else -1 for _, r, _ in versions]
    for i, k in zip(reads, (np.searchsorted(times, reads) - 1).tolist()):
        if k < 0 or versions[k][1] >= 0:
            raise _Unsound
        last[k] = max(last[k], i)
    first, operands = columns.first, columns.operands
    for k in range(1, len(versions)):
        time, i, write = versions[k]
        before = versions[k - 1][1]
        if write and operands[first[i]] != before:
            raise _Unsound
        if last[k - 1] > time or last[k - 1] == time and not write:
            raise _Unsound
    if versions[0][2]:
        raise _Unsound


def _copied(storage, refs, body, place):
    """Note where things from outside that `refs` mean, before node `place` of `body`, are copied."""
    outside = refs < 0
    if outside.all():
        if (refs != refs[0]).any() or storage.copies.setdefault((body, place), int(refs[0])) != refs[0]:
            raise _Unsound
    elif outside.any():
        level = body.levels[-1] if body.levels else None
        if level is None or (outside & ~level.begins).any():
            raise _Unsound
        _copied(storage, refs[level.first], level.parent, level.place)
