"""What a benchmark is: a function that yields rows, registered by a decorator."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .timing import Time

#: Files that hold benchmarks, in the order in which they run.
MODULES = (
    "scalar_chain",
    "scalar_sweep",
    "train_step",
    "per_op",
    "element_access",
    "array_of_numbers",
    "numpy_names",
    "complex_numbers",
    "many_losses",
    "jacobians",
    "choice",
    "crossover",
    "memory_backward",
    "memory_flat",
    "tape_capacity",
    "first_call",
    "nopython_duals",
    "nopython_reverse",
    "plain_calls",
    "replay_sweep",
    "replay_calls",
    "jit_calls",
    "steady_calls",
    "replay_first",
    "kernels",
    "kernels_first",
    "optimisation",
    "gradbench_by_hand",
    "higher_order",
    "sparse",
    "constant_sparse",
    "constrained",
    "many_fits",
    "samples",
    "exported",
    "custom_rules",
    "loops",
    "lanes",
    "threads",
    "automata",
    "clusters",
)

PEERS = {
    "torch": "PyTorch",
    "autograd": "HIPS autograd",
    "jax": "JAX",
    "casadi": "CasADi",
    "drjit": "Dr.Jit",
    "matplotlib": "matplotlib",
    "distributed": "Dask",
    "numpyro": "NumPyro",
    "arviz": "ArviZ",
    "nutpie": "nutpie",
}


class Missing(Exception):
    """Something that the benchmark compares with is not there; the row is skipped."""


class Disagreement(Exception):
    """Two libraries compute different numbers: no time of theirs is worth comparing."""


@dataclass
class Row:
    """One line of the table.

    Parameters
    ----------
    what : str
        What was measured.
    promise : str
        What should hold, in words; empty for a row that only informs.
    measured : float or None
        The number that the promise is about, in `unit`; None where skipped.
    limit : float or None
        The promise holds if ``measured <= limit``; None promises nothing.
    unit : str
        Behind both numbers in print; ``x`` marks a ratio of times.
    detail : dict
        Numbers behind the number, for print.
    skip : str
        Why there is no measurement.
    times : dict of Time
        What the same work takes, by name; those of ours begin with "tapegrad".
    error : str
        What went wrong, in place of a measurement: the row fails.
    """

    what: str
    promise: str = ""
    measured: float | None = None
    limit: float | None = None
    unit: str = "x"
    detail: dict[str, Any] = field(default_factory=dict)
    skip: str = ""
    times: dict[str, Time] = field(default_factory=dict)
    error: str = ""

    @property
    def status(self) -> str:
        """One of ``SKIP``, ``PASS``, ``FAIL`` and, for rows without a limit, ``info``."""
        if self.error:
            return "FAIL"
        if self.measured is None:
            return "SKIP"
        if self.limit is None:
            return "info"
        # A nan is no success: it compares false with everything.
        return "PASS" if self.measured <= self.limit else "FAIL"

    def beside(self) -> dict[str, float]:
        """Our time over that of each other, by name: above 1 the other is faster."""
        ours = [time.minimum for name, time in self.times.items() if name.startswith("tapegrad")]
        others = {name: time.minimum for name, time in self.times.items() if not name.startswith("tapegrad")}
        return {name: min(ours) / minimum for name, minimum in others.items()} if ours else {}

    def as_dict(self) -> dict[str, Any]:
        """As plain data; `of_dict` undoes it."""
        return asdict(self)

    @classmethod
    def of_dict(cls, data: dict[str, Any]) -> Row:
        return cls(**{**data, "times": {name: Time(**time) for name, time in data["times"].items()}})


def ratio(what: str, promise: str, limit: float | None, times: dict[str, Time], other: str, **detail: Any) -> Row:
    """A row of our time over that of another library, which `times` has under its name, ours under "tapegrad"."""
    pair = {name: times[name] for name in ("tapegrad", other)}
    return Row(what, promise, pair["tapegrad"].minimum / pair[other].minimum, limit, detail=detail, times=pair)


def each(*cases: tuple[str, Callable[[], Iterable[Row]]]) -> Iterator[Row]:
    """The rows of several cases, each a name and a function; one that breaks is a row that fails, and the next has its turn."""
    for name, rows in cases:
        try:
            yield from rows()
        except Missing as reason:
            yield Row(name, skip=str(reason))
        except Exception as error:
            traceback.print_exc()
            yield Row(name, error=said(error))


def said(error: Exception) -> str:
    """An error in one line."""
    kind = "the libraries disagree" if isinstance(error, Disagreement) else type(error).__name__
    return f"{kind}: {str(error).partition(chr(10))[0]}"


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark."""

    name: str
    function: Callable[[bool], Iterator[Row]]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


_REGISTERED: dict[str, Benchmark] = {}


def benchmark(*, name: str) -> Callable:
    """Register a function ``f(quick) -> iterator of Row`` under a name."""

    def register(function: Callable[[bool], Iterator[Row]]) -> Callable:
        _REGISTERED[name] = Benchmark(name, function)
        return function

    return register


def load(name: str) -> Benchmark:
    """Import the file of one benchmark and return what it registered."""
    importlib.import_module(f"{__package__}.{name}")
    return _REGISTERED[name]


def peer(module: str) -> Any:
    """Import a library to compare with.

    Raises
    ------
    Missing
        If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"{PEERS.get(module, module)} is not installed") from error


def torch_pinned() -> Any:
    """Import PyTorch, on one thread and with float64 as its default dtype."""
    torch = peer("torch")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    return torch


def jax_pinned() -> Any:
    """Import JAX, with float64 as its default dtype."""
    jax = peer("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def check_agreement(what: str, results: dict[str, Any], rtol: float = 1e-9) -> None:
    """Raise `Disagreement` unless all results equal the first one within `rtol`."""
    names = list(results)
    first = np.asarray(results[names[0]], dtype=np.float64)
    scale = float(np.max(np.abs(first), initial=0.0))
    for name in names[1:]:
        other = np.asarray(results[name], dtype=np.float64)
        if other.shape != first.shape:
            raise Disagreement(
                f"{what}: shape {first.shape} by {names[0]}, {other.shape} by {name}"
            )
        error = float(np.max(np.abs(other - first), initial=0.0))
        if not error <= rtol * scale:
            raise Disagreement(
                f"{what}: {names[0]} and {name} differ by {error:.3g}, at a size of {scale:.3g}"
            )
