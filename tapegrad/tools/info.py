"""`tg.info`: what this installation is made of."""

from __future__ import annotations

import platform

from ..common.config import cache_dir
from ..common.version import __version__


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
        sizes = [size for _, size, path in files(cache_dir() / "objects") if path.endswith(ending)]
        kept.append(f"{len(sizes)} files of {what}, {sum(sizes):,} bytes")
    return {
        "tapegrad": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": target()[0],
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "cache_dir": str(cache_dir()),
        "on_disk": "; ".join(kept),
        "vector_math": f"libmvec, {len(available())} functions" if available() else "none: calls of libm",
    }
