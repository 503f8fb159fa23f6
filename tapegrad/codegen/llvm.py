"""LLVM: from IR to object code, and from object code to addresses."""

from functools import cache

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ..common.errors import InternalError
from . import symbols
from .host import available, target

#: Engines own the machine code that LLVM has linked; that of rows lives as long as the process.
_ENGINES = []


def new_target_machine(level):
    """A machine to make code for (`host.target`) at an optimisation level; an engine made with it owns it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features, _ = target()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


@cache
def target_machine():
    """The machine at optimisation level 3, kept for the life of the process."""
    return new_target_machine(3)


def optimise(text, machine, level=3, straight=True):
    """Parse, verify and optimise IR for a target machine; returns the LLVM module.

    Parameters
    ----------
    level : int
    straight : bool
        Look for vectors in straight-line code too.
    """
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization, options.slp_vectorization = level > 1, straight
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # llvmlite would forget to free them (its base classes are in the wrong order): 70 kB a module.
    NewPassManager._dispose(passes)
    passes.detach()
    return module


def know_symbols():
    """Let LLVM know the names that our code calls; before anything is linked by it."""
    if available():
        llvm.load_library_permanently(symbols.VECTORS)
    symbols.tell(llvm.add_symbol)


def object_code(text):
    """Object code of the text of a module, fully optimised for the processor that code is made for."""
    machine = target_machine()
    module = optimise(text, machine)
    symbols.require_known(each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return machine.emit_object(module)


def engine_of(code, machine, places=()):
    """An engine with object code in it; `places`: pairs of a name that the code has from outside, and the address of that."""
    know_symbols()
    names = llvm.parse_assembly("\n".join(f"@{name} = external global i8" for name, _ in places))
    names.triple = machine.triple
    engine = llvm.create_mcjit_compiler(names, machine)
    for name, address in places:
        engine.add_global_mapping(names.get_global_variable(name), address)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def linked(code, names):
    """Addresses of functions of object code, linked by LLVM."""
    engine = engine_of(code, target_machine())
    _ENGINES.append(engine)
    addresses = [engine.get_function_address(name) for name in names]
    if not all(addresses):
        raise InternalError(f"no address for one of {names}: {addresses}")
    return addresses
