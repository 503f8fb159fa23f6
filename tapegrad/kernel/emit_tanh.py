"""tanh as arithmetic, of which any loop becomes vectors.

With ``t = -2 |x|``::

    tanh(x) = -sign(x) expm1(t) / (expm1(t) + 2)

keeps its digits for every x.  ``t = n ln 2 + r`` with an integer n and ``|r| <= ln(2) / 2`` gives
``expm1(t) = (2**n - 1) + 2**n p``, where ``p = expm1(r)`` is a polynomial.  So whatever library there is, a layer takes
one exponential.
"""

from __future__ import annotations

import math

from llvmlite import ir

from ..codegen.emit import F64, I64

#: ``(expm1(r) - r) / r**2`` for ``|r| <= ln(2) / 2``: the polynomial by Remez' algorithm, relative error of p below 3e-19.
_POLYNOMIAL = (
    0.5, 0.16666666666666677, 0.041666666666666505, 0.008333333333321653, 0.0013888888888962609, 0.00019841269886073518,
    2.4801587172226438e-05, 2.7557244254116785e-06, 2.7557402777586934e-07, 2.5109024490116793e-08, 2.087532855290624e-09,
)  # fmt: skip
#: ln 2 in two parts: an integer of 20 bits times the first is exact.
_LN2 = (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"))
#: Added to a number, it leaves the nearest integer in the last bits.
_SHIFT = 1.5 * 2.0**52
#: Below this exp is 0.
_LEAST = -750.0


def _number(value):
    return ir.Constant(F64, value)


def _fused(b, x, y, z):
    """``x * y + z``, rounded once where the machine does that at once."""
    function = b.module.declare_intrinsic("llvm.fmuladd", [F64], ir.FunctionType(F64, [F64] * 3))
    return b.call(function, [x, y, z])


def _expm1(b, t):
    """expm1 of a double that is not above 0."""
    # What is not a number stays.
    t = b.select(b.fcmp_ordered("<", t, _number(_LEAST)), _number(_LEAST), t)
    shifted = _fused(b, t, _number(1.0 / math.log(2.0)), _number(_SHIFT))
    n = b.fsub(shifted, _number(_SHIFT))
    r = _fused(b, n, _number(-_LN2[0]), t)
    r = _fused(b, n, _number(-_LN2[1]), r)
    q = _number(_POLYNOMIAL[-1])
    for coefficient in reversed(_POLYNOMIAL[:-1]):
        q = _fused(b, q, r, _number(coefficient))
    p = _fused(b, b.fmul(r, r), q, r)
    # 2**(n + 64) is a normal number for all n that there are.
    bits = b.add(b.shl(b.bitcast(shifted, I64), ir.Constant(I64, 52)), ir.Constant(I64, (1023 + 64) << 52))
    power = b.fmul(b.bitcast(bits, F64), _number(2.0**-64))
    return _fused(b, power, p, b.fsub(power, _number(1.0)))


def tanh(b, x):
    """tanh of a double, within 3 units in the last place."""
    magnitude = b.module.declare_intrinsic("llvm.fabs", [F64], ir.FunctionType(F64, [F64]))
    copysign = b.module.declare_intrinsic("llvm.copysign", [F64], ir.FunctionType(F64, [F64] * 2))
    small = _expm1(b, b.fmul(b.call(magnitude, [x]), _number(-2.0)))
    return b.call(copysign, [b.fdiv(small, b.fadd(small, _number(2.0))), x])
