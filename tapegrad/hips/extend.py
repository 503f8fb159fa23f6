"""autograd's ``primitive`` and rules for it, made of `tapegrad.primitive`."""

import functools

from ..array.differentiable import Differentiable
from ..array.record import tracked
from ..autograd.custom.primitives import ByPosition, together
from ..common.errors import MissingRuleError
from ..common.tree import conjugated, parts_of
from .differential_operators import subval

__all__ = [
    "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums", "getval", "isbox", "notrace_primitive", "primitive",
]  # fmt: skip


class HipsPrimitive(ByPosition):
    """A function that is not looked into, but differentiated by the rules given to it, by `defvjp` and `defjvp`."""

    def __init__(self, f_raw):
        # Behind its arguments are the positions of those that are differentiated.
        super().__init__(functools.wraps(f_raw)(lambda *args, **kwargs: f_raw(*args[:-1], **kwargs)))
        self.fun = f_raw

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, tuple(k for k, a in enumerate(args) if any(map(tracked, parts_of(a, Differentiable)))), **kwargs)

    def split(self, args):
        return args[:-1], args[-1]


primitive = HipsPrimitive


def _rule_of(fun, rules, k, kind):
    if k not in rules:
        raise MissingRuleError(f"the {kind} of {fun.__name__} by argument {k} is not defined: give it to def{kind.lower()}")
    return rules[k]


def _by_position(makers, argnums):
    return dict(zip(range(len(makers)) if argnums is None else argnums, makers))


def defvjp(fun, *vjpmakers, argnums=None):
    """Rules ``vjpmaker(ans, *args, **kwargs)(g)`` for arguments 0, 1, ... or `argnums`; None for one that has no derivative."""
    rules = _by_position(vjpmakers, argnums)

    def of_one(k, ans, args, kwargs):
        maker = _rule_of(fun, rules, k, "VJP")
        return maker(ans, *args, **kwargs) if maker else lambda g: None

    defvjp_argnum(fun, of_one)


def defvjp_argnum(fun, vjpmaker):
    """One rule for every argument: ``vjpmaker(argnum, ans, args, kwargs)(g)``."""
    defvjp_argnums(fun, lambda wanted, ans, args, kwargs: lambda g: [vjpmaker(k, ans, args, kwargs)(g) for k in wanted])


def defvjp_argnums(fun, vjpmaker):
    """One rule for all arguments at once: ``vjpmaker(argnums, ans, args, kwargs)(g)`` gives their adjoints."""
    # By complex arguments they are the conjugates of ours.
    fun.set_vjp(lambda *call: lambda g: [*map(conjugated, vjpmaker(*call)(g))])


def defjvp(fun, *jvpfuns, argnums=None):
    """Rules ``jvp(g, ans, *args, **kwargs)``, or "same" where the function is linear; None for an argument that has no derivative."""
    rules = _by_position(jvpfuns, argnums)

    def of_one(k, g, ans, args, kwargs):
        rule = _rule_of(fun, rules, k, "JVP")
        return _linear(fun)(k, g, ans, args, kwargs) if rule == "same" else rule and rule(g, ans, *args, **kwargs)

    defjvp_argnum(fun, of_one)


def defjvp_argnum(fun, jvpmaker):
    """One rule for every argument: ``jvpmaker(argnum, g, ans, args, kwargs)``."""
    fun.set_jvp(lambda wanted, gs, ans, args, kwargs: together([jvpmaker(k, g, ans, args, kwargs) for k, g in zip(wanted, gs)], ans))


def defjvp_argnums(fun, jvpmaker):
    """One rule for all arguments at once: ``jvpmaker(argnums, gs, ans, args, kwargs)``."""
    fun.set_jvp(jvpmaker)


def def_linear(fun):
    """The function is linear in each argument."""
    defjvp_argnum(fun, _linear(fun))


def _linear(fun):
    return lambda k, g, ans, args, kwargs: fun(*subval(args, k, g), **kwargs)


def getval(x):
    """The value of a tensor, as a number or an array."""
    while isinstance(x, Differentiable):
        x = x._v
    return x


def isbox(x):
    """Whether `x` is a tensor or a dual number."""
    return isinstance(x, Differentiable)


def notrace_primitive(f_raw):
    """A function without derivative, which gets values and gives values."""

    @functools.wraps(f_raw)
    def on_values(*args, **kwargs):
        return f_raw(*map(getval, args), **{name: getval(value) for name, value in kwargs.items()})

    return on_values
