"""From a function of dual numbers to derivatives: the code around it, per types of arguments.

`driver_of` a `Request` gives a function of a tuple of arguments, for compiled code:
where that is typed, the user's function is compiled for dual arguments, and the loop over chunks of directions is written
around it, from the pieces below.
"""

from functools import partial

import numpy as np
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from ..codegen.numba_inside import INNER, impl_ret_borrowed
from ..common.errors import UnsupportedInNumbaError
from .arrays import primals
from .compile import compiled, dual_arguments, dual_dispatcher
from .key import content
from .loops import tangents as tangents_in
from .reverse.compile import GradientBuilder
from .reverse.runtime import arena_type, caught
from .scalars import as_dual, component, primal, seeded  # noqa: F401  (lines name them)
from .types import DualType, Token, arrays_in, compiled_only, contains_dual, copied, defined, dual_of, element, is_real, with_leaves

#: Lanes used where the number of directions is not known when types are.
DEFAULT_LANES = 8
#: Up to so many numbers, and no array, mode "auto" takes dual numbers.
FEW = 4


# ---- pieces of the loops ----------------------------------------------------------------
@register_jitable
def seeds(token, x, lane):
    """An array as dual numbers, seeded from `lane` on."""
    out = np.empty(x.size, token)
    for k, value in enumerate(x.flat):
        out[k] = seeded(token, float(value), lane + k, 1.0)
    return out.reshape(x.shape)


@register_jitable
def along(token, x, tangent):
    """An array as dual numbers with an array of tangents."""
    if x.shape != tangent.shape:
        raise ValueError("a tangent must have the shape of its argument")
    out = np.empty(x.shape, token)
    for i in np.ndindex(x.shape):
        out[i] = seeded(token, float(x[i]), 0, float(tangent[i]))
    return out


@register_jitable
def collect(gradient, result, lane, lanes):
    """Copy the components of a number, from `lane` on, into an array of any shape."""
    flat = gradient.reshape(-1)
    for k in range(max(0, -lane), min(flat.size, lanes - lane)):
        flat[k] = component(result, lane + k)


@register_jitable
def symmetric(hessian, x):
    """Make a matrix of second derivatives by an array symmetric to the last bit, in the array's shape."""
    for i in range(len(hessian)):
        for j in range(i):
            hessian[i, j] = hessian[j, i]
    return hessian.reshape(x.shape + x.shape)


@register_jitable
def collect_rows(jacobian, result, lane, lanes):
    """Copy the components of each number of a vector into a row."""
    for i in range(result.shape[0]):
        collect(jacobian[i], result[i], lane, lanes)


def _opened(name, number, array):
    """A piece that applies `number` and `array` to all numbers and arrays of a result."""
    stub = compiled_only(name)

    @overload(stub)
    def typed(a):
        if isinstance(a, types.Array):
            return array
        if isinstance(a, types.BaseTuple):
            items = ", ".join(f"stub(a[{k}])" for k in range(len(a))) + ","
            return defined(f"def typed(a):\n    return ({items})\n", "typed", {"stub": stub})
        return lambda a: number(a)

    return stub


values = _opened("values", primal, primals)
tangents = _opened("tangents", register_jitable(lambda x: component(x, 0)), lambda a: tangents_in(a, 0))
#: Numbers among seeds as floats.
as_seed = _opened("as_seed", float, lambda a: a)


# ---- both sweeps, and the code around them ------------------------------------------------
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
        self.names = {"sweeps": caught(dispatcher, len(tys) - 1, arena=True), **leaves.scope}


# ---- the loops --------------------------------------------------------------------------
def driver_of(request):
    """A function of the tuple of arguments, of compiled code, that gives what `request` wants, and whether `f` raised (`caught`)."""
    driver = compiled_only(request.name)

    @overload(driver, jit_options=INNER)
    def typed(arguments):
        argument_types = [types.unliteral(ty) for ty in arguments]
        if any(map(contains_dual, argument_types)):
            raise UnsupportedInNumbaError(
                f"the derivative of {request.name} is differentiated again: nopython code has first derivatives only. "
                "Use njit_hvp or njit_hessian; or give the Python function, with tg.grad in it, to tg.compile."
            )
        second = request.kind in ("hvp", "hessian")
        made = None if second else _reverse(request, argument_types)
        if made is not None:
            return made
        count = len(argument_types) - (len(request.argnums) if request.kind in ("jvp", "hvp") else 0)
        _check_arguments(request, argument_types, count)
        lanes = request.lanes or _lanes(request, argument_types)
        run, names = (_run_sweeps if second else _run_function)(request, argument_types, count, lanes)
        return _driver(request, _forward_lines(request, argument_types, count, run), {**names, "token": Token(lanes), "LANES": lanes})

    return driver


def _run_function(request, argument_types, count, lanes):
    """Lines that call the user's function with dual numbers `d` for what is differentiated, and what they name: the result is `r`.

    It may run several times: it is compiled for arrays `c` that cannot be changed, or, if that fails, gets copies, if need be of dual numbers.
    """
    dispatcher, chosen, names, work = dual_dispatcher(request.function, lanes, True), request.argnums, {}, set()
    arrays = [(k, place, ty) for k, argument in enumerate(argument_types[:count]) for place, ty in arrays_in(argument)]
    others = {k: ty for k, ty in enumerate(argument_types[:count]) if k not in chosen}

    def made(exchange):
        given = {k: with_leaves(ty, f"a{k}", exchange, names) for k, ty in others.items()}
        tys = [given[k][1] if k in given else dual_of(ty, lanes) for k, ty in enumerate(argument_types[:count])]
        return [f"c{k} = {text}" for k, (text, _) in given.items()], compiled(dispatcher, tys, request.function).return_type

    try:
        lines, result = made(lambda ty, text: (f"fixed({text})", ty.copy(readonly=True)) if isinstance(ty, types.Array) else (text, ty))
    except UnsupportedInNumbaError:
        try:
            lines, result = made(copied)
        except UnsupportedInNumbaError:
            held = dual_arguments(request.function, [k in chosen for k in range(count)])
            work = {f"a{k}{place}" for k, place, ty in arrays if k in held and k in others and isinstance(ty.dtype, types.Float) and ty.mutable}
            if not work:
                raise
            lines, result = made(lambda ty, text: (f"seeds(token, {text}, LANES)", dual_of(ty, lanes)) if text in work else copied(ty, text))
    _check_result(request, result)
    own = [f"{'d' if k in chosen else 'c'}{k}" for k in range(count)]
    lines.append(f"r, code, said = f({', '.join(own)})")
    for k, place, ty in arrays if len(arrays) > 1 else ():
        text = f"a{k}{place}"
        aside = "".join(f"a{j}{other}, " for j, other, _ in arrays if (j, other) != (k, place))
        if text in work:
            lines.append(f"apart({text}, ({aside}))")
        elif is_real(ty.dtype) and ty.mutable:
            lines.append(f"if code == 0: apart_if_stored({own[k]}{place}, {text}, ({aside}))")
    return lines, {"f": caught(dispatcher, count), **names}


def _run_sweeps(request, argument_types, count, lanes):
    """The same for both sweeps, of which the result is the gradient: its tangents are second derivatives."""
    made = ReverseDriver(request, argument_types[:count], types.float64, lanes)
    _check_result(request, made.result)
    request.taken[str(tuple(argument_types))] = {"mode": "forward over reverse", **made.report}
    gradient = made.leaves.gradient() + ".reshape(-1)" * (request.kind == "hessian" and bool(made.leaves.wanted))
    return [*made.start, *made.zeros, f"(q, g), code, said, peak = sweeps(1.0, {made.values})", f"r = {gradient}"], made.names


def _reverse(request, argument_types):
    """The driver in reverse mode; None if forward mode is asked for or, for mode "auto", cheaper or the only way."""
    numbers = [ty for k, ty in enumerate(argument_types) if k in request.argnums]
    few = len(numbers) <= FEW and not any(isinstance(ty, (types.Array, types.BaseTuple)) for ty in numbers)
    reason = {"forward": "as asked for", "auto": f"at most {FEW} numbers: one run of dual numbers" if few else ""}.get(request.mode, "")
    if request.kind == "jacobian" and request.mode == "auto":
        reason = "a run of dual numbers gives some columns"
    if not reason or request.kind == "vjp" or request.out:
        seed = types.float64
        if request.kind == "vjp":
            *argument_types, seed = argument_types
        elif request.kind == "jacobian":
            _check_arguments(request, argument_types, len(argument_types))
            seed = types.int64
        key = (*argument_types, seed, content(request.function))
        try:
            made = request.sweeps.get(key) or ReverseDriver(request, argument_types, seed)
        except UnsupportedInNumbaError as error:
            if request.mode == "reverse" or request.kind == "vjp" or request.out:
                raise
            reason = str(error)
        else:
            _check_result(request, made.result)
            request.sweeps[key] = made
            free = "only reverse mode gives it" if reason else f"an array or a tuple, or more than {FEW} numbers: one run back gives all"
            reason = "as asked for" if request.mode == "reverse" else free
            request.taken[str(tuple(argument_types))] = {"mode": "reverse", "because": reason, **made.report}
            return _driver(request, _reverse_lines(request, made, len(argument_types) + (request.kind == "vjp")), made.names)
    request.taken[str(tuple(argument_types))] = {"mode": "forward", "because": reason}
    return None


def _reverse_lines(request, made, count):
    given = [f"a{k}" for k in range(count)]
    lines, leaves = [f"{', '.join(given)}, = arguments", *made.start], made.leaves
    if request.kind == "jacobian":  # a sweep for each row; the seed is its number
        body = [*made.start, *made.zeros, f"(r, g), code, said, peak = sweeps(k, {made.values})", "if k == 0:",
                "    out = np.zeros((r.shape[0], x0.size), x0.dtype)",
                "if k < r.shape[0]:", "    out[k] = s0", "k += 1", "if k >= r.shape[0]:", "    break"]  # fmt: skip
        result = "peak" if request.peak else "out"
        return [lines[0], "k = 0", "while True:", *["    " + line for line in body], f"return {result}, code, said"]
    seed, zeros, value = "1.0", made.zeros, "float(r)"
    if request.kind == "vjp":
        seed, value = f"as_seed({given[-1]})", "r"
    if request.out:
        outs = given[made.count:]
        zeros = [f"s{j} = cleared({out}, x{j}, ({''.join(f'{a}, ' for a in given if a != out)}))" for j, out in zip(leaves.wanted, outs)]
        zeros += made.zeros[len(outs):]
    lines += [*zeros, f"(r, g), code, said, peak = sweeps({seed}, {made.values})"]
    gradient = leaves.gradient()
    result = "peak" if request.peak else value if request.out else gradient if request.kind == "grad" else f"({value}, {gradient})"
    return [*lines, f"return {result}, code, said"]


@register_jitable
def cleared(out, x, others):
    """An array for a gradient, filled with zeros."""
    if out.shape != x.shape:
        raise ValueError("an array for a gradient must have the shape of its argument")
    if overlap(out, others):
        raise ValueError("an array for a gradient must not share memory with an argument or another gradient")
    out[...] = 0
    return out


@register_jitable
def apart(a, others):
    """Refuse an array that the function stores into (into a copy of it), and that is another argument as well."""
    if overlap(a, others):
        raise ValueError("an array that the function may store into shares memory with another argument; pass a copy of one of them")


@register_jitable
def apart_if_stored(copy, a, others):
    """The same, where the function may have stored into the copy."""
    if overlap(a, others):
        for i in np.ndindex(a.shape):
            x, y = primal(copy[i]), primal(a[i])
            if x != y and (x == x or y == y):
                apart(a, others)


@intrinsic
def fixed(typingctx, a):
    """The array, as one that Numba does not let be changed."""

    def emit(context, builder, sig, args):
        return impl_ret_borrowed(context, builder, sig.return_type, context.cast(builder, args[0], a, sig.return_type))

    return a.copy(readonly=True)(a), emit


@register_jitable
def extent(a):
    """The first address of an array's memory, and the one after the last."""
    first, last = a.ctypes.data, a.ctypes.data + a.itemsize
    for n, stride in zip(a.shape, a.strides):
        if n == 0:
            return 0, 0
        first, last = first + min(0, (n - 1) * stride), last + max(0, (n - 1) * stride)
    return first, last


overlap = compiled_only("overlap")


@overload(overlap)
def _overlap(a, b):
    """Whether an array shares memory with another one, or with one of a tuple; two of which neither is in one piece may lie between each other."""
    if isinstance(b, types.BaseTuple):
        parts = " or ".join(["False", *[f"overlap(a, b[{k}])" for k in range(len(b))]])
        return defined(f"def typed(a, b):\n    return {parts}\n", "typed", {"overlap": overlap})
    if not isinstance(b, types.Array):
        return lambda a, b: False

    def arrays(a, b):
        (p, q), (r, s) = extent(a), extent(b)
        return p < s and r < q and (p == r or q - p == a.size * a.itemsize or s - r == b.size * b.itemsize)

    return arrays


def _lifted(k, array, lane=None, tangent=None):
    """Text of an argument as dual numbers: seeded from a lane on, or along a tangent."""
    if tangent is None:
        return f"seeds(token, a{k}, {lane})" if array else f"seeded(token, float(a{k}), {lane}, 1.0)"
    return f"along(token, a{k}, {tangent})" if array else f"seeded(token, float(a{k}), 0, float({tangent}))"


def _lanes(request, argument_types):
    if any(isinstance(argument_types[k], types.Array) for k in request.argnums):
        return DEFAULT_LANES
    return min(DEFAULT_LANES, 1 << (len(request.argnums) - 1).bit_length())


def _check_arguments(request, argument_types, count):
    for position, k in enumerate(request.argnums):
        ty, tangent = argument_types[k], argument_types[count + position] if request.kind in ("jvp", "hvp") else None
        scalar = isinstance(ty, (types.Float, types.Integer))
        what = f"argument {k} is {ty}"
        if request.kind == "derivative" and not scalar:
            request.refuse(what, "njit_derivative takes the derivative by a number; use njit_grad or njit_jacobian")
        if not scalar and not (isinstance(ty, types.Array) and isinstance(ty.dtype, types.Float)):
            request.refuse(what, "differentiated arguments are numbers and float64 or float32 arrays; choose others with argnums, "
                           "or convert it")
        if request.kind == "jacobian" and (scalar or ty.ndim != 1):
            request.refuse(what, "njit_jacobian takes a 1-d array")
        if tangent and (getattr(tangent, "ndim", 0) != getattr(ty, "ndim", 0) or not is_real(element(tangent))):
            request.refuse(f"the tangent of argument {k} is {tangent}", f"give it the type of the argument, {ty}")


def _check_result(request, result):
    """Refuse truth values and integers, as everywhere else (`dtypes.check_derivative`), and what the request has no form for."""
    items = list(result) if isinstance(result, types.BaseTuple) else [result]
    for ty in items:
        if isinstance(element(ty), (types.Boolean, types.Integer)) and not isinstance(ty, types.IntegerLiteral):
            request.refuse(f"it returns {ty}, which has no derivative",
                           "return a float, or convert a constant with float(...) or .astype(float)")
    if request.kind in ("grad", "value_and_grad", "hvp", "hessian"):
        if not isinstance(result, DualType) and not is_real(result):
            request.refuse(f"it returns {result}", "a gradient is of one number; return r[0] of an array of one element, use "
                           "njit_jacobian for a 1-d array, njit_jvp for anything else")
    elif request.kind == "jacobian":
        if not isinstance(result, types.Array) or result.ndim != 1:
            request.refuse(f"it returns {result}", "njit_jacobian is for functions that return a 1-d array")
    elif not all(isinstance(element(ty), DualType) or is_real(element(ty)) for ty in items):
        request.refuse(f"it returns {result}", "return a number, an array or a tuple of them")


def _forward_lines(request, argument_types, count, run):
    """The lines of a driver by dual numbers: arguments `a`, of which those that are differentiated become dual numbers `d`; `run` binds a result `r`."""
    chosen, kind = request.argnums, request.kind
    arrays = {k for k in chosen if isinstance(argument_types[k], types.Array)}
    given = [f"a{k}" for k in range(len(argument_types))]
    lines = [f"{', '.join(given)}, = arguments"]
    if kind in ("jvp", "derivative", "hvp") or kind == "hessian" and not arrays:
        for k, tangent in zip(chosen, given[count:] or ["1.0"]):
            lines.append(f"d{k} = {_lifted(k, k in arrays, tangent=tangent)}")
        result = "(values(r), tangents(r))" if kind == "jvp" else "tangents(r)"
        return [*lines, *run, f"return {result}, code, said"]
    start, seeding, taking, rows = ["c = n = 0"], [], [], kind in ("jacobian", "hessian")
    for k in chosen:
        lane = f"o{k} - c"
        start += [f"o{k} = n", f"n += {f'a{k}.size' if k in arrays else 1}"]
        blank = "np.zeros((0, n))" if rows else f"np.zeros(a{k}.shape, a{k}.dtype)" if k in arrays else "0.0"
        start += [f"g{k} = {blank}"]
        seeding.append(f"d{k} = {_lifted(k, k in arrays, lane)}")
        if rows:
            taking += ["if c == 0:", f"    g{k} = np.zeros((r.shape[0], n))", f"collect_rows(g{k}, r, {lane}, LANES)"]
        elif k in arrays:
            taking += [f"collect(g{k}, r, {lane}, LANES)"]
        else:
            taking += [f"if 0 <= {lane} < LANES:", f"    g{k} = component(r, {lane})"]
    if not rows:
        run = [*run, "r = as_dual(token, r)"]
    taking += ["c += LANES", "if c >= n or code:", "    break"]
    lines += [*start, "while True:", *["    " + line for line in (*seeding, *run, *taking)]]
    gradients = ", ".join(f"g{k}" for k in chosen)
    gradients = gradients if request.single else f"({gradients},)"
    result = {"value_and_grad": f"(primal(r), {gradients})", "hessian": f"symmetric({gradients}, a{chosen[0]})"}.get(kind, gradients)
    return [*lines, f"return {result}, code, said"]


def _driver(request, lines, names):
    """The function of these lines."""
    name = f"driver_{request.identity}"
    # (It calls what is in this file.)
    return defined("\n    ".join([f"def {name}(arguments):", *lines]), name, {**globals(), **names})
