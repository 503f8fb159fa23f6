"""What only some systems have is named in few places, and each can do without: all of it is left out by ``TAPEGRAD_PORTABLE=1``.

`.ci/all` runs a part of the tests so.
"""

import ast
import os
import subprocess
import sys

import pytest

from tests.sources import PACKAGE, nodes_of

#: File -> what it asks about the system, or takes from it.
ASKED = {
    "codegen/disk.py": {"fcntl", "sys.platform"},  # locks on folders
    "common/waiting.py": {"sys.platform"},  # priorities of threads
    "codegen/memory.py": {"ctypes.CDLL", "os.name"},  # pthreads, and what C calls to let another thread run
    "codegen/symbols.py": {"libmvec"},
    "codegen/host.py": {"ctypes.CDLL", "os.uname", "sys.platform"},  # what made code; libmvec
    "common/config.py": {"sys.platform"},  # where caches are kept, and for whom
    "common/memory.py": {"ctypes.CDLL", "sys.platform"},  # malloc_trim
    "many/data.py": {"mmap"},  # to tell mapped files from arrays
    "tools/installation.py": {"platform"},  # for the reader
}
_MODULES = {"fcntl", "mmap", "msvcrt", "platform", "posix", "pwd", "resource", "winreg"}
_ATTRIBUTES = {"sys.platform", "os.name", "os.uname", "sys.getwindowsversion", "ctypes.CDLL", "ctypes.PyDLL", "ctypes.WinDLL", "ctypes.util"}
_LIBRARIES = ("libm", "libc", "libmvec")


def asked(path):
    """What a file asks about the system, or takes from it."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [] if node.level else [node.module]
            found |= {name for name in names if name in _MODULES}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (name := f"{node.value.id}.{node.attr}") in _ATTRIBUTES:
            found.add(name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith("/") and node.value.split("/")[1] in ("proc", "sys", "dev", "etc"):
                found.add(node.value)
            if node.value.partition(".so")[0] in _LIBRARIES and ".so" in node.value:
                found.add(node.value.partition(".so")[0])
    return found


def test_what_is_asked_about_the_system_is_known():
    assert {str(p.relative_to(PACKAGE)): found for p in PACKAGE.rglob("*.py") if (found := asked(p))} == ASKED


PROGRAM = """
import sys
import numpy as np
import tapegrad as tg
from tapegrad.codegen import disk, host
from tapegrad.common import config, memory
x = np.linspace(0.1, 0.9, 9)
f = lambda x: np.sum(np.exp(np.sin(x)) * np.log(x) ** 3) + np.tanh(x) @ x
for g in (tg.grad(f), tg.jit(tg.grad(f), kernel="always")):
    for _ in range(2):
        print(*map(float.hex, g(x).tolist()))
memory.trim()
text = tg.value_and_grad(f).kernel(x).llvm()
folder = config.cache_dir() / "objects"
with disk.alone(folder):
    with open("/proc/self/maps") if sys.platform == "linux" else open(__file__) as maps:
        print("libmvec" in maps.read())
print("_ZGV" in text, bool(host.available()), memory._malloc_trim() is not None, disk._OWN.__dict__ != {})
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is nothing to leave out")
def test_it_can_all_be_left_out():
    said = {}
    for portable in ("0", "1"):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=os.environ | {"TAPEGRAD_PORTABLE": portable}, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        *gradients, library, others = ended.stdout.splitlines()
        said[portable] = [[float.fromhex(number) for number in line.split()] for line in gradients], library, others
    assert said["1"][1:] == ("False", "False False False False")
    for one, other in zip(said["0"][0], said["1"][0], strict=True):
        assert one == pytest.approx(other, rel=1e-13, abs=0.0)
