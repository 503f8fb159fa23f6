"""Run programs at random beside the reference, in processes of their own.

    python -m tests.compositions FIRST COUNT [--kernel always] [--via numba] [--processes N] [--limit SECONDS] [--faults FILE] [--done FILE]
    python -m tests.compositions --show SEED
    python -m tests.compositions --shrink SEED
    python -m tests.compositions --text FILE      a program as `--show` prints it

A process that ends by a signal, or takes too long, is a fault of the program that it was at; the next one goes on behind it.
`--done FILE` keeps a line for each program; the same command goes on from there, and its tables count them all.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from .features import FEATURES, LATER
from .generator import TRANSFORMS, program_of

ROOT = Path(__file__).resolve().parents[2]


def work(options):
    """A worker: programs `first`, `first + step`, ...; a line of JSON before and after each."""
    import signal

    from .running import outcome
    from .shrinking import as_text

    class Late(BaseException):
        """Not to be taken for an error of the program."""

    def late(*_):
        raise Late

    signal.signal(signal.SIGPROF, late)
    for seed in range(options.first, options.first + options.count * options.step, options.step):
        start = time.process_time()
        program = program_of(seed, options.kernel, options.via)
        if options.matching and not re.search(options.matching, as_text(program)):
            continue
        print(json.dumps({"seed": seed}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, options.limit)
        try:
            found = outcome(program)
        except Late:
            found = {"wrong": [], "refused": [], "compared": 0, "unsettled": 0, "slow": True}  # so many seconds
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found.update(done=seed, features=program.features, stack=program.stack, jit=program.jit, seconds=time.process_time() - start)
        print(json.dumps(found), flush=True)


class Tally:
    """What all programs gave."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.refused, self.pairs, self.depths, self.sums = Counter(), Counter(), Counter(), Counter()
        self.example, self.faults, self.seconds = {}, [], []

    def fault(self, kind, seed, text):
        self.faults.append((kind, seed, text))
        self.sums[kind] += 1
        print(f"{kind} {seed}: {text[:300]}", flush=True)
        if self.options.faults:
            line = {"kind": kind, "seed": seed, "text": text, "kernel": self.options.kernel, "via": self.options.via}
            with open(self.options.faults, "a") as file:
                file.write(json.dumps(line) + "\n")

    def take(self, found, again=False):
        """Count a program; `again` if an earlier run has written it down."""
        with self.lock:
            if self.options.done and not again:
                with open(self.options.done, "a") as file:
                    file.write(json.dumps(found) + "\n")
            self.sums["programs"] += 1
            self.sums["compared"] += found["compared"]
            self.sums["points without a place"] += found["unsettled"]
            self.sums["too slow"] += bool(found.get("slow"))
            self.seconds.append((found["seconds"], found["done"]))
            if self.sums["programs"] % 250 == 0:
                print(f"... {self.sums['programs']} programs, {sum(s for s, _ in self.seconds) / len(self.seconds):.3f} s each", flush=True)
            self.depths[len(found["stack"])] += 1
            for message in found["refused"]:
                self.refused[message] += 1
                self.example.setdefault(message, found["done"])
            if found["wrong"]:
                self.fault("wrong", found["done"], f"{'/'.join(found['stack'])} jit={found['jit']}: call {found['wrong'][0][0]}: {found['wrong'][0][1]}")
            jit, compared = found["jit"] is not None, bool(found["compared"])
            for k, outer in enumerate(found["stack"]):
                for name in [*found["features"], *found["stack"][:k]]:
                    self.pairs[name, outer, jit, compared] += 1

    def cell(self, name, outer, jit):
        """How many programs of a pair were compared; R: all were refused; a star where there were fewer than 30 of either."""
        compared, refused = self.pairs[name, outer, jit, True], self.pairs[name, outer, jit, False]
        return ("R" if refused and not compared else str(compared)) + ("*" if compared + refused < 30 else "")

    def print(self):
        sums = self.sums
        print(f"\n{sums['programs']} programs, {sums['compared']} calls compared; {sums['wrong']} wrong, {sums['crash']} crashes, {sums['hang']} hangs; "
              f"{sums['too slow']} too slow, {sums['points without a place']} points without a place")  # fmt: skip
        self.seconds.sort()
        if self.seconds:
            total = sum(s for s, _ in self.seconds)
            print(f"seconds of processor time: {total:.1f}, mean {total / len(self.seconds):.3f}, median {self.seconds[len(self.seconds) // 2][0]:.3f}; most in seeds {[seed for _, seed in self.seconds[-5:]]}")
        print("depth: " + ", ".join(f"{d}: {n / max(1, sums['programs']):.0%}" for d, n in sorted(self.depths.items())))
        print("\nrefused (calls, message, a seed):")
        for message, count in self.refused.most_common():
            print(f"{count:7} {message} [{self.example[message]}]")
        print("\npairs: programs compared without jit / with jit (R: refused, every one; *: fewer than 30 were drawn); rows stand below columns in the stack")
        outers = list(TRANSFORMS)
        for title, names in (("features", [*FEATURES, *(name for features in LATER.values() for name in features)]), ("transformations", outers)):
            print(f"{title:18}" + "".join(f"{o[:12]:>13}" for o in outers))
            for name in names:
                print(f"{name:18}" + "".join(f"{'/'.join(self.cell(name, o, jit) for jit in (False, True)):>13}" for o in outers))


def supervise(tally, options, first, step, count):
    """Workers one after another, until all programs are done."""
    seed, left = first, count
    while left > 0:
        batch = min(left, options.batch)
        command = [sys.executable, "-m", "tests.compositions", str(seed), str(batch), "--work", "--step", str(step), "--kernel", options.kernel,
                   "--via", options.via, "--limit", str(options.limit)]  # fmt: skip
        errors = Path(f"/tmp/compositions-{os.getpid()}-{first}.err")
        with errors.open("w") as log:
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
        at, done, hung = seed, 0, []
        timer = None

        def kill(worker=worker, hung=hung):
            hung.append(True)
            worker.kill()

        for line in worker.stdout:
            if timer:
                timer.cancel()
            if not line.startswith("{"):
                continue
            found = json.loads(line)
            if "done" in found:
                done += 1
                tally.take(found)
            else:
                at = found["seed"]
            timer = threading.Timer(max(300.0, 30 * options.limit), kill)
            timer.start()
        if timer:
            timer.cancel()
        if worker.wait() and done < batch:
            with tally.lock:
                tally.fault("hang" if hung else "crash", at, f"code {worker.returncode}; {errors.read_text()[-300:]}")
            done += 1
        errors.unlink(missing_ok=True)
        seed, left = seed + done * step, left - done


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.compositions", description=__doc__.split("\n")[0])
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--kernel", default="", choices=["", "never", "auto", "always"], help="tg.config.kernel; by default never, and auto in some programs")
    parser.add_argument("--via", default="", choices=["", "numba"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=500, help="programs for each process")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of processor time for a program")
    parser.add_argument("--faults", help="a file to which a line of JSON is added for each fault")
    parser.add_argument("--done", help="a file with a line of JSON for each program: a campaign that was cut off goes on behind it")
    parser.add_argument("--show", type=int)
    parser.add_argument("--shrink", type=int)
    parser.add_argument("--text")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--matching", default="", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options)
    if options.show is not None:
        from .shrinking import as_text

        return print(as_text(program_of(options.show, options.kernel, options.via)))
    if options.shrink is not None:
        from .shrinking import as_text, shrunk

        return print(as_text(shrunk(program_of(options.shrink, options.kernel, options.via), options.limit)))
    if options.text:
        from .running import outcome
        from .shrinking import of_text

        return print(json.dumps(outcome(*of_text(Path(options.text).read_text())), indent=1))
    tally = Tally(options)
    for found in map(json.loads, Path(options.done).read_text().splitlines() if options.done and Path(options.done).exists() else ()):
        tally.take(found, again=True)
    before, n, threads = {seed for _, seed in tally.seconds}, options.processes, []
    for j in range(n):
        seeds = range(options.first + j, options.first + options.count, n)
        seeds = seeds[max((k + 1 for k, seed in enumerate(seeds) if seed in before), default=0) :]
        threads.append(threading.Thread(target=supervise, args=(tally, options, seeds.start, n, len(seeds))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.print()
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
