"""Printed tracebacks: the user's lines and the message, without the frames of this package between them.

Frames are left out where a traceback is printed, by `sys.excepthook`, by that of threads and by IPython.  So an exception
that is caught costs nothing and has all of its frames, and ``pdb.pm()`` begins at the user's line.  ``TAPEGRAD_FULL_TRACEBACK=1`` leaves
everything as it is, and so does an `InternalError`, which is for those who maintain the package.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from .errors import InternalError, TapegradError
from .registry import registry

#: Frames whose code lies here are tapegrad's own.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: Packages whose functions call tensors, and the standard library: below the user's line their frames say nothing of an error of ours.
_LIBRARIES, _STANDARD = ("numpy", "scipy", "numba", "pandas"), os.path.dirname(os.__file__) + os.sep


@contextlib.contextmanager
def shortened(error: BaseException | None) -> Iterator[None]:
    """While an exception is printed: without the exceptions before it where a message of ours says what they mean; `shorten` it."""
    kept = None
    # Whatever happens here, the exception is printed.
    with contextlib.suppress(Exception):
        if shorten(error) or isinstance(error, TapegradError) and not isinstance(error, InternalError):
            kept, error.__cause__ = (error.__cause__, error.__suppress_context__), None
    yield
    if kept:
        error.__cause__, error.__suppress_context__ = kept


def shorten(error: BaseException | None) -> bool:
    """Leave this package's frames out of the traceback of an exception, and of those that it came of; whether a note says what to write.

    Nothing is left out where only this package's frames would be left, as of its commands.
    """
    first, seen, waiting, better = error, set(), [error], registry.later.clearer(error)
    if better is not None and (said := getattr(better, "message", str(better))) not in getattr(error, "__notes__", ()):
        # NumPy puts its own words in front ("setting an array element with a sequence."): what to write comes last.
        error.add_note(said)
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        waiting += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
        if not isinstance(error, InternalError):
            error.__traceback__ = _shortened(error, error is first)
    return better is not None


def _shortened(error, first):
    links, trace, following = [], error.__traceback__, None
    while trace is not None:
        links += [trace] * (not trace.tb_frame.f_code.co_filename.startswith(PACKAGE))
        trace = trace.tb_next
    if first and all(link.tb_frame.f_code.co_filename.startswith("<frozen ") for link in links):
        return error.__traceback__
    while isinstance(error, TapegradError) and len(links) > 1 and _of_library(links[-1].tb_frame):
        links.pop()
    for link in reversed(links):
        following = TracebackType(following, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return following


def _of_library(frame):
    path = frame.f_code.co_filename
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES or path.startswith(_STANDARD) and "site-packages" not in path


def install() -> None:
    """Have printed tracebacks shortened from now on."""
    if os.environ.get("TAPEGRAD_FULL_TRACEBACK") == "1":
        return
    printed, of_threads = sys.excepthook, threading.excepthook

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        with shortened(error):
            if getattr(sys, "last_value", None) is error:
                # Where pdb.pm() begins before Python 3.12.
                sys.last_traceback = error.__traceback__
            printed(kind, error, error.__traceback__)

    def thread_excepthook(args: Any) -> None:
        with shortened(args.exc_value):
            of_threads(threading.ExceptHookArgs((args.exc_type, args.exc_value, getattr(args.exc_value, "__traceback__", None), args.thread)))

    sys.excepthook, threading.excepthook = excepthook, thread_excepthook
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _displayed)


def _displayed(shell, kind, error, trace, tb_offset=None):
    with shortened(error):
        shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)
