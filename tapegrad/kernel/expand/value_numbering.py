"""What repeats is computed once, what is constant becomes a constant, what nobody needs is dropped.

`number_values` is one walk up the instructions, with a hash table of those it has seen (value numbering); `sweep_needed` is the
walk of liveness down.  Both on columns, for `kernel.closing`.
"""

from __future__ import annotations

import numpy as np

from ...codegen.array_functions import compiled_on_arrays
from ...interpreter.access import helper
from ...tape.layout import FIRST_ARRAY, SCALAR_LEAF


# The odd constants only have to mix well: the golden ratio's fraction, and primes that hash functions are fond of.
@helper
def _hash(op, a, b, bits, mask):
    h = np.uint64(op) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(a) * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= np.uint64(b) * np.uint64(0x165667B19E3779F9) ^ np.uint64(bits) * np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(mask))


@compiled_on_arrays(
    "void(int64, int64, int32[::1], int32[::1], int32[::1], float64[::1], int64[::1], int8[::1], int32[::1], int64[::1], int32[::1], int32[::1])"
)
def number_values(first, count, ops, lefts, rights, constants, bits, fixed, alias, opcodes, latest, table):
    """Fold and share scalar instructions from slot `first` on; those before it are shared with.

    ``alias[i]`` becomes the slot that stands for slot i.  Where `fixed`, a slot is a leaf
    with the value ``constants[i]``; an instruction that turns out to be one becomes such a
    leaf.  `bits` are the same memory as `constants`.  ``latest[i]``: no slot before `first`
    that comes after this one stands for slot i.  `table` is all zeros, its size a power of
    two of at least ``2 * count``.
    """
    add, subtract, multiply, divide, negative, absolute = opcodes[0], opcodes[1], opcodes[2], opcodes[3], opcodes[4], opcodes[5]
    mask = table.size - 1
    for i in range(1, count):
        op = ops[i]
        alias[i] = i
        if op == SCALAR_LEAF and fixed[i] == 1:
            a, b = 0, 0
        elif op >= FIRST_ARRAY or op <= SCALAR_LEAF:
            continue
        else:
            a, b = alias[lefts[i]], alias[rights[i]]
            if i >= first:
                unary = op == negative
                if op == absolute:
                    # A product with a finite number other than zero is zero only where the other factor is.
                    number = constants[i] if a == 0 else constants[a] if fixed[a] == 1 else constants[i] if b == 0 else constants[b]
                    known = a == 0 or b == 0 or fixed[a] == 1 or fixed[b] == 1
                    if known and number != 0.0 and number - number == 0.0:
                        op = ops[i] = multiply
                arithmetic = op == add or op == subtract or op == multiply or op == divide
                c = constants[i]
                of_a = a == 0 or fixed[a] == 1
                of_b = b == 0 or fixed[b] == 1
                x = c if a == 0 else constants[a]
                y = c if b == 0 else constants[b]
                if unary and of_a or arithmetic and of_a and of_b:
                    if unary:
                        value = -x
                    elif op == add:
                        value = x + y
                    elif op == subtract:
                        value = x - y
                    elif op == multiply:
                        value = x * y
                    elif y == 0.0:
                        value = x * np.inf if x != 0.0 and x == x else np.nan
                        if np.copysign(1.0, y) < 0.0:
                            value = -value
                    else:
                        value = x / y
                    op = ops[i] = SCALAR_LEAF
                    fixed[i], constants[i] = 1, value
                    lefts[i] = rights[i] = a = b = 0
                elif arithmetic and (of_a or of_b):
                    k = x if of_a else y
                    other = b if of_a else a
                    bits_of_zero = k == 0.0 and np.copysign(1.0, k) > 0.0
                    if k == 1.0 and (op == multiply or op == divide and of_b) or bits_of_zero and op == subtract and of_b:
                        alias[i] = other
                        continue
                    if k == -1.0 and op == multiply:
                        op = ops[i] = negative
                        a, b, constants[i] = other, 0, 0.0
                    else:
                        if of_a:
                            a = 0
                        else:
                            b = 0
                        constants[i] = k
                if op == negative and ops[a] == negative:
                    alias[i] = lefts[a]
                    continue
                if (op == add or op == multiply) and b < a and b != 0 and a != 0:
                    a, b = b, a
                if op != SCALAR_LEAF:
                    lefts[i], rights[i] = a, b
        key = bits[i]
        bucket = _hash(op, a, b, key, mask)
        while True:
            j = table[bucket]
            if j == 0:
                table[bucket] = i
                break
            if ops[j] == op and lefts[j] == a and rights[j] == b and bits[j] == key:
                if i >= first and (j >= first or j <= latest[i] or op == SCALAR_LEAF):
                    alias[i] = j
                break
            bucket = (bucket + 1) & mask


@compiled_on_arrays("void(int64, int64, int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int8[::1])")
def sweep_needed(first, count, ops, lefts, rights, starts, operands, item_of, needed):
    """Mark in `needed`, from `count` down to `first`, what the slots marked already depend on.

    Item k reads ``operands[starts[k]:starts[k + 1]]``; ``item_of[slot]`` is its number or -1.
    """
    for i in range(count - 1, first - 1, -1):
        if needed[i] == 0:
            continue
        k = item_of[i]
        if k >= 0:
            for j in range(starts[k], starts[k + 1]):
                if operands[j] > 0:
                    needed[operands[j]] = 1
        elif ops[i] > SCALAR_LEAF and ops[i] < FIRST_ARRAY:
            needed[lefts[i]] = needed[rights[i]] = 1
    needed[0] = 1
