"""Importing the package is light: nothing is compiled, and what compiles is not even imported."""

import json
import subprocess
import sys

import pytest

from tapegrad.common import config


def fresh(program, **environment):
    import os

    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def modules_after(program, **environment):
    return set(json.loads(fresh(f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))", **environment)))


def test_a_free_threaded_python_is_refused_in_one_sentence():
    program = (
        "import sysconfig; asked = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else asked(name)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        import tapegrad\n"
        "    except ImportError as error:\n"
        "        print(error)"
    )
    said = "tapegrad counts references and needs a Python with the global interpreter lock; this is a free-threaded build, so use the ordinary one."
    assert fresh(program) == 2 * f"{said}\n"


def test_neither_numba_nor_scipy_is_imported_and_llvmlite_only_to_load_the_native_number():
    heavy = {"numba", "scipy", "torch", "matplotlib", "pytest"}
    fresh("import tapegrad")
    assert not heavy & {name.partition(".")[0] for name in modules_after("import tapegrad")}
    assert not {*heavy, "llvmlite"} & {name.partition(".")[0] for name in modules_after("import tapegrad", TAPEGRAD_NATIVE="never")}


def test_gradients_do_not_import_numba_once_their_code_is_in_the_cache():
    program = (
        "import numpy as np, tapegrad as tg; x = tg.tensor([1.0, 2.0], requires_grad=True); np.sum(np.sin(x) * x[0]).backward();"
        "g = tg.grad(lambda x: np.sum(np.exp(x) * x[1])); g(np.ones(2)); g(np.zeros(2))"
    )
    modules_after(program)
    assert "numba" not in modules_after(program)


def test_recording_and_printing_do_not_import_numba():
    program = "import tapegrad as tg; x = tg.tensor([1.0], requires_grad=True); str((x * x + 1.0).sum())"
    assert not {"numba", "scipy"} & modules_after(program)


def test_the_mirrors_of_scipy_import_it_when_they_need_it():
    program = "import tapegrad.scipy; from tapegrad.scipy import stats; stats.norm"
    assert not {"numba", "scipy"} & modules_after(program)


def test_nothing_is_compiled_or_written_by_the_import(tmp_path):
    fresh("import tapegrad", TAPEGRAD_CACHE_DIR=str(tmp_path / "cache"), TAPEGRAD_NATIVE="auto")
    assert not (tmp_path / "cache").exists()
    counts = fresh(
        "import tapegrad\nfrom tapegrad.codegen import code, compile\nprint(compile.COUNTS, code.COUNTS)",
        TAPEGRAD_CACHE_DIR=str(tmp_path / "cache"), TAPEGRAD_NATIVE="auto",
    )
    assert counts.split() == "{'compiled': 0, 'loaded': 0} {'compiled': 0, 'loaded': 0}".split()


@pytest.mark.skipif(config.portable, reason="there is no native number")
def test_the_native_number_is_at_hand_from_the_second_process_on(tmp_path):
    """The first one that differentiates compiles it, so that no import has to."""
    program = "import tapegrad as tg; from tapegrad.interpreter.fields import numbers; print(numbers is not None); tg.grad(lambda x: x * x)(1.0)"
    assert [fresh(program, TAPEGRAD_CACHE_DIR=str(tmp_path / "cache"), TAPEGRAD_NATIVE="auto") for _ in range(2)] == ["False\n", "True\n"]


def test_the_import_prints_and_warns_nothing():
    program = "import warnings; warnings.simplefilter('error'); import tapegrad"
    assert fresh(program) == ""


def test_names_of_the_package():
    import tapegrad as tg

    assert tg.__version__.count(".") == 2
    for name in "tensor Tensor Parameter Tape no_grad autograd errors nn info zeros randn manual_seed".split():
        assert hasattr(tg, name)
