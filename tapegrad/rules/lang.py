"""The closed language in which element-wise rules are written.

A rule such as ``lambda x, z: 1.0 - z * z`` is ordinary Python over whatever it
is given.  Given `Expr` it traces itself into a small expression (from which
machine code is made, see `tapegrad.codegen`); given tensors it records; given a
planner's symbolic arrays it plans.  What makes that possible is that a rule
uses nothing but Python's arithmetic and comparisons and the functions of this
module, every one of which asks its operands to apply it
(``operand._apply(name, *args)``).

`Expr` nodes are immutable and hash-consed by structure through `key()`, so the
same expression always prints, and therefore compiles and caches, the same.

Expressions are printed as text (`written`), for a reader of a kernel, and for Python or Numba to compile.
"""

#: Operations besides the arithmetic of Python's operators: add, sub, mul, div, neg.
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not")

#: Functions of one floating operand and of two, in the sense of C's libm or of
#: a ufunc of the same name; the emitter knows how each is lowered.
UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt abs sign floor ceil trunc rint "
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
    "erf lgamma digamma isnan sigmoid softplus"
).split()
BINARY = "pow arctan2 hypot fmod copysign polygamma".split()

#: Functions that are SciPy's ufuncs of the same name.
SCIPY_UNARY = "erfc erfinv erfcx logit log_expit gamma rgamma gammasgn i0 i1 i0e i1e j0 j1 entr log_ndtr ndtr ndtri ndtri_exp y0 y1 erfcinv".split()
SCIPY_BINARY = (
    "beta betaln gammainc gammaincc gammaincinv gammainccinv stdtr stdtrit owens_t xlogy xlog1py rel_entr kl_div jv yv iv ive".split()
)
SCIPY_TERNARY = "betainc betaincc betaincinv betainccinv".split()

#: Functions that are compiled from Python (`tapegrad.codegen.gamma`), and of how many operands.
COMPILED = {"gammainc_da": 2, "zeta": 2, "stdtr_ddf": 2, "betainc_da": 3, "betainc_db": 3}


class Operators:
    """Python's operators, for whatever a rule may be handed: each asks ``self._apply(name, *operands)``."""

    __slots__ = ()

    def __neg__(self):
        return self._apply("neg", self)

    def __invert__(self):
        return self._apply("not", self)


for _name in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "and", "or"):
    _operator = _name.replace("div", "truediv")
    setattr(Operators, f"__{_operator}__", lambda self, o, name=_name: self._apply(name, self, o))
    if _name in ("add", "sub", "mul", "div"):
        setattr(Operators, f"__r{_operator}__", lambda self, o, name=_name: self._apply(name, o, self))


class Expr(Operators):
    """A node of a traced element-wise expression.

    Parameters
    ----------
    op : str
        ``"arg"`` (an operand), ``"const"``, or an operation of the language.
    args : tuple
        Operand nodes; for ``arg`` the operand itself, for ``const`` the float.
    """

    __slots__ = ("op", "args", "_key")

    def __init__(self, op, args=()):
        self.op = op
        self.args = args
        self._key = None

    # -- building ---------------------------------------------------------
    @staticmethod
    def lift(value):
        """`value` as an expression: numbers become constants."""
        return value if isinstance(value, Expr) else Expr("const", (float(value),))

    def _apply(self, name, *args):
        return simplify(name, tuple(Expr.lift(a) for a in args))

    # -- reading ----------------------------------------------------------
    @property
    def is_const(self):
        return self.op == "const"

    @property
    def is_bool(self):
        if self.op == "select":
            return self.args[1].is_bool
        return self.op in COMPARISONS or self.op in LOGIC or self.op == "isnan"

    def leaves(self):
        """The distinct operands this expression reads, in order of first use."""
        return [*dict.fromkeys(node.args[0] for node in nodes(self) if node.op == "arg")]

    def key(self, names=None):
        """A text that is the same for structurally equal expressions.

        Parameters
        ----------
        names : dict, optional
            Operand -> text; operands print as themselves without it.
        """
        if self.op == "const":
            return float(self.args[0]).hex()
        if self.op == "arg":
            return str(self.args[0] if names is None else names[self.args[0]])
        if names is None and self._key is not None:
            return self._key
        text = f"{self.op}({','.join(a.key(names) for a in self.args)})"
        if names is None:
            self._key = text
        return text

    def __repr__(self):
        return self.key()


def arg(operand):
    """The expression that reads `operand` (any hashable)."""
    return Expr("arg", (operand,))


def simplify(op, args):
    """Node for ``op(*args)``; only identities exact in IEEE arithmetic."""
    if op == "mul":
        for factor, other in (args, args[::-1]):
            if factor.is_const and factor.args[0] in (1.0, -1.0):
                return other if factor.args[0] == 1.0 else Expr("neg", (other,))
    elif op == "div" and args[1].is_const and args[1].args[0] == 1.0:
        return args[0]
    elif op == "neg" and args[0].op == "neg":
        return args[0].args[0]
    return Expr(op, args)


def function(name):
    """The function `name` of the language: it asks its first operand that is not a plain number to apply it."""

    def apply(*args):
        for a in args:
            if hasattr(type(a), "_apply"):
                return a._apply(name, *args)
        raise TypeError(f"{name}() needs a symbolic or tracked operand, got plain numbers")

    apply.__name__ = name
    return apply


for _name in UNARY + BINARY + SCIPY_UNARY + SCIPY_BINARY + SCIPY_TERNARY + [*COMPILED]:
    globals()[_name] = function(_name)

eq = function("eq")
ne = function("ne")
logical_not = function("not")
_select = function("select")
absolute_product = function("mul0")


def select(condition, yes, no):
    """`yes` where `condition` holds, else `no`; both sides are computed."""
    if isinstance(condition, bool):
        return yes if condition else no
    return _select(condition, yes, no)


def times(g, partial):
    """Adjoint times partial, with an absolute zero (``docs/numerics.md``).

    Zero if either factor is zero, so that a branch not taken cannot poison a
    gradient with ``0 * inf``.  Constant partials are finite and multiply plainly.
    """
    if isinstance(partial, (int, float)):
        if partial == 1.0:
            return g
        if partial == -1.0:
            return -g
        return g * float(partial)
    return absolute_product(g, partial)


def nodes(expr):
    """The distinct nodes of an expression, operands before what uses them, in order of first use."""
    if expr.op in ("arg", "const"):
        return [expr]
    if all(arg.op in ("arg", "const") for arg in expr.args):
        # Most are of one operation.
        return [*{id(arg): arg for arg in expr.args}.values(), expr]
    by_id, stack = {}, [(expr, False)]
    while stack:
        node, done = stack.pop()
        if done:
            by_id[id(node)] = node
        elif id(node) not in by_id:
            stack.append((node, True))
            if node.op not in ("arg", "const"):
                stack.extend((arg, False) for arg in reversed(node.args))
    return list(by_id.values())


def rewritten(expr, leaf, make=simplify):
    """`expr` with each of its operands v replaced by the expression ``leaf(v)``; what is above them is made by ``make(op, args)``."""
    done = {}
    for node in nodes(expr):
        if node.op in ("arg", "const"):
            done[id(node)] = node if node.op == "const" else leaf(node.args[0])
        else:
            args = tuple(done[id(arg)] for arg in node.args)
            done[id(node)] = node if all(one is two for one, two in zip(args, node.args)) else make(node.op, args)
    return done[id(expr)]


#: Sign and binding strength; a name or a call binds with 9.
_INFIX = {"add": (" + ", 4), "sub": (" - ", 4), "mul": (" * ", 5), "div": (" / ", 5), "lt": (" < ", 3), "le": (" <= ", 3),
          "gt": (" > ", 3), "ge": (" >= ", 3), "eq": (" == ", 3), "ne": (" != ", 3), "and": (" and ", 2), "or": (" or ", 1)}  # fmt: skip
_PREFIX = {"neg": ("-", 6), "not": ("not ", 2.5)}
#: What Python has operators for.
OPERATORS = _INFIX.keys() | _PREFIX.keys()


def written(expr, leaf, spelled={}.get, operators=OPERATORS, bind=None):
    """An expression in Python's notation.

    Parameters
    ----------
    expr : Expr
    leaf : callable
        ``leaf(operand)``: the text of an operand.
    spelled : callable, optional
        ``spelled(op)``: the name of a function, or its format string; None for ``op(...)``.
    operators : set of str, optional
        What is written by an operator instead.
    bind : callable, optional
        ``bind(text)``: the name of a value that is computed by itself, from which the text goes on.

    Returns
    -------
    str
        Constants that are not finite are ``inf`` and ``nan``.
    """
    done = {}
    for node in nodes(expr):
        if node.op == "const":
            text = repr(float(node.args[0])), 6 if node.args[0] < 0.0 else 9
        elif node.op == "arg":
            text = leaf(node.args[0]), 9
        else:
            text = _operation(node.op, [done[id(a)] for a in node.args], spelled, operators)
            if bind is not None:
                text = bind(text[0]), 9
        done[id(node)] = text
    return done[id(expr)][0]


def _operation(op, args, spelled, operators):
    """Text and binding strength of an operation."""
    if op in _INFIX and op in operators:
        sign, strength = _INFIX[op]
        # A comparison of comparisons is not a chain.
        first = strength + 0.5 * (strength == 3)
        return _bound(args[0], first) + sign + _bound(args[1], strength + 1), strength
    if op in _PREFIX and op in operators:
        sign, strength = _PREFIX[op]
        return sign + _bound(args[0], strength), strength
    texts, form = [text for text, _ in args], spelled(op) or op
    return (form.format(*texts) if "{" in form else f"{form}({', '.join(texts)})"), 9


def _bound(arg, strength):
    text, own = arg
    return text if own >= strength else f"({text})"
