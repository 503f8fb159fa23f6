"""Printed messages lead to the paragraph about their class, in the repository and in an installed wheel."""

import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import __main__ as command
from tapegrad.common import errors
from tapegrad.tools.commands.explanations import explanation, names
from tests.every import every

ROOT = Path(__file__).parents[3]
CLASSES = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, errors.TapegradError)]


@every("cls", CLASSES)
def test_a_class_is_explained_under_the_name_that_its_message_ends_with(cls):
    error = cls("something happened")
    assert error.message == "something happened"
    text, _, pointer = str(error).partition(" [tapegrad explain ")
    assert text == "something happened" and pointer == f"{cls.__name__}]"
    found = explanation(pointer[:-1])
    if cls is errors.TapegradError:
        assert "is a class of `tapegrad.errors`" in found
    else:
        assert found.startswith(f"### {cls.__name__}\n\n") and f"errors.{cls.__name__}: " in found and "Right: " in found
    assert found.count("\n### ") == 0 and "\n## " not in found, "of one class only"


def test_there_is_an_explanation_for_each_class_and_no_other():
    assert sorted(names()) == sorted(cls.__name__ for cls in CLASSES)


def test_a_message_of_several_lines_is_followed_by_a_line():
    assert str(errors.CheckError("a table\nof lines")).endswith("of lines\n[tapegrad explain CheckError]")
    assert str(errors.CheckError()) == ""


def test_a_class_derived_by_users_has_the_explanation_of_its_base():
    class Mine(errors.ShapeError):
        pass

    assert str(Mine("what")) == "what [tapegrad explain ShapeError]"


def test_an_error_that_was_pickled_points_once():
    error = pickle.loads(pickle.dumps(errors.DtypeError("what")))
    assert str(error) == "what [tapegrad explain DtypeError]"


def test_an_error_that_another_one_quotes_points_once(tmp_path):
    path = tmp_path / "tape.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(errors.TapeFileError) as caught:
        tg.load_tape(path)
    assert str(caught.value).count("[tapegrad explain") == 1


def test_what_is_raised_points_to_its_class():
    for cls, program in (
        (errors.NonScalarOutputError, lambda: tg.tensor([1.0, 2.0], requires_grad=True).backward()),
        (errors.LeaveTapeError, lambda: float(tg.tensor(1.0, requires_grad=True))),
        (errors.StructureError, lambda: tg.grad(lambda x: None)(1.0)),
        (errors.OptionError, lambda: tg.grad(np.sum, kernel="sometimes")(1.0)),
        (errors.ShapeError, lambda: tg.compile(np.sum, np.zeros(2))(np.zeros(3), np.zeros(3))),
    ):
        with pytest.raises(cls) as caught:
            program()
        assert str(caught.value).endswith(f" [tapegrad explain {cls.__name__}]")


def test_classes_explain_themselves(capsys):
    errors.GuardError.explain()
    assert capsys.readouterr().out.strip() == explanation("GuardError")
    errors.GuardError("what").explain()
    assert capsys.readouterr().out.strip() == explanation("GuardError")


@pytest.mark.parametrize("name", ["GuardError", "guard", "guarderror", "tapegrad.errors.GuardError"])
def test_the_command_explains_a_class(name, capsys):
    assert command.main(["explain", name]) == 0
    assert capsys.readouterr().out.strip() == explanation("GuardError")


def test_the_command_lists_the_classes(capsys):
    assert command.main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == names()


def test_the_command_knows_what_was_meant(capsys):
    assert command.main(["explain", "GardError"]) == 2
    assert "did you mean GuardError" in capsys.readouterr().err


@pytest.mark.long
def test_a_wheel_explains_its_errors_and_says_that_it_has_types(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    if done.returncode and "setuptools" in done.stderr:
        pytest.skip("setuptools is not installed")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("tapegrad/common/errors.md") == (ROOT / "docs" / "errors.md").read_bytes()
        assert archive.read("tapegrad/nn/torch_names.md") == (ROOT / "docs" / "torch_names.md").read_bytes()
        assert "tapegrad/py.typed" in archive.namelist()
