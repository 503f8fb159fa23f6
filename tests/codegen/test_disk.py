"""Files of compiled code: bounded in bytes, made by one process while others wait, and whatever happens to them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tapegrad.codegen import code, disk
from tapegrad.common import config
from tapegrad.common.uninterrupted import uninterrupted
from tests.codegen.on_disk import files, kept_here  # noqa: F401

needs_locks = pytest.mark.skipif(config.portable, reason="there are no locks on folders then")


def in_all():
    return sum(path.stat().st_size for path in files(config.cache_dir()))


def make(key, content=b"x" * 1000):
    counts = {"compiled": 0, "loaded": 0}
    made = code.kept(key, lambda: content, counts)
    assert made == content
    return counts["compiled"]


def used(days):
    """The last use of what is kept, and of nothing newer, was some days ago."""
    for path in files(config.cache_dir()):
        if path.stat().st_mtime > time.time() - 10:
            os.utime(path, times=(time.time() - 86_400 * days,) * 2)


def test_there_are_never_more_bytes_than_may_be(kept_here, monkeypatch):  # noqa: F811
    monkeypatch.setattr(config, "cache_bytes", 30_000)
    for k in range(100):
        assert make(f"number {k}") == 1 and in_all() <= 30_000
    assert in_all() > 15_000
    assert make("number 99") == 0


def test_what_was_not_used_for_longest_goes(kept_here, monkeypatch):  # noqa: F811
    for name in ("old", "older", "old and used"):
        make(name)
        used({"old": 3, "older": 5, "old and used": 9}[name])
    assert make("old and used") == 0  # it is read
    monkeypatch.setattr(config, "cache_bytes", 4000)
    make("another")
    assert len(files(config.cache_dir())) == 2  # three quarters of the bytes are less than three files
    assert [make(name) for name in ("old and used", "another")] == [0, 0]


def test_nothing_is_kept_where_nothing_may_be(kept_here, monkeypatch):  # noqa: F811
    monkeypatch.setattr(config, "cache_bytes", 0)
    assert [make("one"), make("one")] == [1, 1] and not files(config.cache_dir())


def test_the_number_of_bytes_is_one_of_the_environment():
    said = subprocess.run(
        [sys.executable, "-c", "from tapegrad.common import config; print(config.cache_bytes)"],
        env=os.environ | {"TAPEGRAD_CACHE_BYTES": "12345"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "12345\n"
    said = subprocess.run([sys.executable, "-c", "import tapegrad"], env=os.environ | {"TAPEGRAD_CACHE_BYTES": "1GB"}, capture_output=True, text=True)
    assert said.stderr.endswith("ValueError: TAPEGRAD_CACHE_BYTES is '1GB'; give a number of bytes, as 1000000000\n")


def test_a_file_in_the_place_of_the_folder_is_survived(kept_here, caplog):  # noqa: F811
    config.warn_no_cache.cache_clear()
    kept_here.mkdir()
    (kept_here / "objects").write_text("in the way")
    assert [make("one"), make("one"), make("another")] == [1, 1, 1]
    assert len(caplog.records) == 1 and (kept_here / "objects").read_text() == "in the way"


@pytest.mark.parametrize("where", ["read", "written", "both"])
def test_a_disk_that_fails_is_survived(kept_here, monkeypatch, caplog, where):  # noqa: F811
    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    config.warn_no_cache.cache_clear()
    make("before")
    if where != "written":
        monkeypatch.setattr("builtins.open", fails)
    if where != "read":
        monkeypatch.setattr(os, "replace", fails)
    assert make("before") == (where != "written") and make("now") == 1 and make("more") == 1
    said = ["No space left on device" in record.getMessage() for record in caplog.records if record.name == "tapegrad"]
    assert said == ([] if where == "read" else [True])
    monkeypatch.undo()
    assert not [path for path in files(kept_here) if path.suffix not in (".o", ".kernel", ".njit")]


@needs_locks
def test_what_several_threads_want_is_made_once(kept_here):  # noqa: F811
    made = []

    def build():
        made.append(None)
        time.sleep(0.05)
        return b"code"

    def want():
        assert code.kept("wanted by several", build, {"compiled": 0, "loaded": 0}) == b"code"

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_code_may_need_other_code_of_the_same_folder(tmp_path):
    with disk.alone(tmp_path), disk.alone(tmp_path):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from tapegrad.codegen import disk
with disk.alone(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


@needs_locks
@pytest.mark.parametrize("killed", [True, False])
def test_nobody_waits_for_ever_for_another_process(tmp_path, monkeypatch, killed):
    monkeypatch.setattr(disk, "_PATIENCE", 600.0 if killed else 0.3)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "in\n"
        if killed:
            holder.kill()
        with disk.alone(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@needs_locks
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_who_presses_ctrl_c_does_not_wait_for_another_process(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_PATIENCE", 600.0)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("interrupted"))
    try:
        assert holder.stdout.readline() == "in\n"
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with uninterrupted:
            with disk.alone(tmp_path):
                assert not seen
        timer.join()
        assert seen == ["interrupted"]
    finally:
        signal.signal(signal.SIGINT, before)
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are not looked at there")
@pytest.mark.parametrize("which", ["file", "folder", "objects", "directory"])
def test_what_others_may_have_written_is_not_loaded(kept_here, monkeypatch, which):  # noqa: F811
    make("one")
    (path,) = files(config.cache_dir())
    place = {"file": path, "folder": path.parent, "objects": path.parents[1], "directory": path.parents[2]}[which]
    number, me = place.stat().st_ino, os.geteuid()

    def seen(function, uid, mode):
        def status(*args, **kwargs):
            found = function(*args, **kwargs)
            changed = [found.st_mode | mode, *found[1:4], uid, *found[5:]]
            return os.stat_result(changed) if found.st_ino == number else found

        return status

    # Of whom it is, who may write to it besides, and whether it is loaded; the sticky bit is of folders.
    cases = [(me, 0, 1), (0, 0, 1), (me, 0o020, 1), (me + 1, 0, 0), (me, 0o002, 0), (me + 1, 0o1002, 0), (me, 0o1002, 1)]
    for uid, mode, loaded in cases[: 6 if which == "file" else 7]:
        counts = {"compiled": 0, "loaded": 0}
        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", seen(os.stat, uid, mode))
            patched.setattr(os, "fstat", seen(os.fstat, uid, mode))
            code.kept("one", lambda: b"x" * 1000, counts)
        assert counts == {"compiled": 1 - loaded, "loaded": loaded}, (uid, mode)
        # It was written anew.
        number = place.stat().st_ino
