"""Programs in fresh processes, with a cache of their own: what a user waits for when nothing is loaded yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

#: JAX's first call of a function: ``{make}`` is an expression of a function and the point, given `jax`.
JAX = """
import json, time
import numpy as np
try:
    import jax
except ImportError:
    print(json.dumps(None))
    raise SystemExit
jax.config.update("jax_enable_x64", True)
from benchmarks import programs
f, x = {make}
x = np.asarray(x)
jax.jit(lambda x: x + 1.0)(x).block_until_ready()
start = time.perf_counter()
jax.jit(jax.value_and_grad(f))(x)[1].block_until_ready()
print(json.dumps(time.perf_counter() - start))
"""


def run(program: str, cache: str, *, bytecode: bool = True, patience: float | None = None, where: str | Path = ROOT) -> Any:
    """Run a program in a new interpreter.

    Parameters
    ----------
    program : str
        Prints what it found as JSON.
    cache : str
        The folder of tapegrad's cache, the environment variable ``TAPEGRAD_CACHE_DIR``.
    bytecode : bool
        Keep Python's bytecode there too, as an installed package has it.
    patience : float, optional
        Seconds that it may take.
    where : path, optional
        The folder from which it imports `tapegrad`.

    Returns
    -------
    object
        What it printed.

    Raises
    ------
    RuntimeError
        If it fails, with the last line of what it said.
    subprocess.TimeoutExpired
        If it takes longer than `patience`.
    """
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": cache, "TAPEGRAD_QUIET": "1"}
    if where != ROOT:
        environment["PYTHONPATH"] = str(where)
    if bytecode:
        environment["PYTHONPYCACHEPREFIX"] = os.path.join(cache, "bytecode")
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True, check=False, timeout=patience)
    if ended.returncode != 0:
        raise RuntimeError((ended.stderr.strip() or f"ended with code {ended.returncode}").splitlines()[-1])
    return json.loads(ended.stdout)


def forget_kernels(cache: str) -> None:
    """Drop what was kept of users' functions: the next process compiles their kernels."""
    for path in Path(cache).rglob("*.kernel"):
        path.unlink()
