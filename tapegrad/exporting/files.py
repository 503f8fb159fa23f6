"""The files of an exported function, and the kernel that they are made of."""

import keyword
import re
import shutil
import subprocess

import numpy as np

from ..codegen.llvm import optimise
from ..common.errors import UnsupportedFunctionError
from ..common.observers import listening
from ..common.public import signature_of
from ..common.tree import flatten, leaf_names
from ..program.executable import described
from ..transforms.functional import jit
from ..transforms.transformed import Transformed, not_under_jit
from .header import header, libraries
from .module import Alone, CArgument, meanings
from .targets import named


def written(g, arguments, path, cpu, vector_math):
    """Write the files; what an `Exported` is made of.  Nothing is written before all is known."""
    target = named(cpu)
    kernel, inputs, results = asked(g, arguments)
    guards = meanings(kernel)
    module = Alone(path.name, kernel, inputs, results, guards, target, vector_math)
    code, symbols = _compiled(module.text, target, kernel)
    text = header(path.name, module, inputs, results, guards, target, symbols)
    path.parent.mkdir(parents=True, exist_ok=True)
    of_header, of_object = path.with_name(path.name + ".h"), path.with_name(path.name + ".o")
    of_header.write_text(text, encoding="utf-8")
    of_object.write_bytes(code)
    shared, why = _linked(of_object, path.with_name(path.name + ".so"), target, symbols)
    return of_header, of_object, shared, why, tuple(symbols), tuple(guards), module.workspace, tuple(module.routines)


def asked(g, arguments):
    """The kernel that computes `g`, and what its inputs and outputs are."""
    g = not_under_jit(g)
    names = _names(g, arguments)
    # (Loops of `tg.scan` and its kin are loops of the kernel then.)
    with listening(lambda *operation: None):
        kernel = (g if isinstance(g, Transformed) else jit(g)).kernel(*arguments)
        if kernel.lanes:
            # It computes a derivative in given directions: recorded whole it has none.
            kernel = jit(lambda *given: g(*given)).kernel(*arguments)
    return kernel, _inputs(kernel, names), _outputs(kernel, names)


def _names(g, arguments):
    """What each number or array among the arguments is."""
    parameters, found = [p.name for p in signature_of(g).parameters.values() if p.kind is not p.VAR_POSITIONAL], []
    for k, argument in enumerate(arguments):
        leaves, structure = flatten(argument)
        name = parameters[k] if k < len(parameters) else f"x{k}"
        given = [isinstance(leaf, (float, np.floating, np.ndarray)) and np.asarray(leaf).dtype.kind in "fiub" for leaf in leaves]
        found += [f"{name}{inside}" for one, inside in zip(given, leaf_names(structure)) if one]
    return found


def _inputs(kernel, names):
    if len(kernel.inputs) != len(names):
        raise UnsupportedFunctionError(f"the code takes {len(kernel.inputs)} arrays and the function {len(names)}: give floats and arrays")
    return [CArgument(c, name, shape, char) for c, name, (shape, char) in zip(_in_c(names), names, kernel.inputs)]


def _outputs(kernel, names):
    """The results: values of the function, then gradients."""
    tape, whats, constants = kernel.tape, [], []
    inside = leaf_names(tape.structure) if tape.structure is not None else [""] * len(tape.outputs)
    for name, (slot, what) in zip(inside, tape.outputs):
        whats.append(f"value{name}")
        constants.append(None if slot else np.asarray(getattr(what, "_v", what)))
    whats += [f"gradient by {name}" for name, wanted in zip(names, tape.wanted) if wanted] if kernel.gradients else []
    constants += [None] * (len(whats) - len(constants))
    shapes = [described(output) for output in kernel.whole.outputs]
    in_c = _in_c([*names, *(what.replace("gradient by ", "gradient_") for what in whats)])[len(names) :]
    return [CArgument(c, what, shape, char, constant) for c, what, constant, (shape, char) in zip(in_c, whats, constants, shapes, strict=True)]


def _in_c(names):
    """Names that C takes, no two alike."""
    found = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "x"
        plain = f"x{plain}" if plain[0].isdigit() else plain
        plain = f"{plain}_" if plain in _WORDS else plain
        found.append(next(one for one in (plain, *(f"{plain}{k}" for k in range(2, len(found) + 3))) if one not in found))
    return found


#: Words of C, C++ and Python that are no names, names that the header has or that compilers define, and those that a program of NumPy uses.
_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed "
    "sizeof static struct switch typedef typeof union unsigned void volatile while alignas alignof and_eq asm bitand bitor bool catch char8_t char16_t "
    "char32_t class co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export false "
    "friend mutable namespace new noexcept not_eq nullptr operator or_eq private protected public reinterpret_cast requires static_assert static_cast "
    "template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq "
    "given workspace size size_t uint64_t NULL linux unix np special inf nan all bool range ValueError".split()
) | frozenset(keyword.kwlist)


def _compiled(text, target, kernel):
    """Object code, and the functions that it calls from outside."""
    level, last = kernel._levels
    machine = target.machine(last)
    module = optimise(text, machine, level, straight=False)
    called = set(re.findall(r'\bcall [^@\n]*@"?([\w.]+)"?\(', str(module)))
    symbols = [f.name for f in module.functions if f.is_declaration and f.name in called and not f.name.startswith("llvm.")]
    return machine.emit_object(module), sorted(symbols)


def _linked(of_object, to, target, symbols):
    """The shared library, or None and why there is none."""
    prefix = "" if target.here else f"{target.triple.split('-')[0]}-linux-gnu-"
    linker = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(f"{prefix}{name}"))), None)
    if linker is None:
        return None, f"there is no {prefix}cc"
    done = subprocess.run([linker, "-shared", "-o", str(to), str(of_object), *libraries(symbols)], capture_output=True, text=True)
    if done.returncode:
        return None, f"{linker} says: {(done.stderr.strip() or 'nothing').splitlines()[-1]}"
    return to, ""
