"""``python -m tapegrad warm``: what would be compiled when it is first needed, now."""

import sys
import time
from importlib.util import find_spec

import numpy as np

from ...codegen.code import COUNTS
from ...common import config
from ...common.uninterrupted import imported
from ...optimize.progress import watched


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
    from ..ahead import everything  # loads compiled code

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
