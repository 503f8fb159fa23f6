"""Which handlers of exceptions stand around an instruction, as far as they could catch what a replay does not raise.

A replay raises no floating-point errors and prints no warnings, whatever ``np.seterr`` and the filters of warnings say.  So a
function that could catch one is not recorded.  `catcher` reads the exception table of a frame's code: an instruction is
covered by at most one entry; the code that it leads to checks the exception against classes, one after the other, or
catches all, or raises it again (``finally``, the end of a handler, one that only logs), to the entry that covers *that* instruction.
A ``with`` catches what the ``__exit__`` of its context manager catches: what returns nothing true does not, and of a generator its
handlers are looked at in the same way.  A context manager that is not known could catch all.

Looking at the tables of one code object takes a millisecond, once; then it is a comparison for each operation recorded.
"""

import builtins
import contextlib
import dis
import functools
import inspect
import types
from bisect import bisect_left
from operator import attrgetter

from ..tape.places import PACKAGE

#: What a floating-point operation may raise outside of replays.
ERRORS = (FloatingPointError, ZeroDivisionError, OverflowError, Warning)
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")
_PAIRS = ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
_ATTRIBUTES, _CHECKS = ("LOAD_ATTR", "LOAD_METHOD"), ("CHECK_EXC_MATCH", "CHECK_EG_MATCH")
#: Behind these instructions nothing runs that stands there.  (That a generator is returned stands before all handlers.)
_ENDS = ("RERAISE", "RAISE_VARARGS", "RETURN")
#: The code of all functions that are made by `contextlib.contextmanager`.
_BY_GENERATOR = contextlib.contextmanager(iter).__code__
_NOTHING = ("NOP", "CACHE", "RESUME", "PRECALL", "EXTENDED_ARG", "PUSH_NULL", "COPY_FREE_VARS", "NOT_TAKEN")


@functools.lru_cache(4096)
def _looked_at(code):
    """The instructions of a code object, and its exception table: (first offset, offset behind the last, offset of the handler)."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    return instructions, [(e.start, e.end, e.target) for e in dis.Bytecode(code).exception_entries]


def catcher(frame, base):
    """What could catch one of `ERRORS` raised in `frame`, ``"file:line: the handler ..."``, or None.

    Looked at is `frame` and what has called it, up to the frame whose code is `base`; but not frames of this package.  A frame that
    is not called from there, for which the package records something by itself, has none.
    """
    frames = []
    while frame is not None and frame.f_code is not base:
        frames.append(frame)
        frame = frame.f_back
    for one in frames if frame is not None else ():
        code = one.f_code
        if code.co_exceptiontable and not code.co_filename.startswith(PACKAGE) and (text := _caught(one, *_looked_at(code))):
            return text
    return None


def _caught(frame, instructions, entries):
    """What catches one of `ERRORS` that the current instruction of `frame` raises."""
    offsets, seen = [frame.f_lasti], set()
    while offsets:
        offset = offsets.pop()
        entry = next((e for e in entries if e[0] <= offset < e[1]), None)
        if entry is None or entry[2] in seen:
            continue
        seen.add(entry[2])
        position = _at(instructions, entry[2])
        what, raised_at = _handler(frame, instructions, position)
        if what is None and instructions[min(position + 1, len(instructions) - 1)].opname == "WITH_EXCEPT_START":
            what = _suppressed(frame, entry[2])
        if what is not None:
            line = next((i.positions.lineno for i in instructions[position:] if i.positions.lineno), frame.f_lineno)
            return f"{frame.f_code.co_filename}:{line}: the handler `{what}` could catch a floating-point error, which a replay does not raise"
        offsets += raised_at
    return None


def _handler(frame, instructions, position):
    """What the handler at `position` catches of `ERRORS` (None: nothing), and the offsets at which it raises again."""
    if instructions[position].opname == "CLEANUP_THROW":
        return None, []
    again = []
    if instructions[position].opname == "PUSH_EXC_INFO":
        if instructions[position + 1].opname == "POP_TOP":
            ends = _raises_again(instructions, position + 2)
            return ("except:", []) if ends is None else (None, ends)
        names = _checked(instructions, position + 1)
        while names is not None:
            parts, after = names
            if instructions[after].opname != "CHECK_EXC_MATCH":
                return "except*", []
            for part in parts:
                if _could_catch(_resolved(frame, part)):
                    ends = _raises_again(instructions, after + 2)
                    if ends is None:
                        return f"except {'.'.join(part)}", []
                    again += ends
            position = _at(instructions, instructions[after + 1].argval)
            names = _checked(instructions, position)
    # A `finally`, a `with`, or the end of a handler: does it come to an end without raising again?
    for one in _reached(instructions, position, _ENDS):
        if one.opname == "RERAISE":
            again.append(one.offset)
        elif one.opname.startswith("RETURN") and not any(i.opname == "WITH_EXCEPT_START" for i in instructions[position : position + 3]):
            return "finally: return", []
    return None, again


def _reached(instructions, position, ends):
    """The instructions that may run from `position` on, up to those whose names begin like one of `ends`."""
    seen, todo = set(), [position]
    while todo:
        k = todo.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        one = instructions[k]
        yield one
        if not one.opname.startswith(ends):
            if "JUMP" in one.opname or one.opname in ("FOR_ITER", "SEND"):
                todo.append(_at(instructions, one.argval))
            if one.opname not in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
                todo.append(k + 1)


def _raises_again(instructions, position):
    """The offsets at which a handler, whatever it does (it may log), raises what it caught; None if it can come to another end."""
    raised, ends = [], (*_ENDS, "POP_EXCEPT", "YIELD")
    for one in _reached(instructions, position, ends):
        if one.opname == "RERAISE" or one.opname == "RAISE_VARARGS" and one.arg == 0:
            raised.append(one.offset)
        elif one.opname.startswith(ends):
            return None
    return raised


def _at(instructions, offset):
    """The position of the first instruction at or behind an offset."""
    return bisect_left(instructions, offset, key=attrgetter("offset"))


def _loads(one, names):
    """Add what an instruction loads to dotted names; whether it loads something."""
    if one.opname in _LOADS:
        names.append((one.argval,))
    elif one.opname in _ATTRIBUTES and names:
        names[-1] += (one.argval,)
    elif one.opname in _PAIRS:
        names += [(name,) for name in one.argval]
    else:
        return False
    return True


def _checked(instructions, position):
    """The dotted names that an exception is compared with from `position` on, and the position of the comparison; None if it is not."""
    names = []
    for k, one in enumerate(instructions[position:], position):
        if one.opname in _CHECKS:
            return names, k
        if not _loads(one, names) and one.opname not in ("LOAD_CONST", "BUILD_TUPLE", "COPY"):
            if one.opname not in ("CALL", "BINARY_SUBSCR", "BINARY_OP") or not any(i.opname in _CHECKS for i in instructions[k : k + 8]):
                return None
            # Computed classes: they are not known here.
            names.append(("...",))
    return None


def _resolved(frame, name):
    """What a dotted name is in `frame`, without running a property or `__getattr__` of the user's; None if that is not known."""
    first, *rest = name
    for scope in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if first in scope:
            thing = scope[first]
            for part in rest:
                thing = (getattr if isinstance(thing, types.ModuleType) else inspect.getattr_static)(thing, part, None)
            return thing
    return None


def _could_catch(classes):
    """Whether a handler of `classes` could catch one of `ERRORS`; what is not known could."""
    if isinstance(classes, tuple):
        return any(map(_could_catch, classes))
    return not isinstance(classes, type) or any(issubclass(error, classes) or issubclass(classes, error) for error in ERRORS)


# -- context managers ---------------------------------------------------------------


def _suppressed(frame, target):
    """``with name`` of the statement whose handler is at `target`, if that could catch one of `ERRORS`; else None."""
    name, arguments = _entered(frame.f_code, target)
    if name[-1] == "_recreate_cm":
        # Of a context manager as a decorator.
        name, arguments = name[:-1], None
    thing = _resolved(frame, name)
    thing = thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing
    if arguments is not None and thing is contextlib.suppress:
        could = any(_could_catch(_resolved(frame, argument)) for argument in arguments)
    elif arguments is not None:
        could = _made_could_catch(frame, thing)
    elif isinstance(thing, contextlib.suppress):
        could = _could_catch(thing._exceptions)
    elif isinstance(thing, contextlib._GeneratorContextManager):
        # One that has been entered has forgotten its function.
        inside = thing.gen.gi_frame
        could = _generator_could_catch(frame, thing.func) if hasattr(thing, "func") else inside is None or _caught(inside, *_looked_at(inside.f_code))
    else:
        could = _exit_could_catch(type(thing))
    return f"with {'.'.join(name)}" if could else None


def _made_could_catch(frame, maker):
    """Whether what a call of `maker` makes could, as a context manager, catch one of `ERRORS`."""
    if isinstance(maker, type):
        return type(maker).__call__ is not type.__call__ or _exit_could_catch(maker)
    if isinstance(maker, types.FunctionType) and maker.__code__ is _BY_GENERATOR:
        return _generator_could_catch(frame, maker.__closure__[0].cell_contents)
    # Those of compiled code (`open`) catch nothing.
    return not isinstance(maker, types.BuiltinFunctionType)


def _exit_could_catch(kind):
    """Whether the ``__exit__`` of a class may return something true."""
    leaves = inspect.getattr_static(kind, "__exit__", None)
    if not isinstance(leaves, types.FunctionType):
        return not isinstance(leaves, (types.MethodDescriptorType, types.WrapperDescriptorType))
    instructions, _ = _looked_at(leaves.__code__)
    for before, one in zip(instructions, instructions[1:]):
        nothing = before.opname == "LOAD_CONST" and not before.argval and not one.is_jump_target
        if one.opname == "RETURN_VALUE" and not nothing or one.opname == "RETURN_CONST" and one.argval:
            return True
    return False


def _generator_could_catch(frame, function):
    """Whether a generator, in which one of `ERRORS` is raised where it yields, could catch it."""
    code, around = getattr(function, "__code__", None), frame
    while around is not None and around.f_code is not code:
        around = getattr(around, "around", None)
    if around is not None or not isinstance(function, types.FunctionType) or not code.co_flags & inspect.CO_GENERATOR:
        return True
    instructions, entries = _looked_at(code)
    variables = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or ()) if cell != types.CellType()}
    where = types.SimpleNamespace(
        f_code=code, f_lineno=code.co_firstlineno, f_locals=variables, f_globals=function.__globals__, f_builtins=vars(builtins), around=frame
    )
    for one in instructions:
        where.f_lasti = one.offset
        if one.opname == "SEND" or one.opname == "YIELD_VALUE" and _caught(where, instructions, entries):
            return True
    return False


@functools.lru_cache(4096)
def _entered(code, target):
    """Of the ``with`` whose handler is at `target`: the dotted name of what is entered, and None; or of what is called for it, and those given.

    The name is ``("...",)`` where something else is entered, or it may be that of something else by now.
    """
    start = min(e.start for e in dis.Bytecode(code).exception_entries if e.target == target)
    instructions, unknown = list(dis.get_instructions(code)), (("...",), None)
    first = end = max((k for k, one in enumerate(instructions) if one.offset < start), default=0)
    depth = 0
    while depth != 1:
        # Where nothing jumps, an expression begins where, seen from its end, one object is left on the stack.
        if instructions[first].is_jump_target or instructions[end].opname != "BEFORE_WITH":
            return unknown
        first -= 1
        depth += dis.stack_effect(instructions[first].opcode, instructions[first].arg)
    names, at, depth = [], first, 0
    while at < end and (instructions[at].opname in (*_NOTHING, *(_ATTRIBUTES if names else _LOADS))):
        _loads(instructions[at], names)
        depth += dis.stack_effect(instructions[at].opcode, instructions[at].arg)
        at += 1
    called, given = at < end, []
    if not names or called and (depth != 2 or not instructions[end - 1].opname.startswith("CALL")):
        return unknown
    for one in instructions[at : end - 1]:
        depth += dis.stack_effect(one.opcode, one.arg)
        if depth < 3 and one.opname != "PRECALL":
            # Something is done with what the name is.
            return unknown
        if one.opname not in _NOTHING and not _loads(one, given):
            given.append(("...",))
    for one in instructions[end:]:
        if one.opname.startswith(("STORE", "DELETE")) and names[0][0] in (one.argval if isinstance(one.argval, tuple) else (one.argval,)):
            return unknown
    return names[0], given if called else None
