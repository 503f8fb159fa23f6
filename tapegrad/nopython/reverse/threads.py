"""`prange` loops on threads, in both sweeps.

A loop whose iterations are independent is taken out of its program: its body becomes a function of the loop variable, an
*iteration*, and a call stands in its place.  The forward sweep runs the iterations on threads and keeps nothing of them.  In the
reverse sweep each iteration runs forward once more and then backward, on threads too.  This is correct if

- an iteration is repeatable: what the loop overwrites is put back before, and every call is of a known function;
- an array that is written is read and written only where the first index is the loop variable, which is never negative, and
  nothing else in the loop may be the same memory;
- iterations carry over nothing but sums of numbers, to which they only add.

Adjoints do not collide where an array is read at the loop variable only.  Contributions to other adjoints are summed up by
chunks of iterations, and then over the chunks: their number depends on the number of iterations, and results not on that of
threads.  Any loop for which this is not proved is run by one thread, and `Program.threads` says why.
"""

import copy
import operator
import re
import types as python_types

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import INNER, ir
from ...common.reached import reached
from . import runtime
from .activity import Activity
from .program import Program
from .rows import clone, is_expr, is_phi, reads

#: Status of a loop.
ON_THREADS = "on threads"
_HEADER = ("phi", "iternext", "pair_first", "pair_second")
_NUMBERS = (types.Float, types.Integer, types.Boolean)


class NotParallel(Exception):
    """Why a loop stays on one thread."""


# ---- proof that iterations are independent ---------------------------------------------------------
class IterationFunction:
    """The body of a loop as a function: ``(arena, w, loop variable, inputs..., shadows...) -> what it adds to the sums``.

    Raises
    ------
    NotParallel
        If the iterations are not proved independent.
    """

    def __init__(self, program, activity, loop):
        self.p, self.a, self.loop, self.header = program, activity, loop, program.blocks[loop.header].body
        if loop.step != 1 or loop.leaves_early:
            raise NotParallel("its step is not 1, or it is left early")
        if loop.range[0] is not None and (program.number_of(loop.range[0]) or -1) < 0 and program.number_of(loop.range[0]) != 0:
            raise NotParallel("it does not start at a constant that is 0 or more")
        if any(not is_expr(getattr(s, "value", None)) or s.value.op not in _HEADER for s in self.header[:-1]):
            raise NotParallel("the loop header has side effects")
        (self.after,) = {s for _, s in loop.exits(program)}
        (self.start,) = set(program.succs[loop.header]) - {self.after}
        self.region = reached([self.start], program.succs.get, loop.header)
        counting = {s.target.name for s in self.header[:-1] if not is_phi(s)}
        elsewhere = [s for b, _, s in program.statements() if b != loop.header and b not in self.region]
        if any(n in counting for s in elsewhere for n in reads(s)):
            raise NotParallel("its variable is used after it")
        if any(q not in self.region and q != loop.header for b in self.region for q in program.preds[b]):
            raise NotParallel("a part of it is entered from outside")
        self.inside = [s for b in sorted(self.region) for s in program.blocks[b].body]
        self.own = {s.target.name for s in self.inside if isinstance(s, ir.Assign)}
        (self.variable,) = [s.target.name for s in self.header if is_expr(getattr(s, "value", None), "pair_first")]
        self._find_sums()
        self._find_inputs()
        self._check_statements()
        self._check_arrays()

    def _find_sums(self):
        """Numbers that iterations only add to: (header's phi, value before the loop, value at the end of an iteration)."""
        self.sums, self.carried = [], set()
        for s in filter(is_phi, self.header):
            values = dict(zip(s.value.incoming_blocks, s.value.incoming_values))
            name, before, end = s.target.name, values[self.loop.preheader].name, values[self.loop.latch].name
            family = reached([name], self._made_of)
            wrong = [q for q in self.inside if any(n in family for n in reads(q)) and not self._adds(q, family)]
            if wrong or end not in family or any(self.p.type_of(n) != types.float64 for n in family):
                raise NotParallel(f"{shown(name)} is carried from iteration to iteration, and not only added to")
            self.sums.append((s, before, end))
            self.carried.update(family)

    def _made_of(self, name):
        """Names of what an iteration computes from a value."""
        return [s.target.name for _, _, s in self.a.uses.get(name, ()) if isinstance(s, ir.Assign) and s.target.name in self.own]

    @staticmethod
    def _adds(s, family):
        """Whether a statement passes on a sum, or one to which something is added."""
        e = getattr(s, "value", None)
        if is_phi(s):
            return all(v.name in family for v in e.incoming_values)
        if is_expr(e, "inplace_binop") or is_expr(e, "binop"):
            adds = {operator.add, operator.iadd}
            left, right = e.lhs.name in family, e.rhs.name in family
            return left and not right and e.fn in adds | {operator.sub, operator.isub} or right and not left and e.fn in adds
        return False

    def _find_inputs(self):
        """Values from before the loop: constants are defined anew in the iteration, others are its arguments."""
        entry = self.p.blocks[self.p.entry].body[: self.p.constants]
        constants = {s.target.name: s for s in entry if not isinstance(s.value, ir.Arg)}
        needed = {n for s in self.inside for n in reads(s)} - self.own - self.carried - {self.variable}
        used = reached(needed, lambda n: reads(constants[n]) if n in constants else ())
        self.inputs = sorted(n for n in used if n not in constants)
        self.constants = [_copied(s) for n, s in constants.items() if n in used]
        for n in self.inputs:
            ty = self.p.type_of(n)
            if not (isinstance(ty, _NUMBERS) and ty != types.float32) and not (isinstance(ty, types.Array) and isinstance(ty.dtype, _NUMBERS)):
                raise NotParallel(f"{shown(n)} is neither a number nor an array of numbers")
        self.types = [self.p.type_of(n) for n in self.inputs]

    def _check_statements(self):
        p, a = self.p, self.a
        for s in self.inside:
            e = getattr(s, "value", None)
            if isinstance(s, ir.Print) or not p.steady(s) and not (is_expr(e) and e.op in _HEADER):
                raise NotParallel(f"the statement in line {s.loc.line} may not do the same when it runs again")
            if is_expr(e, "call") and not a.repeatable_call(s):
                raise NotParallel(f"the call in line {s.loc.line} may not do the same when it runs again")

    def _check_arrays(self):
        """Which arrays are written, and which are indexed by the loop variable only."""
        p, a = self.p, self.a
        arrays = [n for n in self.inputs if isinstance(p.type_of(n), types.Array)]
        shared = {s.target.name for s in self.constants if isinstance(p.type_of(s.target.name), types.Array)}
        at_iteration = {n for n in arrays if all(self._at_iteration(s, n) for s in self.inside if n in reads(s))}
        alone = {n for n in arrays if not any(m != n and a.group(m) == a.group(n) for m in [*arrays, *shared])}
        changed = {a.group(n): s.loc.line for s in self.inside for n in a.changed_by(s)}
        self.written = [n for n in arrays if a.group(n) in changed]
        for n in self.written:
            if n not in at_iteration:
                raise NotParallel(f"the array that line {changed[a.group(n)]} stores into is indexed by something other than the loop variable")
            if n not in alone:
                raise NotParallel(f"the array that line {changed[a.group(n)]} stores into may be the same memory as another one")
        if any(a.group(n) in changed for n in shared):
            raise NotParallel("a global array is written")
        self.colliding = [n for n in arrays if n not in at_iteration or n not in alone]

    def _at_iteration(self, s, name):
        """Whether a statement indexes an array by the loop variable only, or reads only its shape and type."""
        e = getattr(s, "value", None)
        if is_expr(e, "getattr"):
            return e.attr in ("shape", "size", "ndim", "dtype")
        if is_expr(e, "call"):
            return self.p.callee(e) is len
        if not isinstance(s, ir.SetItem) and not is_expr(e, "getitem"):
            return False
        array, index = (s.target, s.index) if isinstance(s, ir.SetItem) else (e.value, e.index)
        first = self.p.value_of(index.name)
        if is_expr(first, "build_tuple"):
            index = first.items[0]
        others = [s.value.name, s.index.name] if isinstance(s, ir.SetItem) else [e.index.name]
        return array.name == name and index.name == self.variable and name not in others

    # ---- the function -------------------------------------------------------------------------
    def program(self, state):
        """The iteration as a program, for a function with its arguments."""
        p, loc, names = self.p, self.loop.loc, ["$arena", "$seeds", self.variable, *self.inputs]
        names += [f"$shadow{k}" for k in range(len(names), len(state.args))]
        tys = {n: ty for n, ty in zip(names, state.args) if n not in p.types}
        blocks = {}
        for label in [p.entry, *sorted(self.region)]:
            blocks[label] = ir.Block(p.scope, loc)
            if label != p.entry:
                blocks[label].body = [_copied(s) for s in p.blocks[label].body]
        for s in blocks[self.start].body:
            if is_phi(s):
                s.value.incoming_blocks = [p.entry if b == self.loop.header else b for b in s.value.incoming_blocks]
        body = blocks[p.entry].body
        body += [ir.Assign(ir.Arg(state.func_ir.arg_names[k], k, loc), p.var(n), loc) for k, n in enumerate(names)] + [_copied(s) for s in self.constants]
        body += [ir.Assign(ir.Const(0.0, loc), p.var(n), loc) for n in ["$zero", *[s.target.name for s, _, _ in self.sums]]]
        body.append(ir.Jump(self.start, loc))
        results = [p.var(end) for _, _, end in self.sums] or [p.var("$zero")]
        blocks[self.loop.latch].body[-1:] = [
            ir.Assign(ir.Expr.build_tuple(results, loc), p.var("$added"), loc), ir.Return(p.var("$added"), loc)]  # fmt: skip
        tys |= {"$zero": types.float64, "$added": types.UniTuple(types.float64, len(results))}
        part = python_types.SimpleNamespace(blocks=blocks, arg_count=len(names), loc=loc)
        made = Program(part, {**p.types, **tys}, p.made)
        made.part = True
        return made


def _copied(s):
    s = copy.copy(s)
    if isinstance(s, ir.Assign):
        s.value = clone(s.value, {})
    return s


def shown(name):
    """A variable as the user wrote it."""
    plain = re.sub(r"^.*?_v\d+_|\.\w+$", "", name)
    return plain if plain.isidentifier() and not plain.startswith("_") else "a value"


# ---- taking loops out ---------------------------------------------------------------------------
def threaded(program, seeds, apart, function):
    """The program in which calls stand for the `prange` loops that can run on threads; `function` is the user's.

    Only if that is compiled with ``parallel=True``, as in Numba.
    """
    said = {}
    while program.pranges:
        loops = [loop for loop in program.loops if loop.loc and (loop.loc.filename, loop.loc.line) in program.pranges and loop.loc.line not in said]
        if not loops:
            break
        try:
            said[loops[0].loc.line] = ON_THREADS
            if not getattr(function, "targetoptions", {}).get("parallel"):
                raise NotParallel("as Numba does without parallel=True")
            iteration = IterationFunction(program, Activity(program, seeds, apart), loops[0])
        except NotParallel as reason:
            said[loops[0].loc.line] = f"on one thread: {reason}"
        else:
            program = _taken_out(program, iteration, function)
    program.threads = said
    return program


def _taken_out(program, iteration, function):
    p, loop, pre = program, iteration.loop, program.blocks[iteration.loop.preheader]
    body, after = pre.body[:-1], p.blocks[iteration.after]
    start, stop, _ = loop.range
    start = p.constant(body, 0) if start is None else start
    count = p.call(body, runtime.trips, [start, stop, p.constant(body, 1)], types.int64)
    sums = p.call(body, np.zeros, [p.constant(body, max(1, len(iteration.sums)))], types.Array(types.float64, 1, "C"))
    before = []
    for n in iteration.written:
        ty = p.type(n)
        before.append(p.call(body, np.copy, [n], types.Array(ty.dtype, ty.ndim, ty.layout if ty.layout in "CF" else "C")))
    given = [start, count, sums, *iteration.inputs]
    call = numba.njit(lambda: None)
    call.of_user, call.iteration = function, iteration
    call.flows = range(3, len(given)), [2, *[3 + iteration.inputs.index(n) for n in iteration.written]]
    p.call(body, call, [*given, *before], types.float64)
    for k, (s, first, _) in enumerate(iteration.sums):
        item = p.assign(body, ir.Expr.getitem(p.var(sums), p.var(p.constant(body, k)), loop.loc), types.float64)
        body.append(ir.Assign(ir.Expr.binop(operator.add, p.var(first), p.var(item), loop.loc), s.target, loop.loc))
    blocks = {label: copy.copy(block) for label, block in p.blocks.items() if label != loop.header and label not in iteration.region}
    blocks[loop.preheader].body = [*body, ir.Jump(iteration.after, loop.loc)]
    blocks[iteration.after].body = [_copied(s) for s in after.body]
    for s in filter(is_phi, blocks[iteration.after].body):
        s.value.incoming_blocks = [loop.preheader if b == loop.header else b for b in s.value.incoming_blocks]
    part = python_types.SimpleNamespace(blocks=blocks, arg_count=p.ir.arg_count, loc=p.loc)
    return Program(part, p.types, p.made, p.pranges)


# ---- the two functions of a loop ------------------------------------------------------------------
#: How many parts the iterations of a loop are cut into at most: so many threads have work.
CHUNKS = 16


@numba.njit(**INNER)
def chunks_of(count, copied):
    """The number of chunks: one where copies of `copied` numbers for each would cost more than the iterations."""
    return min(count, CHUNKS) if copied * CHUNKS <= 4 * count else min(count, 1)


# (Numba cannot hand single dual numbers to threads: seeds and numbers travel in arrays.)
_RUN = """
def chunk(arena, c, chunks, start, count, seeds, numbers, {given}part):
    for k in range(start + c * count // chunks, start + (c + 1) * count // chunks):
        value, sums = body(arena, {seeds}, k, {arguments})
        rewind(arena)
        {collect}
    return 0

def run(start, count, seeds, numbers, {given}):
    chunks = chunks_of(count, {copied})
    parts, told = np.zeros((chunks, {width}), seeds.dtype), np.zeros((chunks, 2), np.int64)
    {copies}
    for c in prange(chunks):
        _, code, said, _ = caught(c, chunks, start, count, seeds, numbers, {handed}parts[c])
        told[c, 0], told[c, 1] = code, said
    sums, code, said = np.zeros({width}, seeds.dtype), 0, 0
    for c in range(chunks):
        if code == 0:
            code, said = told[c, 0], told[c, 1]
        {join}
        for j in range({width}):
            sums[j] += parts[c, j]
    return sums, code, said
"""
_PAIR = """
def run_forward(start, count, total, {names}):
    {numbers}
    sums, code, said = run(start, count, total, numbers, {inputs})
    for j in range(len(total)):
        total[j] += sums[j]
    return 0.0, code, said

def run_backward(start, count, total, {names}):
    {numbers}
    {restore}
    sums, code, said = run(start, count, {seeds}, numbers, {given})
    {restore}
    return ({sums}), code, said

def forward(stack, w, start, count, total, {names}):
    return raised(run_forward(start, count, total, {names}))

def backward(stack, w, start, count, total, {names}):
    return raised(run_backward(start, count, total, {names}))
"""


def _compiled(text, name, scope, **options):
    made = {}  # (Functions of the text call what is compiled of one another, which is in the scope.)
    exec(text, scope, made)
    made[name].__qualname__ = f"{name}_{scope['unique']}"
    return numba.njit(**INNER | options)(made[name])


def _run(iteration, inputs, shadows, colliding, dispatcher, collected, width, unique):
    """The function that runs an iteration for all of a loop, on threads."""
    floats = [n for n, ty in zip(inputs, iteration.types) if ty == types.float64]
    given = [n for n in [*inputs, *shadows] if n not in floats]
    text = _RUN.format(
        given="".join(f"{n}, " for n in given), width=width, copied=" + ".join(["0", *[f"{n}.size" for n in colliding]]),
        seeds=f"({''.join(f'seeds[{j}], ' for j in range(max(1, len(iteration.sums))))})",
        arguments=", ".join([f"numbers[{floats.index(n)}]" if n in floats else n for n in [*inputs, *shadows]]),
        handed="".join(f"copy_{n}[c], " if n in colliding else f"{n}, " for n in given),
        collect="; ".join([f"part[{j}] += {collected}[{j}]" for j in range(width)]) or "pass",
        copies="; ".join([f"copy_{n} = np.zeros((chunks,) + {n}.shape, {n}.dtype)" for n in colliding]) or "pass",
        join="; ".join([f"{n} += copy_{n}[c]" for n in colliding]) or "pass",
    )  # fmt: skip
    scope = {"np": np, "prange": numba.prange, "chunks_of": chunks_of, "rewind": runtime.rewind, "body": dispatcher, "unique": unique, "__name__": __name__}
    scope["caught"] = runtime.caught(_compiled(text, "chunk", scope), 7 + len(given), arena=True)
    return _compiled(text, "run", scope, parallel=dict.fromkeys(_WHOLE, False) | {"prange": True})


#: What Numba could run on threads besides.
_WHOLE = ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion")


def pair_of(iteration, mask, make, unique):
    """The two functions of a loop's call, as `compile.pair` has them; ``make(names, seeds, arrays)`` gives the sweeps of the iteration."""
    inputs, kinds = [f"a{k}" for k in range(len(iteration.inputs))], mask[3: 3 + len(iteration.inputs)]
    before = [f"b{j}" for j in range(len(iteration.written))]
    active, arrays = [k for k, kind in enumerate(kinds) if kind == 1], [k for k, kind in enumerate(kinds) if kind == 2]
    shadows, names = [f"s{k}" for k in arrays], ["i", *inputs]
    colliding = [f"s{k}" for k in arrays if iteration.inputs[k] in iteration.colliding]
    floats = [n for n, ty in zip(inputs, iteration.types) if ty == types.float64]
    text = _PAIR.format(
        names=", ".join([*inputs, *before, *["total_shadow"] * (mask[2] == 2), *shadows]),
        inputs=", ".join(n for n in inputs if n not in floats), given=", ".join(n for n in [*inputs, *shadows] if n not in floats),
        numbers="; ".join([f"numbers = np.zeros({len(floats)}, total.dtype)", *[f"numbers[{j}] = {n}" for j, n in enumerate(floats)]]),
        seeds="total_shadow" if mask[2] == 2 else "np.zeros_like(total)",
        restore="; ".join(f"a{iteration.inputs.index(n)}[...] = b{j}" for j, n in enumerate(iteration.written)) or "pass",
        sums="".join(f"sums[{j}], " for j in range(len(active))) or "0.0,",
    )  # fmt: skip
    scope = {"np": np, "raised": runtime.raised, "unique": unique, "__name__": __name__}
    primal = make(names, [], []).function()
    scope["run"] = _run(iteration, inputs, [], [], primal, "value", max(1, len(iteration.sums)), f"primal_{unique}")
    scope["run_forward"] = _compiled(text, "run_forward", scope)
    forward = _compiled(text, "forward", scope)
    both = make(names, [1 + k for k, kind in enumerate(kinds) if kind], [1 + k for k in arrays]).function()
    scope = {**scope, "run": _run(iteration, inputs, shadows, colliding, both, "sums", len(active), f"both_{unique}")}
    scope["run_backward"] = _compiled(text, "run_backward", scope)
    return forward, _compiled(text, "backward", scope)
