"""Kinds of programs whose function captures an array, the memory of which changes."""

from tests.transforms.replay.impure_captures import GLOBAL
from tests.transforms.replay.impure_kinds import FIRST, SECOND, Kind, replaced

ARRAY = """
NAME = np.arange(SIZE, dtype=float) / 100.0

def f(x):
    BODY

def change(n):
    NAME[3 * n] += 7.0
"""
ROWS = """
rng = np.random.default_rng(0)
NAME = rng.normal(size=(SIZE, 509))
weights = np.arange(SIZE, dtype=float)

def f(x):
    BODY

def change(n):
    NAME[[n, 0]] = NAME[[0, n]]
"""
FROZEN = """
NAME = np.arange(SIZE, dtype=float)
view = NAME[:]
NAME.flags.writeable = False

def f(x):
    BODY

def change(n):
    NAME.flags.writeable = True
    NAME[0] = SIZE + 500.0 * n
    NAME.flags.writeable = False
"""


def arrays():
    """Kinds where memory of a captured array changes; above 64 KB that is not looked at."""
    for size, name in ((900, ""), (9000, "large ")):
        small, an = size == 900, name or "an "
        frozen = "0.001 * float(NAME.max())"
        yield Kind(f"{name}array", None, small, replaced(ARRAY, ("SIZE", str(size))), "float(NAME[:30].sum()) * 0.3")
        yield Kind(
            f"{name}Fortran array",
            None,
            small,
            replaced(
                ARRAY,
                (
                    "np.arange(SIZE, dtype=float) / 100.0",
                    f"np.asfortranarray(np.arange({size}, dtype=float).reshape(30, -1) / 100.0)",
                ),
                ("NAME[3 * n]", "NAME[3, n]"),
            ),
            "float(NAME[3, :4].sum()) * 0.1",
        )
        yield Kind(
            f"{name}int array",
            None,
            small,
            replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", f"np.arange({size})"), ("7.0", "700")),
            "0.001 * float(NAME[:30].sum())",
        )
        yield Kind(
            f"view of {an}array",
            None,
            small,
            replaced(
                ARRAY,
                ("np.arange(SIZE, dtype=float) / 100.0", f"np.arange({2 * size}.0)[::2]"),
                ("NAME[3 * n]", "NAME.base[6 * n]"),
            ),
            "0.01 * float(NAME[:30].sum())",
        )
        yield Kind(
            f"array multiplied with the argument, {name}".rstrip(", "),
            None,
            small,
            replaced(ARRAY, ("SIZE", str(size))),
            "np.sum(NAME[3:12:3] * x)",
            transformations=FIRST + SECOND,
            arrays=True,
        )
        rows = 16 if small else 20
        yield Kind(
            f"rows of {an}array exchanged at a distance of 509",
            9,
            small,
            replaced(ROWS, ("SIZE", str(rows))),
            "0.02 * float((weights @ NAME).sum())",
        )
        one_hot = replaced(
            ARRAY,
            ("np.arange(SIZE, dtype=float) / 100.0", f"np.zeros({2000 if small else 20000})\nNAME[3] = 1.0"),
            ("NAME[3 * n] += 7.0", "NAME[3 + 509 * (n - 1)], NAME[3 + 509 * n] = 0.0, 1.0"),
        )
        yield Kind(f"{name}one-hot array moved by 509", 9, small, one_hot, "float(np.flatnonzero(NAME)[0]) * 0.01")
        # Of a large array writability is looked at, which the first thaw changes and no later write: those are a kind of their own.
        thawed = replaced(FROZEN, ("500.0 * n\n    NAME.flags.writeable = False\n", "500.0 * n\n"), ("SIZE", str(size)))
        yield Kind(f"{name}frozen array thawed and frozen again", 11, small, replaced(FROZEN, ("SIZE", str(size))), frozen)
        yield Kind(
            f"{name}frozen array thawed",
            11,
            True,
            thawed if small else replaced(thawed, ("def change(n):\n", "def change(n):\n    if NAME.flags.writeable:\n        return\n")),
            frozen,
        )
        yield Kind(
            f"{name}frozen array written through a view",
            11,
            small,
            replaced(
                FROZEN,
                ("    NAME.flags.writeable = True\n    NAME[0]", "    view[0]"),
                ("0 * n\n    NAME.flags.writeable = False\n", "0 * n\n"),
                ("SIZE", str(size)),
            ),
            frozen,
        )
        yield Kind(
            f"{name}array replaced",
            None,
            True,
            replaced(GLOBAL, ("= A", f"= np.ones({size})"), ("= B(n)", f"= np.ones({size}) + n")),
            "float(NAME[-1])",
        )
    yield Kind("large frozen array thawed, and written again", 11, False, thawed, frozen)
    yield Kind("array of 64 KB", None, True, replaced(ARRAY, ("SIZE", "8192")), "float(NAME[:30].sum()) * 0.3")
    boxes = "np.empty(2, object)\nNAME[0], NAME[1] = [1.0], [2.0]"
    yield Kind(
        "content of an object array",
        None,
        False,
        replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", boxes), ("NAME[3 * n] += 7.0", "NAME[1][0] += 3.0")),
        "NAME[1][0]",
    )
    yield Kind(
        "content of an object array: argument",
        7,
        False,
        replaced(
            ARRAY,
            ("np.arange(SIZE, dtype=float) / 100.0", boxes),
            ("def f(x)", "def f(x, NAME)"),
            ("NAME[3 * n] += 7.0\n", "NAME[1][0] += 3.0\n\ndef arguments(call):\n    return (NAME,)\n"),
        ),
        "NAME[1][0]",
        transformations=("grad", "value_and_grad", "jacobian"),
    )
