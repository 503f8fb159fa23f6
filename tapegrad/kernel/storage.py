"""Arrays that are written element by element keep one place.

``y[i] = v`` makes a new version of `y`.  Where the old one is no longer read, the
new one takes its place, so that a loop over elements costs as much as it has
elements.  A *storage* is one buffer for the versions of several templates: writes, which
change what is there, and what computes the first version, if that can be computed there.  Any other
first version is copied into the storage before the loop whose first iteration wants it::

    y0 = np.zeros(n)                        the storage: zeros
    y1 = y0 with element 0 = x[0] ** 2      a store to element 0: it is y1 now, and y0 is gone
    y2 = y1 with element 1 = x[1] ** 2      a store to element 1, in the next iteration of the same loop

That is sound if each version is read for the last time before the next one of the same
storage is made, or by the write that makes it; it is checked instruction by
instruction, on the recorded order, which is the order of execution.
"""

import numpy as np

from ..program.trace import ROW
from ..tape.watch import PART
from .columns import distinct, joined


class Storage:
    """One buffer for the versions of several templates.

    Attributes
    ----------
    templates : list of StatementNode
        All of them.
    writes : set of StatementNode
        Those that change what is there.
    copies : dict
        (body, position) -> references, one for each execution, to what is copied there before that node.
    """

    def __init__(self, templates, writes):
        self.templates, self.writes = templates, writes
        self.copies = {}
        #: Its ArrayRef, which the builder makes.
        self.array = None


class _Unsound(Exception):
    pass


def place_writes(references):
    """Give templates of indexed assignments, and what they write into, their storages.

    Parameters
    ----------
    references : References
        Not resolved yet; `storage` of its templates is set.

    Returns
    -------
    list of Storage
    """
    if not any(map(_writes, references.columns.tape.items)):
        return []
    placement = _Placement(references)
    storages = placement.run()
    if len(_written(storages)) < len(placement.writers):
        # What reads small parts of a version later, as the way back does, reads copies of them.
        apart = _Placement(references, True)
        found = apart.run()
        if len(_written(found)) > len(_written(storages)):
            storages = found
            for t in apart.parts:
                t.stored = True
    for storage in storages:
        for t in storage.templates:
            t.storage = storage
    return storages


def _writes(item):
    return item.entry.kind == ROW and item.entry.function.effect == "write"


def _written(storages):
    return [t for storage in storages for t in storage.writes]


class _Placement:
    """Times at which arrays are read, and versions that may share a place.

    Parameters
    ----------
    references : References
    apart : bool
        Whether small windows on what is written to are copies in places of their own.

    Attributes
    ----------
    last : dict
        Instruction (or reference to something from outside) -> number of the last one that reads it, or a window on it.
    root : dict
        Windows -> what they look at.
    writers : list of StatementNode
    parts : set of StatementNode
        Those that compute windows which are copies.
    """

    def __init__(self, references, apart=False):
        self.references, self.columns = references, references.columns
        columns = self.columns
        tape, first, operands = columns.tape, columns.first.tolist(), columns.operands
        self.last, self.root = {}, {}
        numbers = np.flatnonzero(columns.item >= 0)
        writers, self.parts = {}, set()
        changed = {int(operands[first[i]]) for i in numbers.tolist() if apart and _writes(tape.items[columns.item[i]])}
        for i, k in zip(numbers.tolist(), columns.item[numbers].tolist()):
            entry = tape.items[k].entry
            for r in operands[first[i] : first[i + 1]].tolist():
                self.last[self.root.get(r, r)] = i
            if entry.kind == ROW and entry.meta.shape and entry.function.effect == "view":
                r = int(operands[first[i]])
                if r in changed and r >= 0 and PART * entry.meta.nbytes <= tape.metas[columns.slots[r]].nbytes:
                    self.parts.add(references.templates[references.owner[i]])
                else:
                    self.root[i] = self.root.get(r, r)
            elif entry.kind == ROW and entry.function.effect == "write":
                writers[int(references.owner[i])] = None
        for slot, _ in tape.outputs:
            if slot:
                r = int(columns.reference[slot])
                self.last[self.root.get(r, r)] = len(columns)
        self.writers = {references.templates[number] for number in writers}
        #: Templates -> what reads them: (number of a template, operand).
        self.readers = {}
        for t in references.templates if writers else ():
            for k in range(columns.first[t.members[0] + 1] - columns.first[t.members[0]]):
                refs = columns.operands[columns.first[t.members] + k]
                for owner in distinct(references.owner[refs[refs >= 0]]).tolist():
                    self.readers.setdefault(owner, []).append((t.number, k))

    def run(self):
        storages = []
        for templates in self._groups(self.writers, True):
            whole = self._sound(templates)
            if whole is not None:
                storages.append(whole)
                continue
            # The first version is computed elsewhere.
            parts = self._groups({t for t in templates if t in self.writers}, False)
            storages += [s for s in map(self._sound, parts) if s is not None]
        return storages

    def _targets(self, t):
        """References to the array that the write `t` changes."""
        return self.columns.operands[self.columns.first[t.members]]

    def _groups(self, writers, with_first):
        """Templates that may share a place: writes and what they change; `with_first`: what is no write itself too."""
        references, pairs = self.references, []
        for t in sorted(writers, key=lambda t: t.number):
            refs = self._targets(t)
            refs = refs[refs >= 0]
            for owner in distinct(references.owner[refs]).tolist():
                other = references.templates[owner]
                if other in writers or with_first and int(other.members[0]) not in self.root:
                    pairs.append((owner, t.number))
        return [[references.templates[number] for number in numbers] for numbers in joined(pairs)]

    def _sound(self, templates):
        storage = Storage(templates, {t for t in templates if t in self.writers})
        try:
            self._check(storage)
        except _Unsound:
            return None
        return storage

    def _check(self, storage):
        """Raise `_Unsound` unless the storage may hold all its versions; note what is copied into it."""
        references, columns = self.references, self.columns
        own = np.zeros(len(references.templates), bool)
        own[[t.number for t in storage.templates]] = True
        #: Reads of what is copied.
        reads = []
        uses = {use for t in storage.templates for use in self.readers.get(t.number, ())} | {(t.number, 0) for t in storage.writes}
        for number, k in sorted(uses):
            t = references.templates[number]
            refs = columns.operands[columns.first[t.members] + k]
            mine = (refs >= 0) & own[references.owner[np.maximum(refs, 0)]]
            _copied(storage, refs, ~mine, t.body, t.position)
            reads += t.members[~mine].tolist()
        for t in storage.writes:
            values = columns.operands[columns.first[t.members] + 1]
            if any(self.root.get(v, v) == r for v, r in zip(values.tolist(), self._targets(t).tolist())):
                raise _Unsound
        versions = [(int(i), int(i), t in storage.writes) for t in storage.templates for i in t.members.tolist()]
        for (body, position), refs in storage.copies.items():
            versions += [(time - 0.5, r, None) for time, r in zip(times_of(body, position).tolist(), refs.tolist())]
        versions.sort(key=lambda version: version[0])
        times = np.array([time for time, _, _ in versions])
        last = [-1 if write is None else self.last.get(r, -1) for _, r, write in versions]
        for i, k in zip(reads, (np.searchsorted(times, reads, side="left") - 1).tolist()):
            if k < 0 or versions[k][2] is not None:
                raise _Unsound
            last[k] = max(last[k], i)
        if versions[0][2]:
            raise _Unsound
        first, operands = columns.first, columns.operands
        for (_, before, _), (time, i, write), read in zip(versions, versions[1:], last):
            if write and operands[first[i]] != before or read > time or read == time and not write:
                raise _Unsound


def times_of(body, position):
    """When node `position` of `body` begins."""
    node = body.nodes[position]
    return node.members if hasattr(node, "members") else node.begun


def _copied(storage, refs, other, body, position):
    """Note where those of `refs` that are versions from elsewhere (`other`) are copied, before node `position` of `body`."""
    if other.all():
        # A first iteration that computes it itself has nothing to copy before.
        if (refs >= times_of(body, position)).any() or not np.array_equal(storage.copies.setdefault((body, position), refs), refs):
            raise _Unsound
    elif other.any():
        level = body.levels[-1] if body.levels else None
        if level is None or (other & ~level.begins).any():
            raise _Unsound
        _copied(storage, refs[level.first], other[level.first], level.parent, level.position)
