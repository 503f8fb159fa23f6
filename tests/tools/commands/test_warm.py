"""``python -m tapegrad warm``, and what `tg.info` says of the disk."""

import re
import sys

import pytest

import tapegrad as tg
from tapegrad.__main__ import main
from tapegrad.codegen import code
from tapegrad.common import config
from tapegrad.kernel.kernel import COUNTS as KERNELS
from tapegrad.tools import ahead, installation


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Two parts of what is to be compiled, and an empty cache."""
    made = []
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "quiet", False)
    monkeypatch.setattr(code, "COUNTS", {"compiled": 0, "loaded": 0})

    def make(name):
        text = f"define i64 @f{name}() {{ ret i64 {len(made)} }}"
        made.append(code.machine_code(f"test {name}", lambda: text, [f"f{name}"]))

    monkeypatch.setattr(ahead, "everything", lambda: iter([(name, lambda name=name: make(name)) for name in "ab"]))
    return made


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_everything_is_compiled_and_a_line_on_terminals_says_how_far_it_is(parts, capsys, monkeypatch, installed, terminal, tmp_path):
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr(installation, "find_spec", lambda name: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert main(["warm"]) == 0 and len(parts) == 2
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"2 compiled, 0 there before, \d+ s: {re.escape(str(tmp_path))}\n", out)
    assert bool(err) == terminal
    if terminal:
        assert "2/2 [" in err if installed else err == f"\r0/2 {'a':60}\r1/2 {'b':60}\n"
    assert main(["warm"]) == 0 and "2 compiled, 2 there before" in capsys.readouterr().out


def test_info_says_what_is_on_disk(parts, tmp_path):
    assert tg.info()["on_disk"] == "0 files of functions, 0 bytes; 0 files of kernels, 0 bytes"
    main(["warm"])
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.o"))
    assert tg.info()["on_disk"] == f"2 files of functions, {size:,} bytes; 0 files of kernels, 0 bytes"
    before = KERNELS["compiled"]
    tg.grad(lambda x: x * x * 1.0625).kernel(2.0)
    (kernel,) = tmp_path.rglob("*.kernel")
    assert KERNELS["compiled"] == before + 1 and tg.info()["on_disk"].endswith(f"; 1 files of kernels, {kernel.stat().st_size:,} bytes")
