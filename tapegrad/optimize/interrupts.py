"""Ctrl-C, held back while a state is being changed, so that it is whole when the optimisation stops."""

from __future__ import annotations

import signal
import threading


class HeldBack:
    """Context manager: inside, Ctrl-C is noted (`pending`) and does nothing else; a second one raises at once.

    In a thread that gets no signals it does nothing.
    """

    def __init__(self):
        self.pending = False

    def _note(self, number, frame):
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True

    def __enter__(self):
        self._before = None
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
