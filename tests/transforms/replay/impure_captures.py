"""Kinds of programs by what the function captures, and how that changes."""

from tests.transforms.replay.impure_kinds import NUMBERS, PLAIN, VALUES, Kind, replaced

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


def places():
    """Kinds by what holds the value."""
    yield Kind("nothing changes", None, True, replaced(GLOBAL, ("NAME = B(n)", "NAME = A")))
    yield Kind("global", None, True, GLOBAL)
    yield Kind("cell", None, True, CELL)
    yield Kind("default", None, True, DEFAULT)
    yield Kind(
        "keyword default",
        None,
        True,
        replaced(DEFAULT, ("(x, NAME", "(x, *, NAME"), ("f.__defaults__ = (B(n),)", 'f.__kwdefaults__["NAME"] = B(n)')),
    )
    yield Kind("attribute of self", None, True, SELF, "self.NAME")
    yield Kind(
        "method that reads self",
        None,
        True,
        replaced(SELF, ("    def loss", "    def factor(self):\n        return self.NAME\n    def loss")),
        "self.factor()",
    )
    yield Kind("item of a list", None, True, LIST, "NAMEs[1]")
    yield Kind("item of a tuple", None, True, replaced(GLOBAL, ("= A", "= (0.5, A)"), ("= B(n)", "= (0.5, B(n))")), "NAME[1]")
    yield Kind("item of a dict", None, True, DICT, 'NAMEs["NAME"]')
    yield Kind(
        "item of nested containers",
        None,
        True,
        replaced(LIST, ("[0.5, A]", '{"layers": [(1.0,), {"k": A}]}'), ("NAMEs[1]", 'NAMEs["layers"][1]["k"]')),
        'NAMEs["layers"][1]["k"]',
    )
    yield Kind(
        "length of a list",
        None,
        True,
        replaced(LIST, ("[0.5, A]", "[0.5, 1.0]"), ("NAMEs[1] = B(n)", "NAMEs.append(1.0 + n)")),
        "sum(NAMEs)",
    )
    yield Kind(
        "item far down a list", None, True, replaced(LIST, ("[0.5, A]", "[0.5] * 900 + [A]"), ("[1]", "[900]")), "NAMEs[900]"
    )
    yield Kind(
        "item of a long list", None, False, replaced(LIST, ("[0.5, A]", "[0.5] * 2000 + [A]"), ("[1]", "[2000]")), "NAMEs[2000]"
    )
    yield Kind(
        "item of a list of self",
        None,
        True,
        replaced(SELF, ("self.other, self.NAME = 1.0, A", "self.NAMEs = [0.5, A]"), ("model.NAME", "model.NAMEs[1]")),
        "self.NAMEs[1]",
    )
    yield Kind(
        "item of a defaultdict",
        None,
        False,
        replaced(DICT, ('{"other": 1.0, "NAME": A}', "collections.defaultdict(float, NAME=A)")),
        'NAMEs["NAME"]',
    )
    yield Kind(
        "object replaced",
        None,
        True,
        replaced(GLOBAL, ("= A", "= types.SimpleNamespace(k=A)"), ("= B(n)", "= types.SimpleNamespace(k=B(n))")),
        "NAME.k",
    )
    yield Kind(
        "static argument", None, True, STATIC, "NAME", ("int", "bool", "str"), ("grad", "value_and_grad", "jacobian", "hessian")
    )
    yield Kind(
        "helper of a helper",
        None,
        True,
        replaced(HELPER, ("def f", "def second():\n    return helper()\n\ndef f")),
        "second()",
    )
    yield Kind("global of a helper", None, True, HELPER, "helper()")
    yield Kind(
        "cell of a helper",
        None,
        True,
        replaced(CELL, ("    def f", "    def helper():\n        return NAME\n    def f")),
        "helper()",
    )
    yield Kind(
        "helper replaced",
        None,
        True,
        replaced(
            HELPER,
            ("return NAME", "return A"),
            ("global NAME\n    NAME = B(n)", "global helper\n    value = B(n)\n    helper = lambda: value"),
        ),
        "helper()",
    )
    yield Kind(
        "code of a helper replaced",
        None,
        True,
        replaced(
            HELPER,
            ("return NAME", "return 2.0"),
            (
                "global NAME\n    NAME = B(n)",
                "code = helper.__code__\n"
                "    constants = tuple(c if c is None else 2.0 + n for c in code.co_consts)\n"
                "    helper.__code__ = code.replace(co_consts=constants)",
            ),
        ),
        "helper()",
        NUMBERS,
    )
    yield Kind(
        "attribute of an object",
        None,
        False,
        replaced(SELF, ("    def loss(self, x):\n        BODY\n", ""), ("f = model.loss", "def f(x):\n    BODY")),
        "model.NAME",
    )
    yield Kind(
        "attribute of an object of self",
        None,
        False,
        replaced(
            SELF,
            ("class Model", "class Part:\n    pass\n\nclass Model"),
            ("self.other, self.NAME = 1.0, A", "self.part = Part()\n        self.part.NAME = A"),
            ("model.NAME", "model.part.NAME"),
        ),
        "self.part.NAME",
    )
    yield Kind(
        "namespace", None, False, replaced(LIST, ("[0.5, A]", "types.SimpleNamespace(k=A)"), ("NAMEs[1]", "NAMEs.k")), "NAMEs.k"
    )
    yield Kind(
        "class attribute",
        None,
        False,
        replaced(
            SELF, ("    def __init__(self):\n        self.other, self.NAME = 1.0, A", "    NAME = A"), ("model.NAME", "Model.NAME")
        ),
        "self.NAME",
    )
    yield Kind(
        "function attribute",
        None,
        False,
        replaced(
            DEFAULT,
            ("(x, NAME=A)", "(x)"),
            ("\ndef change", "\nf.NAME = A\n\ndef change"),
            ("f.__defaults__ = (B(n),)", "f.NAME = B(n)"),
        ),
        "f.NAME",
    )
    slots = replaced(SELF, ("class Model:\n", 'class Model:\n    __slots__ = ("other", "NAME")\n'))
    yield Kind("slot", None, False, slots, "self.NAME")
    yield Kind(
        "mangled slot",
        12,
        False,
        replaced(
            slots,
            ('"NAME")', '"__NAME")'),
            ("1.0, A", "1.0, A\n    def set(self, value):\n        self.__NAME = value"),
            ("model.NAME = B(n)", "model.set(B(n))"),
            ("self.other, self.NAME", "self.other, self.__NAME"),
        ),
        "self.__NAME",
    )
    yield Kind(
        "default_factory",
        12,
        False,
        replaced(
            LIST,
            ("[0.5, A]", "collections.defaultdict(lambda: A)"),
            ("NAMEs[1] = B(n)", "NAMEs.clear()\n    value = B(n)\n    NAMEs.default_factory = lambda: value"),
        ),
        'NAMEs["k"]',
    )
    yield Kind("ctypes array", 12, False, replaced(LIST, ("[0.5, A]", "(ctypes.c_double * 2)(0.5, A)")), "NAMEs[1]", NUMBERS)
    yield Kind(
        "computed name of a global",
        None,
        False,
        GLOBAL,
        'globals()["".join(["NA", "ME"])]'.replace('"NA", "ME"', '"NAME"[:1], "NAME"[1:]'),
    )
    yield Kind(
        "string that is the name of a global",
        21,
        True,
        replaced(DICT, ('    NAMEs["NAME"] = B(n)', "    global NAME\n    NAME = n"), ("NAMEs = ", "NAME = 0\nNAMEs = ")),
        'NAMEs["NAME"]',
        NUMBERS,
        ("grad", "value_and_grad"),
        calls=40,
        replayed=True,
    )


def beside():
    """Kinds where the function itself changes something beside what it reads."""
    yield Kind("self with a counter", 5, True, SELF_COUNTS, "self.NAME")
    yield Kind("self with the last argument", 5, True, replaced(SELF_COUNTS, ("self.calls += 1", "self.last = x")), "self.NAME")
    yield Kind(
        "self with a cached property",
        5,
        True,
        replaced(
            SELF_COUNTS,
            ("    def loss", "    @functools.cached_property\n    def table(self):\n        return np.arange(3.0)\n    def loss"),
            ("        self.calls += 1\n", ""),
            ("self.NAME, self.calls = A, 0", "self.NAME = A"),
        ),
        "self.NAME * float(self.table[1])",
        NUMBERS,
    )
    yield Kind(
        "dict with a counter",
        5,
        True,
        replaced(DICT, ('"other": 1.0', '"calls": 0'), ("    BODY", '    NAMEs["calls"] += 1\n    BODY')),
        'NAMEs["NAME"]',
    )
    yield Kind(
        "function with a counter",
        5,
        False,
        replaced(
            DEFAULT,
            ("(x, NAME=A):", "(x):\n    f.calls += 1"),
            ("\ndef change", "\nf.NAME, f.calls = A, 0\n\ndef change"),
            ("f.__defaults__ = (B(n),)", "f.NAME = B(n)"),
        ),
        "f.NAME",
    )
    yield Kind(
        "class with a counter",
        5,
        False,
        replaced(
            SELF_COUNTS,
            ("    def __init__(self):\n        self.NAME, self.calls = A, 0", "    NAME, calls = A, 0"),
            ("self.calls += 1", "Model.calls += 1"),
            ("model.NAME", "Model.NAME"),
        ),
        "self.NAME",
    )
    yield Kind(
        "object with a counter",
        5,
        False,
        replaced(
            SELF_COUNTS,
            ("    def loss(self, x):\n        self.calls += 1\n        BODY\n", ""),
            ("f = model.loss", "def f(x):\n    model.calls += 1\n    BODY"),
        ),
        "model.NAME",
    )
    yield Kind(
        "list that grows, and a global",
        None,
        True,
        replaced(GLOBAL, ("NAME = A", "history = []\nNAME = A"), ("    BODY", "    history.append(1.0)\n    BODY")),
    )
    yield Kind(
        "global with a global counter",
        None,
        True,
        replaced(GLOBAL, ("NAME = A", "calls = 0\nNAME = A"), ("    BODY", "    global calls\n    calls += 1\n    BODY")),
    )


def equal_values():
    """Kinds where the value after the change is == the one before."""
    captured = {
        "global": (GLOBAL, "NAME"),
        "cell": (CELL, "NAME"),
        "default": (DEFAULT, "NAME"),
        "self": (SELF, "self.NAME"),
        "list": (LIST, "NAMEs[1]"),
        "dict": (DICT, 'NAMEs["NAME"]'),
    }
    for value in VALUES:
        if value not in PLAIN:
            # Floats among the arguments are inputs, whatever their class.
            if value not in ("1.0 and 1", "signed zero", "np.float64 and float", "np.float64 of signed zero"):
                yield Kind(
                    f"{value}: argument",
                    None if value == "True and 1" else 7,
                    True,
                    STATIC,
                    values=(value,),
                    transformations=("grad", "value_and_grad", "jacobian"),
                )
            for place in ("global", "cell", "default", "self", "list", "dict"):
                if place != "default" or value in (
                    "True and 1",
                    "keys True and 1",
                    "Decimal",
                    "own __eq__",
                    "aware datetime",
                    "complex signed zero",
                ):
                    text, read = captured[place]
                    fault = {"np.float64 of signed zero": 12, "complex signed zero": 12}.get(value) if place != "default" else None
                    yield Kind(f"{value}: {place}", fault, True, text, read, (value,))


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
    again = (
        'NAMEs.move_to_end("square" if n % 2 else "shift")',
        'name = "square" if n % 2 else "shift"\n    NAMEs[name] = NAMEs.pop(name)',
    )
    plain = ("collections.OrderedDict(square=None, shift=None)", '{"square": None, "shift": None}')
    yield Kind("order of an OrderedDict", 8, False, LAYERS, "total")
    yield Kind("order of a dict", 8, True, replaced(LAYERS, plain, again), "total")
    yield Kind(
        "order of a dict in a list",
        8,
        True,
        replaced(
            LAYERS, (plain[0], f"[{plain[1]}]"), ("in NAMEs", "in NAMEs[0]"), (again[0], again[1].replace("NAMEs", "NAMEs[0]"))
        ),
        "total",
    )
    yield Kind(
        "order of attributes",
        8,
        False,
        replaced(
            LAYERS,
            (plain[0], "types.SimpleNamespace(square=None, shift=None)"),
            ("in NAMEs", "in vars(NAMEs)"),
            (again[0], again[1].replace("NAMEs", "vars(NAMEs)")),
        ),
        "total",
    )


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
        yield Kind(
            name,
            27 if name.startswith("random") else None,
            False,
            replaced(OUTSIDE, ("SETUP", setup)),
            read,
            transformations=("grad", "value_and_grad", "elementwise_grad"),
        )
    yield Kind(
        "environment variable",
        None,
        False,
        replaced(
            LIST,
            ("NAMEs = [0.5, A]", 'os.environ["IMPURE_NUMBER"] = "2.0"'),
            ("NAMEs[1] = B(n)", 'os.environ["IMPURE_NUMBER"] = str(2.0 + n)'),
        ),
        'float(os.environ["IMPURE_NUMBER"])',
    )
    yield Kind(
        "np.seterr",
        12,
        False,
        replaced(
            LIST, ("NAMEs = [0.5, A]", "zero = np.zeros(1)"), ("NAMEs[1] = B(n)", 'np.seterr(over="raise" if n % 2 else "ignore")')
        ),
        '(2.0 if np.geterr()["over"] == "raise" else 5.0)',
    )
