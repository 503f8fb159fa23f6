"""Machine code that comes with the package is taken where it fits and is whole; elsewhere a process makes its own, and says nothing."""

import ctypes
import os
import re
from pathlib import Path

import pytest

import tapegrad as tg
from tapegrad.codegen import code, host, llvm, pack
from tapegrad.common.errors import InternalError
from tapegrad.rules import ROWS
from tapegrad.tools import ahead

ANSWER = "define i64 @answer() {\n  ret i64 %d\n}\n"


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A function that writes a pack of levels, from which code is taken from then on; it gives the path."""
    monkeypatch.setattr(pack, "FILE", tmp_path / "ahead.bin")
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path / "cache"))

    def written(levels):
        pack.write(pack.FILE, levels)
        pack.codes.cache_clear()
        return pack.FILE

    yield written
    pack.codes.cache_clear()


def entry(key, answer):
    """What a pack has for a key: digest, and code that gives the answer."""
    digest = code.digest_of(key)
    return digest, code.sealed(digest, llvm.object_code(ANSWER % answer))


def answered(key, own=2):
    """What the code for a key answers, and whether it was compiled now (to answer `own`)."""
    before = code.COUNTS["compiled"]
    (address,) = code.machine_code(key, lambda: ANSWER % own, ["answer"])
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)(), code.COUNTS["compiled"] - before


def said(cpu=None, features=None, system=None, vectors=None):
    """What a pack says of a level: of this processor but for what is given."""
    mine = pack.level().split("\t")
    return "\t".join(a if b is None else b for a, b in zip(mine, (cpu, features, system, vectors)))


def test_what_is_in_a_pack_is_not_compiled(packed):
    packed({pack.level(): dict(entry(f"key {k}", k) for k in range(20))})
    assert [answered(f"key {k}") for k in range(20)] == [(k, 0) for k in range(20)]
    assert answered("key 20") == (2, 1)
    assert not list(Path(os.environ["TAPEGRAD_CACHE_DIR"]).rglob("*.o"))[1:]


def test_other_sources_are_another_key(packed, monkeypatch):
    packed({pack.level(): dict([entry("key", 1)])})
    assert answered("key") == (1, 0)
    monkeypatch.setattr(code, "package_hash", lambda: "of other sources")
    assert answered("key") == (2, 1)


@pytest.mark.parametrize("what, fits", [
    ({}, True), ({"features": ""}, True), ({"vectors": ""}, True), ({"cpu": "generic", "features": ""}, True),
    ({"cpu": "another"}, False), ({"features": "+of-the-next-decade"}, False), ({"features": "-of-the-next-decade"}, True),
    ({"vectors": "_ZGVdN4v_nothing"}, False), ({"system": "sparc-sun-solaris"}, False),
])  # fmt: skip
def test_only_what_this_processor_runs_fits(packed, what, fits):
    packed({said(**what): dict([entry("key", 1)])})
    assert answered("key") == ((1, 0) if fits else (2, 1))


def test_the_first_level_that_fits_is_taken(packed):
    packed({said(features="+of-the-next-decade"): dict([entry("key", 1)]), pack.level(): dict([entry("key", 3)]), said(features=""): dict([entry("key", 4)])})
    assert answered("key") == (3, 0)


def test_every_level_is_known_to_llvm_and_the_best_is_first(monkeypatch):
    levels = host.levels_here()
    wanted = [host.enabled(host.LEVELS[level]) for level in levels]
    assert levels and all(a > b for a, b in zip(wanted, wanted[1:]))
    for level in levels:
        monkeypatch.setattr(llvm, "target", lambda level=level: (level, host.LEVELS[level], host.target()[2]))
        assert llvm.new_target_machine(3).emit_object(llvm.optimise(ANSWER % 1, llvm.new_target_machine(3)))


def test_a_pack_of_which_a_bit_is_flipped_gives_right_code_or_none(packed):
    key, sealed = "key", entry("key", 1)
    other = entry("other", 5)
    file = packed({said(features="+of-the-next-decade"): dict([other, sealed]), pack.level(): dict([other, sealed])})
    whole, digest, right = file.read_bytes(), sealed[0], sealed[1][32:]
    lost = 0
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        pack.codes.cache_clear()
        taken = code._opened(digest, pack.packed(digest))
        assert taken in (None, right), at
        lost += taken is None
    assert lost > len(right) // 7, "what is flipped in its own code or in front of it is seen"
    assert answered(key)[0] in (1, 2)


def test_a_pack_that_is_cut_off_gives_right_code_or_none(packed):
    digest, sealed = entry("key", 1)
    file = packed({pack.level(): {digest: sealed}})
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        pack.codes.cache_clear()
        assert code._opened(digest, pack.packed(digest)) is None
    assert answered("key") == (2, 1)
    file.write_bytes(whole)
    pack.codes.cache_clear()
    assert answered("key") == (1, 0)


def test_a_pack_that_cannot_be_read_is_none(packed):
    file = packed({pack.level(): dict([entry("key", 1)])})
    file.unlink()
    file.mkdir()
    pack.codes.cache_clear()
    assert answered("key") == (2, 1)


# ---- what may be in one -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NRT_incref", "numba_unpickle", "PyList_Insert", "PyUnicode_AsUTF8", "_PyObject_New", "exp_of_mine", "__svml_exp4"])
def test_code_that_refers_to_something_else_is_refused(name):
    text = f"declare void @{name}()\ndefine void @f() {{\n  call void @{name}()\n  ret void\n}}\n"
    with pytest.raises(InternalError, match=f"refers to '{name}'"):
        llvm.object_code(text)
    with pytest.raises(InternalError, match="refers to"):
        llvm.object_code(f"@{name} = external global i64\ndefine i64 @f() {{\n  %x = load i64, ptr @{name}\n  ret i64 %x\n}}\n")


def test_everything_is_on_the_list():
    names = [name for name, _ in ahead.everything()]
    assert len(set(names)) == len(names)
    package = Path(tg.__file__).parent
    for path in package.rglob("*.py"):
        if re.search(r"^\s*@compiled", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert ".".join(("tapegrad", *path.relative_to(package).with_suffix("").parts)) in names
    assert {f"loops of {row.name}" for row in ROWS if row.elementwise} <= set(names)
    assert sum("switch" in name for name in names) == 4
