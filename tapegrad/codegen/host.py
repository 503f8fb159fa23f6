"""What machine code depends on: the processor, and the versions of what makes it.

LLVM knows the processor, but to load LLVM takes fifteen milliseconds, and code that
was kept does not need it.  On Linux the first processor's lines in ``/proc/cpuinfo``
say what LLVM would find out; elsewhere LLVM is asked.
"""

from __future__ import annotations

import os
import sys
from functools import cache

import llvmlite

from ..common.uninterrupted import imported, uninterrupted

#: Lines that tell processors apart; the others change from core to core, or in time.
_LINES = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


@cache
def _cpuinfo():
    """``{line: value}`` of the first processor; empty where there is no such file, or on other processors."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return {}
    text = b""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            # No further than needed: the kernel writes this file while it is read.
            while b"\n\n" not in text and (more := file.read(8192)):
                text += more
    except OSError:
        return {}
    pairs = [line.split(":", 1) for line in text.decode(errors="replace").split("\n\n")[0].splitlines() if ":" in line]
    fields = {name.strip(): value.strip() for name, value in pairs}
    return {name: fields.get(name, "") for name in _LINES} if fields.get("flags") else {}


@cache
def identity():
    """Text that is the same only where the same machine code is made and can run."""
    fields = _cpuinfo()
    if fields:
        processor = "\n".join(f"{name}: {value}" for name, value in fields.items())
    else:
        processor = "\n".join(_asked())
    return f"llvmlite {llvmlite.__version__}\n{processor}"


@uninterrupted
def _asked():
    """What LLVM says of the processor, and of the system."""
    llvm = imported("llvmlite.binding")
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()


def cpu_name():
    """LLVM's name of the processor."""
    return _asked()[0]


@cache
def features():
    """The instruction sets of the processor, by LLVM's names (which are Linux's for those asked for here)."""
    fields = _cpuinfo()
    if fields:
        return frozenset(fields["flags"].split())
    return frozenset(name[1:] for name in _asked()[1].split(",") if name.startswith("+"))
