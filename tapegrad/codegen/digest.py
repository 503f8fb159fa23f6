"""A digest of memory, for comparing large arrays with what they were.

It is XXH64 (Y. Collet, xxHash) with `LANES` lanes in place of four, so that the rounds run in vectors: each word is
multiplied, added to its lane, and the lane is rotated and multiplied.  A lane so depends on the order of its words, and
the lanes are merged in their order: what moves, changes the digest wherever it goes.  A single word that changes always
does, for each step is invertible in it.
"""

from __future__ import annotations

from .compile import compiled, helper
from .memory import allocate, copy_bytes, int_at, load_int, release, set_int_at, store_int

#: Words that a round takes.
LANES = 128
#: The primes of XXH64, as signed numbers.
P1, P2, P3, P4 = (
    p - (p >> 63 << 64) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63)
)


@helper
def _round(lane, word):
    turned = lane + word * P2
    return ((turned << 31) | ((turned >> 33) & 0x7FFFFFFF)) * P1


@helper
def _merged(hashed, lane):
    return (hashed ^ _round(0, lane)) * P1 + P4


@compiled("int64(int64, int64)")
def digest(data, nbytes):
    """The digest of `nbytes` bytes at the address `data`."""
    lanes = allocate(8 * LANES)
    for lane in range(LANES):
        set_int_at(lanes, lane, (lane + 1) * P3)
    rows = nbytes // (8 * LANES)
    for row in range(rows):
        start = data + 8 * LANES * row
        for lane in range(LANES):
            set_int_at(lanes, lane, _round(int_at(lanes, lane), int_at(start, lane)))
    hashed = nbytes
    for lane in range(LANES):
        hashed = _merged(hashed, int_at(lanes, lane))
    at = data + 8 * LANES * rows
    for k in range(nbytes // 8 - LANES * rows):
        hashed = _merged(hashed, load_int(at + 8 * k))
    rest = nbytes % 8
    if rest:
        # Its first bytes, in a word of zeros.
        store_int(lanes, 0)
        copy_bytes(lanes, data + nbytes - rest, rest)
        hashed = _merged(hashed, load_int(lanes))
    release(lanes)
    return hashed
