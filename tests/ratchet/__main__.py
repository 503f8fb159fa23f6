"""What is held, and how it has changed.

    python -m tests.ratchet              # all numbers that are not what was held, with the change
    python -m tests.ratchet --update     # hold what is there now
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from .size import core

HELD = Path(__file__).with_name("held.json")
#: How much more or less a number may be than the one that is held.
MARGIN = 0.03


def counted():
    """All numbers, as they are now; those of calls in a process of their own, as a user has it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TAPEGRAD_") or name == "TAPEGRAD_CACHE_DIR"}
    environment |= {"TAPEGRAD_QUIET": "1", "TAPEGRAD_THREADS": "1"}
    command = [sys.executable, "-m", "tests.ratchet.calls"]
    ended = subprocess.run(command, env=environment, cwd=HELD.parents[2], capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    lines, tokens = core()
    return {"core: lines": lines, "core: tokens": tokens} | json.loads(ended.stdout)


def held():
    """The numbers that are held."""
    return json.loads(HELD.read_text(encoding="utf-8"))


def changes(held, now, margin=MARGIN):
    """A line for each number that is more or less than the one that is held by more than the margin, or that only one of the two has."""
    lines = [f"{name}: {held.get(name)} -> {now.get(name)}" for name in [*held, *now] if name not in held or name not in now]
    for name in held.keys() & now.keys():
        if abs(now[name] - held[name]) > margin * held[name]:
            lines.append(f"{name}: {held[name]} -> {now[name]} ({100 * (now[name] / max(held[name], 1) - 1):+.1f} %)")
    return sorted(lines)


if __name__ == "__main__":
    now = counted()
    print("\n".join(changes(held() if HELD.exists() else {}, now, 0.0)) or "nothing has changed")
    if "--update" in sys.argv:
        HELD.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
