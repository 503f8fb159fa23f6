"""Kinds of programs by what the function does: operations in turn, exceptions, later computations."""

from tests.transforms.replay.impure_kinds import FIRST, SECOND, Kind, replaced

ALTERNATING = {
    "sin or cos": ("np.sum(np.sin(x))", "np.sum(np.cos(x))"),
    "window that moves": ("np.sum(x[1:] ** 2)", "np.sum(x[:-1] ** 2)"),
    "max or min": ("np.max(x)", "np.min(x)"),
    "exponent": ("np.sum(x ** 2)", "np.sum(x ** 3)"),
    "axis": ("np.cumsum(np.outer(x, x), axis=0)[1].sum()", "np.cumsum(np.outer(x, x), axis=1)[1].sum()"),
    "item": ("x[0] * 2.0", "x[1] * 2.0"),
    "constant or not": ("np.sum(x * fixed)", "np.sum(x * x)"),
    "order of operands": ("np.sum(x / (x * x + 2.0))", "np.sum((x * x + 2.0) / x)"),
    "order of the norm": ("np.linalg.norm(x, 1)", "np.linalg.norm(x)"),
    "rows of a take": ("np.sum(x[[0, 2]] ** 2)", "np.sum(x[[1, 2]] ** 2)"),
}
TURNS = {
    "cell": (
        "def make():\n    turn = [0]\n    def f(x):\n        turn[0] += 1\n        BODY\n    return f\n\nf = make()\n",
        "turn[0]",
        True,
    ),
    "global": ("turn = 0\n\ndef f(x):\n    global turn\n    turn += 1\n    BODY\n", "turn", True),
    "self": (
        "class Model:\n    turn = 0\n    def loss(self, x):\n        self.turn += 1\n        BODY\n\nf = Model().loss\n",
        "self.turn",
        True,
    ),
    "iterator": ("turns = itertools.count(1)\n\ndef f(x):\n    turn = next(turns)\n    BODY\n", "turn", False),
    "object": ("state = types.SimpleNamespace(turn=0)\n\ndef f(x):\n    state.turn += 1\n    BODY\n", "state.turn", False),
}


def alternating():
    """Kinds where the function takes one of two operations in turn."""
    for name, (one, other) in ALTERNATING.items():
        for place, (text, turn, noticed) in TURNS.items():
            read = f"({one} if {turn} % 2 else {other})"
            yield Kind(
                f"{name}, turn in {place}",
                None if name in ("order of the norm", "rows of a take") else 6,
                noticed,
                "fixed = np.array([3.0, 4.0, 5.0])\n" + text,
                read,
                transformations=("grad", "value_and_grad", "elementwise_grad"),
                arrays=True,
            )


CAUGHT = """
def f(x):
    d = np.where(x > 1.0, x, 0.0)
    try:
        y = TRIED
    except CAUGHT:
        y = OTHERWISE
    BODY
"""
GOOD, BAD = "np.array([1.3, 1.6, 1.2])", "np.array([1.4, 0.7, 1.1])"


def exceptions():
    """Kinds where the function catches an exception of NumPy, at some points only."""
    jitter = "np.sum(np.log(np.diagonal(np.linalg.cholesky(np.eye(3) * d + 4.0 * np.eye(3)))))"
    within = (
        "    try:\n        y = TRIED\n    except CAUGHT:\n        y = OTHERWISE\n",
        "    with CONTEXT:\n        try:\n            y = TRIED\n        except CAUGHT:\n            y = OTHERWISE\n",
    )
    failing = ("    d = np.where(x > 1.0, x, 0.0)\n", "    d = x[1]\n")
    cases = [
        (
            "cholesky with jitter",
            CAUGHT,
            "np.linalg.LinAlgError",
            "np.sum(np.log(np.diagonal(np.linalg.cholesky(np.eye(3) * d))))",
            jitter,
        ),
        (
            "cholesky that is not definite",
            replaced(CAUGHT, failing),
            "np.linalg.LinAlgError",
            "np.sum(np.linalg.cholesky(np.eye(2) * d + np.array([[0.0, 1.0], [1.0, 0.0]])))",
            "np.sum(np.linalg.cholesky(np.eye(2) * (d + 5.0)))",
        ),
        ("solve", CAUGHT, "np.linalg.LinAlgError", "np.sum(np.linalg.solve(np.eye(3) * d, np.ones(3)))", "np.sum(3.0 * x)"),
        ("inv", CAUGHT, "np.linalg.LinAlgError", "np.sum(np.linalg.inv(np.eye(3) * d))", "np.sum(x * x)"),
        (
            "solve, no result of it used",
            replaced(CAUGHT, ("y = TRIED", "np.linalg.solve(np.eye(3) * d, x)\n        y = np.sum(np.sin(x))")),
            "np.linalg.LinAlgError",
            "",
            "np.sum(x * x)",
        ),
    ]
    for how, quoted in (('np.errstate(divide="raise")', "FloatingPointError"), ("warnings.catch_warnings()", "RuntimeWarning")):
        text = replaced(CAUGHT, (within[0], within[1].replace("CONTEXT", how)))
        if "warnings" in how:
            text = replaced(text, ("        try:\n", '        warnings.simplefilter("error")\n        try:\n'))
        cases += [
            (f"division, {quoted}", text, quoted, "np.sum(1.0 / d)", "np.sum(5.0 * x)"),
            (f"log, {quoted}", text, quoted, "np.sum(np.log(d))", "np.sum(x * x)"),
        ]
    cases.append(
        (
            "sqrt, FloatingPointError",
            replaced(CAUGHT, (within[0], within[1].replace("CONTEXT", 'np.errstate(invalid="raise")'))),
            "FloatingPointError",
            "np.sum(np.sqrt(d - 0.5))",
            "np.sum(2.0 * x)",
        )
    )
    for name, text, caught, tried, otherwise in cases:
        text = text.replace("TRIED", tried).replace("CAUGHT", caught).replace("OTHERWISE", otherwise)
        for order, points in (("good first", (GOOD, BAD)), ("bad first", (BAD, GOOD))):
            yield Kind(f"{name}, {order}", 3, True, text, "y", transformations=FIRST + SECOND, arrays=True, points=points)


STEPS = """
coefficients = [1.0, 2.0, 3.0]
NAME = np.random.default_rng(3)
turn = 0

@checkpoint
def step(x):
    global turn
    turn += 1
    return STEP

def f(x):
    y = x
    for k in range(3):
        y = step(y)
    BODY
"""
WRITTEN = """
NAME = np.ones(3)

def f(x):
    BODY

def change(n):
    NAME[:] = 2.0 + n

change_before_the_way_back = True
"""


def on_the_way_back():
    """Kinds where something has changed when derivatives are computed."""
    for name, step in [
        ("loop variable", "np.sin(x) * coefficients[index]"),
        ("turn", "np.sin(x) * (1.0 + 0.3 * turn)"),
        ("random numbers", "x * NAME.uniform(1.0, 2.0)"),
    ]:
        text = replaced(STEPS, ("STEP", step))
        if name == "loop variable":
            text = replaced(text, ("    for k in", "    global index\n    for index in"))
        yield Kind(f"checkpoint, {name}", 4, False, text, "np.sum(y)", transformations=("backward", "grad", "value_and_grad"))
    yield Kind(
        "memory written before the pullback",
        10,
        False,
        WRITTEN,
        "np.sum(NAME * x * x)",
        transformations=("vjp", "linearize"),
        arrays=True,
    )


def storms():
    """Kinds with a static argument that is new at every call: numbers are right, but nothing is ever replayed."""
    for name, fault, argument, read in [
        ("step number", 27, "call", "(1.0 + i)"),
        ("string", 18, 'f"batch {call}"', "float(len(i))"),
        ("index array", 18, "np.random.default_rng(call).integers(0, 3, 40)", "np.sum(x[i] ** 2)"),
        ("mask", 18, "np.arange(40) < call", "float(i.sum())"),
    ]:
        text = f"def f(x, i):\n    BODY\n\ndef arguments(call):\n    return ({argument},)\n"
        yield Kind(
            f"new at every call: {name}", fault, True, text, read, transformations=("grad", "value_and_grad"), arrays=True, calls=40
        )
