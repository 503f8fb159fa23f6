"""ba: bundle adjustment, and its sparse Jacobian.

An observation has entries of its own, so the gradient of the sum of all errors in one direction
holds the partials of each.  A loop compiled by Numba puts them into compressed rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

import tapegrad as tg

from ..given import array, count, entry, number


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def rotate(r, x):
    """Rodrigues' formula; all six are numbers, or arrays with an entry for each observation."""
    squared = dot(r, r)
    turns = squared > 0.0
    angle = np.sqrt(np.where(turns, squared, 1.0))
    v = [c / angle for c in r]
    sine, cosine = np.sin(angle), np.cos(angle)
    along = dot(v, x) * (1.0 - cosine)
    turned = [c * cosine + s * sine + a * along for c, s, a in zip(x, cross(v, x), v)]
    little = [c + s for c, s in zip(x, cross(r, x))]
    return [np.where(turns, t, s) for t, s in zip(turned, little)]


def reprojection(camera, point, weight, feature):
    """Weighted reprojection errors: two rows.

    Parameters
    ----------
    camera : (11, p)
        Rotation (3), centre (3), focal length, principal point (2), radial distortion (2).
    point : (3, p)
    weight : (p,)
    feature : (2, p)
    """
    y = rotate(camera[0:3], [point[j] - camera[3 + j] for j in range(3)])
    u, v = y[0] / y[2], y[1] / y[2]
    radius = u * u + v * v
    scale = camera[6] * (1.0 + camera[9] * radius + camera[10] * radius * radius)
    return weight * (u * scale + camera[7] - feature[0]), weight * (v * scale + camera[8] - feature[1])


def weight_error(weight):
    return 1.0 - weight * weight


def of_row(k):
    """All partials of row `k` of the errors."""

    def total(camera, point, weight, feature):
        return np.sum(reprojection(camera, point, weight, feature)[k])

    return tg.jit(tg.grad(total, (0, 1, 2)))


PARTIALS = of_row(0), of_row(1)
OF_WEIGHT = tg.jit(tg.elementwise_grad(weight_error))


def read(given):
    """Cameras, points, weights and features of all observations, and which cameras and points they see."""
    n, m, p = (count(given, name) for name in "nmp")
    cameras = np.tile(array(given, "cam", 11)[:, None], (1, n))
    points = np.tile(array(given, "x", 3)[:, None], (1, m))
    weights = np.full(p, number(entry(given, "w"), "w"))
    features = np.tile(array(given, "feat", 2)[:, None], (1, p))
    seen = np.arange(p)
    return cameras, points, weights, features, seen % n, seen % m


def seen_by(cameras, points, camera_of, point_of):
    """Camera and point of each observation, a column each (`take` lays rows out one after the other, indexing does not)."""
    return np.take(cameras, camera_of, axis=1), np.take(points, point_of, axis=1)


def errors(cameras, points, weights, features, camera_of, point_of):
    """Reprojection errors, (p, 2), and weight errors, (p,)."""
    found = reprojection(*seen_by(cameras, points, camera_of, point_of), weights, features)
    return np.stack(found, axis=1), weight_error(weights)


@njit
def compressed(partials, of_weights, n, m, camera_of, point_of):
    """Partials of both rows of each observation, and of the weight errors, in compressed rows."""
    p = len(of_weights)
    values, columns, pointers = np.empty(31 * p), np.empty(31 * p, np.int64), np.empty(3 * p + 1, np.int64)
    at = 0
    for i in range(p):
        for k in range(2):
            of_camera, of_point, of_weight = partials[k]
            pointers[2 * i + k] = at
            for j in range(11):
                values[at + j] = of_camera[j, i]
                columns[at + j] = 11 * camera_of[i] + j
            for j in range(3):
                values[at + 11 + j] = of_point[j, i]
                columns[at + 11 + j] = 11 * n + 3 * point_of[i] + j
            values[at + 14] = of_weight[i]
            columns[at + 14] = 11 * n + 3 * m + i
            at += 15
    for i in range(p):
        pointers[2 * p + i] = at
        values[at] = of_weights[i]
        columns[at] = 11 * n + 3 * m + i
        at += 1
    pointers[3 * p] = at
    return pointers, columns, values


def jacobian(cameras, points, weights, features, camera_of, point_of):
    """The Jacobian in compressed rows: row pointers, columns, values."""
    seen = seen_by(cameras, points, camera_of, point_of)
    partials = tuple([of(*seen, weights, features) for of in PARTIALS])
    return compressed(partials, OF_WEIGHT(weights), cameras.shape[1], points.shape[1], camera_of, point_of)


def _objective(given):
    data = read(given)

    def convert(found):
        reprojections, of_weights = found
        p = len(of_weights)
        return {
            "reproj_error": {"elements": reprojections[0].tolist(), "repeated": p},
            "w_err": {"element": float(of_weights[0]), "repeated": p},
        }

    return lambda: errors(*data), convert


def _jacobian(given):
    data = read(given)
    shown = lambda a: [*a[:30].tolist(), a[-1].item()]
    return lambda: jacobian(*data), lambda found: dict(zip(("rows", "cols", "vals"), map(shown, found)))


FUNCTIONS = {"objective": _objective, "jacobian": _jacobian}
