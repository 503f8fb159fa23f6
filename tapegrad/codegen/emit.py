"""Lowering of an expression of the rules' language to LLVM instructions.

`Emitter` iterations an `Expr` into values of an llvmlite builder, once per distinct
sub-expression.  Functions go to LLVM intrinsics, to libm by name (the same libm
that Python's ``math`` calls), or to SciPy's special functions.
"""

import numpy as np
from llvmlite import ir

from ..common.errors import InternalError
from ..rules import lang as L
from .library import COMPOSED, INTRINSICS, LIBM, SPECIAL

F64, F32, I1, I8, I32, I64 = (ir.DoubleType(), ir.FloatType(), ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64))
PTR = I8.as_pointer()

#: dtype character -> LLVM type in memory.
MEMORY = {"d": F64, "f": F32, "?": I8} | {c: ir.IntType(8 * np.dtype(c).itemsize) for c in "bBhHiIlLqQ"}
#: dtype character -> LLVM type of a value in a register.
REGISTER = MEMORY | {"?": I1}

COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def convert(b, value, char, wanted):
    """A value of type `char` as one of type `wanted`, as NumPy's ``astype`` does."""
    if char == wanted:
        return value
    target, kind, to = REGISTER[wanted], np.dtype(char).kind, np.dtype(wanted).kind
    if to == "b":
        zero = ir.Constant(value.type, 0)
        return b.fcmp_unordered("!=", value, zero) if kind == "f" else b.icmp_unsigned("!=", value, zero)
    if kind == "f":
        if to == "f":
            return b.fpext(value, target) if target == F64 else b.fptrunc(value, target)
        wide = b.fptosi(value, I64)
        return wide if target == I64 else b.trunc(wide, target)
    if to == "f":
        return b.sitofp(value, target) if kind == "i" else b.uitofp(value, target)
    if value.type.width < target.width:
        return b.sext(value, target) if kind == "i" else b.zext(value, target)
    return value if value.type == target else b.trunc(value, target)


def load(b, pointer, char):
    """The element of a dtype at an address, in a register."""
    value = b.load(b.bitcast(pointer, MEMORY[char].as_pointer()))
    return b.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if char == "?" else value


def store(b, value, char, pointer, wanted):
    """Store a value of one dtype as an element of another one."""
    value = convert(b, value, char, wanted)
    b.store(b.zext(value, I8) if wanted == "?" else value, b.bitcast(pointer, MEMORY[wanted].as_pointer()))


class Emitter:
    """Emits expressions into one function of one module.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    operand : callable
        ``operand(key) -> ir.Value`` for the expression's ``arg`` leaves.
    ftype : ir.Type
        Type of the arithmetic: double, float, or 64-bit integers, which wrap and have few operations (`kernel.ir.arithmetic`).
    """

    def __init__(self, builder, operand, ftype=F64):
        self.b = builder
        self.operand = operand
        self.ftype, self.integral = ftype, ftype == I64
        self.done = {}

    # -- entry -------------------------------------------------------------
    def number(self, expr):
        """The expression as a number (booleans become 0 or 1)."""
        value = self.emit(L.Expr.lift(expr))
        return (self.b.zext if self.integral else self.b.uitofp)(value, self.ftype) if value.type == I1 else value

    def truth(self, expr):
        """The expression as an i1 (numbers are compared with zero)."""
        value = self.emit(expr)
        if value.type == I1:
            return value
        return (self.b.icmp_signed if self.integral else self.b.fcmp_unordered)("!=", value, ir.Constant(self.ftype, 0))

    def emit(self, expr):
        """The expression as a value of its own type, emitted once."""
        entry = self.done.get(id(expr))
        if entry is None:
            # The node is kept beside its value so that its id stays its own.
            entry = self.done[id(expr)] = (self._emit(expr), expr)
        return entry[0]

    def flags(self, expr):
        """Fast-math flags of an arithmetic node."""
        return ()

    # -- one node -------------------------------------------------------------
    def _emit(self, expr):
        op, args, b = expr.op, expr.args, self.b
        if op == "const":
            return ir.Constant(self.ftype, int(args[0]) if self.integral else args[0])
        if op == "arg":
            return self.operand(args[0])
        if op == "select":
            condition = self.truth(args[0])
            if args[1].is_bool and args[2].is_bool:
                return b.select(condition, self.truth(args[1]), self.truth(args[2]))
            return b.select(condition, self.number(args[1]), self.number(args[2]))
        if op in COMPARE:
            x, y = self.number(args[0]), self.number(args[1])
            compare = b.icmp_signed if self.integral else b.fcmp_unordered if op == "ne" else b.fcmp_ordered
            return compare(COMPARE[op], x, y)
        if op in ("and", "or"):
            return getattr(b, f"{op}_")(*map(self.truth, args))
        if op == "not":
            return b.not_(self.truth(args[0]))
        if op in COMPOSED:
            return self.emit(COMPOSED[op](*args))
        values = [self.number(a) for a in args]
        if self.integral:
            if op == "abs":
                return b.select(b.icmp_signed("<", values[0], ir.Constant(I64, 0)), b.neg(values[0]), values[0])
            return ir.Constant(I1, 0) if op == "isnan" else getattr(b, op)(*values)
        if op == "isnan":
            return b.fcmp_unordered("uno", values[0], values[0])
        if op in ("add", "sub", "mul", "div"):
            return getattr(b, "f" + op)(*values, flags=self.flags(expr))
        if op == "neg":
            return b.fneg(values[0])
        if op in INTRINSICS:
            signature = ir.FunctionType(self.ftype, [self.ftype] * len(values))
            return b.call(b.module.declare_intrinsic(f"llvm.{INTRINSICS[op]}", [self.ftype], signature), values)
        if op in LIBM or op in L.COMPILED:
            return self._outside(LIBM.get(op, f"tapegrad_{op}"), values)
        if op in SPECIAL:
            # The last argument is for methods in Cython.
            return self._outside(f"tapegrad_{op}", values, ir.Constant(I32, 0))
        raise InternalError(f"the emitter has no lowering for {op!r}")

    def _outside(self, name, values, *last):
        """Call a function of doubles outside; operands in float are widened, and the result is narrowed."""
        b = self.b
        values = [*(v if v.type == F64 else b.fpext(v, F64) for v in values), *last]
        function = b.module.globals.get(name)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(F64, [v.type for v in values]), name)
            function.attributes.add("nounwind")
            function.attributes.add("readnone")
        value = b.call(function, values)
        return value if self.ftype == F64 else b.fptrunc(value, self.ftype)
