"""The compiler that exchanges a function for its two sweeps, and helpers: inlined, or compiled apart where they call themselves."""

import functools
import types as python_types
import uuid
import weakref

import numba
from numba.extending import is_jitted

from ...codegen.numba_inside import INNER, define_anew, ir, meaning, new_pass, type_anew
from ..compile import compiled, compiler, is_users, references, renewed
from ..key import codes_in, content
from ..types import contains_dual, defined, primal_type
from .emit import BOTH, SweepEmitter
from .program import Program
from .threads import pair_of, threaded

_INLINED, _APART, _PAIRS, _BUSY = (weakref.WeakKeyDictionary() for _ in range(4))


# ---- helpers ----------------------------------------------------------------------------------
def _exchanged(function, exchange):
    """Globals and cells of a Python function in which the user's functions that it names, also as parts of modules, are exchanged."""
    names = {name for code in codes_in(function.__code__) for name in code.co_names}

    def other(value, inside=()):
        if is_users(value):
            return exchange(value)
        if not isinstance(value, python_types.ModuleType) or value in inside:
            return value
        parts = {n: vars(value)[n] for n in names & vars(value).keys()}
        changed = {n: new for n, part in parts.items() if (new := other(part, (*inside, value))) is not part}
        if changed:
            module, value = value, python_types.ModuleType(value.__name__)
            vars(value).update(vars(module) | changed)
        return value

    scope = {n: other(function.__globals__[n]) for n in names & function.__globals__.keys()}
    return {**function.__globals__, **scope}, tuple(python_types.CellType(other(c.cell_contents)) for c in function.__closure__ or ())


def _source(function):
    return function.py_func if is_jitted(function) else function


def inlined(function):
    """The replacement of a user's function in a differentiated one: inlined, unless it calls itself."""
    source = _source(function)
    if source in _BUSY:
        return apart(function)
    made, key = _INLINED.setdefault(source, {}), content(function)
    if key not in made:
        _BUSY[source] = True
        try:
            made[key] = numba.njit(inline="always", **meaning(function))(renewed(source, "", *_exchanged(source, inlined)))
            made[key].of_user = function
        finally:
            del _BUSY[source]
    return made[key]


def apart(function):
    """A dispatcher of our own for a function that calls itself: Numba could not call the user's one on its own afterwards."""
    source = _source(function)
    made, key = _APART.setdefault(source, {}), content(function)
    if key not in made:
        copy = renewed(source, f"_apart_{uuid.uuid4().hex}", {**source.__globals__})
        made[key] = dispatcher = numba.njit(**meaning(function))(copy)
        copy.__globals__.update(_exchanged(source, apart)[0])
        dispatcher.of_user = function
    return made[key]


def pair(dispatcher, mask, lanes=0):
    """The two functions of a helper that is compiled apart: ``(stack, w, arguments..., shadows...)``.

    The first gives the result, the second the adjoints of the numbers among the arguments; `mask` says which arguments are
    without adjoint (0), numbers (1) or arrays (2).
    """
    pairs = _PAIRS.setdefault(dispatcher.py_func, {})
    if (mask, lanes) not in pairs:
        iteration = getattr(dispatcher, "iteration", None)

        def make(names, seeds, arrays, call="0", apart=False):
            return GradientBuilder(dispatcher.of_user, names, call, seeds, arrays, apart, {}, lanes, program=iteration and iteration.program)

        if iteration:
            pairs[mask, lanes] = pair_of(iteration, mask, make, f"{iteration.loop.loc.line}_{uuid.uuid4().hex}")
        else:
            names = [f"a{k}" for k in range(len(mask))]
            seeds, arrays = [k for k, kind in enumerate(mask) if kind], [k for k, kind in enumerate(mask) if kind == 2]
            made = make(names, seeds, arrays, f"f({', '.join(names)})", True)
            pairs[mask, lanes] = made.function("forward"), made.function("backward")
    return pairs[mask, lanes]


# ---- the passes -------------------------------------------------------------------------------
def _compiler(rewrite):
    """A compiler that inlines the user's helpers, lets `rewrite` exchange the typed program's blocks, and types them anew.

    The program is typed and transformed for floats where dual numbers are given, and its sweeps are typed for dual numbers.
    """

    def lead_to_helpers(state):
        for s, function in references(state.func_ir):
            if not hasattr(function, "of_user"):
                s.value = ir.Global(function.__name__, inlined(function), s.loc)
        define_anew(state.func_ir)
        state.given, state.args = state.args, tuple(map(primal_type, state.args))
        return True

    def exchange(state):
        state.func_ir.blocks, known = rewrite(state)
        type_anew(state, state.given, known)
        return True

    helpers, sweeps = new_pass("reverse_helpers", lead_to_helpers, True), new_pass("reverse_sweeps", exchange, True)
    return compiler(helpers, sweeps)


class GradientBuilder:
    """A function of ``(arena, w, arguments..., shadows...)`` for both sweeps, or two of ``(stack, ...)``, one for each.

    `names` are the arguments, `call` how the user's function is called with them, `seeds` the positions of those that are
    differentiated, `arrays` of those among them that are arrays.  With `lanes` the sweeps are for dual numbers: the tangents of the
    adjoints are products of the Hessian.  `program` gives what is differentiated in place of the user's function, for its types.
    """

    def __init__(self, function, names, call, seeds, arrays, apart, scope, lanes=0, memory=None, program=None):
        self.user, self.names, self.seeds, self.arrays, self.apart = function, names, seeds, arrays, apart
        self.call, self.scope, self.lanes, self.memory = call, scope, lanes, memory
        self.sweeps, self.functions, self.program = {}, {}, program

    def function(self, sweep="both"):
        names = ["memory", "w", *self.names, *[f"adj_{self.names[k]}" for k in self.arrays]]
        name = f"{sweep}_{_source(self.user).__name__}" if _source(self.user).__name__.isidentifier() else sweep
        text = f"def {name}({', '.join(names)}):\n    return {self.call}\n"
        made = defined(text, name, {**self.scope, "f": inlined(self.user)})
        made.__qualname__ = f"{name}_{uuid.uuid4().hex}"

        def rewrite(state):
            key = _without_seed(state.given)
            if key not in self.sweeps:
                if sweep == "backward":  # (both have to come from one analysis)
                    self.functions["forward"].compile(state.given)
                else:
                    seeds = tuple(2 + k for k in self.seeds)
                    duals = {2 + k for k in range(len(self.names)) if contains_dual(state.given[2 + k])}
                    partners = functools.partial(pair, lanes=self.lanes)
                    self.sweeps[key] = SweepEmitter(self._program(state, seeds), seeds, self.apart, partners, self.lanes, duals, self.memory)
            sweeps = self.sweeps[key]
            return sweeps.emit(BOTH if sweep == "both" else (sweep,)), sweeps.known()

        self.functions[sweep] = numba.njit(**INNER | {"pipeline_class": _compiler(rewrite)}, **meaning(self.user))(made)
        return self.functions[sweep]

    def compiled(self, dispatcher, argument_types):
        """(type of what both sweeps return, the `SweepEmitter`), compiled for these types now."""
        sig = compiled(dispatcher, argument_types, self.user)
        return sig.return_type, self.sweeps[_without_seed(sig.args)]

    def _program(self, state, seeds):
        if self.program:
            return self.program(state)
        program = Program(state.func_ir, state.typemap)
        # (A function that declares which arguments it stores into stores into new memory.)
        program.shared = not hasattr(self.user, "flows")
        return threaded(program, seeds, self.apart, self.user)


def _without_seed(tys):
    return (tys[0], *tys[2:])
