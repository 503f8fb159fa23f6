"""Compile LLVM IR to machine code and keep the object code on disk.

The cache is keyed by what is computed, the sources of the package, the processor
and llvmlite's version: nothing in it can be stale, and nothing random is in the
key.  A file that cannot be read back whole is ignored and written again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from functools import cache

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ..config import cache_dir, package_hash, warn_no_cache

#: Engines own the machine code; the kernels of rows live as long as the process.
_ENGINES = []
_LOCK = threading.RLock()

#: What happened since import, for tests and `tg.info`.
COUNTS = {"compiled": 0, "loaded": 0}


def new_target_machine(level):
    """A target machine of the host at an optimisation level; an engine made with it owns it."""
    # llvmlite >= 0.45 initialises LLVM itself and refuses the call.
    try:
        llvm.initialize()
    except RuntimeError:
        pass
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        jit=True,
    )


@cache
def target_machine():
    """The host's target machine at optimisation level 3, kept for the life of the process."""
    return new_target_machine(3)


@cache
def _host():
    return "\n".join(
        (llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
         llvm.get_default_triple())
    )


def _object_path(digest):
    return cache_dir() / "objects" / digest[:2] / f"{digest}.o"


def _load(digest):
    """Object code kept under `digest`, or None."""
    try:
        data = _object_path(digest).read_bytes()
    except OSError:
        return None
    check, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == check else None


def _keep(digest, code):
    """Write object code so that no reader can see half of it."""
    path = _object_path(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        warn_no_cache(str(cache_dir()), error.strerror or str(error))


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


def machine_code(key, build, symbols):
    """Machine code of an IR module, from the cache or compiled now.

    Parameters
    ----------
    key : str
        What the module computes; with the digest of the package, the host and
        llvmlite's version it identifies the module.
    build : callable
        Makes the module's text; called only if it is not in the cache.
        External names are resolved in the process.
    symbols : sequence of str
        The functions wanted.

    Returns
    -------
    list of int
        Their addresses, valid for the life of the process.
    """
    digest = hashlib.sha256(f"{_host()}\n{package_hash()}\n{key}".encode()).hexdigest()
    with _LOCK:
        code = _load(digest)
        machine = target_machine()
        if code is None:
            code = machine.emit_object(optimise(build(), machine))
            COUNTS["compiled"] += 1
            _keep(digest, code)
        else:
            COUNTS["loaded"] += 1
        empty = llvm.parse_assembly("")
        empty.triple = machine.triple
        engine = llvm.create_mcjit_compiler(empty, machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _ENGINES.append(engine)
        addresses = [engine.get_function_address(name) for name in symbols]
    if not all(addresses):
        raise AssertionError(f"no address for one of {symbols}: {addresses}")
    return addresses
