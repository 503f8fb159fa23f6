"""Figures of matplotlib, apart from pyplot's state, which a notebook shows."""

import io
from typing import Any

from .errors import MissingPackageError


def new_figure(what: str, size: tuple[float, float]) -> Any:
    """An empty figure, for what asks for it (``result.plot()``), of so many inches.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(f"{what} needs matplotlib, which is not installed: pip install \"tapegrad[plot]\"") from None
    figure = Figure(figsize=size, layout="constrained")

    def png():
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=100)
        return file.getvalue()

    # Only pyplot's figures are shown by themselves.
    figure._repr_png_ = png
    return figure


def saved(figure: Any, path: Any, **options: Any) -> Any:
    """The figure, also written to `path` unless that is None; `options` as of its ``savefig``."""
    if path is not None:
        figure.savefig(path, **options)
    return figure
