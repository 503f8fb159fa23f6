"""A hash of two integers, for the compiled parts of this folder."""

from ...codegen.compile import helper

#: Bits from which on those of a `mix` are good: the place in a hash table is made of them.
HIGH = 20


@helper
def mix(a, b):
    """An int64 that depends on `a`, on `b`, and on which is which.

    A step of a linear congruential generator (D. Knuth's MMIX), whose high bits are mixed into the low ones.
    """
    a = (a ^ b) * 0x5851F42D4C957F2D + 0x14057B7EF767814F
    return a ^ (a >> 29)
