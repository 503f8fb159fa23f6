"""From both sweeps of a function to derivatives: the code around them, per types of arguments."""

from functools import partial

import numpy as np
from numba import types

from ...common.errors import UnsupportedInNumbaError
from ..types import arrays_in, copied, dual_of, with_leaves
from .compile import GradientBuilder
from .runtime import arena_type, caught


class DifferentiatedArgs:
    """The numbers and arrays among the differentiated arguments, tuples taken apart, and then the arrays of `work`.

    Those are arguments into which differentiated values are stored; the derivatives by them are dropped.
    """

    def __init__(self, request, argument_types, work):
        self.request, self.work, self.types, self.sources, self.values, self.scope = request, work, [], [], [], {}
        #: text of each argument, in which the numbers in braces are those of its leaves
        self.forms = {k: with_leaves(argument_types[k], f"a{k}", partial(self._leaf, k), self.scope)[0] for k in (*request.argnums, *work)}
        self.arrays = [j for j, ty in enumerate(self.types) if isinstance(ty, types.Array)]
        #: those that are asked for
        self.wanted = self.arrays[: len(self.arrays) - len(work)]
        self.numbers = [j for j, ty in enumerate(self.types) if not isinstance(ty, types.Array)]

    def _leaf(self, k, ty, source):
        if isinstance(ty, types.Array) and isinstance(ty.dtype, types.Float):
            # (One of layout "A" may be contiguous: `np.ascontiguousarray` would not copy it.)
            value = f"np.ascontiguousarray({source})" if ty.layout == "F" else source if ty.layout == "C" and ty.mutable else f"{source}.copy()"
            ty = types.Array(ty.dtype, ty.ndim, "C")
        elif isinstance(ty, (types.Float, types.Integer)):
            ty, value = types.float64, f"float({source})"
        else:
            self.request.refuse(f"argument {k} is {ty}", "differentiated arguments are numbers, float64 or float32 arrays, and tuples "
                                "of them; choose others with argnums, or convert it")  # fmt: skip
        self.types.append(ty)
        self.sources.append(source)
        self.values.append(value)
        return f"{{{len(self.types) - 1}}}", ty

    def lift(self, lanes):
        """Let the arguments, which are numbers and arrays, be the dual numbers `d`."""
        self.values = [*[f"d{k}" for k in self.request.argnums], *[f"seeds(token, a{k}, LANES)" for k in self.work]]
        self.types = [dual_of(ty, lanes) for ty in self.types]

    def gradient(self):
        """Text of the gradient: of arrays their shadows `s`, of numbers the elements of `g`."""
        names = [f"g[{self.numbers.index(j)}]" if j in self.numbers else f"s{j}" for j in range(len(self.types))]
        texts = [self.forms[k].format(*names) for k in self.request.argnums]
        return texts[0] if self.request.single else f"({', '.join(texts)},)"


def _float_seed(ty):
    if isinstance(ty, types.BaseTuple):
        return types.Tuple(tuple(map(_float_seed, ty)))
    return ty if isinstance(ty, types.Array) else types.float64


class ReverseDriver:
    """The text of a driver in pieces, for one request and types of arguments; `seed` is the type of what the sweep starts from.

    Raises
    ------
    UnsupportedInNumbaError
        If the function cannot be differentiated in reverse mode, with the user's line.
    """

    def __init__(self, request, argument_types, seed, lanes=0):
        try:
            self._make(request, argument_types, seed, lanes, [])
        except UnsupportedInNumbaError as error:
            work = getattr(error.__cause__, "work", ())
            if not work:
                raise
            self._make(request, argument_types, seed, lanes, [self.others[k - 2 - len(self.leaves.types)] for k in work])

    def _make(self, request, argument_types, seed, lanes, work):
        self.leaves = leaves = DifferentiatedArgs(request, argument_types, work)
        if lanes:
            leaves.lift(lanes)
        #: how many arguments are the function's
        self.count = count = len(argument_types) - (len(leaves.wanted) if request.out else 0)
        if request.out:
            for j, ty in zip(leaves.wanted, argument_types[count:]):
                if not isinstance(ty, types.Array) or (ty.dtype, ty.ndim, ty.layout, ty.mutable) != (leaves.types[j].dtype, leaves.types[j].ndim, "C", True):
                    request.refuse(f"an array for a gradient is {ty}", f"it has to be a contiguous {leaves.types[j]}")
            if leaves.numbers:
                request.refuse("a number is differentiated", "out=True is for arrays, which are filled")
        if request.kind == "vjp":
            seed = _float_seed(seed)
        self.others = others = [k for k in range(count) if k not in leaves.forms]
        names = [*[f"x{j}" for j in range(len(leaves.types))], *[f"y{k}" for k in others]]
        call = ", ".join(leaves.forms[k].format(*names) if k in leaves.forms else f"y{k}" for k in range(count))
        made = GradientBuilder(request.function, names, f"f({call})", [*range(len(leaves.types))], leaves.arrays, False, leaves.scope, lanes, request.memory)
        dispatcher = made.function()
        tys = [arena_type, seed, *leaves.types, *[argument_types[k] for k in others], *[leaves.types[j] for j in leaves.arrays]]
        result, sweeps = made.compiled(dispatcher, tys)
        self.result, self.report = result[0], sweeps.report()
        changed = {names[k - 2] for k in sweeps.changed_arguments() if 2 <= k < 2 + len(names)}
        memory = {leaves.sources[j]: f"x{j}" for j in leaves.arrays}
        memory |= {f"a{k}{place}": f"y{k}" for k in others for place, _ in arrays_in(argument_types[k])}
        #: binds the differentiated arguments, copies of arrays that the function stores into, and gradients of zeros
        aside = {text: "".join(f"{other}, " for other in memory if other != text) for text, n in memory.items() if n in changed}
        self.start = [f"apart({text}, ({others}))" for text, others in aside.items() if others]
        self.start += [f"x{j} = " + (f"{value}.copy()" if f"x{j}" in changed and not lanes and value == value.split(".")[0] else value)
                      for j, value in enumerate(leaves.values)]  # fmt: skip
        self.start += [f"y{k} = {with_leaves(argument_types[k], f'a{k}', copied, leaves.scope)[0] if f'y{k}' in changed else f'a{k}'}" for k in others]
        self.zeros = [f"s{j} = np.zeros(x{j}.shape, x{j}.dtype)" for j in leaves.arrays]
        self.values = ", ".join([*names, *[f"s{j}" for j in leaves.arrays]])
        self.names = {"np": np, "sweeps": caught(dispatcher, len(tys) - 1, arena=True), **leaves.scope}
