"""The functions of the rules' language in machine code.

LLVM's intrinsics, functions of the C library, SciPy's special functions (`scipy.special.cython_special`),
functions of our own that Numba compiles, and compositions of others.
"""

from functools import cache

from ..rules import lang as L
from .host import CANDIDATES
from .symbols import capsule, define

#: Functions with an LLVM intrinsic that is exact.
INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
              "copysign": "copysign", "maximum": "maximum", "minimum": "minimum"}

#: Functions of the C library, by their names there.
LIBM = {name: there for name in (*L.UNARY, *L.BINARY) if (there := name.replace("arc", "a")) in (*CANDIDATES, "fmod")}

#: Functions of `scipy.special.cython_special`: name -> (name there, number of arguments).
SPECIAL = {
    "lgamma": ("gammaln", 1), "digamma": ("psi", 1), **{name: (name, 1) for name in L.SCIPY_UNARY},
    **{name: (name, 2) for name in L.SCIPY_BINARY}, **{name: (name, 3) for name in L.SCIPY_TERNARY},
}  # fmt: skip

#: Functions written in the language itself.
COMPOSED = {
    "sign": lambda x: L.select(x > 0.0, 1.0, L.select(x < 0.0, -1.0, x + 0.0)),  # that of -0.0 is 0.0, as NumPy's
    "sigmoid": lambda x: L.select(x >= 0.0, 1.0, L.exp(-L.abs(x))) / (1.0 + L.exp(-L.abs(x))),
    "softplus": lambda x: L.select(x > 0.0, x, L.select(L.isnan(x), x, 0.0)) + L.log1p(L.exp(-L.abs(x))),
    "mul0": lambda g, p: L.select(L.eq(g, 0.0) | L.eq(p, 0.0), 0.0, g * p),
    "polygamma": lambda n, x: (
        L.select(L.eq(L.fmod(n, L.Expr.lift(2.0)), 0.0), -1.0, 1.0)
        * L.Expr("gamma", (L.Expr.lift(n + 1.0),)) * L.Expr("zeta", (n + 1.0, x))
    ),
}

def needs_symbols(expr):
    """Define the addresses that the machine code of `expr` calls, before it is loaded."""
    names = {node.op for node in L.nodes(expr)}
    for name in names | ({"zeta", "gamma"} if "polygamma" in names else set()):
        if name in SPECIAL:
            function, count = SPECIAL[name]
            prototype = f"double ({count * 'double, '}int __pyx_skip_dispatch)"
            define(f"tapegrad_{name}", capsule("scipy.special.cython_special", function, prototype))
        elif name in L.COMPILED:
            from .compile import plain_address

            define(f"tapegrad_{name}", plain_address(compiled_function(name)))


@cache
def compiled_function(name):
    """A function of floats that is written in Python, compiled by Numba."""
    from . import gamma
    from .compile import compiled

    return compiled(f"float64({', '.join(['float64'] * L.COMPILED[name])})")(getattr(gamma, name))
