"""`Primitive`: a function that is one instruction, with the rules its user gave it.

A call of such a function is one instruction.  What it needs later is data on the
tape: the values of its operands and its result, which the tape keeps as for any
instruction, and a `Call` (in place of the first operand) with everything that is
not a number on the tape: static arguments, shapes of results, the context of the
class form.  Rules are handed these; they close over nothing.  The compiled sweep
stops at such an instruction, the rule runs in Python, and the sweep goes on.  A functional recording looks into it where it
can (`Trace.through`, `tapegrad.program.through`).

Several results are one instruction with a flat vector as its value, and a
selection for each.  `tapegrad.autograd.custom.transposing` makes the rule that is missing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from ...array.differentiable import Differentiable
from ...array.objects import joined
from ...array.record import apply, computed, normalise, plain, trace_of, tracked
from ...array.tensor import Tensor
from ...common.dtypes import plain_array
from ...common.errors import ComplexOperandError, DtypeError, HigherOrderError, MissingRuleError, RuleError, noted
from ...common.public import signature_of
from ...common.tree import LEAF, Structure, flatten, holds_complex, leaf_names, unflatten
from ...common.tree import parts_of as things_of
from ...rules.table import Row
from ...tape.places import function_name
from .calls import Call, Fixed, Output, fitted, handed, hidden, leaves_like, like_of, packed, parts_of, unpacked, zero_tangent

R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])


class Primitive(Generic[R]):
    """A function with derivative rules of its own; made by `primitive`.

    Call it as the function.  `defvjp` and `defjvp` give it its rules.
    """

    #: Whether a replay may call the function again at another point.
    replayed = True
    #: Why the function is not recorded on tensors, but called: empty if that is tried.
    closed = ""
    #: Whether arguments may be containers of tensors.
    of_containers = True

    def __init__(self, function: Callable[..., R], name: str | None = None) -> None:
        self.function = function
        functools.update_wrapper(self, function)
        self.name = name or function_name(function)
        #: By kind, "vjp" and "jvp".
        self.rules: dict[str, Callable[..., Any]] = {}
        self.row = self._row()

    def _row(self):
        stem = "".join(w[:1].upper() + w[1:] for w in self.name.strip("<>").split("_"))
        return Row(
            self.name, -1, stem or "Custom", self._recomputed, f"custom primitive {self.name}", constants=(0,),
            vjp=self._refuse_second, jvp=self._tangent, primitive=self,
        )  # fmt: skip

    def __repr__(self):
        return f"<primitive {self.name}, rules: {', '.join(sorted(self.rules, reverse=True)) or 'none'}>"

    # -- rules --------------------------------------------------------------------
    def defvjp(self, rule: Rule) -> Rule:
        """Set the VJP rule, ``rule(g, result, *operands, **static)``; returns it (so it is also a decorator).

        Parameters
        ----------
        rule : callable
            Returns a tuple with one cotangent per positional argument, of its
            shape; None for one that has none.  For a function of one argument
            the cotangent itself will do.
        """
        self.rules["vjp"] = rule
        return rule

    def defjvp(self, rule: Rule) -> Rule:
        """Set the JVP rule, ``rule(tangents, result, *operands, **static)``; returns it.

        Parameters
        ----------
        rule : callable
            `tangents` is a tuple with one tangent per positional argument (zeros
            where nothing varies, None for what is not a float or an array of
            floats).  Returns the tangent of the result, of its shape; for several
            results a tuple.
        """
        self.rules["jvp"] = rule
        return rule

    # -- calling --------------------------------------------------------------------
    def __call__(self, *args: Any, **static: Any) -> Any:
        args = tuple([joined(a) for a in args])
        containers, form = hidden(self.name, args, static, refused=not self.of_containers), None
        if containers:
            leaves, parts = zip(*[flatten(a) if k in containers else ([a], LEAF) for k, a in enumerate(args)])
            args, form = tuple(itertools.chain(*leaves)), Structure(tuple, (None,) * len(args), parts)
            # Of a class that is a list, tuple or dict, and no container.
            hidden(f"{self.name}, of the leaves of its arguments", args, {}, refused=True)
        if not any(isinstance(a, Differentiable) for a in args):
            output = self._direct(args, static)
            if any(map(tracked, things_of(output, Differentiable))):
                raise self._past_the_rule(f"the result of {self.name}")
            return output
        template: list[Any] = []
        operands: list[Any] = []
        for a in args:
            if isinstance(a, Differentiable) or type(a) is np.ndarray and a.dtype.char in "dflbB?iI" and a.dtype.isnative and a.ndim:
                operands.append(a)
                template.append(len(operands))
            else:
                template.append(Fixed(a))
        call = Call(tuple(template), static, form)
        values = [call, *(a._v if isinstance(a, Differentiable) else a for a in operands)]
        arguments = call.arguments(values)
        results = computed(self._compute, (call, arguments, [tracked(a) for a in args]), operands)
        call.settle(trace_of(operands))
        return self._wrapped(call, operands, results)

    def _direct(self, args, static):
        return self.function(*args, **static)

    def _past_the_rule(self, which):
        return RuleError(
            f"{which} is a tensor on the tape: the function closes over a tensor that requires a gradient, or takes one out of an "
            "object whose class is not registered. Make that tensor an argument (tapegrad.tree.register makes containers of classes); "
            "a primitive computes on plain arrays"
        )

    def _compute(self, call, arguments, needed):
        """Run the function; notes its results in `call` and returns them as arrays."""
        return self._note_results(call, self._output(call, handed(arguments, self.function)))

    def _output(self, call, arguments):
        return self.function(*call.contained(arguments), **call.static)

    def kept(self, call):
        """What a rule is handed besides arguments and result that may be other at other points, in words; empty if nothing is."""
        return ""

    def _note_results(self, call, output, plain_results=()):
        parts, structure = flatten(output)
        if structure is not LEAF and holds_complex(structure):
            raise ComplexOperandError(f"the result of {self.name} holds complex numbers; return real and imaginary parts as results of their own")
        call.several, results, outputs = None if structure is LEAF else structure, [], []
        for part, name in zip(parts, [""] if structure is LEAF else leaf_names(structure)):
            which = f"the result{name} of {self.name}"
            if tracked(part):
                raise self._past_the_rule(which)
            if part is None or isinstance(part, str):
                raise RuleError(f"{which} is not a number or an array but {type(part).__name__}")
            # A copy: the tape keeps it, and the function may return its argument or a buffer it uses again.
            array = plain_array(part._v if isinstance(part, Differentiable) else part, which, order="C")
            if array.dtype.char == "e":
                raise DtypeError(f"{which} has dtype float16, which cannot carry a derivative; use float32 or float64")
            results.append(array)
            differentiable = array.dtype.kind == "f" and not any(part is p for p in plain_results)
            outputs.append(Output(array, outputs[-1].stop if outputs else 0, differentiable))
        call.outputs = tuple(outputs)
        return results

    def _wrapped(self, call, operands, results):
        """The results as tensors (or dual numbers): one instruction, and a selection of it for each of several."""
        floats = [r for r, o in zip(results, call.outputs) if o.value is None]
        trace = trace_of(operands)
        if trace is not None and len(floats) < len(results):
            trace.cannot = f"the custom primitive {self.name!r} has results that are no floats, which would stay as they are"
        if not floats:
            return unflatten(call.several or LEAF, [plain(normalise(r)) for r in results])
        value = packed(floats) if call.several else normalise(floats[0])
        live = [] if trace is None or not self.replayed else self._through(trace, call, operands, value)
        return unpacked(apply(self.row, (call, *operands, *live), (("keeps", self._keeps(call)),), value=value), call)

    def _through(self, trace, call, operands, value):
        """The value of the instruction as instructions of the recording, in a list; empty if Python is to be called for it."""

        def body():
            output = self._output(call, call.arguments([call, *operands]))
            return packed(list(map(joined, flatten(output)[0]))) if call.several else joined(output)

        why = self.closed or self.kept(call)
        live, call.why = ([], why) if why else trace.through(body, value)
        return live

    def _keeps(self, call):
        """Operands whose values the instruction keeps: all, and the result."""
        return (*range(call.count + 1), -1)

    def _recomputed(self, call, *values, keeps=()):
        """The value computed again (for listings, where the tape did not keep it)."""
        return self.again(call, values, [False] * len(values))[0]

    def again(self, recorded, values, needed):
        """Call the function at another point of a recorded call.

        Parameters
        ----------
        recorded : Call
        values : sequence
            Of the operands after the call.
        needed : sequence of bool
            For each of them, whether its cotangent will be asked for.

        Returns
        -------
        tuple
            The value of the instruction, and the new `Call`.
        """
        call = Call(recorded.template, recorded.static, recorded.form)
        wanted = [False if type(t) is Fixed else needed[t - 1] for t in call.template]
        results = self._compute(call, call.arguments([call, *values]), wanted)
        return np.asarray(packed(results) if call.several else results[0]), call

    # -- reverse ----------------------------------------------------------------------
    def _refuse_second(self, *args, **kwargs):
        """What stands in the row for a VJP: `pull` is called in its place."""
        raise HigherOrderError(
            f"the gradient of {self.name!r}, a custom primitive, cannot be recorded for a second derivative: its rules "
            "give first derivatives"
        )

    def pull(self, g, operands, result, wanted, metas, recorded=False):
        """What the adjoint `g` contributes to the operands.

        Parameters
        ----------
        g : float or ndarray
            With `recorded` also a tensor or dual number, as `result`.
        operands : list
            The `Call` and the operands as the tape kept them: values, or tensors; None where it kept none.
        result
        wanted : sequence of int
            Operand numbers.
        metas : sequence of Meta
            Descriptions of the operands.
        recorded : bool
            Whether what the rule computes is recorded and can be differentiated again.

        Returns
        -------
        dict of int to contribution
            By operand number; nothing where there is none.
        """
        call = operands[0]
        arguments = call.arguments(operands)
        parts = [None if o.value is not None else p for o, p in zip(call.outputs, parts_of(g, call))]
        likes = [like_of(metas[t]) if type(t) is not Fixed and t in wanted else None for t in call.template]
        cotangents = self._cotangents(call, arguments, parts, result, likes, recorded)
        contributions = {}
        for k, (number, c, like) in enumerate(zip(call.template, cotangents, likes)):
            if like is not None and c is not None:
                what = f"{self.rule_name('vjp')} returned, for {self._argument(call, k)},"
                contributions[number] = fitted(c, like, what, recorded)
        return contributions

    def has_rule(self, kind):
        """Whether the rule of this kind was given."""
        return kind in self.rules

    def rule_name(self, kind):
        return f"the {kind.upper()} rule of {self.name!r}"

    def _giving(self, kind):
        """How to give the rule of this kind."""
        return f"tg.custom_{kind}({self.name}, rule)"

    def _without_rules(self):
        return f"{self.name!r} has no derivative rule: give it one with {self._giving('vjp')} or {self._giving('jvp')}"

    def _cotangents(self, call, arguments, parts, result, likes, recorded=False):
        """One cotangent per positional argument; `likes` are of the shapes of those that are wanted, else None."""
        if self.has_rule("vjp"):
            return self._run_vjp(call, arguments, parts, result)
        self._require_rule("jvp")
        return self._transposed("vjp", lambda tangents: self._run_jvp(call, arguments, tangents, result), likes, parts, recorded)

    def _require_rule(self, kind):
        if not self.has_rule(kind):
            raise MissingRuleError(self._without_rules())

    def _transposed(self, kind, linear, likes, given, recorded):
        """The rule of a kind that was not given, by the transpose of the other one, a `linear` function."""
        from .transposing import transpose, transposed_on_tape

        if recorded:
            return transposed_on_tape(linear, likes, given)
        return transpose(linear, likes, given, self.rule_name("jvp" if kind == "vjp" else "vjp"), self._giving(kind))

    def _by_rule(self, kind, call, given, arguments, result):
        """What the rule of this kind returns for cotangents of the results, or for tangents of the arguments, arrays or tensors."""
        rule = self.rules[kind]
        if kind == "jvp":
            first = call.contained(tuple(handed([zero_tangent(a) if t is None else t for a, t in zip(arguments, given)], rule)))
        else:
            (first,) = handed([unflatten(call.several, given) if call.several else given[0]], rule)
        (result,), arguments = handed([unpacked(result, call)], rule), call.contained(handed(arguments, rule))
        with noted(f"raised in {self.rule_name(kind)}"):
            return rule(first, result, *arguments, **call.static)

    def _run_vjp(self, call, arguments, parts, result):
        """The VJP rule on cotangents `parts`: one cotangent per leaf of the positional arguments."""
        cotangents, name = self._by_rule("vjp", call, parts, arguments, result), self.rule_name("vjp")
        cotangents = cotangents if isinstance(cotangents, (tuple, list)) else (cotangents,)
        structures = (LEAF,) * len(call.template) if call.form is None else call.form.parts
        if len(cotangents) != len(structures):
            raise RuleError(
                f"{name} returned {len(cotangents)} cotangents for {len(structures)} positional arguments; return a "
                "tuple with one for each, None where there is none"
            )
        leaves = []
        for k, (c, part) in enumerate(zip(cotangents, structures)):
            found = [joined(c)] if part is LEAF else [None] * part.count if c is None else leaves_like(c, part)
            if found is None:
                raise RuleError(f"{name} returned, for argument {k}, {flatten(c, none=True)[1]}; return a container like it, {part}")
            leaves += found
        return leaves

    def _argument(self, call, k):
        if call.form is not None:
            return f"argument {leaf_names(call.form)[k][1:].replace(']', '', 1)}"
        names = [*signature_of(self.function).parameters][self._skipped :]
        return f"argument {k} ({names[k]!r})" if k < len(names) else f"argument {k}"

    #: Leading parameters of the function that are not arguments of a call.
    _skipped = 0

    # -- forward ------------------------------------------------------------------------
    def _tangent(self, tangents, *rest, **attrs):
        """The tangent of the result, for `Row.tangent`: `rest` are the `Call`, the operands and the result, in the rules' language.

        Of the attributes the rule needs none: what is static is in the call.
        """
        *operands, result = rest
        call = operands[0].a.item()
        arguments, value = call.arguments([call, *map(_unwrapped, operands[1:])]), _unwrapped(result)
        lanes = next((t.lanes for t in tangents if getattr(t, "lanes", None) is not None), None)

        def one(pick):
            picked = [None if type(p) is Fixed or tangents[p - 1] is None else pick(tangents[p - 1]) for p in call.template]
            pushed = self.push(call, arguments, picked, value)
            parts = [np.zeros(o.shape, o.dtype) if t is None else t for t, o in zip(pushed, call.outputs) if o.value is None]
            return packed(parts) if call.several else parts[0]

        if lanes is None:
            return type(result)(one(_unwrapped))
        rows = [one(lambda t, j=j: t.a[j] if t.lanes is not None else t.a) for j in range(lanes)]
        return type(result)(np.stack(rows), lanes)

    def push(self, call, arguments, tangents, result):
        """The tangent of each result (None: of one without derivative), from one tangent per argument.

        Arguments, tangents and results may be tensors or dual numbers where a
        rule written in differentiable NumPy is given.
        """
        if self.has_rule("jvp"):
            return self._run_jvp(call, arguments, tangents, result)
        self._require_rule("vjp")
        likes = [None if o.value is not None else np.zeros(o.shape, o.dtype) if o.shape or o.dtype.char != "d" else 0.0 for o in call.outputs]
        live = [x for x in (*arguments, *tangents, result) if isinstance(x, Differentiable)]
        recorded = live and trace_of(live) is not None and all(isinstance(x, Tensor) for x in live)
        if live and not recorded:
            raise HigherOrderError(
                f"a second derivative of {self.name!r} needs its JVP as a rule written in differentiable NumPy: give "
                f"it with {self._giving('jvp')}"
            )
        return self._transposed("jvp", lambda parts: self._run_vjp(call, arguments, parts, result), likes, tangents, recorded)

    def _run_jvp(self, call, arguments, tangents, result):
        """The JVP rule: one tangent per result, None for one without derivative."""
        name, tangents = self.rule_name("jvp"), self._by_rule("jvp", call, tangents, arguments, result)
        leaves = leaves_like(tangents, call.several) if call.several else [tangents]
        if leaves is None:
            raise RuleError(f"{name} returned tangents {flatten(tangents, none=True)[1]} for results {call.several}; return a container like it")
        checked = [None if o.value is not None else joined(t) for t, o in zip(leaves, call.outputs)]
        for t, o, leaf in zip(checked, call.outputs, leaf_names(call.several or LEAF)):
            if t is not None and np.shape(t) != o.shape:
                raise RuleError(f"{name} returned a tangent of shape {np.shape(t)} for the result{leaf} of shape {o.shape}")
        return checked


def _unwrapped(operand):
    return operand.a if isinstance(operand.a, Differentiable) else normalise(operand.a)


# -- rules that know which arguments are differentiated; in JAX's form: of residuals that a forward function returns, of primals with tangents --


def together(tangents, result):
    """The sum of what the arguments contribute to the tangent of a `result`; None for nothing."""
    parts = [part for part in tangents if part is not None]
    return sum(parts[1:], parts[0]) if parts else 0.0 * result


class ByPosition(Primitive[R]):
    """A primitive whose rules are given the positions of the arguments that are differentiated."""

    #: Positions of arguments that are not differentiated.
    fixed: tuple[int, ...] = ()

    def split(self, args):
        """What a rule is given of the arguments of a call: arguments, and the positions of those that are differentiated."""
        return args, [k for k in range(len(args)) if k not in self.fixed]

    def set_vjp(self, rule):
        """Set ``rule(positions, result, args, kwargs)``, which gives a function of the adjoint that gives those of the arguments there."""

        def adjoints(g, result, *args, **static):
            given, positions = self.split(args)
            found = rule(positions, result, given, static)(g)
            if not isinstance(found, (tuple, list)) or len(found) != len(positions):
                each = "an adjoint for each argument that is differentiated"
                raise RuleError(f"the backward rule of {self.name} has to return a tuple of {len(positions)}, {each}")
            by_position = dict(zip(positions, found))
            return tuple(by_position.get(k) for k in range(len(args)))

        super().defvjp(adjoints)

    def set_jvp(self, rule):
        """Set ``rule(positions, tangents, result, args, kwargs)``, which gives the tangent of the result."""

        def tangent(tangents, result, *args, **static):
            given, positions = self.split(args)
            return rule(positions, tuple(tangents[k] for k in positions), result, given, static)

        super().defjvp(tangent)


class PairedPrimitive(ByPosition[R]):
    """What ``@tg.custom_vjp`` and ``@tg.custom_jvp`` make of a function without a rule: `defvjp`, `defjvp` and `defjvps` are JAX's."""

    def __init__(self, function: Callable[..., R], fixed: tuple[int, ...] = ()) -> None:
        super().__init__(function)
        self.fixed, self._signature = tuple(fixed), signature_of(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) < len(self._signature.parameters):
            # The rules get all arguments, by position.
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return super().__call__(*args, **kwargs)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:  # type: ignore[override]
        """Set ``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, g) -> adjoints``, a tuple of one for each argument that is differentiated.

        `bwd` is given the arguments `nondiff_argnums` before these.  `fwd` is run in the reverse sweep, when the derivative is asked for.
        """
        self.set_vjp(lambda _, result, args, static: lambda g: bwd(*(args[k] for k in self.fixed), fwd(*args, **static)[1], g))

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        """Set ``jvp(primals, tangents) -> (result, tangent)``, two tuples of what is differentiated, behind the arguments `nondiff_argnums`."""
        self.set_jvp(lambda moved, tangents, _, args, static: jvp(*(args[k] for k in self.fixed), tuple(args[k] for k in moved), tangents)[1])
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule ``jvp(tangent, result, *args)`` for each argument that is differentiated; None for one that has no derivative."""

        def rule(_, tangents, result, args, static):
            return together([None if jvp is None or t is None else jvp(t, result, *args) for jvp, t in zip(jvps, tangents, strict=True)], result)

        self.set_jvp(rule)
