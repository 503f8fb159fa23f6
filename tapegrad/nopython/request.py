"""A derivative that was asked for: its dispatcher, which finds compiled code in this process, on disk, or makes it.

Machine code is kept as that of kernels is (`codegen.code`), under the key of all that it was made of (`key`).  A process that finds its
code does not import what would make it: dual numbers, both sweeps, and Numba's own implementation of NumPy.

Not kept is code that uses a function which Numba compiled earlier: what that has frozen need not be what is there now.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import numba
from numba import types
from numba.extending import is_jitted

from ..codegen import numba_inside
from ..codegen.code import kept
from ..codegen.numba_inside import refresh
from ..common.errors import UnsupportedInNumbaError
from ..common.memory import without_collection
from ..common.uninterrupted import cached_property, uninterrupted
from ..common.waiting import waiting
from .key import digest

#: Seconds after which it is said which function a compilation is at.
_PATIENCE = 3.0
#: Derivatives compiled, and loaded from disk, since import.
COUNTS = {"compiled": 0, "loaded": 0}
#: Key -> (compile result, mode that was taken): what is valid for other dispatchers as well.
_COMPILED: dict = {}
#: The user's dispatchers that the code which is being made calls as they are.
CALLED_AS_IS: list = []


@contextmanager
def _called_as_is():
    """The dispatchers that are called as they are by what is compiled inside, and those that they may call."""
    start, called = len(CALLED_AS_IS), []
    try:
        yield called
        for each in CALLED_AS_IS[start:]:
            called += digest(each)[1]
    finally:
        if not start:
            CALLED_AS_IS.clear()


class UninterruptedCompiler(numba_inside.WholeCompiler):
    """Numba's compiler; Ctrl-C waits until it has finished (`uninterrupted`), and until it knows what is registered with Numba."""

    __init__ = uninterrupted(numba_inside.WholeCompiler.__init__)

    @uninterrupted
    @waiting("numba", "compiling derivatives of functions by Numba")
    def compile_extra(self, function):
        with uninterrupted:
            from .scalars import add_rows
        add_rows()
        result = numba_inside.completed(super().compile_extra(function))
        numba_inside.before_load(result, define_names)
        return result


def compiler(*passes):
    """A compiler of a part of a derivative, with these passes."""

    class CompilerWithPasses(numba_inside.part(UninterruptedCompiler)):
        def define_pipelines(self):
            return numba_inside.nopython_passes(self.state, *passes)

    return CompilerWithPasses


@dataclass(frozen=True, eq=False)
class Request:
    """A derivative of a function; `kind` is one of value_and_grad, grad, jvp, vjp, derivative, jacobian, hvp, hessian."""

    function: object
    kind: str
    argnums: tuple
    single: bool
    lanes: int | None
    mode: str = "forward"
    out: bool = False
    memory: int | None = None
    #: types of arguments -> mode that was taken, and more (``modes``)
    taken: dict = field(default_factory=dict)
    #: types of arguments, and the key of the function -> both sweeps
    sweeps: dict = field(default_factory=dict)
    #: whether only the most bytes that the stack had are wanted
    peak: bool = False

    @property
    def name(self):
        return getattr(self.function, "__name__", "f")

    @cached_property
    def identity(self):
        """A text that is unique to the request, in all processes."""
        return uuid4().hex

    @property
    def meaning(self):
        """What the code depends on, beside the types of arguments."""
        return self.function, self.kind, self.argnums, self.single, self.lanes, self.mode, self.out, self.memory, self.peak

    def refuse(self, what, advice):
        raise UnsupportedInNumbaError(f"njit_{self.kind} of {self.name}: {what}; {advice}.")

    def dispatcher(self, made, define, register):
        """The dispatcher of a function that gives the derivative.

        ``define(request, globals)`` defines what it calls, when it is compiled; ``register()`` lets Numba know what that is compiled of.
        """

        def by_numba(compile):
            for each in (self.function, dispatcher):
                if hasattr(each, "derivative"):
                    define(each.derivative, each.py_func.__globals__)
            with numba_inside.compiling() as functions, waiting(f"numba {self.identity}", lambda: self._long(functions), _PATIENCE):
                result = compile()
            COUNTS["compiled"] += 1
            return result

        with uninterrupted:
            dispatcher = numba.njit(pipeline_class=UninterruptedCompiler)(made)
        if is_jitted(dispatcher):
            dispatcher.derivative = self
            numba_inside.answered(dispatcher, lambda compile, args: self._answer(lambda: by_numba(compile), args), register)
        return dispatcher

    def _long(self, functions):
        """What is said of a long compilation; `functions` are those that Numba is at."""
        # (Another thread looks on: it takes a copy.)
        at = "".join(f"; it is at {_place(function)}" for function in functions[1:][-1:])
        return f"compiling njit_{self.kind} of {_place(getattr(self.function, 'py_func', self.function))} by Numba for {_PATIENCE:g} s{at}"

    @uninterrupted
    @without_collection()
    def _answer(self, compile, args):
        """The compile result for arguments of these types."""
        for k, ty in enumerate(args):
            if ty == types.pyobject or getattr(ty, "dtype", ty) == types.float16:
                what = "compiles no float16, as" if ty != types.pyobject else "has no type for"
                advice = "give it numbers, arrays of float64 or float32 in the machine's byte order, and tuples of them"
                self.refuse(f"Numba {what} one of its arguments, number {k}", advice)
        unliteral = tuple(map(types.unliteral, args))
        types_taken = str(unliteral[: len(args) - (self.kind == "vjp")])
        key, reached = digest(*self.meaning, args)
        before = [*filter(numba_inside.is_compiled, reached)]
        if key is None:
            return compile()
        if key in _COMPILED:
            result, taken = _COMPILED[key]
            result = numba_inside.again(result)
        else:
            fresh = []

            def made():
                with _called_as_is() as called:
                    fresh.append(compile())
                if any(hasattr(each, "derivative") or each in called for each in before) or digest(*self.meaning, args)[0] != key:
                    return None
                data = numba_inside.packed(fresh[0], self.taken.get(types_taken))
                if data is not None:
                    _COMPILED[key] = fresh[0]._replace(type_annotation=""), self.taken.get(types_taken)
                return data

            code = kept(key, made, {"compiled": 0, "loaded": 0}, "njit")
            loaded = None if fresh else numba_inside.unpacked(code, args, define_names)
            if loaded is None:
                return fresh[0] if fresh else compile()
            COUNTS["loaded"] += 1
            result, taken = _COMPILED[key] = loaded
        if taken is not None:
            self.taken[types_taken] = taken
        return result


def _place(function):
    return f"{function.__qualname__} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"


def define_names():
    """Let LLVM know the functions that compiled code may call."""
    with uninterrupted:
        from . import scalars  # noqa: F401
    refresh()
