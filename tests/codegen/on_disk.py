"""What tests of compiled code on disk have in common."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tapegrad.common import config

#: Kernels of several kinds, one after another from number `argv[1]` up to `argv[2]`: with tables of numbers and of positions, products,
#: what NumPy computes, special functions, a loop with guards, and one with an entry for compiled code.  All are compared with the
#: sweep.  Says values, and what was compiled.
KERNELS = """
import json, sys
import numpy as np
import tapegrad as tg
from tapegrad.codegen import code
from tapegrad.kernel import kernel
from tapegrad.scipy.special import gammaln, erf

rng = np.random.default_rng(5)
points, order, signs = rng.normal(size=(7, 5)), rng.permutation(5), np.sign(rng.normal(size=7))

def loop(x, a):
    total = 0.0
    for i in range(5):
        total = total + (np.sin(x[i] * a) if x[i] > 0.35 else x[i] * x[i - 1] * a)
    return total

def of(k):
    a = 1.0 + k / 8.0
    return [
        lambda x: np.mean(np.logaddexp(0.0, -signs * (points @ x) * a)), lambda x: loop(x, a),
        lambda x: (np.sort(x) * a) @ x[order], lambda x: gammaln(x).sum() * a + erf(x * a).sum(),
        lambda x: np.tanh(points @ x).sum() * a + np.linalg.det(np.outer(x, x) + a * np.eye(5)),
    ][k % 5]

x, values = np.linspace(0.2, 0.9, 5), []
for k in range(int(sys.argv[1]), int(sys.argv[2])):
    swept = tg.jit(tg.value_and_grad(of(k)), kernel="never")
    status, (value, gradient) = swept.kernel(x).answer([x])
    np.testing.assert_allclose(np.append(value, gradient), np.append(*swept(x)), rtol=1e-10, atol=1e-13)
    values.append([value.item().hex(), gradient.tobytes().hex()])
    print(".", end="", file=sys.stderr, flush=True)
g = np.empty(5)
compiled = tg.compile(of(int(sys.argv[1]) + 1), x)
values.append([compiled(x, g).hex(), g.tobytes().hex()])
print(json.dumps({"values": values, "kernels": kernel.COUNTS, "helpers": code.COUNTS}))
"""


def start(program, cache, *arguments, **environment):
    """Start a process whose compiled code is kept in `cache`."""
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(cache)} | environment
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    """What a process says at its end."""
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return json.loads(out)


def files(cache):
    """All files in a cache."""
    return [path for path in cache.rglob("*") if path.is_file()]


@pytest.fixture
def kept_here(tmp_path, monkeypatch):
    """An empty folder for compiled code."""
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A cache with the first ten of `KERNELS`, and with all that others need beside their own code; and what the process said."""
    cache = tmp_path_factory.mktemp("filled")
    shutil.copytree(config.cache_dir() / "objects", cache / "objects", dirs_exist_ok=True, ignore=shutil.ignore_patterns("tmp*"))
    return cache, ended(start(KERNELS, cache, 0, 10))
