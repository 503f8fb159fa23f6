"""What is promised to be little is counted, not timed."""

import gc
import sys


def calls(function):
    """How many Python and C functions are called while `function` runs."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    # A collection of garbage calls back whoever asked for that (Hypothesis does).
    gc.disable()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def calls_of(function, call):
    """How often the code of `function` is entered during a call."""
    entered = []

    def note(frame, event, _):
        if event == "call" and frame.f_code is function.__code__:
            entered.append(frame)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered)
