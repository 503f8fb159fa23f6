"""What type checkers are told of the public names is true, complete, and can be wrong.

`user_code` is a program with annotations: it runs here, and mypy checks it (with the package, as
configured in pyproject.toml; CI does so by itself).
"""

import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import functions, typed_methods
from tapegrad.array.differentiable import Differentiable
from tapegrad.nn.names import MADE, Method
from tapegrad.tools.commands import reference
from tests.annotations import held, user_code
from tests.every import every

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", user_code.ALL, ids=lambda part: part.__name__)
def test_results_are_of_the_types_that_were_said(part):
    # The module's own annotations are text; what `assert_type` is given are types.
    part()


def test_a_wrong_type_is_found_at_run_time():
    for value, kind in ((1.0, int), (np.ones(2, np.float32), user_code.Array), ((1.0, 2.0), tuple[float]), ({"a": 1}, list[str]), (None, float | int)):
        with pytest.raises(AssertionError):
            held.assert_type(value, kind)


def public_functions():
    for title, names in reference.public(tg):
        for name, thing in names:
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                if inspect.isfunction(thing.__init__):
                    yield f"{title}.{name}", thing.__init__
                for attribute, method in vars(thing).items():
                    if inspect.isfunction(method) and not attribute.startswith("_"):
                        yield f"{title}.{name}.{attribute}", method
                    elif isinstance(method, property):
                        yield f"{title}.{name}.{attribute}", method.fget
            elif inspect.isfunction(thing):
                yield f"{title}.{name}", thing


@every("name, function", list(public_functions()))
def test_a_public_function_is_annotated(name, function):
    signature = inspect.signature(function)
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    assert all(p.annotation is not p.empty for p in given), f"{name}{signature}"
    assert signature.return_annotation is not signature.empty, f"{name}{signature}"


def test_names_of_the_namespace_that_are_functions_made_by_factories_say_what_they_return():
    for name in ("sum", "var", "softmax", "zeros", "ones_like"):
        assert inspect.signature(getattr(tg, name)).return_annotation == "Tensor"


def shape_of(function):
    """Names, kinds and defaults of the parameters after `self`."""
    return [(p.name, p.kind, p.default) for p in list(inspect.signature(function).parameters.values())[1:]]


def told():
    private = re.compile(r"_[^_]")
    return {n: f for n, f in vars(typed_methods.Methods).items() if isinstance(f, (types.FunctionType, property)) and not private.match(n)}


def put_on_traced():
    """What other modules put on `Differentiable`."""
    return {
        n: f for n, f in vars(Differentiable).items()
        if inspect.isfunction(f) and f.__module__ != "tapegrad.array.differentiable" and n not in functions.INNER
        or isinstance(f, property) and f.fget.__module__ != "tapegrad.array.differentiable" or isinstance(f, Method) and n in MADE["t"]
    }  # fmt: skip


def test_type_checkers_are_told_of_every_method_of_tensors():
    apart = set(told()) ^ set(put_on_traced())
    assert not apart, f"typed_methods.py tells type checkers otherwise: {apart}"


@every("name", sorted(set(told()) & set(put_on_traced())))
def test_a_method_has_the_parameters_that_type_checkers_are_told(name):
    method, found = told()[name], put_on_traced()[name]
    if isinstance(method, property) or isinstance(found, Method):
        assert type(found) is type(method) or shape_of(method) == shape_of(lambda self, *args, **kwargs: None)
        return
    expected = shape_of(method)
    if any(kind is inspect.Parameter.POSITIONAL_ONLY for _, kind, _ in expected):
        # Operators and functions of one more operand: by position, so that the name does not matter.
        assert len(shape_of(found)) == len(expected)
    else:
        assert shape_of(found) == expected


def checked_by_mypy(*files, folder):
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(folder), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


WRONG = """
import numpy as np
import tapegrad as tg

def f(x: float) -> float:
    return x * x

a: str = tg.grad(f)(1.0)  # error
b: int = tg.value_and_grad(f)(1.0)  # error
c: str = tg.tensor([1.0]) + 1.0  # error
tg.grad(f, kernel="always")  # error
tg.jit(f, kernel="sometimes")  # error
tg.jacobian(f, mode="sideways")  # error
tg.tensor([1.0]).backwards()  # error
tg.tensor([1.0]).sum(axis="rows")  # error
tg.optim.SGD([tg.Parameter([1.0])], learning_rate=0.1)  # error
tg.optimize.minimize(f, 1.0).success + "yes"  # error
tg.hessian(f)(1.0).shape  # error
tg.grad(f)(1.0) + 1.0
tg.grad(lambda x: x * x)(1.0).anything
"""


@pytest.mark.long
def test_mypy_finds_no_mistake_in_the_program_and_each_in_a_wrong_one(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    found = checked_by_mypy(ROOT / "tests/annotations/user_code.py", folder=tmp_path / "cache")
    assert found.returncode == 0, found.stdout
    found = checked_by_mypy(tmp_path / "wrong.py", folder=tmp_path / "cache")
    lines = {int(line) for line in re.findall(r"wrong\.py:(\d+): error", found.stdout)}
    assert lines == {k for k, line in enumerate(WRONG.split("\n"), 1) if line.endswith("# error")}, found.stdout
