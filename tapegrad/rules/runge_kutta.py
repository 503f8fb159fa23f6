"""The stage of an explicit Runge-Kutta step: one instruction instead of a chain of sums and products."""

from __future__ import annotations

import numpy as np

from ..common.errors import require
from . import shapes as S
from .table import structural


def _sum(factors, stages):
    """The sum of the stages with these factors; zeros are left out."""
    total = None
    for factor, stage in zip(factors, stages, strict=True):
        if factor:
            part = stage if factor == 1.0 else stage * factor
            total = part if total is None else total + part
    return total


def _value(y, h, *stages, factors):
    return np.asarray(y + h * _sum(factors, stages))


def _vjp(g, y, h, *rest, factors):
    stages = rest[:-1]

    def to(factor):
        return lambda: g * h * factor

    return (g, lambda: (g * _sum(factors, stages)).sum(), *(to(f) if f else None for f in factors))


def _jvp(tangents, y, h, *rest, factors):
    stages = rest[:-1]
    total, dh, *moved = tangents
    kept = [(f, t) for f, t in zip(factors, moved, strict=True) if f and t is not None]
    parts = [h * _sum(*zip(*kept, strict=True))] if kept else []
    if dh is not None:
        parts.append(dh * _sum(factors, stages))
    for part in parts:
        total = part if total is None else total + part
    return total


def _shape(y, h, *stages, factors):
    require(len(factors) == len(stages), f"{len(stages)} stages with {len(factors)} factors")
    return np.broadcast_shapes(y.shape, h.shape, *(s.shape for s in stages)), S.promoted(y, h, *stages)


structural(
    "runge_kutta_stage", -1, _value, _vjp, jvp=_jvp,
    forward=lambda y, h, *stages, factors: y + h * _sum(factors, stages), node="RungeKuttaStage",
    doc="y + h * sum(factors * stages) for vectors y and stages and a scalar h", shape=_shape, effect="elementwise",
)
