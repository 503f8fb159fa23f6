"""``np.einsum`` as matrix products.

NumPy's own code finds the order of the contractions, and writes each of a pair as one batched product of matrices; what it
has compiled, diagonals, sums and transposes of one operand, is `contracted` here.
"""

from __future__ import annotations

import numpy as np

from ..array import functions as F


def contracted(subscripts, *tensors):
    """What NumPy's compiled ``einsum`` gives: of one operand, or of several at once, where the first two are one product."""
    left, result = subscripts.split("->")
    first, *others = left.split(",")
    x = tensors[0]
    if others:
        rest = "".join(others[1:]) + result
        kept = "".join(label for label in dict.fromkeys(first + others[0]) if label in rest)
        x = np.einsum(f"{first},{others[0]}->{kept}", x, tensors[1])
        return contracted(",".join([kept, *others[1:]]) + f"->{result}", x, *tensors[2:])
    for label in dict.fromkeys(first):
        while first.count(label) > 1:
            i = first.index(label)
            j = first.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum() dimensions of {label!r} in one operand differ: {x.shape[i]} and {x.shape[j]}")
            x = F.diagonal(x, 0, i, j)
            first = first[:i] + first[i + 1 : j] + first[j + 1 :] + label
    summed = tuple(k for k, label in enumerate(first) if label not in result)
    if summed:
        x, first = F.sum(x, axis=summed), "".join(label for label in first if label in result)
    x = x if first == result else F.transpose(x, tuple(map(first.index, result)))
    return F.clone(x) if x is tensors[0] else x
