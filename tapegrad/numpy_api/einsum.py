"""``np.einsum`` as matrix products.

The subscripts become lists of labels (letters, integers or, for what an ellipsis
stands for, tuples).  Repeated labels of an operand become diagonals; operands
are contracted in pairs, in the order `np.einsum_path` finds, each pair as one
batched matrix product of transposed and reshaped operands.
"""

from __future__ import annotations

from math import prod
from string import ascii_letters

import numpy as np

from ..array import functions as F


def parse(operands):
    """``(tensors, their labels, labels of the result)`` from the arguments of ``np.einsum``.

    Both forms are understood: a subscripts string with operands, and operands
    that alternate with lists of integers.
    """
    if not operands:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand")
    if isinstance(operands[0], str):
        terms, arrow, result = operands[0].replace(" ", "").partition("->")
        tensors = [F.lift(x) for x in operands[1:]]
        terms = [_letters(t) for t in terms.split(",")]
        result = _letters(result) if arrow else None
    else:
        pairs = len(operands) // 2
        tensors = [F.lift(operands[2 * k]) for k in range(pairs)]
        terms = [list(operands[2 * k + 1]) for k in range(pairs)]
        result = list(operands[-1]) if len(operands) % 2 else None
    if len(terms) != len(tensors):
        raise ValueError(f"einsum() got {len(terms)} subscripts terms for {len(tensors)} operands")
    dots = 0
    for tensor, term in zip(tensors, terms):
        named = sum(label is not Ellipsis for label in term)
        if term.count(Ellipsis) > 1 or named > tensor.ndim or Ellipsis not in term and named != tensor.ndim:
            raise ValueError(f"einsum() subscripts {term} do not fit an operand of {tensor.ndim} dimensions")
        if Ellipsis in term:
            dots = max(dots, tensor.ndim - named)
    labels = [_expanded(term, tensor.ndim - len(term) + 1) for tensor, term in zip(tensors, terms)]
    if result is None:
        every = [label for term in terms for label in term if label is not Ellipsis]
        once = sorted(label for label in set(every) if every.count(label) == 1)
        result = [Ellipsis, *once]
    elif dots and Ellipsis not in result:
        raise ValueError("einsum() output has no ellipsis, but the dimensions of one are broadcast")
    result = _expanded(result, dots)
    subscripts = {label for term in labels for label in term}
    for label in result:
        if result.count(label) > 1 or label not in subscripts:
            why = "twice" if label in subscripts else "but no operand has it"
            raise ValueError(f"einsum() output includes the subscript {label!r} {why}")
    return tensors, labels, result


def _letters(text):
    labels = []
    while text:
        if text.startswith("..."):
            labels.append(Ellipsis)
            text = text[3:]
        elif text[0] in ascii_letters:
            labels.append(text[0])
            text = text[1:]
        else:
            raise ValueError(f"einsum() does not know the subscript {text[0]!r}; only letters and '...' are valid")
    return labels


def _expanded(term, dots):
    """`term` with its ellipsis replaced by `dots` labels; the last is the same in all terms."""
    return [
        label
        for entry in term
        for label in ([("...", k) for k in range(-dots, 0)] if entry is Ellipsis else [entry])
    ]


def einsum(*operands, optimize=False):
    """Einstein summation, as ``np.einsum``.

    Parameters
    ----------
    *operands
        As NumPy takes them.
    optimize : bool, str or list
        How `np.einsum_path` orders the products of more than two operands; False
        means ``"greedy"`` too, as the result does not depend on it.

    Returns
    -------
    Tensor
    """
    tensors, labels, result = parse(operands)
    extents = {}
    for tensor, term in zip(tensors, labels):
        for label, extent in zip(term, tensor.shape):
            if extents.setdefault(label, extent) != extent and 1 not in (extent, extents[label]):
                raise ValueError(
                    f"einsum() operands could not be broadcast together: {label!r} is {extents[label]} and {extent}"
                )
            if extent != 1:
                extents[label] = extent
    left = [_diagonal(tensor, term) for tensor, term in zip(tensors, labels)]
    for group in _order(left, result, extents, optimize):
        # A group of one is a sum, of more than two a chain of pairs.
        chosen = [left[k] for k in group]
        left = [pair for k, pair in enumerate(left) if k not in group]
        while len(chosen) > 1:
            a, b = chosen.pop(0), chosen.pop(0)
            kept = {*result, *(label for _, term in [*left, *chosen] for label in term)}
            chosen.insert(0, _contract(*a, *b, kept))
        left.append(chosen[0])
    (x, term), = left
    x, term = _summed(x, term, result)
    x = F.transpose(x, tuple(term.index(label) for label in result)) if term != result else x
    return F.clone(x) if any(x is t for t in tensors) else x


def _order(left, result, extents, optimize):
    if len(left) <= 2:
        return [tuple(range(len(left)))]
    if optimize is False or optimize is True:
        optimize = "greedy"
    names = {label: ascii_letters[k] for k, label in enumerate(extents)}
    terms = ",".join("".join(names[label] for label in term) for _, term in left)
    shaped = [np.broadcast_to(0.0, [extents[label] for label in term]) for _, term in left]
    text = f"{terms}->{''.join(names[label] for label in result)}"
    return np.einsum_path(text, *shaped, optimize=optimize)[0][1:]


def _diagonal(x, term):
    """`x` with repeated labels made diagonals."""
    term = list(term)
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            i = term.index(label)
            j = term.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum() dimensions of {label!r} in one operand differ: {x.shape[i]} and {x.shape[j]}")
            x = F.diagonal(x, 0, i, j)
            term = [*term[:i], *term[i + 1 : j], *term[j + 1 :], label]
    return x, term


def _summed(x, term, kept):
    """`x` summed over its labels that are not kept."""
    axes = tuple(k for k, label in enumerate(term) if label not in kept)
    return (F.sum(x, axis=axes), [label for label in term if label in kept]) if axes else (x, term)


def _contract(a, first, b, second, kept):
    """The product of two operands, summed over the labels that are not kept."""
    own = dict(zip(first, a.shape))
    other = dict(zip(second, b.shape))
    # A shared label of extent 1 on one side only is broadcast: it belongs to the other.
    a, first = _squeezed(a, first, [k for k in first if own[k] == 1 and other.get(k, 1) != 1])
    b, second = _squeezed(b, second, [k for k in second if other[k] == 1 and own.get(k, 1) != 1])
    a, first = _summed(a, first, {*kept, *second})
    b, second = _summed(b, second, {*kept, *first})
    extents = {**dict(zip(first, a.shape)), **dict(zip(second, b.shape))}
    shared = [label for label in first if label in second]
    batch = [label for label in shared if label in kept]
    inner = [label for label in shared if label not in kept]
    rows = [label for label in first if label not in shared]
    columns = [label for label in second if label not in shared]
    size = {name: [extents[label] for label in part] for name, part in
            (("batch", batch), ("inner", inner), ("rows", rows), ("columns", columns))}
    a = F.transpose(a, tuple(first.index(label) for label in batch + rows + inner))
    b = F.transpose(b, tuple(second.index(label) for label in batch + inner + columns))
    if inner:
        a = F.reshape(a, (*size["batch"], prod(size["rows"]), prod(size["inner"])))
        b = F.reshape(b, (*size["batch"], prod(size["inner"]), prod(size["columns"])))
        product = F.matmul(a, b)
        product = F.reshape(product, (*size["batch"], *size["rows"], *size["columns"]))
    else:
        a = F.reshape(a, (*size["batch"], *size["rows"], *[1] * len(columns)))
        b = F.reshape(b, (*size["batch"], *[1] * len(rows), *size["columns"]))
        product = a * b
    return product, batch + rows + columns


def _squeezed(x, term, labels):
    if not labels:
        return x, term
    axes = tuple(term.index(label) for label in labels)
    return F.squeeze(x, axis=axes), [label for label in term if label not in labels]
