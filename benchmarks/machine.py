"""Facts about the machine and the versions, to stand beside the numbers."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

PACKAGES = ("tapegrad", "numpy", "numba", "llvmlite", "scipy", "torch", "jax", "autograd", "casadi", "drjit")


def facts() -> dict[str, str]:
    """Return names and values, in the order in which to print them."""
    found = {
        "processor": processor(),
        "processors": str(os.cpu_count()),
        "memory": memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "from the source tree" if package == "tapegrad" else "not installed"
    return found


def processor() -> str:
    """Name of the processor, as far as the system tells."""
    if sys.platform.startswith("linux"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def memory() -> str:
    """Size of the main memory."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"
