"""``python -m tapegrad compare``."""

import inspect
import runpy
import sys
import traceback
from pathlib import Path

import numpy as np

from ...common.errors import CheckError, OptionError, TapegradError
from ..comparing.compare import compare, told
from ..comparing.plots import figure
from ..comparing.scaling import axes_of, compare_scaling, make_at


def _load(target):
    """The function that FILE.py:FUNCTION names."""
    path, colon, name = target.rpartition(":")
    if not colon or not path or not name:
        raise OptionError(f"{target!r} is not of the form FILE.py:FUNCTION, as in examples/modes.py:many_to_one")
    if not Path(path).is_file():
        raise OptionError(f"there is no file {path}")
    namespace = runpy.run_path(path, run_name=Path(path).stem)
    if not callable(namespace.get(name)):
        functions = sorted(k for k, v in namespace.items() if inspect.isfunction(v) and v.__module__ == Path(path).stem)
        raise OptionError(f"{path} has no function {name}; it has {', '.join(functions) or 'none'}")
    return namespace[name]


def _sizes(text):
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 1:
        raise OptionError(f"--sizes {text}: whole numbers from 1 on, separated by commas, as in 10,100,1000")
    return sizes


def _maker(function):
    """`function` as a maker."""
    if tuple(inspect.signature(function).parameters) in (("n",), ("n", "m")):
        return function

    def make(n):
        return function, (np.linspace(0.1, 0.9, n),)

    make.__name__ = function.__name__
    return make


def run_compare(options):
    """Run a function's Jacobian in every mode, side by side.

    Runs the Jacobian of a function by forward mode (dual numbers; tangent sweep) and
    by reverse mode (sweep), checks that they agree, and prints passes, operations,
    times and memory, the mode to prefer and why. With several sizes it prints how
    the costs grow and where the modes cross.

    FUNCTION is one of
      * a maker, whose parameters are called n, or n and m: it takes one or two sizes
        and returns a function and the tuple of its arguments:

            def make(n):
                return lambda x: np.sum(np.sin(x) * x), (np.linspace(0.1, 0.9, n),)

      * a function of one array; it is given n numbers between 0.1 and 0.9.

    examples:
      python -m tapegrad compare examples/modes.py:many_to_one --sizes 10,100,1000
      python -m tapegrad compare examples/modes.py:rectangle --sizes 1,10,100 --plot out.png

    exit codes: 0 if the modes agree, 1 if they do not, 2 if it could not be run
    """
    try:
        make, sizes = _maker(_load(options.target)), _sizes(options.sizes)
        if options.plot:
            figure(1, 1)  # before the work, not after it
        if len(sizes) == 1:
            f, args = make_at(make, sizes * len(axes_of(make)))
            comparison = compare(f, *args)
        else:
            comparison = compare_scaling(make, sizes)
        told(comparison, comparison.to_dict(), options.json)
        if options.plot:
            comparison.plot(options.plot)
    except BrokenPipeError:
        raise
    except CheckError as error:
        return _failed(error, 1)
    except (TapegradError, OSError) as error:
        return _failed(error, 2)
    except Exception:
        # An error of the user's own code: where it is matters.
        traceback.print_exc()
        return _failed(f"{options.target} could not be run", 2)
    return 0


def _failed(error, code):
    print(f"python -m tapegrad compare: {error}", file=sys.stderr)
    return code
