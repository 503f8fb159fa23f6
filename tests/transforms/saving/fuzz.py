"""Mutated tape files: each must be refused with `TapeFileError`, or load and replay; never crash, hang or take much memory.

``python tests/transforms/saving/fuzz.py --count 100000 --jobs 2 --seed 0`` runs batches of files in
subprocesses with limits on memory and time, and prints what became of them.  Checksums are right:
what is tried is what a checksum does not find.  Around every array of a replay are bytes that must stay what they are.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

try:
    from tests.transforms.saving import greedy
except ImportError:
    # In a subprocess this folder is on the path.
    import greedy

#: The limit of a mutated file.
MAX_BYTES = 4 << 20
#: Bytes of addresses that a child may take over what it has before the first file, while it loads and while it replays:
#: LLVM compiles in the second half.
ROOM = {"load": 128 << 20, "replay": 1 << 30}
#: Seconds that one file may take.
SECONDS = 60
#: Seconds after which a replay is interrupted: a loop need not end.
LOOPING = 2
BATCH = 1000


# ---- tapes to start from ---------------------------------------------------------------


def branches(x):
    s = 0.0
    for k in range(6):
        s = s + np.sin(x[k]) if x[k] > 0.5 else s + x[k] * x[(k + 1) % 6]
    return s


def order(x):
    return np.median(x) + np.sum(np.sort(x) * np.arange(6.0)) + np.quantile(x, 0.3) + np.take(x, np.argsort(x))[2]


def matrices(x):
    a = np.eye(6) * 5.0 + np.outer(x, x)
    return np.sum(np.linalg.solve(a, x)) + np.linalg.slogdet(a)[1] + np.trace(np.linalg.cholesky(a) @ np.linalg.inv(a))


def writing(x):
    import tapegrad as tg

    y = tg.zeros(6)
    y[1:4] = x[:3]
    y[[0, 5]] = x[4:]
    z = np.concatenate([y, x[::-1]])
    return np.sum(z[::2] * np.where(z > 0.4, 1.0, 2.0)[::2]) + np.sum(np.stack([x, y])[:, 1:] * z.reshape(2, 6).T[:5].T)


def scores(x):
    import tapegrad as tg

    lines = np.reshape(x, (2, 3))
    return tg.nn.functional.cross_entropy(lines, np.array([0, 2])) + np.sum(lines.astype(np.float32).softmax(1) ** 2)


def reductions(x):
    lines = np.reshape(x, (3, 2))
    found = np.max(lines, axis=1) * np.std(lines, axis=1) + np.linalg.norm(lines, axis=1) + np.prod(lines, axis=1)
    return np.sum(np.cumsum(found) + np.cumprod(found)) + np.sum(np.flip(lines, 0).T * np.mean(lines)) + np.sum(np.diag(x))


def decompositions(x):
    a = np.diag(np.arange(2.0, 5.0)) + np.outer(x[:3], x[3:])
    values, vectors = np.linalg.eigh(a + a.T)
    singular = np.linalg.svd(a, compute_uv=False)
    return np.sum(values * vectors[0] ** 2) + np.sum(singular**3) + np.sum(np.linalg.qr(a)[1] ** 2) + np.sum(np.linalg.pinv(a))


def loops(x):
    import tapegrad as tg

    def turn(c, e):
        c = np.sin(c) * x[:3] if np.sum(c) > 1.0 else c + e
        return c, tg.scan(lambda s, k: (s * c[1] + e[k], None), 0.5, np.arange(3))[0] * c[:2]

    c, ys = tg.scan(turn, x[3:], np.reshape(np.arange(12.0), (4, 3)) / 10.0)
    root = tg.while_loop(lambda r: abs(r * r - x[5]) > 1e-9, lambda r: 0.5 * (r + x[5] / r), x[4])
    return np.sum(c) + np.sum(ys) + root


def assigning(x):
    import tapegrad as tg

    y = tg.zeros(6)
    y[np.argsort(x)] = x * np.arange(6.0)
    y[x > 0.4] = x[x > 0.4] ** 3
    y[np.argmin(x)] = x[1] * x[2]
    return np.sum(y**2 * x) + np.sum(x[np.argsort(x)[[1, 3]]] ** 3)


FUNCTIONS = [branches, order, matrices, writing, assigning, scores, reductions, decompositions, loops]
POINT = np.linspace(0.1, 0.9, 6)


def originals():
    """The files of all `FUNCTIONS`."""
    import tapegrad as tg
    from tapegrad.transforms.saving.save import to_bytes

    return [to_bytes(tg.value_and_grad(f).tape(POINT)) for f in FUNCTIONS]


def written(members, method=zipfile.ZIP_STORED):
    """The bytes of a file of these members, with their checksum."""
    from tapegrad.transforms.saving.archive import checksum

    members = {name: array for name, array in members.items() if name != "checksum"}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in (members | {"checksum": checksum(members)}).items():
            part = io.BytesIO()
            np.lib.format.write_array(part, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", part.getvalue())
    return file.getvalue()


# ---- mutations -------------------------------------------------------------------------

EXTREME = [0, 1, -1, 2, 7, 63, 127, 255, 1 << 15, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63)]


def mutated(data, chance):
    """`data` with one to three changes, or made to take memory."""
    if chance.random() < 0.15:
        return _bytes(bytearray(data), chance)
    if chance.random() < 0.15:
        return greedy.made(data, chance)
    if not zipfile.is_zipfile(io.BytesIO(data)):
        # Bytes that only begin like an archive.
        return _bytes(bytearray(data), chance)
    members = dict(np.load(io.BytesIO(data)))
    inside = [name for name, array in members.items() if array.dtype.char == "B" and array[:2].tobytes() == b"PK"]
    if inside and chance.random() < 0.5:
        # The tape of a path of a loop.
        name = chance.choice(inside)
        members[name] = np.frombuffer(mutated(members[name].tobytes(), chance), np.uint8)
        return written(members)
    header = json.loads(members["header"].tobytes())
    own = True
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if chance.random() < 0.6:
            _header(header, chance)
        else:
            own = _arrays(members, chance) and own
    if own:
        members["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return written(members, chance.choice([zipfile.ZIP_STORED] * 20 + [zipfile.ZIP_DEFLATED]))


def _bytes(data, chance):
    what = chance.randrange(4)
    at = chance.randrange(len(data))
    if what == 0:
        del data[at:]
    elif what == 1:
        del data[at : at + chance.randrange(1, 64)]
    elif what == 2:
        data[at:at] = chance.randbytes(chance.randrange(1, 64))
    else:
        for _ in range(chance.randrange(1, 9)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _nodes(thing, found):
    """Every (container, key) of nested JSON."""
    if isinstance(thing, (list, dict)):
        for key in range(len(thing)) if isinstance(thing, list) else list(thing):
            found.append((thing, key))
            _nodes(thing[key], found)
    return found


def _number(value, chance):
    near = [value + 1, value - 1, -value, value * 2, chance.randrange(-40, 40), chance.randrange(0, 12)]
    return chance.choice([*near, chance.choice(EXTREME)])


def _header(header, chance):
    """Change one node of the header."""
    everything = _nodes(header, [])
    # Most nodes belong to entries; the rest should have its turn too.
    inside = _nodes(header[chance.choice(list(header))], []) if header and chance.random() < 0.5 else []
    nodes = inside or everything
    if not nodes:
        return
    where, key = chance.choice(nodes)
    value = where[key]
    if chance.random() < 0.1:
        other, at = chance.choice(nodes)
        where[key] = copy.deepcopy(other[at])
    elif isinstance(value, bool):
        where[key] = not value
    elif isinstance(value, int):
        where[key] = _number(value, chance)
    elif isinstance(value, float):
        where[key] = chance.choice([0.0, -1.0, 1e308, float("nan"), float("inf"), 3])
    elif isinstance(value, str):
        from tapegrad.rules import BY_NAME

        names = [w[k] for w, k in everything if isinstance(w[k], str)]
        where[key] = chance.choice([chance.choice(names), chance.choice(list(BY_NAME)), chance.choice("dfl?iB"), "x", ""])
    elif isinstance(value, list) and value:
        at = chance.randrange(len(value))
        what = chance.randrange(3)
        if what == 0:
            del value[at]
        elif what == 1:
            value.insert(at, copy.deepcopy(chance.choice(value)))
        else:
            chance.shuffle(value)
    else:
        where[key] = chance.choice([None, 0, [], {}, "d"])


def _arrays(members, chance):
    """Change one member; returns whether the header is still one."""
    names = [n for n in members if n != "header" or chance.random() < 0.1]
    if not names:
        return False
    name = chance.choice(names)
    array = members[name]
    what = chance.randrange(10)
    if what == 0:
        other = chance.choice(names)
        members[name], members[other] = members[other], array
        return "header" not in (name, other)
    if what == 1:
        members[name] = array[:-1] if array.ndim else array
    elif what == 2:
        with np.errstate(all="ignore"):
            members[name] = array.astype(chance.choice(["d", "f", "l", "i", "?", "B", "g", ">f8"]))
    elif what == 3:
        del members[name]
    elif what == 4:
        members[name] = np.concatenate([array, array]) if array.ndim else array
    elif array.size:
        members[name] = array = np.array(array, order="C")
        flat = array.reshape(-1)
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(array.size)
            if array.dtype.kind == "f":
                flat[at] = chance.choice([0.0, -1.0, 1e30, np.nan, np.inf, 5e-324])
            else:
                flat[at] = np.array(_number(int(flat[at]), chance) % (1 << 64), np.uint64).astype(array.dtype)
    return name != "header"


# ---- one file, and a batch in a child ---------------------------------------------------


def loaded(data):
    """The tape, or None if the file is refused."""
    from tapegrad.common.errors import TapeFileError
    from tapegrad.transforms.saving.save import from_bytes

    try:
        return from_bytes(data, MAX_BYTES)
    except TapeFileError:
        return None


def replayed(tape, chance):
    """What becomes of a tape: ``"replayed"``, ``"guard"``, ``"refused at replay"`` or ``"no solution"``."""
    import tapegrad as tg
    from tapegrad.common.errors import GradientError, GuardError, StructureError, TapeFileError, UnsupportedFunctionError

    points = [np.asarray(POINT, m.char) if m.shape == (6,) else np.full(m.shape, 0.5, m.char) for m in tape.inputs]
    points = [p * chance.choice([1.0, 1.0, -1.0, 1e3, np.nan]) for p in points]
    try:
        tape(*points)
        tape.value_and_grad(*points)
        if points and chance.random() < 0.2:
            # As a function: run, or recorded, by whoever differentiates it.
            chance.choice([tg.grad, tg.jit, tg.jacfwd])(tape)(*points)
    except (GuardError, GradientError, StructureError, UnsupportedFunctionError):
        return "guard"
    except KeyboardInterrupt:
        # A loop that does not end, as its condition says.
        return "interrupted"
    except TapeFileError:
        return "refused at replay"
    except np.linalg.LinAlgError:
        # What NumPy raises for a matrix that is singular or not positive definite.
        return "no solution"
    return "replayed"


def interrupted(*_):
    """As Ctrl-C, the first time; whoever does not listen ends then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    raise KeyboardInterrupt


#: Bytes before and behind an array; arrays with these around them, and how many bytes are between.
FENCE = 512
FENCED = []


def fence():
    """From here on each array of a replay has a fence around it."""
    from tapegrad.program.workspace import Workspace

    bare = Workspace._own

    def own(self, slot, array):
        around = np.full(array.nbytes + 2 * FENCE, 0xAB, np.uint8)
        FENCED.append((around, array.nbytes))
        bare(self, slot, np.ndarray(array.shape, array.dtype, around.data, FENCE, array.strides))

    Workspace._own = own


def whole():
    """Whether nobody has written to a fence; forgets them."""
    fences = [part for around, nbytes in FENCED for part in (around[:FENCE], around[FENCE + nbytes :])]
    FENCED.clear()
    return all((part == 0xAB).all() for part in fences)


def room(what):
    """Take no more addresses than `ROOM` from here on."""
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM[what], resource.RLIM_INFINITY))


def child(seed, count, folder):
    """Try `count` files; prints the outcomes as JSON.  A crash or a signal ends the process."""
    files = [(Path(folder) / name).read_bytes() for name in sorted(os.listdir(folder))]
    warnings.simplefilter("ignore")
    # Numbers as a native type have loaded LLVM.
    import tapegrad  # noqa: F401

    before = set(sys.modules)
    for data in [*files, *(data[:-1] for data in files)]:
        # What is imported, and kept for all files.
        loaded(data)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    outcomes, tapes = Counter(), []
    room("load")
    for k in range(count):
        print(f"{seed}:{k}", file=sys.stderr, flush=True)
        chance = random.Random(f"{seed}:{k}")
        data = mutated(chance.choice(files), chance)
        signal.alarm(SECONDS)
        tape = loaded(data)
        signal.alarm(0)
        if tape is None:
            outcomes["refused"] += 1
        else:
            tapes.append((k, tape))
    compilers = {"numba", "llvmlite.binding"} & set(sys.modules) - before
    assert not compilers, f"loading has imported {compilers}"
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    room("replay")
    fence()
    for k, tape in tapes:
        print(f"{seed}:{k}, replayed", file=sys.stderr, flush=True)
        signal.signal(signal.SIGALRM, interrupted)
        signal.alarm(LOOPING)
        # A library's call that does not end lets no handler of Python run.
        faulthandler.dump_traceback_later(LOOPING + SECONDS, exit=True)
        outcomes[replayed(tape, random.Random(f"{seed}:{k}"))] += 1
        signal.alarm(0)
        assert whole(), "a replay has written beyond an array"
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(outcomes))


def batch(seed, count, folder):
    """Run one child; returns its outcomes, or raises with the number of the file at which it ended."""
    command = [sys.executable, __file__, "--child", folder, "--seed", str(seed), "--count", str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise AssertionError(f"a child ended with {run.returncode}:\n{run.stderr[-3000:]}")
    return Counter(json.loads(run.stdout.splitlines()[-1]))


def fuzz(count, seed=0, jobs=1):
    """Outcomes of `count` files."""
    seeds = range(seed, seed + -(-count // BATCH))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        for k, data in enumerate(originals()):
            (Path(folder) / f"{k}.npz").write_bytes(data)
        found = list(pool.map(lambda s: batch(s, min(BATCH, count - BATCH * (s - seed)), folder), seeds))
    return sum(found, Counter())


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--child", metavar="FOLDER", help="try files in this process; the folder has those to start from")
    options = parser.parse_args()
    if options.child:
        child(options.seed, options.count, options.child)
    else:
        print(dict(fuzz(options.count, options.seed, options.jobs)))


if __name__ == "__main__":
    main()
