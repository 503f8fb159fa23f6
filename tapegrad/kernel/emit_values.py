"""Values of a loop program as LLVM values: conversions, expressions, numbers."""

from __future__ import annotations

from llvmlite import ir

from ..codegen.emit import REGISTER, Emitter, convert
from .ir import Let, arithmetic, nodes

POINTER = ir.PointerType()


def number(value, char):
    """A constant of type `char`."""
    if char in "df":
        return ir.Constant(REGISTER[char], float(value))
    return ir.Constant(REGISTER[char], bool(value) if char == "?" else int(value))


class LetEmitter(Emitter):
    """Expressions of a `Let`.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    operand : callable
        ``operand(value) -> ir.Value`` of the value's own type.
    char : str
        In what it computes: 'd', 'f' or 'q'.
    always : tuple of str
        Flags of all arithmetic.
    reordered : set of int
        Ids of the nodes whose order of additions is free.
    """

    def __init__(self, builder, operand, char, always, reordered):
        super().__init__(builder, self._own, REGISTER[char])
        self.read, self.char, self.always, self.reordered = operand, char, always, reordered

    def _own(self, value):
        register = self.read(value)
        return register if value.char == "?" else convert(self.b, register, value.char, self.char)

    def flags(self, expr):
        return self.always if id(expr) not in self.reordered else tuple(dict.fromkeys(("reassoc", *self.always)))


def emit_let(b, let, operand, always=(), reordered=frozenset()):
    """The value of a `Let` in a register."""
    expr, char = let.expr, let.char
    if expr.op == "const":
        return number(expr.args[0], char)
    if expr.op == "arg":
        return convert(b, operand(expr.args[0]), expr.args[0].char, char)
    how = arithmetic(let)
    emitter = LetEmitter(b, operand, how, always, reordered)
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
