"""Each value is computed once: loads and expressions are shared, stores forwarded to loads, invariants moved out of loops.

One walk over the program in the order of execution.  A `Scope` is a body being
walked: what is known in it about memory (the value of an element that was loaded
or stored in the same iteration) and about expressions.  What is computed in a
loop from values that do not change in it goes to the body around it, before the
loop::

    for i in range(n):                         a0 = x1[0]
        a0 = x1[0]                             a1 = sin(a0)
        a1 = sin(a0)                           for i in range(n):
        t0[i] = a1                                 t0[i] = a1
        a2 = sin(a0)                               y0[i] = a1
        a3 = t0[i]                                 y1[i] = a1
        y0[i] = a2
        y1[i] = a3

`t0`, which is no longer read, is left to `prune`: it walks from the outputs and guards back to what they use, and drops all
other values, stores, temporaries, carries and loops.  Most passes leave dead statements behind, and rely on it.
"""

from ...common.reached import reached
from ...common.waiting import give_way
from ...rules import lang as L
from .. import ir
from .statements import Memory, resolve, rewrite, written


class Scope:
    """A body that is being walked.

    Attributes
    ----------
    outer : Scope or None
    depth : int
    body : list of Statement
        The new body.
    writes : set of Buffer
        Written anywhere in the loop.
    open : bool
        Whether the walk is still inside.
    """

    def __init__(self, loop=None, outer=None):
        self.outer = outer
        self.depth = 0 if outer is None else outer.depth + 1
        self.body = []
        self.writes = set() if loop is None else written(loop.body)
        self.memory = Memory()
        self.known = {}
        self.open = True


class _NamesById(dict):
    def __missing__(self, value):
        return f"{id(value)}"


def simplify(program, new=None):
    """Simplify `program` in place; `new` are values that others have replaced, if any."""
    _Simplifier(new).run(program)
    return program


class _Simplifier:
    def __init__(self, new):
        self.new = {} if new is None else new
        self.home, self.constants, self.names = {}, {}, _NamesById()

    def run(self, program):
        self.scope, self.scopes = Scope(), {}
        self.visit(program.body)
        program.body = self.scope.body

    def visit(self, body):
        for statement in body:
            give_way()
            if not isinstance(statement, ir.Let):
                rewrite(statement, self.new)
            getattr(self, type(statement).__name__)(statement)

    def where(self, value):
        """The scope that `value` belongs to; values of a loop that is over belong to the body around it."""
        scope = self.home[value]
        while not scope.open:
            scope = scope.outer
        return scope

    def place(self, value, scope):
        self.home[value] = scope
        scope.body.append(value)

    # -- statements ---------------------------------------------------------------
    def Loop(self, loop):
        outer = self.scope
        self.scope = scope = self.scopes[loop] = Scope(loop, outer)
        for carry in loop.carries:
            self.home[carry] = scope
        self.visit(loop.body)
        for carry in loop.carries:
            carry.next = resolve(carry.next, self.new)
        scope.open = False
        self.scope = outer
        loop.body = scope.body
        outer.body.append(loop)
        for statement in ir.walk(loop.body):
            self._written(statement)

    def Load(self, load):
        if load in self.new:
            return
        buffer, index = load.buffer, load.index
        least = max((self.scopes[loop].depth for loop, _ in index.steps), default=0)
        if index.plus is not None:
            # A guard before it in the loop may be what makes this a place in memory.
            least = self.scope.depth
        # What the bodies around know still holds if no loop between writes it.  `target` becomes the outermost of them in which
        # this element is the same.
        scope = target = self.scope
        while True:
            value = scope.memory.get(buffer, index)
            if value is not None:
                self.new[load] = value
                return
            if scope.outer is None or buffer in scope.writes:
                break
            if scope.depth > least:
                target = scope.outer
            scope = scope.outer
        self.place(load, target)
        target.memory.put(buffer, index, load)

    def Let(self, let):
        expr = L.rewritten(let.expr, lambda value: self.operand(resolve(value, self.new), let))
        if expr.op == "arg" and expr.args[0].char == let.char:
            self.new[let] = expr.args[0]
            return
        let.expr = expr
        scope = self.scope
        while scope.outer is not None and all(self.where(v).depth < scope.depth for v in expr.leaves()):
            scope = scope.outer
        key = (let.char, expr.key(self.names))
        earlier = scope.known.get(key)
        if earlier is not None:
            self.new[let] = earlier
            return
        scope.known[key] = let
        if expr.op == "const":
            self.constants[let] = expr
        self.place(let, scope)

    def operand(self, value, let):
        """The operand as an expression: constants are written out where that computes the same."""
        constant = self.constants.get(value)
        return constant if constant is not None and value.char == let.char and let.char in "df" else L.arg(value)

    def _written(self, statement):
        for buffer, index, stores in ir.touched(statement):
            if stores:
                self.scope.memory.store(buffer, index)

    def Store(self, store):
        self.Run(store)
        if store.value.char == store.buffer.char:
            self.scope.memory.put(store.buffer, store.index, store.value)

    def Guard(self, guard):
        self.scope.body.append(guard)

    def Run(self, run):
        self.scope.body.append(run)
        self._written(run)


def prune(program):
    """Keep only statements that outputs and guards depend on.

    A store counts if its buffer is an output or is read by something that counts.
    """
    writers, roots = {}, []
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Guard):
            roots.append(statement)
        for buffer, _, stores in ir.touched(statement):
            if stores:
                writers.setdefault(buffer, []).append(statement)
    for buffer in program.outputs:
        roots += writers.pop(buffer, ())

    def uses(statement):
        give_way()
        yield from (statement.init, statement.next) if isinstance(statement, ir.Carry) else ir.operands(statement)
        for buffer, _, stores in ir.touched(statement):
            yield from () if stores else writers.pop(buffer, ())

    needed = reached(roots, uses)

    def kept(body):
        result = []
        for statement in body:
            if isinstance(statement, ir.Loop):
                statement.body = kept(statement.body)
                statement.carries = [carry for carry in statement.carries if carry in needed]
                if statement.body or statement.carries:
                    result.append(statement)
            elif statement in needed:
                result.append(statement)
        return result

    program.body = kept(program.body)
    return program
