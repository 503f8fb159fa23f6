"""Wheels: with machine code that new processes find, for this processor or for levels of them; without it where nothing can compile."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tapegrad.codegen import host, pack, symbols

ROOT = Path(__file__).parents[2]

#: Builds the wheel of the folder it runs in, as pip does it; prints the name.
BUILD = "import sys\nfrom setuptools import build_meta\nprint('the wheel is', build_meta.build_wheel(sys.argv[1]))"


def source(folder, unpacked=False):
    """A copy of what a wheel is made from; `unpacked`: from a source distribution."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tapegrad", folder / "tapegrad", ignore=shutil.ignore_patterns("__pycache__", "*.bin"))
    if unpacked:
        (folder / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: tapegrad\nVersion: 0\n")
    return folder


def environment(home, **more):
    """Nothing that says where things are, and an empty home."""
    kept = {name: value for name, value in os.environ.items() if not re.match("PYTHON|TAPEGRAD_|NUMBA_|XDG_|VIRTUAL_ENV", name)}
    return kept | {"HOME": str(home), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TAPEGRAD_QUIET": "1"} | more


def run(command, folder, **more):
    """What a program prints, and what it says on standard error."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    ended = subprocess.run([str(part) for part in command], cwd=folder, env=environment(home, **more), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


def wheel(folder, unpacked=False, **more):
    """A wheel, and what was said while it was built."""
    source(folder, unpacked)
    made, said = run([sys.executable, "-c", BUILD, folder / "dist"], folder, **more)
    return folder / "dist" / re.search("the wheel is (.*)", made)[1], said


def test_a_build_that_cannot_compile_gives_a_wheel_without_code_and_says_so(tmp_path):
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / "llvmlite.py").write_text("raise ImportError('no LLVM here')\n")
    made, said = wheel(tmp_path, PYTHONPATH=str(tmp_path / "missing"))
    assert made.name.endswith("-py3-none-any.whl")
    lines = [line for line in said.splitlines() if line.startswith("tapegrad:")]
    assert lines == ["tapegrad: no machine code in this wheel, which compiles where it is used: ImportError: no LLVM here"]
    assert pack.FILE.name not in {Path(name).name for name in zipfile.ZipFile(made).namelist()}


def test_a_portable_build_compiles_nothing_and_says_nothing(tmp_path):
    made, said = wheel(tmp_path, unpacked=True, TAPEGRAD_PORTABLE="1")
    assert made.name.endswith("-py3-none-any.whl")
    assert [line for line in said.splitlines() if line.startswith("tapegrad:")] == []
    assert pack.FILE.name not in {Path(name).name for name in zipfile.ZipFile(made).namelist()}


# ---- with code ----------------------------------------------------------------------------

ARRAYS = "import numpy as np, tapegrad as tg\nx = np.linspace(0.1, 0.9, 5)\nf = lambda x: (np.sin(x) * x).sum()\n"
LOOP = "import tapegrad as tg, numpy as np\ndef f(x):\n    s = 0.0\n    for i in range(len(x) - 1):\n        s = s + 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2\n    return s\nx = np.zeros(10)\n"
CALLS = {
    "backward": "t = tg.tensor(x, requires_grad=True); f(t).backward(); print(t.grad.numpy().sum())",
    "grad": "print(tg.grad(f)(x).sum())",
    "kernel": "g = tg.jit(tg.grad(f), kernel='always'); g(x); print(g(x).sum()); assert g.stats().kernels",
    "lbfgs": "print(tg.optimize.lbfgs(f, x).fun)",
    "hessian": "print(tg.hessian(f)(x).sum())",
}
NETWORK = """
import numpy as np, sys
import tapegrad as tg
sys.path.insert(0, sys.argv[1])
import train_classifier as t
rng = np.random.default_rng(0)
parameters = t.new_parameters(rng)
velocities = [np.zeros(p.shape) for p in parameters]
images, labels = rng.uniform(size=(128, 64)), rng.integers(0, 10, 128)
print([t.step(parameters, velocities, images, labels) for _ in range(3)])
arrays = [p.numpy().copy() for p in parameters]
print([t.jitted_step(arrays, velocities, images, labels) for _ in range(3)])
"""
PROGRAMS = {
    **{f"{name} of {what}": text + call for what, text in (("arrays", ARRAYS), ("a loop", LOOP)) for name, call in CALLS.items()},
    "README": re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1],
    "network": NETWORK,
}
#: What has a loop over arrays that is made for a number of the user's: of images, by which the loss is divided, of elements that are stacked.
OF_THE_USER = {"network", "hessian of a loop", "README"}

COUNT = """
from tapegrad.codegen import code, compile
import json
print(json.dumps([compile.COUNTS, code.COUNTS]))
"""


def counted(python, program, folder, **more):
    """What a program prints in a new process with an empty cache, and how many functions it compiled and loaded: of the package, and all."""
    printed, _ = run([python, "-c", program + COUNT, ROOT / "examples"], folder, **more)
    *lines, counts = printed.splitlines()
    return lines, *json.loads(counts)


def from_sources(name, folder):
    """What a program prints that compiles for itself, and keeps it in the folder."""
    return counted(sys.executable, PROGRAMS[name], folder, PYTHONPATH=str(ROOT), TAPEGRAD_CACHE_DIR=str(folder / "cache"))[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Python of an environment of its own, with the wheel for this processor and what it needs installed."""
    folder = tmp_path_factory.mktemp("here")
    made, said = wheel(folder)
    assert re.search(r"-py3-none-(?!any)\w+\.whl$", made.name), said
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", made], cwd=folder / "venv", env=environment(Path.home()), check=True)
    return python, folder


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_process_compiles_nothing_of_the_package(installed, tmp_path, name):
    python, folder = installed
    lines, functions, everything = counted(python, PROGRAMS[name], tmp_path)
    assert functions["loaded"] > 10 and functions["compiled"] == 0
    assert everything["compiled"] == 0 or name in OF_THE_USER
    assert lines == from_sources(name, folder), "as from the sources"


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    """A folder with the wheel for levels of processors, unpacked."""
    folder = tmp_path_factory.mktemp("levels")
    made, said = wheel(folder, unpacked=True)
    assert re.search(r"-py3-none-(?!any)\w+\.whl$", made.name), said
    zipfile.ZipFile(made).extractall(folder / "site")
    return folder / "site"


@pytest.mark.long
@pytest.mark.parametrize("name", ["backward of arrays", "kernel of a loop"])
@pytest.mark.parametrize("level", ["", *host.levels_here()])
def test_each_level_has_its_code(levels, tmp_path, level, name):
    more = {"TAPEGRAD_TARGET": level} if level else {}
    lines, functions, everything = counted(sys.executable, PROGRAMS[name], tmp_path, PYTHONPATH=str(levels), **more)
    assert functions["loaded"] > 10 and everything["compiled"] == 0
    assert float(lines[0]) == pytest.approx(float(from_sources(name, levels.parent)[0]), rel=1e-13)


@pytest.mark.long
def test_sources_that_were_changed_compile_for_themselves(levels, tmp_path):
    shutil.copytree(levels, tmp_path / "site")
    with (tmp_path / "site" / "tapegrad" / "rules" / "elementwise.py").open("a") as file:
        file.write("# more\n")
    _, functions, _ = counted(sys.executable, PROGRAMS["backward of arrays"], tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert functions["compiled"] > 10


def undefined(code):
    """Names that object code in ELF takes from outside."""
    at, size, count = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, at + size * k) for k in range(count)]
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind == 2:
            names = sections[link][4]
            for symbol in range(start + 24, start + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", code, symbol)
                if section == 0:
                    yield code[names + name : code.index(b"\0", names + name)].decode()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="object code of other systems is not in ELF")
def test_the_code_knows_nothing_of_numba_or_of_the_inside_of_python(levels):
    file = (levels / "tapegrad" / "codegen" / pack.FILE.name).read_bytes()
    starts = [match.start() for match in re.finditer(b"\x7fELF", file)]
    assert len(starts) > 500
    assert len(file) < 16 << 20
    names = {name for start in starts for name in undefined(file[start:])}
    assert {"PyErr_Occurred", "sin"} <= names
    symbols.require_known(names)
