"""Values of a loop program as LLVM values: conversions, expressions, numbers."""

from __future__ import annotations

from llvmlite import ir

from ..codegen.emit import F32, F64, I1, I64, REGISTER, Emitter, convert
from .emit_tanh import tanh
from .ir import Let, arithmetic, nodes

POINTER = ir.PointerType()


def number(value, char):
    """A constant of type `char`."""
    if char in "df":
        return ir.Constant(REGISTER[char], float(value))
    return ir.Constant(REGISTER[char], bool(value) if char == "?" else int(value))


class FloatEmitter(Emitter):
    """Expressions in double or float.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    operand : callable
        ``operand(value) -> ir.Value`` of the value's own type.
    char : str
        'd' or 'f'.
    always : tuple of str
        Flags of all arithmetic.
    reordered : set of int
        Ids of the nodes whose order of additions is free.
    """

    def __init__(self, builder, operand, char, always, reordered):
        super().__init__(builder, self._own, F64 if char == "d" else F32)
        self.read, self.char, self.always, self.reordered = operand, char, always, reordered

    def _own(self, value):
        register = self.read(value)
        return register if value.char == "?" else convert(self.b, register, value.char, self.char)

    def _emit(self, expr):
        if expr.op in ("maximum", "minimum"):
            # NaN if either is, and vectorised also where it is a reduction.
            signature = ir.FunctionType(self.ftype, [self.ftype] * 2)
            function = self.b.module.declare_intrinsic(f"llvm.{expr.op}", [self.ftype], signature)
            return self.b.call(function, [self.number(a) for a in expr.args])
        if expr.op == "tanh":
            return self._in_double([self.number(expr.args[0])], lambda xs: tanh(self.b, *xs))
        return super()._emit(expr)

    def flags(self, expr):
        return self.always if id(expr) not in self.reordered else tuple(dict.fromkeys(("reassoc", *self.always)))


class IntegerEmitter(Emitter):
    """Expressions in 64-bit integers, which wrap; the operations are those of `ir.arithmetic`."""

    def __init__(self, builder, operand):
        super().__init__(builder, lambda value: operand(value) if value.char == "?" else convert(builder, operand(value), value.char, "q"), I64)

    def number(self, expr):
        value = self.emit(expr)
        return self.b.zext(value, I64) if value.type == I1 else value

    def truth(self, expr):
        value = self.emit(expr)
        return value if value.type == I1 else self.b.icmp_signed("!=", value, ir.Constant(I64, 0))

    _COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

    def _emit(self, expr):
        op, args, b, zero = expr.op, expr.args, self.b, ir.Constant(I64, 0)
        if op == "const":
            return ir.Constant(I64, int(args[0]))
        if op == "isnan":
            return ir.Constant(I1, 0)
        if op in ("add", "sub", "mul"):
            return getattr(b, op)(*map(self.number, args))
        if op == "neg":
            return b.neg(self.number(args[0]))
        if op in ("abs", "sign"):
            x = self.number(args[0])
            negative = b.icmp_signed("<", x, zero)
            if op == "abs":
                return b.select(negative, b.neg(x), x)
            return b.select(negative, ir.Constant(I64, -1), b.zext(b.icmp_signed("!=", x, zero), I64))
        if op in self._COMPARE:
            return b.icmp_signed(self._COMPARE[op], *map(self.number, args))
        return super()._emit(expr)


def emit_let(b, let, operand, always=(), reordered=frozenset()):
    """The value of a `Let` in a register."""
    expr, char = let.expr, let.char
    if expr.op == "const":
        return number(expr.args[0], char)
    if expr.op == "arg":
        return convert(b, operand(expr.args[0]), expr.args[0].char, char)
    how = arithmetic(let)
    emitter = IntegerEmitter(b, operand) if how == "q" else FloatEmitter(b, operand, how, always, reordered)
    if char == "?":
        return emitter.truth(expr)
    return convert(b, emitter.number(expr), how, char)


def reordered_nodes(carries):
    """Ids of the operations that make, of carries that may be reordered, what they become."""
    ids = set()
    for carry in carries:
        # Of one that goes on in an inner loop, that loop's carry has the operation.
        if carry.reorder and isinstance(carry.next, Let):
            ids.update(id(node) for node in nodes(carry.next.expr) if any(arg.op == "arg" and arg.args[0] is carry for arg in _operands(node)))
    return ids


def _operands(node):
    return () if node.op in ("arg", "const") else node.args
