"""The nonlinear regression problems of NIST's Statistical Reference Datasets: models, starts, certified values.

Source: National Institute of Standards and Technology, StRD, https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml (public domain).
"""

import re
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).with_name("nist_strd")
pi = np.pi


def _lanczos(b, x):
    return b[0] * np.exp(-b[1] * x) + b[2] * np.exp(-b[3] * x) + b[4] * np.exp(-b[5] * x)


def _gauss(b, x):
    return b[0] * np.exp(-b[1] * x) + b[2] * np.exp(-((x - b[3]) ** 2) / b[4] ** 2) + b[5] * np.exp(-((x - b[6]) ** 2) / b[7] ** 2)


def _cubic(b, x):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def _enso(b, x):
    return (
        b[0] + b[1] * np.cos(2 * pi * x / 12) + b[2] * np.sin(2 * pi * x / 12) + b[4] * np.cos(2 * pi * x / b[3])
        + b[5] * np.sin(2 * pi * x / b[3]) + b[7] * np.cos(2 * pi * x / b[6]) + b[8] * np.sin(2 * pi * x / b[6])
    )  # fmt: skip


MODELS = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Chwirut1": lambda b, x: np.exp(-b[0] * x) / (b[1] + b[2] * x),
    "Chwirut2": lambda b, x: np.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": _enso,
    "Eckerle4": lambda b, x: (b[0] / b[1]) * np.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss1": _gauss, "Gauss2": _gauss, "Gauss3": _gauss,
    "Hahn1": _cubic,
    "Kirby2": lambda b, x: (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2),
    "Lanczos1": _lanczos, "Lanczos2": _lanczos, "Lanczos3": _lanczos,
    "MGH09": lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "MGH10": lambda b, x: b[0] * np.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]),
    "Misra1a": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** (-2)),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** (-0.5)),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[:, 0] * np.exp(-b[2] * x[:, 1]),
    "Rat42": lambda b, x: b[0] / (1 + np.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / ((1 + np.exp(b[1] - b[2] * x)) ** (1 / b[3])),
    "Roszman1": lambda b, x: b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / pi,
    "Thurber": _cubic,
}  # fmt: skip


class Problem:
    """A problem: `model`, `x`, `y`, two `starts`, certified `values` and `errors`, and the `squares` that are left."""

    def __init__(self, name):
        self.name, self.model = name, MODELS[name]
        # (One of them is data of an example.)
        path = FOLDER / f"{name}.dat" if name != "Gauss3" else FOLDER.parents[2] / "examples" / "gauss3.dat"
        text = path.read_text()
        rows = re.findall(r"^\s*b\d+\s*=\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$", text, re.MULTILINE)
        table = np.array(rows, float)
        self.starts, self.values, self.errors = table[:, :2].T, table[:, 2], table[:, 3]
        self.squares = float(re.search(r"Residual Sum of Squares:\s*(\S+)", text)[1])
        lines = text.splitlines()
        first, last = map(int, re.search(r"Data\s+\(lines (\d+) to (\d+)\)", text).groups())
        data = np.array([line.split() for line in lines[first - 1 : last]], float)
        self.y, self.x = data[:, 0], data[:, 1:] if data.shape[1] > 2 else data[:, 1]
        if name == "Nelson":
            self.y = np.log(self.y)


def digits(found, certified):
    """How many digits of every number are right."""
    with np.errstate(divide="ignore"):
        return float(np.min(-np.log10(np.abs(found - certified) / np.abs(certified)))) if np.all(np.isfinite(found)) else 0.0
