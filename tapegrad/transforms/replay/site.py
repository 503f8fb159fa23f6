"""The call of an executable with Python's arguments, written out for one signature of arguments.

A `CallSite` is what a call of a jitted function is once it is known what its arguments are: a Python function, made from
source text (as named tuples and dataclasses are), that takes the containers of the arguments apart, has the leaves read by
compiled code (`program.enter`), and puts the results into theirs.  ``print(site)`` shows it.  For ``g(x, {"a": 2.0}, "left")``
with ``x = np.zeros(2)``, value and gradient by `x`::

    def call(args, kwargs, out=None):
        if out is not None:
            return MISS
        if len(args) != 3 or kwargs:
            return MISS
        a0, c1, a2, = args
        if type(c1) is not dict or len(c1) != 1:
            return MISS
        k0, = c1
        if not (k0 is K9) and not alike((k0,), (K9,)):
            return MISS
        if a2 is not S10 and not (type(a2) is T11 and a2 == S10):
            return MISS
        o0 = empty(shape12)
        r = enter(words, (a0, *c1.values(), ), (o0, ))
        if type(r) is int:
            return Miss(r)
        return (r[0], o0, )

Nothing is taken for granted: types are compared exactly, keys with their order, static leaves by their marks
(`common.exact`), what arrays are (dtype, shape, order) by compiled code.  Whatever is not exactly so, a guard that falls
otherwise, a gradient that is not finite: the answer is a `Miss` with the status, and the caller tries the tape of that path, or goes
the long way, which has all the explanations.
Source text is made of our own names and of numbers; whatever comes from users is reached by a name.
"""

import sys

import numpy as np

from ...common.errors import require
from ...common.exact import exact
from ...common.tree import LEAF, REGISTERED, Static, Structure, flatten, has_fields, unflatten
from ...interpreter.native import data_address
from ...program import enter as E
from .answers import MISS, CallPlan, GatherLeaf, MapLeaf, Miss, OutputLeaf, in_memory, inner, is_input, order_of, written

#: Types whose equal values are the same to every function; -0.0 and 0.0, and what contains floats, are not.
_EXACT = (int, bool, str, bytes, type(None))


class CallSite:
    """Calls of `executable` with arguments of one signature.

    Parameters
    ----------
    structure : Structure
        Of ``(args, kwargs)``.
    marks : sequence of tuple
        One for each leaf (`transforms.replay.answers`).
    executable : Executable
        Its first inputs are the leaves that are inputs, in order.
    answer : (Structure, list)
        The result: its containers, and of its leaves what each is (`transforms.replay.answers`).
    same : callable, optional
        Whether the environment of the function is as it was.
    plan : CallPlan, optional

    Attributes
    ----------
    call : callable
        ``call(args, kwargs, out)``: the result, written to `out` if that is an array; or `MISS`.
    source : str
    """

    def __init__(self, structure, marks, executable, answer, same=None, plan=None):
        self.executable = executable
        self._names = {"MISS": MISS, "Miss": Miss, "enter": E.enter, "empty": np.empty, "alike": _alike, "exact": exact}
        # The function refers to us: compiled code reads memory of ours.
        self._names |= {"made": _made, "ndarray": np.ndarray, "site": self}
        self._lines = []
        self._own_outputs = [None] * len(executable.outputs)
        structures, leaves = answer
        if plan is None:
            plan = self._plan(leaves)
        self._write(structure, marks, structures, leaves, same, plan)
        self.source = "def call(args, kwargs, out=None):\n" + "\n".join(f"    {line}" for line in self._lines) + "\n"
        exec(compile(self.source, "<a call of tapegrad>", "exec"), self._names)  # noqa: S102 - names and numbers of ours
        self.call = self._names["call"]

    def __str__(self):
        return self.source

    # -- what goes where -----------------------------------------------------------------
    def _plan(self, leaves):
        """One run; outputs that are numbers come back by themselves, others have an array each."""
        used, views = {leaf.number for leaf in map(inner, leaves) if isinstance(leaf, OutputLeaf)}, self.executable.views
        used |= {views[k][0] for k in used if k in views}
        results, places, numbers = [], [], 0
        #: For each output its name in the source.
        for k, (shape, char) in enumerate(self.executable.outputs):
            if k not in used or k in views:
                places.append(None)
            elif shape == () and char == "d":
                self._own_outputs[k] = numbers
                places.append((E.NUMBER, numbers))
                numbers += 1
            else:
                self._own_outputs[k] = f"o{len(results)}"
                places.append((len(results), 0))
                results.append((shape, char))
        for k, (number, part, shape) in views.items():
            self._own_outputs[k] = f"{self._own_outputs[number]}[{self._name('part', part)}].reshape({self._name('shape', shape)})"
        self._numbers = numbers
        return CallPlan(results, [([], places)])

    def _words(self, marks, plan):
        """The words of the site (`program.enter`)."""
        executable, spec = self.executable, []
        inputs = [mark for mark in marks if is_input(mark)]
        for mark, (shape, char) in zip(inputs, executable.inputs):
            numbers = {"d": (id(np.float64), id(int) if mark[-1] else 0), "f": (id(np.float32), 0)}.get(char, (0, 0))
            types = (id(float), 0) if mark[0] == "f" else numbers if shape == () else (0, 0)
            spec += [*types, mark[0] != "f", ord(char), np.dtype(char).itemsize, len(shape), *shape]
        fixed, outputs = len(executable.inputs) - len(inputs), len(executable.outputs)
        # A kernel may keep something in an unused output, so each has memory of its own.
        sizes = [int(np.prod(shape)) * np.dtype(char).itemsize for shape, char in executable.outputs]
        room = np.cumsum([0, *(n + -n % 8 for n in sizes)]).tolist()
        tables, self._held, scratch = [], [], 0
        for arrays, places in plan.runs:
            require(len(arrays) == fixed and len(places) == outputs, "an executable has other inputs or outputs than its site")
            self._held += arrays
            tables += [data_address(a) for a in arrays]
            for k, place in enumerate(places):
                number, at = (E.NOWHERE, room[k]) if place is None else place
                size = 1 if place is None else np.dtype(plan.results[number][1]).itemsize if number >= 0 else 8
                tables += [number, at * size]
                scratch = room[-1] if place is None else scratch
        numbers = getattr(self, "_numbers", 0)
        frame = E.frame_size(len(inputs), fixed, outputs, numbers, len(plan.results), scratch)
        self._arrays = np.array(spec, np.int64), np.array(tables, np.int64)
        words = self._site = np.zeros(E.SITE, np.int64)
        words[E.S_EXECUTABLE], words[E.S_ARRAY] = executable.pointer, id(np.ndarray)
        words[E.S_LEAVES], words[E.S_FIXED], words[E.S_OUTPUTS] = len(inputs), fixed, outputs
        words[E.S_NUMBERS], words[E.S_RESULTS], words[E.S_FRAME] = numbers, len(plan.results), frame
        words[E.S_CALLS], words[E.S_SPEC], words[E.S_TABLES] = len(plan.runs), *map(data_address, self._arrays)
        return data_address(words)

    # -- the source -------------------------------------------------------------------
    def _name(self, prefix, value):
        """A name for `value`."""
        name = f"{prefix}{len(self._names)}"
        self._names[name] = value
        return name

    def _miss(self, condition):
        self._lines += [f"if {condition}:", "    return MISS"]

    def _write(self, structure, marks, result, leaves, same, plan):
        self._count = 0
        self._pieces, self._remaining = [], iter(marks)
        arguments, keywords = structure.parts
        first = leaves[0] if result is LEAF else None
        writes = isinstance(first, GatherLeaf) and not first.single or isinstance(first, MapLeaf) and hasattr(first.function, "into")
        if not writes:
            self._miss("out is not None")
        self._miss(f"len(args) != {len(arguments.parts)} or " + (f"len(kwargs) != {len(keywords.parts)}" if keywords.parts else "kwargs"))
        self._apart(arguments, "args", list(marks[: arguments.count]))
        if keywords.parts:
            self._keys(keywords.keys, "kwargs")
            self._apart(keywords, "kwargs", list(marks[arguments.count :]))
        if same is not None and same.conditions:
            self._names.update(same.scope)
            self._lines += ["try:", f"    if not ({' and '.join(same.conditions)}):", "        return MISS"]
            self._lines += ["except (KeyError, ValueError, AttributeError):", "    return MISS"]
        rooms = {self._own_outputs[number] for number, *_ in self.executable.views.values()}
        zeros = {leaf.number for leaf in map(inner, leaves) if isinstance(leaf, GatherLeaf)}
        for k, (shape, char) in enumerate(plan.results):
            dtype = "" if char == "d" else f", {self._name('D', np.dtype(char))}"
            made = f"empty({self._name('shape', shape)}{dtype})"
            self._lines.append(f"o{k} = {self._name('room', _ResultBuffer(shape, char)) + '()' if f'o{k}' in rooms else made}")
            if k in zeros:
                self._lines.append(f"o{k}[0] = 0.0")
        self._names["words"] = self._words(marks, plan)
        outs = "".join(f"o{k}, " for k in range(len(plan.results)))
        passed = "args" if self._pieces == ["*args"] else f"({''.join(f'{p}, ' for p in self._pieces)})"
        self._lines.append(f"r = enter(words, {passed}, ({outs}))")
        self._lines += ["if type(r) is int:", "    return Miss(r)"]
        if writes:
            into = f"{self._name('into', getattr(getattr(first, 'function', None), 'into', written))}({self._result(inner(first))}, out)"
            self._lines += ["if out is not None:", f"    return {into}"]
        self._lines.append(f"return {self._together(result, list(leaves))}")

    def _apart(self, structure, name, marks):
        """Take apart what `name` is, of which it is known already what container it is; `marks` are those of its leaves."""
        parts, kind = structure.parts, structure.kind
        if not parts:
            return
        values = f"{name}.values()" if kind is dict else name
        attributes = has_fields(kind)
        plain = all(p.kind is None for p in parts) and all(is_input(m) and not order_of(m) for m in marks)
        if plain and not attributes:
            self._pieces.append(f"*{values}")
            return
        names = []
        for part in parts:
            names.append(f"{'a' if part.kind is None else 'c'}{self._count}")
            self._count += 1
        if attributes:
            require(all(key.isidentifier() for key in structure.keys), "a field has no name")
            self._lines += [f"{n} = {name}.{key}" for n, key in zip(names, structure.keys)]
        else:
            self._lines.append(f"{', '.join(names)}, = {values}")
        for n, part in zip(names, parts):
            mine, marks = marks[: part.count], marks[part.count :]
            if part.kind is None:
                self._leaf(n, mine[0])
            else:
                self._apart(self._container(part, n), n, mine)

    def _container(self, structure, name):
        """Check what container `name` is; returns its structure, or that of its leaves if it was taken apart for these."""
        kind = structure.kind
        if kind is Static:
            self._miss(f"exact({name}) != {self._name('H', exact(structure.held))}")
            return structure
        if kind is complex or kind in REGISTERED:
            self._lines.append(f"{name} = {self._name('leaves', _leaves)}({self._name('S', structure)}, {name})")
            self._miss(f"{name} is None")
            return Structure(list, (None,) * structure.count, (LEAF,) * structure.count)
        known = kind.__name__ if kind in (dict, list, tuple) else self._name("T", kind)
        length = "" if has_fields(kind) else f" or len({name}) != {len(structure.parts)}"
        self._miss(f"type({name}) is not {known}{length}")
        if kind is dict:
            self._keys(structure.keys, name)
        return structure

    def _keys(self, keys, name):
        """Check the keys of a dict that has as many."""
        if not keys:
            return
        names = [self._name("K", key) for key in keys]
        mine = [f"k{k}" for k in range(len(keys))]
        self._lines.append(f"{', '.join(mine)}, = {name}")
        identical = " and ".join(f"{a} is {b}" for a, b in zip(mine, names))
        self._miss(f"not ({identical}) and not alike(({', '.join(mine)},), ({', '.join(names)},))")

    def _leaf(self, name, mark):
        if is_input(mark):
            if order := order_of(mark):
                # In the order of C it is another kind of argument.
                self._miss(f"type({name}) is not ndarray or {name}.flags.c_contiguous or {self._name('in_memory', in_memory)}({name}) != {order!r}")
                self._lines.append(f"{name} = {name}.copy()")
            self._pieces.append(name)
        elif mark[0] in _EXACT:
            kind, value = mark
            static = self._name("S", value)
            self._miss(f"{name} is not {static} and not (type({name}) is {self._name('T', kind)} and {name} == {static})")
        else:
            self._miss(f"type({name}) is not {self._name('T', mark[0])} or exact({name}) != {self._name('M', mark)}")

    # -- the result ------------------------------------------------------------------------
    def _together(self, structure, leaves):
        """An expression of a container; `leaves` are those of it."""
        kind = structure.kind
        if kind is None:
            return self._result(leaves[0])
        numbers = [self._own_outputs[leaf.number] if isinstance(leaf, OutputLeaf) else None for leaf in leaves]
        if len(leaves) > 3 and kind in (list, tuple) and all(p.kind is None for p in structure.parts):
            first = numbers[0]
            if type(first) is int and numbers == list(range(first, first + len(leaves))):
                part = f"r[{first}:{first + len(leaves)}]"
                return f"[*{part}]" if kind is list else part
        if kind in (complex, np.ndarray) or kind in REGISTERED:
            return f"{self._name('U', unflatten)}({self._name('S', structure)}, ({''.join(f'{self._result(leaf)}, ' for leaf in leaves)}))"
        parts = []
        for part in structure.parts:
            parts.append(self._together(part, leaves[: part.count]))
            leaves = leaves[part.count :]
        if kind is dict:
            return "{" + ", ".join(f"{self._name('K', key)}: {part}" for key, part in zip(structure.keys, parts)) + "}"
        if kind is list:
            return f"[{', '.join(parts)}]"
        inside = "".join(f"{part}, " for part in parts)
        if kind is tuple:
            return f"({inside})"
        if hasattr(kind, "_fields"):
            return f"{self._name('T', kind)}({inside})"
        return f"made({self._name('T', kind)}, {self._name('F', structure.keys)}, ({inside}))"

    def _result(self, leaf):
        """An expression of a leaf."""
        if isinstance(leaf, MapLeaf):
            return f"{self._name('apply', leaf.function)}({self._result(leaf.leaf)})"
        if isinstance(leaf, GatherLeaf):
            value = f"o{leaf.number}[{self._name('index', leaf.index)}]"
            return f"{value}.item()" if leaf.single else value
        if isinstance(leaf, OutputLeaf):
            where = self._own_outputs[leaf.number]
            return f"r[{where}]" if type(where) is int else where
        return self._name("C", leaf) + (".copy()" if isinstance(leaf, np.ndarray) else "")


def _taken(kept):
    """The last of the arrays that are kept, None if there is none; and how many refer to it, itself included."""
    try:
        memory = kept.pop()
    except IndexError:
        return None, 0
    return memory, sys.getrefcount(memory)


#: The references to an array without views.
_ALONE = _taken([np.empty(0)])[1]


class _ResultBuffer:
    """Arrays for a large result.

    New memory takes as long as writing it twice.  So the next one is an array that is no longer referenced; every view refers to its array.
    """

    def __init__(self, shape, char):
        self.shape, self.char, self.kept = shape, char, []

    def __call__(self):
        memory, count = _taken(self.kept)
        if count != _ALONE:
            memory = np.empty(self.shape, self.char)
        self.kept = [memory]
        return memory


def _leaves(structure, thing):
    """The leaves of what is to be a container of `structure`; None if it is another."""
    leaves, found = flatten((thing,))
    return leaves if found.parts[0] == structure else None


def _alike(keys, others):
    """Whether keys that are not the same objects are the same keys."""
    return all(a is b or type(a) is type(b) and type(a) in _EXACT and a == b for a, b in zip(keys, others))


def _made(kind, names, parts):
    """A dataclass with these fields, as `common.tree` makes one."""
    thing = object.__new__(kind)
    for name, part in zip(names, parts):
        object.__setattr__(thing, name, part)
    return thing
