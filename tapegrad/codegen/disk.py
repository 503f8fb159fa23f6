"""Files of compiled code: written whole or not at all, read by many processes at once, and bounded in bytes together.

What is in a file is its reader's to judge: a disk may lose bytes and flip them.  Several processes that want the same code, and
find none, make it one after another, so that the first one makes it and the others read it.  When there is too much, what
has not been used for longest goes: the time of a file's last change is that of its use, to a day.
"""

import os
import stat
import sys
import threading
import time
from contextlib import contextmanager, suppress

from ..common import config
from ..common.uninterrupted import uninterrupted
from ..common.waiting import waiting

#: Into how many folders names are spread: one of them that has more than its share tells that there may be too much.
FOLDERS = 256
#: Seconds after which a file that is used is marked as used again, and after which a process no longer waits for another one.
_DAY, _PATIENCE = 86_400, 20.0
#: Of each thread, whether it has a folder for itself.
_OWN = threading.local()


def read(path):
    """The bytes of a file, or None if it cannot be read, or another user may have written it."""
    try:
        if not all(map(_trusted, map(os.stat, [path.parent, path.parents[1], path.parents[2]]))):
            config.warn_no_cache(str(path.parents[2]), "another user owns it, or may write to it")
            return None
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read() if _trusted(status) else None
    except OSError:
        return None
    if time.time() - status.st_mtime > _DAY:
        # On a disk that is only read nothing is dropped, either.
        with suppress(OSError):
            os.utime(path)
    return data


def _trusted(status):
    """Whether only this user, root, and who is in their groups can have written a file, or put files into a folder."""
    if not hasattr(os, "geteuid"):
        return True
    others = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return status.st_uid in (0, os.geteuid()) and not others


def write(path, data):
    """Write a file so that no reader can see half of it; what cannot be written is said once."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        config.warn_no_cache(str(config.cache_dir()), error.strerror or str(error))
    else:
        _bound(path.parent)


def _bound(folder):
    """Drop what was not used for longest, if there may be too much since something was written into this folder."""
    if sum(size for _, size, _ in files(folder)) > config.cache_bytes / FOLDERS:
        oldest = sorted(files(config.cache_dir() / "objects"))
        total = sum(size for _, size, _ in oldest)
        if total > config.cache_bytes:
            for _, size, path in oldest:
                if total <= 0.75 * config.cache_bytes:
                    break
                # Another process may have dropped it, too.
                with suppress(OSError):
                    os.unlink(path)
                total -= size


def files(folder):
    """The files in a folder and the folders in it: when they were used, how large they are, and where."""
    for where, _, names in os.walk(folder):
        for name in names:
            # It may be gone already.
            with suppress(OSError):
                status = os.stat(path := os.path.join(where, name))
                yield status.st_mtime, status.st_size, path


def clear():
    """Remove all files that are kept: how many, their bytes, and pairs (path, reason) of those that stay."""
    count, nbytes, failed = 0, 0, []
    for _, size, path in list(files(config.cache_dir() / "objects")):
        try:
            os.unlink(path)
        except OSError as error:
            failed.append((path, error.strerror or str(error)))
        else:
            count, nbytes = count + 1, nbytes + size
    return count, nbytes, failed


@contextmanager
def alone(folder):
    """Let no other process, and no other thread, be in here with this folder at the same time.

    One that stands still is not waited for for ever, and where the system or the file system has no such locks all go on at once:
    what they make is the same.
    """
    handle = None
    # Making code may need other code, for which this thread does not wait then.
    if sys.platform != "win32" and not config.portable and not getattr(_OWN, "folder", None):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
    if handle is None:
        yield
        return
    _OWN.folder = folder
    try:
        with waiting("processes", "waiting for another process, which compiles the same"):
            _wait(handle)
        yield
    finally:
        _OWN.folder = None
        # The lock goes with it, as it does when the process is killed.
        os.close(handle)


def _wait(handle):
    """Lock an open folder unless another process has it: Ctrl-C is not held up by other processes."""
    import fcntl

    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and not uninterrupted.awaited:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return
        else:
            return
