"""Everything of Numba that it does not promise to keep: where it is, and short functions for what is done with it.

Numba documents ``numba.njit`` and its like, `numba.types` and `numba.extending`, with what the functions given to those are
handed (contexts and builders, from `intrinsic`); any file may use these.  Its compiler, the representation of functions that is
rewritten here, and how one compiled function calls another may change with every version.  All of that is taken from this
file, so a new version of Numba is read about, tried and answered in one place.

Importing this file imports Numba: from below `nopython`, inside of functions (`codegen.compile.inside`).
"""

import copy
import io
import os
import pickle
import types as python_types
import uuid
import weakref
from contextlib import contextmanager, suppress

import llvmlite.binding as llvm
import numba
from numba import objmode  # noqa: F401  (for `interop.pytensor`)

from ..common.errors import UnsupportedInNumbaError

#: The oldest and the newest minor version of Numba that this file is written for; pyproject.toml has them, too.
VERSIONS = ((0, 64), (0, 68))


def check_version(version):
    """Refuse a version of Numba that is not known."""
    if not VERSIONS[0] <= tuple(map(int, version.split(".")[:2])) <= VERSIONS[1]:
        oldest, newest = (".".join(map(str, v)) for v in VERSIONS)
        raise UnsupportedInNumbaError(f"tapegrad compiles with Numba {oldest} to {newest}; this is {version}: install one of these.")


# Before what may have moved in another version.
check_version(numba.__version__)

from numba.core import cgutils, config, entrypoints, event, ir, typed_passes, untyped_passes
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.callconv import Status, excinfo_ptr_t
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler, CompilerBase, CompileResult, DefaultPassBuilder, Flags, run_frontend
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.environment import Environment, lookup_environment
from numba.core.imputils import builtin_registry as lowered_registry
from numba.core.imputils import impl_ret_borrowed, lower_constant
from numba.core.inline_closurecall import InlineWorker
from numba.core.ir_utils import build_definitions, replace_vars_inner, replace_vars_stmt
from numba.core.postproc import PostProcessor
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack
from numba.core.typeconv import Conversion
from numba.core.typing import npydecl
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, builtin_registry, infer_global, signature
from numba.extending import overload
from numba.np import arrayobj, npyimpl
from numba.np.arrayobj import make_array, populate_array
from numba.np.ufunc.dufunc import DUFunc
from numba.np.unsafe.ndarray import empty_inferred


def _renamed_in_raise():
    """Whether variables are renamed in ``raise E(x)``, too: older versions take what `x` was at first."""
    raising = ir.DynamicRaise(ValueError, (ir.Var(None, "x", ir.unknown_loc),), ir.unknown_loc)
    replace_vars_stmt(raising, {"x": ir.Var(None, "y", ir.unknown_loc)})
    return raising.exc_args[0].name == "y"


#: Statements that raise what they say.
RAISES = (ir.Raise, ir.StaticRaise, *[ir.DynamicRaise] * _renamed_in_raise())

#: Options of ``@njit`` that say what the code means; the others are about its wrapping.
_OPTIONS = ("error_model", "fastmath", "boundscheck")


def meaning(function):
    """The options that say what a dispatcher's code means; of a Python function none."""
    options = getattr(getattr(function, "_dispatcher", function), "targetoptions", {})
    return {name: options[name] for name in _OPTIONS if options.get(name) is not None}


def of_numbers(function):
    """The Python function of a vectorized one."""
    return function._dispatcher.py_func


def typing_context():
    """Numba's typing context for CPU code."""
    return cpu_target.typing_context


def overload_now(function, by_types):
    """`numba.extending.overload`, for code that is being compiled."""
    overload(function)(by_types)
    refresh()


def refresh():
    """Let code that is being compiled know what has been registered."""
    typing_context().refresh()
    target_context().refresh()


def target_context():
    """Numba's target context for CPU code."""
    return cpu_target.target_context


# ---- calls ------------------------------------------------------------------------------------
def call_of(function, tys, context=None):
    """(Numba's type of a function, the signature that it has for arguments of these types), compiled now if it is a dispatcher."""
    context = context or typing_context()
    kind = context.resolve_value_type(function)
    return kind, kind.get_call_type(context, tuple(tys), {})


def emit_call(context, builder, dispatcher, sig, args):
    """A call of a dispatcher that is compiled for a signature, in LLVM: its value."""
    return context.call_internal(builder, _linked(context, dispatcher, sig), sig, args)


def emit_caught(context, builder, dispatcher, sig, args):
    """The same for one that may raise: its status, and its value."""
    return context.call_internal_no_propagate(builder, _linked(context, dispatcher, sig), sig, args)


def _linked(context, dispatcher, sig):
    result = dispatcher.get_compile_result(sig)
    context.add_linking_libs([result.library])
    return result.fndesc


def emit_raise(context, builder, code, information):
    """Raise the exception that a status told of by its code and the address of its information."""
    said = dict.fromkeys(Status._fields) | {"code": code, "excinfoptr": builder.inttoptr(information, excinfo_ptr_t)}
    context.call_conv.return_status_propagate(builder, Status(**said))


# ---- the compiler -----------------------------------------------------------------------------
def new_pass(name, run, changes_graph=False):
    """A pass over one function: ``run(state) -> whether it changed something``."""
    members = {"_name": name, "run_pass": lambda self, state: run(state), "__init__": lambda self: FunctionPass.__init__(self)}
    return register_pass(mutates_CFG=changes_graph, analysis_only=False)(type(name, (FunctionPass,), members))


def nopython_passes(state, before_types, *after_types):
    """The value of a compiler's ``define_pipelines``: Numba's passes, one more before types are found, and perhaps one after."""
    manager = DefaultPassBuilder.define_nopython_pipeline(state)
    manager.add_pass_after(before_types, untyped_passes.MakeFunctionToJitFunction)
    for each in after_types:
        manager.add_pass_after(each, typed_passes.NopythonTypeInference)
    manager.finalize()
    return [manager]


def numbers_beside_arrays(kind):
    """Let the expressions of arrays that Numba fuses have operands of this class of types, as they have Numba's own numbers."""
    prepare = npyimpl._prepare_argument

    def prepared(context, builder, value, ty, *where):
        return npyimpl._ScalarHelper(context, builder, value, ty) if isinstance(ty, kind) else prepare(context, builder, value, ty, *where)

    npyimpl._prepare_argument = prepared


#: Parts that are no machine code themselves, by the names of their functions.
_PARTS = weakref.WeakValueDictionary()


class _Part(JITCodeLibrary):
    """Code that is compiled on the way: it is optimised, and made machine code of, as part of the code that it is linked to.

    Numba's own functions are compiled once in a process, for the users' as well: these find it as Numba would have made it.
    """

    codegen = property(lambda self: self)
    _alone, _compiled_object = False, None

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True
        _PARTS.update((function.name, self) for function in self.get_defined_functions() if function.linkage.name == "external")
        if self._compiled_object is not None:  # from Numba's cache
            self.stand_alone()

    def stand_alone(self):
        """Make machine code of it, for those that call it by its address, as Python and functions that call one another in a circle do."""
        with global_compiler_lock:
            if not self._alone:
                self._alone = True
                super()._optimize_final_module()
                super()._finalize_final_module()
                _complete(self)

    def _get_module_for_linking(self):
        self._ensure_finalized()
        if self._codegen._library_class is not _Part:
            self.stand_alone()
        return super()._get_module_for_linking()

    def _get_compiled_object(self):
        self.stand_alone()
        return super()._get_compiled_object()

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        if any(function.name == name for function in self.get_defined_functions()):
            self.stand_alone()
        return super().get_pointer_to_function(name)

    def set_env(self, name, environment):
        """The code that this is linked to is told of it as well (`_complete`)."""
        if self._alone:
            self._codegen.set_env(name, environment)


class _Whole(JITCodeLibrary):
    """Code in which only its own functions have names for others: none is taken for one of the same name that is there already.

    LLVM's linker goes by the names of internal functions, too: Numba's `np.dot`, compiled later for a function of the user,
    would be the one in here, of which LLVM may have changed the arguments.  So each gets a name that no other has.
    """

    def _optimize_final_module(self):
        for function in self.get_defined_functions():
            if function.linkage.name == "linkonce_odr":
                function.linkage, function.name = "internal", f"{function.name}.{uuid.uuid4().hex}"
        super()._optimize_final_module()


class WholeCompiler(Compiler):
    """Numba's compiler, for code that may be kept and loaded by other processes."""

    def compile_extra(self, function):
        if self.state.library is None:
            self.state.library = _Whole(self.state.targetctx.codegen(), function.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(function)


def part(compiler):
    """A compiler derived from `WholeCompiler`, for functions that only other compiled code calls."""

    class OfPart(compiler):
        def __init__(self, typing, target, library, *rest):
            super().__init__(typing, target, _Part(target.codegen(), "part"), *rest)

    return OfPart


#: Options of functions that only other compiled code calls.
INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def completed(result):
    """A compiler's result, once its code knows the environments, and the addresses, of the parts that it uses."""
    if not isinstance(result.library, _Part):
        _complete(result.library)
    return result


def _complete(library):
    for variable in library._final_module.global_variables:
        environment = lookup_environment(variable.name)
        if environment is not None:
            library._codegen.set_env(variable.name, environment)
        called = _PARTS.pop(variable.name.removeprefix(RuntimeLinker.PREFIX), None)
        if called is not None:
            called.stand_alone()


def define_anew(func_ir):
    """Let a function know where its variables are defined, and where they live."""
    func_ir._definitions = build_definitions(func_ir.blocks)
    PostProcessor(func_ir).run()


def type_anew(state, arguments, known):
    """Find the types of a function that was rewritten, for arguments of these types; `known` are those of variables."""
    define_anew(state.func_ir)
    state.typingctx.refresh()  # the intrinsics made on the way
    state.targetctx.refresh()
    state.return_type, state.args, state.locals = None, arguments, known
    typed_passes.NopythonTypeInference().run_pass(state)


def typed(function, arguments):
    """(blocks, type of each variable, type of the result) of a Python function for arguments of these types, in SSA form.

    Called while another function is compiled, whose options are those of what is called in it.
    """
    contexts = typing_context(), target_context()
    func_ir = InlineWorker(*contexts, {}, CompilerBase, ConfigStack.top_or_none().copy(), None).run_untyped_passes(function, enable_ssa=True)
    return func_ir.blocks, *typed_passes.type_inference_stage(*contexts, func_ir, tuple(arguments), None)[:2]


def raised_with(s, value):
    """Let a statement raise what ``value(variable)`` gives in place of each variable."""
    if isinstance(s, RAISES[2:]):
        s.exc_args = tuple(value(v) if isinstance(v, ir.Var) else v for v in s.exc_args or ())


def contents(expr):
    """The parts of an expression: name -> variable, constant or function."""
    return expr._kws


def renamed(expr, table):
    """A copy of an expression with variables exchanged: name -> Var."""
    expr = copy.copy(expr)
    expr._kws = dict(expr._kws)
    return replace_vars_inner(expr, table)


# ---- compiled code that outlives the process -----------------------------------------------------
class AnsweredDispatcher(CPUDispatcher):
    """A dispatcher of `answered`."""

    @property
    def _numba_type_(self):
        self.register()
        return super()._numba_type_


def answered(dispatcher, answer, register):
    """Let ``answer(compile, types of arguments)`` give what a dispatcher has compiled; ``compile()`` is Numba's way.

    ``register()`` lets Numba know all that compiling it needs.  It is called when Numba first asks for the dispatcher's type: of a
    function that uses it that is before any other type.  Later, what NumPy's functions mean would change while Numba infers.
    """
    dispatcher.__class__, dispatcher.register = AnsweredDispatcher, register
    compiler = dispatcher._compiler
    by_numba = compiler.compile
    compiler.compile = lambda args, result: answer(lambda: by_numba(args, result), args)


def called(library):
    """The names of the functions outside that a library calls."""
    return [f.name for f in library._final_module.functions if f.is_declaration and not f.name.startswith("llvm.")]


def packed(result, more):
    """A compile result, and something else, as bytes; or None if it is valid in this process only.

    That is so if the code holds addresses, has functions that Numba's linker finds for it, or objects that cannot be pickled by name.
    """
    variables = [variable.name for variable in result.library._final_module.global_variables]
    environments = [lookup_environment(name) for name in variables if name.startswith("_ZN08NumbaEnv")]
    linked = any(name.startswith(RuntimeLinker.PREFIX) for name in variables)
    if linked or result.library.has_dynamic_globals or result.lifted or None in environments:
        return None
    *parts, _ = result._replace(type_annotation="")._reduce()  # (Numba would print the types of all variables)
    data = io.BytesIO()
    try:
        _Pickler(data).dump((result.reload_init, called(result.library), (*parts, environments), more))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return data.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles objects by name only, and environments without the modules of their functions, which nopython code does not read."""

    def reducer_override(self, obj):
        return (_environment, (obj.env_name, obj.consts)) if isinstance(obj, Environment) else NotImplemented


def _environment(name, constants):
    environment = lookup_environment(name)
    if environment is None:
        environment = Environment({"__name__": __name__})
        environment.env_name = name
        environment.consts[:] = constants
        Environment._memo[name] = environment
    elif pickle.dumps(environment.consts) != pickle.dumps(constants):
        raise pickle.UnpicklingError("a function of that name is here already, and another one")
    return environment


def unpacked(data, args, names):
    """(compile result, the something else) of what was `packed` for arguments of these types; None if this process cannot run it.

    ``names()`` lets LLVM know the names of all functions that compiled code may call.
    """
    context = target_context()
    rtsys.initialize(context)
    try:
        prepare, outside, parts, more = pickle.loads(data)
    except (pickle.UnpicklingError, ImportError, AttributeError):
        # It names something of a module that is not there, or does not have it any more.
        return None
    for each in prepare:
        each()
    if not all(map(llvm.address_of_symbol, outside)):
        names()
        if not all(map(llvm.address_of_symbol, outside)):
            return None
    result = CompileResult._rebuild(context, *parts)
    result.library._reload_init.update(result.reload_init)
    return (registered(result), more) if result.signature.args == tuple(args) else None


def again(result):
    """A compile result for another dispatcher: each forgets its own when it goes."""
    context = target_context()
    return registered(result._replace(entry_point=context.get_executable(result.library, result.fndesc, result.environment), metadata=None))


def registered(result):
    """A compile result whose function other compiled code may call."""
    target_context().insert_user_function(result.entry_point, result.fndesc, [result.library])
    return result


def settings():
    """Numba's settings, as text, and the processor that it compiles for."""
    values = sorted((name, value) for name, value in vars(config).items() if name.isupper() and isinstance(value, (int, float, str, type(None))))
    return repr((values, target_context().codegen().magic_tuple()))


#: Registries of Numba's, with the attributes that list what is registered; how many of each list were looked at, and those of them
#: that are neither Numba's nor this package's.
_REGISTRIES = {builtin_registry: ("functions", "attributes", "globals"), lowered_registry: ("functions", "getattrs", "setattrs", "casts", "constants")}
_LOOKED_AT: dict = {}
_FOREIGN: list = []
_OWN = tuple(os.path.join(os.path.dirname(path), "") for path in (numba.__file__, os.path.dirname(__file__)))


def registered_by_others():
    """What users and installed extensions have registered with Numba: (template, the function that says what it means, or None) each."""
    entrypoints.init_all()
    for registry, names in _REGISTRIES.items():
        for name in names:
            entries = getattr(registry, name)
            start, _LOOKED_AT[registry, name] = _LOOKED_AT.get((registry, name), 0), len(entries)
            for entry in entries[start:]:
                _FOREIGN.extend(_foreign(entry))
    return _FOREIGN


def _foreign(entry):
    if isinstance(entry, tuple):
        first, second = entry[:2]
        return [each for template in getattr(second, "templates", ()) for each in _foreign(template)] if isinstance(second, numba.types.Type) else (
            [] if is_own(first) else [(entry, None)])  # fmt: skip
    said = getattr(entry, "_overload_func", getattr(entry, "_definition_func", None))
    return [] if (is_own(said) if said else all(map(is_own, vars(entry).values()))) else [(entry, said)]


def is_own(function):
    """Whether a function, and those in its closure, are Numba's or this package's; what is no function says nothing."""
    if not isinstance(function, python_types.FunctionType):
        return True
    named = (function.__module__ or "").split(".")[0] in ("numba", __name__.split(".")[0]) or function.__code__.co_filename.startswith(_OWN)
    return named and all(map(is_own, contents_of_cells(function)))


def contents_of_cells(function):
    """What is in the cells of a function."""
    values = []
    for cell in function.__closure__ or ():
        # A cell may be empty yet.
        with suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def is_compiled(dispatcher):
    """Whether a dispatcher is compiled for some types."""
    return bool(dispatcher.overloads)


def before_load(result, define):
    """Let processes that load a compile result, and code that has been linked to it, call ``define()`` before."""
    if any(name.startswith("tapegrad_") for name in called(result.library)):
        result.reload_init.append(define)
        result.library._reload_init.add(define)


def options(dispatcher):
    """All that a dispatcher was made with beside its function."""
    signatures = () if dispatcher._can_compile else tuple(dispatcher.overloads)
    return sorted(dispatcher.targetoptions.items()), sorted(dispatcher.locals.items()), signatures


class _Followed(event.Listener):
    def __init__(self):
        self.functions = []

    def on_start(self, event):
        self.functions.append(event.data["dispatcher"].py_func)

    def on_end(self, event):
        self.functions.pop()


@contextmanager
def compiling():
    """The functions that Numba is compiling, each for the one before; a slice that is assigned another shape raises a message without the shapes.

    Numba puts them into it by its strings, which take two seconds to compile.  What it compiles on the way are parts.
    """
    followed, with_shapes, codegen = _Followed(), arrayobj.raise_with_shape_context, target_context().codegen()
    # (What all code calls is whole.)
    rtsys.initialize(target_context())
    libraries = codegen._library_class
    with event.install_listener("numba:compile", followed):
        arrayobj.raise_with_shape_context, codegen._library_class = other_shape, _Part
        try:
            yield followed.functions
        finally:
            arrayobj.raise_with_shape_context, codegen._library_class = with_shapes, libraries


def other_shape(source, slices):
    """Raised by compiled code where a slice is assigned an array of another shape."""


def _refused(source, slices):
    raise ValueError("cannot assign slice from input of different size")


overload(other_shape)(lambda source, slices: _refused)


# ---- functions of numbers -----------------------------------------------------------------------
class _Lowering(CompilerBase):
    """Numba's compiler with what functions of numbers need of it: they are typed and lowered, and neither rewritten nor optimised."""

    def define_pipelines(self):
        passes, untyped, typed = PassManager("functions of numbers"), untyped_passes, typed_passes
        for each in (
            untyped.TranslateByteCode, untyped.FixupArgs, untyped.IRProcessing, untyped.ReconstructSSA, typed.NopythonTypeInference,
            typed.PreLowerStripPhis, typed.NoPythonSupportedFeatureValidation, typed.IRLegalization, typed.NativeLowering,
            typed.NoPythonBackend,
        ):  # fmt: skip
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


def lower(function, arguments, result, resolving, inlined):
    """(description for calls, type of the result, LLVM IR) of a function of numbers.

    `resolving` makes what is asked for the type of a call from what Numba asks; `inlined`: whether each caller is to have a copy.
    """
    context, target = copy.copy(typing_context()), target_context()
    library, modules = target.codegen().create_library(function.__name__), []
    # It is not optimised, nor made machine code of, by Numba.
    library.add_ir_module = modules.append
    flags = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    # One of our own: what others compile meanwhile is typed as ever.
    context.resolve_function_type = resolving(context.resolve_function_type)
    with global_compiler_lock:
        made = _Lowering(context, target, library, arguments, result, flags, {}).compile_extra(function)
    if inlined:
        for module in modules:
            module.get_global(symbol_of(made.fndesc)).attributes.add("alwaysinline")
    return made.fndesc, made.signature.return_type, "\n".join(map(str, modules))


def symbol_of(description):
    """The name that LLVM has for a function that was lowered."""
    return description.llvm_func_name


def emit_lowered_call(context, builder, description, sig, args):
    """A call of a function that was lowered, which raises nothing: its value."""
    native = context.declare_function(builder.module, description)
    return context.call_conv.call_function(builder, native, sig.return_type, sig.args, args)[1]
