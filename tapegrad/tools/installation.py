"""What this installation is made of (`tg.info`), and ``python -m tapegrad warm``: what would be compiled when it is first needed, now."""

import platform
import sys
import time
from importlib.util import find_spec

import numpy as np

from ..common import config
from ..common.uninterrupted import imported
from ..common.version import __version__
from ..optimize.progress import watched


def info() -> dict[str, str]:
    """Return facts about this installation.

    Returns
    -------
    dict
        Versions, platform, CPU, cache directory and its contents, and the source of vectorised functions; strings only.

    Examples
    --------
    >>> import tapegrad as tg
    >>> sorted(tg.info())[:3]
    ['cache_dir', 'cpu', 'llvmlite']
    """
    from importlib.metadata import version

    from ..codegen.disk import files
    from ..codegen.host import available, target

    kept = []
    for what, ending in (("functions", ".o"), ("kernels", ".kernel")):
        sizes = [size for _, size, path in files(config.cache_dir() / "objects") if path.endswith(ending)]
        kept.append(f"{len(sizes)} files of {what}, {sum(sizes):,} bytes")
    return {
        "tapegrad": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": target()[0],
        **{name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite")},
        "cache_dir": str(config.cache_dir()),
        "on_disk": "; ".join(kept),
        "vector_math": f"libmvec, {len(available())} functions" if available() else "none: calls of libm",
    }


def run_warm(options):
    """Compile now what would be compiled when it is first needed (minutes).

    Compiles every function of tapegrad that is kept on disk: walks over tapes, loops over arrays in the usual layouts, the loops of
    optimisers. What is there already is only loaded. Loops over arrays in other layouts, and kernels of your functions, are
    compiled when they are needed. (A wheel that was built with machine code in it has all of this.)

    examples:
      python -m tapegrad warm
      TAPEGRAD_CACHE_DIR=/shared/tapegrad python -m tapegrad warm

    exit code: 0
    """
    config.quiet, start = True, time.perf_counter()
    from ..codegen.code import COUNTS
    from .ahead import everything  # loads compiled code

    with np.errstate(all="ignore"):
        for _, make in shown(list(everything())):
            make()
    print(f"{COUNTS['compiled']} compiled, {COUNTS['loaded']} there before, {time.perf_counter() - start:.0f} s: {config.cache_dir()}")
    return 0


def shown(parts):
    """The parts one by one; on a terminal a line says how far it is, that of tqdm where it is installed."""
    if find_spec("tqdm"):
        yield from imported("tqdm").tqdm(parts, unit=" parts", disable=not watched(sys.stderr))
        return
    for k, part in enumerate(parts):
        if watched(sys.stderr):
            print(f"\r{k}/{len(parts)} {part[0]:60.60}", end="\n" if part is parts[-1] else "", file=sys.stderr, flush=True)
        yield part
