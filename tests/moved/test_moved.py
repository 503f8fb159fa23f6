"""Programs of users of other libraries, brought here with at most five changed lines each: the same values and derivatives."""

from pathlib import Path

import numpy as np
import pytest

from tests.moved import jax_programs, torch_programs

#: Lines of a program that may change, imports among them.
MOST = 5


def changed(text, changes):
    """The program with its lines changed, and how many were."""
    lines, count, missing = [], 0, set(changes)
    for line in text.splitlines():
        bare = line.strip()
        if bare in changes:
            missing.discard(bare)
            count += 1
            line = line[: len(line) - len(line.lstrip())] + changes[bare]
        lines.append(line)
    assert not missing, f"no such lines: {missing}"
    return "\n".join(lines), count


def arrays(found):
    """The numbers and arrays in any containers, dicts in the order of their keys."""
    if isinstance(found, dict):
        found = [found[key] for key in sorted(found)]
    if isinstance(found, (list, tuple)):
        return [array for part in found for array in arrays(part)]
    return [np.asarray(found.detach().numpy() if hasattr(found, "detach") else found, float)]


def outcome(text, name):
    """What `main` of a program returns, as arrays."""
    names = {"__name__": name}
    exec(compile(text, name, "exec"), names)
    return arrays(names["main"]())


def same(original, moved, **tolerance):
    assert len(original) == len(moved) > 0
    for one, other in zip(original, moved):
        np.testing.assert_allclose(other, one, **tolerance)


def test_each_program_is_named_where_one_comes_from():
    page = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
    assert [name for name in (*jax_programs.PROGRAMS, *torch_programs.PROGRAMS) if name not in page] == []


def brought(programs, name):
    """A program as it was, and what it gives here with its lines changed."""
    text, changes = programs.PROGRAMS[name]
    imports = {old: new for old, new in programs.IMPORTS.items() if old in text.splitlines()}
    moved, count = changed(text, imports | changes)
    assert count <= MOST
    return text, outcome(moved, name)


@pytest.mark.parametrize("name", jax_programs.PROGRAMS)
def test_a_program_from_jax(name):
    text, found = brought(jax_programs, name)
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        same(outcome(text, name), found, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", torch_programs.PROGRAMS)
def test_a_program_from_pytorch(name):
    text, found = brought(torch_programs, name)
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        # Both stop near the minimum, after steps of their own.
        close = 1e-6 if "L-BFGS" in name else 1e-9
        same(outcome(text, name), found, rtol=close, atol=close / 100)
    finally:
        torch.set_default_dtype(before)
