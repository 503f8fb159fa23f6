"""Functions of floats `x`, of shape (4,), and of labels `l`, integers from 0 to 3: what is done with labels in programs.

Each is plain NumPy.  `BY_CONTENT` names those where Python takes the labels, so that other labels are another path.
"""

import numpy as np

WEIGHTS = np.sin(np.arange(1.0, 200.0))
CONTENTS = ([0, 1, 2, 3], [1, 1, 2, 0], [3, 2, 2, 1], [2, 0, 3, 3], [0, 0, 1, 2], [2, 3, 1, 0])


def total(y):
    return np.sum(WEIGHTS[: y.size].reshape(y.shape) * y**2)


def outer(x):
    return x[:, None] * x


# ---- what is read at labels


def elements(x, l):
    return total(x[l]) + total(x[l - 4]) + total(x[l[::-1]]) + total(x[l[1:]]) + total(x[l.reshape(2, 2).T])


def rows(x, l):
    return total(outer(x)[l, :]) + total(outer(x)[:, l]) + total(outer(x)[1, l]) + total(outer(x)[..., l]) + total(outer(x)[None, l])


def pairs(x, l):
    return total(outer(x)[np.arange(4), l]) + total(outer(x)[l, l[:, None]]) + total(outer(x)[l][:, l]) + total(outer(x)[[0, 1, 1, 3], l])


def apart(x, l):
    cube = outer(x)[:, :, None] * x
    return total(cube[l, :, l]) + total(cube[1, :, l]) + total(cube[:, 1, l]) + total(cube[l, None, :, l]) + total(cube[::-1, l, 1:])


def taken(x, l):
    along = np.take_along_axis(outer(x), l[:, None], 1)
    return total(np.take(x, l)) + total(np.take(outer(x), l, 1)) + total(along) + total(np.take(x, l + 2, mode="clip"))


def one_by_one(x, l):
    return sum(x[l[k]] * WEIGHTS[k] for k in range(len(l)))


def cross_entropy(x, l):
    scores = outer(x) - np.max(outer(x), 1, keepdims=True)
    return -np.mean(scores[np.arange(4), l] - np.log(np.sum(np.exp(scores), 1)))


# ---- what is written at labels


def assigned(x, l):
    y = np.sin(x)
    y[l[:1]] = x[3]
    y[l[1]] = 2.0
    return total(y)


def along_axis(x, l):
    y = np.sin(x)
    np.put_along_axis(y, l[:1], x[:1], 0)
    return total(y)


def counts(x, l):
    m = l.copy()
    m[0] = 2
    m[1:] += 1
    n = l * 2
    n += 1
    n //= 2
    n %= 3
    n[l > 1] = 7
    return total(x * m) + total(x * n)


# ---- arithmetic


def arithmetic(x, l):
    return total(x * l) + total(l / 2 - x) + total(x * (l // 2)) + total(x * (l % 3)) + total(x * (7 // (l + 1))) + total(x * -l) + x @ l


def powers(x, l):
    return total(x**l) + total(x * l**2) + total(x * 2**l) + total(x * np.power(l, 2))


def bits(x, l):
    return total(x * (l & 1)) + total(x * (l | 2)) + total(x * (l ^ 1)) + total(x * (l << 1)) + total(x * (l >> 1)) + total(x * ~l)


def comparisons(x, l):
    return total(x * ((l > 0) & (l < 3))) + total(x * ((l == 1) | ~(l == 2))) + total(x * (2 >= l)) + total(x * (x > l)) + total(x * (l != 300))


def choices(x, l):
    flags = np.where(l > 1, 2, 1)
    return total(np.where(l > 1, x, 0.5)) + total(x * flags) + total(x[flags]) + total(np.select([l == 0, l == 1], [x, 2 * x], x * x))


def groups(x, l):
    return total(np.stack([np.sum(np.where(l == k, x, 0.0)) for k in range(4)])) + total((l[:, None] == np.arange(4)).T @ x)


def casts(x, l):
    return total(x * l.astype(float)) + total(x * l.astype(np.float32)) + total(x[l.astype(np.int16)]) + np.sum(x * (l > 1).astype(int))


def summed(x, l):
    return total(x - l.mean()) + l.max() * x[1] + x[2] * np.sum(l > 1) + x[3] * l.min() + np.std(l) * x[0] + total(x * np.cumsum(l))


def functions(x, l):
    order = np.argsort(l, kind="stable")
    return total(x[order]) * np.bincount(l, minlength=4)[1] + total(x * np.isin(l, [1, 2])) + total(x[np.clip(l, 0, 2)]) + total(x * np.sqrt(l))


def beside_floats(x, l):
    return total(np.maximum(x, l)) + total(np.hypot(x, l)) + total(np.outer(x, l)) + np.dot(x, l) + total(np.concatenate([x, l]))


# ---- how many


def masked(x, l):
    m = l > 1
    return total(x[m]) + total(x[~m]) + np.sum(x * m) + np.sum(m) * x[0] + total(outer(x)[m, 1]) + total(x[np.where(m)])


def distinct(x, l):
    u = np.unique(l)
    return np.sum(x) * len(u) + total(x[u])


def branch(x, l):
    return total(x) if l[0] > 1 else np.sum(x) * (2.0 if np.any(l == 2) else 3.0)


# ---- what Python takes


def one_hot(x, l):
    return total(x[:, None] * np.eye(4)[l])


def ranges(x, l):
    return sum(x[i] for i in range(l[0] + 1)) + total(x[: l[1] + 1])


def in_a_dict(x, l):
    return sum(x[k] * {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}[label] for k, label in enumerate(l))


def in_a_text(x, l):
    return sum(x[k] * {"l0": 1.0, "l1": 2.0, "l2": 3.0, "l3": 4.0}[f"l{label}"] * len(str(label)) for k, label in enumerate(l))


def as_numbers(x, l):
    return x[l[0].item()] * x[int(l[1])] * float(l[2]) + sum(x[k] * v for k, v in enumerate(l.tolist()))


def counted(x, l):
    n = np.zeros(4, int)
    for label in l:
        n[label] += 1
    y = np.zeros(4)
    np.add.at(y, l, 1.0)
    return total(x * n) + total(x * y)


def repeated(x, l):
    return total(np.repeat(x, l)) + total(x * np.frombuffer(l.tobytes(), l.dtype))


def ordered(x, l):
    return sum(x[c] for c in sorted(l)) + sum(x[c] * c for c in set(l))


FUNCTIONS = (
    elements, rows, pairs, apart, taken, one_by_one, cross_entropy, assigned, along_axis, counts, arithmetic, powers, bits, comparisons,
    choices, groups, casts, summed, functions, beside_floats, masked, distinct, branch, one_hot, ranges, in_a_dict, in_a_text, as_numbers,
    counted, repeated, ordered,
)  # fmt: skip
BY_CONTENT = (one_hot, ranges, in_a_dict, in_a_text, as_numbers, counted, repeated, ordered)
#: How many are picked decides.
BY_NUMBER = (masked, distinct, branch)
