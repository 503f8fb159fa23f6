"""Kinds of programs whose function reads more than its arguments; `impure_programs` makes programs of them.

Each kind is a text.  ``BODY`` in it becomes lines that compute with what `read` reads, ``A`` its first value, ``B(n)`` that after
the n-th change, ``NAME`` an identifier.  The text defines ``f``, and unless nothing changes ``change(n)``; a function with static
arguments has ``arguments(call)`` too.
"""

import textwrap
from dataclasses import dataclass

#: Transformations by order of derivative, and those that look for a minimum.
FIRST = ("grad", "value_and_grad", "elementwise_grad", "jacobian")
SECOND = ("hessian", "hvp")
OPTIMISERS = ("lbfgs", "gradient_descent", "adam", "minimize")
ANY = FIRST + SECOND + OPTIMISERS


@dataclass(frozen=True)
class Kind:
    """What a function reads, and how that changes.

    Attributes
    ----------
    fault : int or None
        What it was first seen to go wrong for: 3 exceptions that are caught, 4 checkpoints, 5 an entry beside one that the function
        itself changes, 6 array operations that alternate, 7 keys that are equal, 8 order of dicts, 9 digests, 10 memory written
        before the way back, 11 frozen arrays, 12 what is not compared, 18 and 27 static arguments that are new at every call,
        21 strings that are names of globals.  None: right ever since.
    noticed : bool
        Whether a recorded function (`tg.jit`) has to notice the change.  If not, a wrong number under it is as documented.
    text, read : str
    values : tuple of str
        Which of `VALUES` it may hold.
    transformations : tuple of str
    arrays : bool
        Whether the argument has to be an array.
    points : tuple of str or None
        Expressions of arguments among which calls alternate, the first few calls at the first one.
    calls : int or None
        How many; a few if None.
    replayed : bool
        Whether a function that is recorded at all has to be replayed, too.
    """

    name: str
    fault: int | None
    noticed: bool
    text: str
    read: str = "NAME"
    values: tuple = ("float", "int", "bool", "str", "tuple", "array")
    transformations: tuple = ANY
    arrays: bool = False
    points: tuple | None = None
    calls: int | None = None
    replayed: bool = False


#: First value, value after the n-th change, and a number that depends on it.
VALUES = {
    "float": ("2.0", "2.0 + 3.0 * n", "{}"),
    "int": ("2", "2 + 3 * n", "{}"),
    "bool": ("True", "n % 2 == 0", "(2.0 if {} else 5.0)"),
    "str": ('"low"', '("high" if n % 2 else "low")', '(2.0 if {} == "low" else 5.0)'),
    "tuple": ("(1.0, 2.0)", "(1.0, 2.0 + n)", "sum({})"),
    "array": ("np.array([1.0, 2.0])", "np.array([1.0, 2.0 + n])", "float({}.sum())"),
    "True and 1": ("1", "(True if n % 2 else 1)", "(2.0 if type({}) is bool else 5.0)"),
    "1.0 and 1": ("1", "(1.0 if n % 2 else 1)", "(2.0 if type({}) is int else 5.0)"),
    "signed zero": ("0.0", "(-0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}))"),
    "np.float64 and float": ("2.0", "(np.float64(2.0) if n % 2 else 2.0)", "(2.0 if type({}) is float else 5.0)"),
    "np.float64 of signed zero": ("np.float64(0.0)", "np.float64(-0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}))"),
    "complex signed zero": ("0j", "complex(0.0, -0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}.imag))"),
    "frozenset of signed zero": (
        "frozenset({0.0})", "frozenset({-0.0 if n % 2 else 0.0})", "(3.0 + float(np.copysign(2.0, next(iter({})))))",
    ),
    "Decimal": ('Decimal("1.0")', 'Decimal("1.00" if n % 2 else "1.0")', "float(len(str({})))"),
    "aware datetime": (
        "datetime(2020, 1, 1, 12, tzinfo=timezone.utc)",
        "datetime(2020, 1, 1, 12, tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=n)))", "(0.25 * {}.hour)",
    ),
    "own __eq__": ('Named("a", 2.0)', 'Named("a", 2.0 + n)', "{}.k"),
    "keys True and 1": ("{1: 1.0}", "({True: 1.0} if n % 2 else {1: 1.0})", "(2.0 if type(next(iter({}))) is bool else 5.0)"),
    "int matrix": ("np.array([[1, 2], [3, 4]])", "(np.matrix if n % 2 else np.array)([[1, 2], [3, 4]])", "(0.1 * float(np.asarray({0} * {0}).sum()))"),
    "field names": (
        'np.array([(1.0, 2.0)], [("a", "f8"), ("b", "f8")])',
        'np.array([(1.0, 2.0)], [("b", "f8"), ("a", "f8")] if n % 2 else [("a", "f8"), ("b", "f8")])', 'float({}["a"][0])',
    ),
    "order of an int array": (
        "np.arange(6).reshape(2, 3)", "np.asarray(np.arange(6).reshape(2, 3), order='F' if n % 2 else 'C')", "(1.0 + float({}.ravel(order='K')[1]))",
    ),
}
PLAIN = ("float", "int", "bool", "str", "tuple", "array")
NUMBERS = ("float", "int")

# What holds a value.

GLOBAL = """
NAME = A

def f(x):
    BODY

def change(n):
    global NAME
    NAME = B(n)
"""
CELL = """
def make():
    NAME = A
    def f(x):
        BODY
    def change(n):
        nonlocal NAME
        NAME = B(n)
    return f, change

f, change = make()
"""
DEFAULT = """
def f(x, NAME=A):
    BODY

def change(n):
    f.__defaults__ = (B(n),)
"""
SELF = """
class Model:
    def __init__(self):
        self.other, self.NAME = 1.0, A
    def loss(self, x):
        BODY

model = Model()
f = model.loss

def change(n):
    model.NAME = B(n)
"""
LIST = """
NAMEs = [0.5, A]

def f(x):
    BODY

def change(n):
    NAMEs[1] = B(n)
"""
DICT = """
NAMEs = {"other": 1.0, "NAME": A}

def f(x):
    BODY

def change(n):
    NAMEs["NAME"] = B(n)
"""
STATIC = """
def f(x, NAME):
    BODY

changed = 0

def change(n):
    global changed
    changed = n

def arguments(call):
    n = changed
    return (B(n) if n else A,)
"""
SELF_COUNTS = """
class Model:
    def __init__(self):
        self.NAME, self.calls = A, 0
    def loss(self, x):
        self.calls += 1
        BODY

model = Model()
f = model.loss

def change(n):
    model.NAME = B(n)
"""
HELPER = """
NAME = A

def helper():
    return NAME

def f(x):
    BODY

def change(n):
    global NAME
    NAME = B(n)
"""


def replaced(text, *pairs):
    for old, new in pairs:
        if old not in text:
            raise ValueError(f"{old!r} is not in the text")
        text = text.replace(old, new)
    return text


def places():
    """Kinds by what holds the value."""
    yield Kind("nothing changes", None, True, replaced(GLOBAL, ("NAME = B(n)", "NAME = A")))
    yield Kind("global", None, True, GLOBAL)
    yield Kind("cell", None, True, CELL)
    yield Kind("default", None, True, DEFAULT)
    yield Kind("keyword default", None, True, replaced(DEFAULT, ("(x, NAME", "(x, *, NAME"), ("f.__defaults__ = (B(n),)", 'f.__kwdefaults__["NAME"] = B(n)')))
    yield Kind("attribute of self", None, True, SELF, "self.NAME")
    yield Kind("method that reads self", None, True, replaced(SELF, ("    def loss", "    def factor(self):\n        return self.NAME\n    def loss")), "self.factor()")
    yield Kind("item of a list", None, True, LIST, "NAMEs[1]")
    yield Kind("item of a tuple", None, True, replaced(GLOBAL, ("= A", "= (0.5, A)"), ("= B(n)", "= (0.5, B(n))")), "NAME[1]")
    yield Kind("item of a dict", None, True, DICT, 'NAMEs["NAME"]')
    yield Kind("item of nested containers", None, True, replaced(LIST, ("[0.5, A]", '{"layers": [(1.0,), {"k": A}]}'), ("NAMEs[1]", 'NAMEs["layers"][1]["k"]')), 'NAMEs["layers"][1]["k"]')
    yield Kind("length of a list", None, True, replaced(LIST, ("[0.5, A]", "[0.5, 1.0]"), ("NAMEs[1] = B(n)", "NAMEs.append(1.0 + n)")), "sum(NAMEs)")
    yield Kind("global of a helper", None, True, HELPER, "helper()")
    yield Kind("cell of a helper", None, True, replaced(CELL, ("    def f", "    def helper():\n        return NAME\n    def f")), "helper()")
    yield Kind("helper replaced", None, True, replaced(HELPER, ("return NAME", "return A"), ("global NAME\n    NAME = B(n)", "global helper\n    value = B(n)\n    helper = lambda: value")), "helper()")
    yield Kind("code of a helper replaced", None, True, replaced(HELPER, ("return NAME", "return 2.0"), ("global NAME\n    NAME = B(n)", "helper.__code__ = (lambda: 2.0).__code__.replace(co_consts=(None, 2.0 + n) if None in (lambda: 2.0).__code__.co_consts else (2.0 + n,))")), "helper()", NUMBERS)
    yield Kind("attribute of an object", None, False, replaced(SELF, ("    def loss(self, x):\n        BODY\n", ""), ("f = model.loss", "def f(x):\n    BODY")), "model.NAME")
    yield Kind("attribute of an object of self", None, False, replaced(SELF, ("class Model", "class Part:\n    pass\n\nclass Model"), ("self.other, self.NAME = 1.0, A", "self.part = Part()\n        self.part.NAME = A"), ("model.NAME", "model.part.NAME")), "self.part.NAME")
    yield Kind("namespace", None, False, replaced(LIST, ("[0.5, A]", "types.SimpleNamespace(k=A)"), ("NAMEs[1]", "NAMEs.k")), "NAMEs.k")
    yield Kind("class attribute", None, False, replaced(SELF, ("    def __init__(self):\n        self.other, self.NAME = 1.0, A", "    NAME = A"), ("model.NAME", "Model.NAME")), "self.NAME")
    yield Kind("function attribute", None, False, replaced(DEFAULT, ("(x, NAME=A)", "(x)"), ("\ndef change", "\nf.NAME = A\n\ndef change"), ("f.__defaults__ = (B(n),)", "f.NAME = B(n)")), "f.NAME")
    slots = replaced(SELF, ("class Model:\n", 'class Model:\n    __slots__ = ("other", "NAME")\n'))
    yield Kind("slot", None, False, slots, "self.NAME")
    yield Kind("mangled slot", 12, False, replaced(slots, ('"NAME")', '"__NAME")'), ("1.0, A", "1.0, A\n    def set(self, value):\n        self.__NAME = value"), ("model.NAME = B(n)", "model.set(B(n))"), ("self.other, self.NAME", "self.other, self.__NAME")), "self.__NAME")
    yield Kind("default_factory", 12, False, replaced(LIST, ("[0.5, A]", "collections.defaultdict(lambda: A)"), ("NAMEs[1] = B(n)", "NAMEs.clear()\n    value = B(n)\n    NAMEs.default_factory = lambda: value")), 'NAMEs["k"]')
    yield Kind("ctypes array", 12, False, replaced(LIST, ("[0.5, A]", "(ctypes.c_double * 2)(0.5, A)")), "NAMEs[1]", NUMBERS)
    yield Kind("computed name of a global", 12, False, GLOBAL, 'globals()["".join(["NA", "ME"])]'.replace('"NA", "ME"', '"NAME"[:1], "NAME"[1:]'))
    yield Kind("string that is the name of a global", 21, True, replaced(DICT, ('    NAMEs["NAME"] = B(n)', "    global NAME\n    NAME = n"), ("NAMEs = ", "NAME = 0\nNAMEs = ")), 'NAMEs["NAME"]', NUMBERS, ("grad", "value_and_grad"), calls=40, replayed=True)


def beside():
    """Kinds where the function itself changes something beside what it reads."""
    yield Kind("self with a counter", 5, True, SELF_COUNTS, "self.NAME")
    yield Kind("self with the last argument", 5, True, replaced(SELF_COUNTS, ("self.calls += 1", "self.last = x")), "self.NAME")
    yield Kind("self with a cached property", 5, True, replaced(SELF_COUNTS, ("    def loss", "    @functools.cached_property\n    def table(self):\n        return np.arange(3.0)\n    def loss"), ("        self.calls += 1\n", ""), ("self.NAME, self.calls = A, 0", "self.NAME = A")), "self.NAME * float(self.table[1])", NUMBERS)
    yield Kind("dict with a counter", 5, True, replaced(DICT, ('"other": 1.0', '"calls": 0'), ("    BODY", '    NAMEs["calls"] += 1\n    BODY')), 'NAMEs["NAME"]')
    yield Kind("function with a counter", 5, False, replaced(DEFAULT, ("(x, NAME=A):", "(x):\n    f.calls += 1"), ("\ndef change", "\nf.NAME, f.calls = A, 0\n\ndef change"), ("f.__defaults__ = (B(n),)", "f.NAME = B(n)")), "f.NAME")
    yield Kind("class with a counter", 5, False, replaced(SELF_COUNTS, ("    def __init__(self):\n        self.NAME, self.calls = A, 0", "    NAME, calls = A, 0"), ("self.calls += 1", "Model.calls += 1"), ("model.NAME", "Model.NAME")), "self.NAME")
    yield Kind("object with a counter", 5, False, replaced(SELF_COUNTS, ("    def loss(self, x):\n        self.calls += 1\n        BODY\n", ""), ("f = model.loss", "def f(x):\n    model.calls += 1\n    BODY")), "model.NAME")
    yield Kind("list that grows, and a global", None, True, replaced(GLOBAL, ("NAME = A", "history = []\nNAME = A"), ("    BODY", "    history.append(1.0)\n    BODY")))
    yield Kind("global with a global counter", None, True, replaced(GLOBAL, ("NAME = A", "calls = 0\nNAME = A"), ("    BODY", "    global calls\n    calls += 1\n    BODY")))


def equal_values():
    """Kinds where the value after the change is == the one before."""
    captured = {"global": (GLOBAL, "NAME"), "cell": (CELL, "NAME"), "default": (DEFAULT, "NAME"), "self": (SELF, "self.NAME"), "list": (LIST, "NAMEs[1]"), "dict": (DICT, 'NAMEs["NAME"]')}
    for value in VALUES:
        if value not in PLAIN:
            # Floats among the arguments are inputs, whatever their class.
            if value not in ("1.0 and 1", "signed zero", "np.float64 and float", "np.float64 of signed zero"):
                yield Kind(f"{value}: argument", 7, True, STATIC, values=(value,), transformations=("grad", "value_and_grad", "jacobian"))
            for place in ("global", "cell", "default", "self", "list", "dict"):
                if place != "default" or value in ("True and 1", "keys True and 1", "Decimal", "own __eq__", "aware datetime", "complex signed zero"):
                    text, read = captured[place]
                    fault = {"np.float64 of signed zero": 12, "complex signed zero": 12}.get(value)
                    yield Kind(f"{value}: {place}", fault, value != "own __eq__" or place != "default", text, read, (value,))


LAYERS = """
NAMEs = collections.OrderedDict(square=None, shift=None)

def f(x):
    total = 2.0
    for name in NAMEs:
        total = total * total if name == "square" else total + 1.5
    BODY

def change(n):
    NAMEs.move_to_end("square" if n % 2 else "shift")
"""


def orders():
    """Kinds where the order of a dict changes."""
    again = ('NAMEs.move_to_end("square" if n % 2 else "shift")', 'name = "square" if n % 2 else "shift"\n    NAMEs[name] = NAMEs.pop(name)')
    plain = ("collections.OrderedDict(square=None, shift=None)", '{"square": None, "shift": None}')
    yield Kind("order of an OrderedDict", 8, True, LAYERS, "total")
    yield Kind("order of a dict", 8, True, replaced(LAYERS, plain, again), "total")
    yield Kind("order of a dict in a list", 8, True, replaced(LAYERS, (plain[0], f"[{plain[1]}]"), ("in NAMEs", "in NAMEs[0]"), (again[0], again[1].replace("NAMEs", "NAMEs[0]"))), "total")
    yield Kind("order of attributes", 8, False, replaced(LAYERS, (plain[0], "types.SimpleNamespace(square=None, shift=None)"), ("in NAMEs", "in vars(NAMEs)"), (again[0], again[1].replace("NAMEs", "vars(NAMEs)"))), "total")


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
        yield Kind(f"{name}Fortran array", None, small, replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", f"np.asfortranarray(np.arange({size}, dtype=float).reshape(30, -1) / 100.0)"), ("NAME[3 * n]", "NAME[3, n]")), "float(NAME[3, :4].sum()) * 0.1")
        yield Kind(f"{name}int array", None, small, replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", f"np.arange({size})"), ("7.0", "700")), "0.001 * float(NAME[:30].sum())")
        yield Kind(f"view of {an}array", None, small, replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", f"np.arange({2 * size}.0)[::2]"), ("NAME[3 * n]", "NAME.base[6 * n]")), "0.01 * float(NAME[:30].sum())")
        yield Kind(f"array multiplied with the argument, {name}".rstrip(", "), None, small, replaced(ARRAY, ("SIZE", str(size))), "np.sum(NAME[:3] * x)", transformations=FIRST + SECOND, arrays=True)
        rows = 16 if small else 20
        yield Kind(f"rows of {an}array exchanged at a distance of 509", 9, small, replaced(ROWS, ("SIZE", str(rows))), "0.02 * float((weights @ NAME).sum())")
        one_hot = replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", f"np.zeros({2000 if small else 20000})\nNAME[3] = 1.0"), ("NAME[3 * n] += 7.0", "NAME[3 + 509 * (n - 1)], NAME[3 + 509 * n] = 0.0, 1.0"))
        yield Kind(f"{name}one-hot array moved by 509", 9, small, one_hot, "float(np.flatnonzero(NAME)[0]) * 0.01")
        yield Kind(f"{name}frozen array thawed and frozen again", 11, small, replaced(FROZEN, ("SIZE", str(size))), frozen)
        yield Kind(f"{name}frozen array thawed", 11, True, replaced(FROZEN, ("SIZE", str(size)), ("    NAME.flags.writeable = False\n", "")).replace("view = NAME[:]", "view = NAME[:]\nNAME.flags.writeable = False").replace("False\nNAME.flags.writeable = False", "False"), frozen)
        yield Kind(f"{name}frozen array written through a view", 11, small, replaced(FROZEN, ("    NAME.flags.writeable = True\n    NAME[0]", "    view[0]"), ("0 * n\n    NAME.flags.writeable = False\n", "0 * n\n"), ("SIZE", str(size))), frozen)
        yield Kind(f"{name}array replaced", None, True, replaced(GLOBAL, ("= A", f"= np.ones({size})"), ("= B(n)", f"= np.ones({size}) + n")), "float(NAME[-1])")
    boxes = "np.empty(2, object)\nNAME[0], NAME[1] = [1.0], [2.0]"
    yield Kind("content of an object array", 7, False, replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", boxes), ("NAME[3 * n] += 7.0", "NAME[1][0] += 3.0")), "NAME[1][0]")
    yield Kind("content of an object array: argument", 7, False, replaced(ARRAY, ("np.arange(SIZE, dtype=float) / 100.0", boxes), ("def f(x)", "def f(x, NAME)"), ("NAME[3 * n] += 7.0\n", "NAME[1][0] += 3.0\n\ndef arguments(call):\n    return (NAME,)\n")), "NAME[1][0]", transformations=("grad", "value_and_grad", "jacobian"))


OUTSIDE = """
NAME = SETUP

def f(x):
    BODY
"""


def outside():
    """Kinds where the state of a generator, a file, an iterator or the process moves."""
    for name, setup, read in [
        ("random generator", "np.random.default_rng(5)", "NAME.uniform(1.0, 9.0)"),
        ("random array", "np.random.default_rng(6)", "np.sum(NAME.normal(size=4) ** 2)"),
        ("random.Random", "random.Random(7)", "NAME.uniform(1.0, 9.0)"),
        ("file", 'io.StringIO("".join(f"{1 + j * j % 7}\\n" for j in range(200)))', "float(NAME.readline())"),
        ("iterator", "iter([1.0 + j * j % 7 for j in range(200)])", "next(NAME)"),
        ("iterator of two values", "itertools.cycle([2.0, 5.0])", "next(NAME)"),
    ]:
        yield Kind(name, 27 if name.startswith("random") else None, False, replaced(OUTSIDE, ("SETUP", setup)), read, transformations=("grad", "value_and_grad", "elementwise_grad"))
    yield Kind("environment variable", None, False, replaced(LIST, ("NAMEs = [0.5, A]", 'os.environ["IMPURE_NUMBER"] = "2.0"'), ("NAMEs[1] = B(n)", 'os.environ["IMPURE_NUMBER"] = str(2.0 + n)')), 'float(os.environ["IMPURE_NUMBER"])')
    yield Kind("np.seterr", 12, False, replaced(LIST, ("NAMEs = [0.5, A]", "zero = np.zeros(1)"), ("NAMEs[1] = B(n)", 'np.seterr(over="raise" if n % 2 else "ignore")')), '(2.0 if np.geterr()["over"] == "raise" else 5.0)')


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
    "cell": ("def make():\n    turn = [0]\n    def f(x):\n        turn[0] += 1\n        BODY\n    return f\n\nf = make()\n", "turn[0]", True),
    "global": ("turn = 0\n\ndef f(x):\n    global turn\n    turn += 1\n    BODY\n", "turn", True),
    "self": ("class Model:\n    turn = 0\n    def loss(self, x):\n        self.turn += 1\n        BODY\n\nf = Model().loss\n", "self.turn", True),
    "iterator": ("turns = itertools.count(1)\n\ndef f(x):\n    turn = next(turns)\n    BODY\n", "turn", False),
    "object": ("state = types.SimpleNamespace(turn=0)\n\ndef f(x):\n    state.turn += 1\n    BODY\n", "state.turn", False),
}


def alternating():
    """Kinds where the function takes one of two operations in turn."""
    for name, (one, other) in ALTERNATING.items():
        for place, (text, turn, noticed) in TURNS.items():
            read = f"({one} if {turn} % 2 else {other})"
            yield Kind(f"{name}, turn in {place}", 6, noticed, "fixed = np.array([3.0, 4.0, 5.0])\n" + text, read, transformations=("grad", "value_and_grad", "elementwise_grad"), arrays=True)


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
    within = ("    try:\n        y = TRIED\n    except CAUGHT:\n        y = OTHERWISE\n", '    with CONTEXT:\n        try:\n            y = TRIED\n        except CAUGHT:\n            y = OTHERWISE\n')
    failing = ("    d = np.where(x > 1.0, x, 0.0)\n", "    d = x[1]\n")
    cases = [
        ("cholesky with jitter", CAUGHT, "np.linalg.LinAlgError", "np.sum(np.log(np.diagonal(np.linalg.cholesky(np.eye(3) * d))))", jitter),
        ("cholesky that is not definite", replaced(CAUGHT, failing), "np.linalg.LinAlgError", "np.sum(np.linalg.cholesky(np.eye(2) * d + np.array([[0.0, 1.0], [1.0, 0.0]])))", "np.sum(np.linalg.cholesky(np.eye(2) * (d + 5.0)))"),
        ("solve", CAUGHT, "np.linalg.LinAlgError", "np.sum(np.linalg.solve(np.eye(3) * d, np.ones(3)))", "np.sum(3.0 * x)"),
        ("inv", CAUGHT, "np.linalg.LinAlgError", "np.sum(np.linalg.inv(np.eye(3) * d))", "np.sum(x * x)"),
        ("solve, no result of it used", replaced(CAUGHT, ("y = TRIED", "np.linalg.solve(np.eye(3) * d, x)\n        y = np.sum(np.sin(x))")), "np.linalg.LinAlgError", "", "np.sum(x * x)"),
    ]
    for how, quoted in (('np.errstate(divide="raise")', "FloatingPointError"), ("warnings.catch_warnings()", "RuntimeWarning")):
        text = replaced(CAUGHT, (within[0], within[1].replace("CONTEXT", how)))
        if "warnings" in how:
            text = replaced(text, ("        try:\n", '        warnings.simplefilter("error")\n        try:\n'))
        cases += [
            (f"division, {quoted}", text, quoted, "np.sum(1.0 / d)", "np.sum(5.0 * x)"),
            (f"log, {quoted}", text, quoted, "np.sum(np.log(d))", "np.sum(x * x)"),
        ]
    cases.append(("sqrt, FloatingPointError", replaced(CAUGHT, (within[0], within[1].replace("CONTEXT", 'np.errstate(invalid="raise")'))), "FloatingPointError", "np.sum(np.sqrt(d - 0.5))", "np.sum(2.0 * x)"))
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
    for name, step in [("loop variable", "np.sin(x) * coefficients[index]"), ("turn", "np.sin(x) * (1.0 + 0.3 * turn)"), ("random numbers", "x * NAME.uniform(1.0, 2.0)")]:
        text = replaced(STEPS, ("STEP", step))
        if name == "loop variable":
            text = replaced(text, ("    for k in", "    global index\n    for index in"))
        yield Kind(f"checkpoint, {name}", 4, False, text, "np.sum(y)", transformations=("backward", "grad", "value_and_grad"))
    yield Kind("memory written before the pullback", 10, False, WRITTEN, "np.sum(NAME * x * x)", transformations=("vjp", "linearize"), arrays=True)


def storms():
    """Kinds with a static argument that is new at every call: numbers are right, but nothing is ever replayed."""
    for name, fault, argument, read in [
        ("step number", 27, "call", "(1.0 + i)"),
        ("string", 18, 'f"batch {call}"', "float(len(i))"),
        ("index array", 18, "np.random.default_rng(call).integers(0, 3, 40)", "np.sum(x[i] ** 2)"),
        ("mask", 18, "np.arange(9) < call % 9 if call < 9 else np.arange(9 + call) < 3", "float(i.sum())"),
    ]:
        text = f"def f(x, i):\n    BODY\n\ndef arguments(call):\n    return ({argument},)\n"
        yield Kind(f"new at every call: {name}", fault, True, text, read, transformations=("grad", "value_and_grad"), arrays=True, calls=40)


KINDS = {
    kind.name: kind
    for group in (places, beside, equal_values, orders, arrays, outside, alternating, exceptions, on_the_way_back, storms)
    for kind in group()
}

HEADER = """
import collections, ctypes, functools, io, itertools, os, random, types, warnings
from datetime import datetime, timedelta, timezone
from decimal import Decimal
import numpy as np
"""
NAMED = """
class Named:
    def __init__(self, name, k): self.name, self.k = name, k
    def __eq__(self, other): return self.name == other.name
    def __hash__(self): return hash(self.name)
"""


def indented(text, lines):
    """`text` with the line that is ``BODY`` replaced by `lines`, as far to the right."""
    out = []
    for line in text.strip("\n").splitlines():
        if line.strip() == "BODY":
            out += textwrap.indent("\n".join(lines), line[: line.index("BODY")]).splitlines()
        else:
            out.append(line)
    return "\n".join(out) + "\n"
