"""The command line, ``python -m tapegrad``: `main`, and the commands that are short (`tapegrad.tools.commands` has the others).

Each command is a function of the parsed options, and returns the exit code; its docstring is its help.
"""

import argparse
import inspect
import os
import sys

import tapegrad as tg

from .codegen.disk import clear
from .common import config, errors
from .common.printing import table
from .tools import demo
from .tools.commands import explanations
from .tools.commands import reference as reference_page
from .tools.commands import supported as supported_page
from .tools.commands.bench import run_bench
from .tools.commands.compare import run_compare
from .tools.installation import run_warm

EPILOG = """\
In a program of your own:

    import numpy as np
    import tapegrad as tg

    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = np.sum(np.sin(x) * x)    # computed at once, and written on the tape
    y.backward()                 # the tape is walked from its end
    print(x.grad)                # dy/dx

    g = tg.jit(tg.grad(lambda x: np.sum(np.sin(x) * x)))
    print(g(np.array([1.0, 2.0, 3.0])))    # recorded once; later calls are machine code

Every command has its own --help, with examples. Results go to the standard output, messages to
the standard error; neither has colours, and progress is shown in terminals only.
"""

def run_demo(options):
    """Fit an ecological model to real data (a few seconds).

    Fits the predator-prey model of Lotka and Volterra to the pelts of hares and lynxes collected from
    1900 to 1920: differential equations, stepped in a plain Python loop, and exact derivatives of it.
    Prints the parameters and their standard errors beside published ones, checks the gradient against
    a difference, tells how long calls take, and compares forward with reverse mode. Where tapegrad
    has not been compiled yet (see warm), the first run takes longer: it compiles what it needs, once.

    examples:
      python -m tapegrad demo
      python -m tapegrad demo | grep alpha

    The model is tapegrad/demo.py; examples/lynx_hare.py of the repository draws the fit.

    exit codes: 0 if the result is as published, 1 if it is not
    """
    return demo.demo()


def run_info(options):
    """Print versions and where compiled code is kept (for bug reports).

    Prints versions and where compiled code is kept, a name and a value a line; paste it into bug reports.

    examples:
      python -m tapegrad info
      python -m tapegrad info | grep cache_dir

    exit code: 0
    """
    first, *rest = tg.info().items()
    print(table(first, rest))
    return 0


def run_clean(options):
    """Remove the compiled code that is kept (before uninstalling, or to free the disk).

    Removes what tapegrad has kept in its cache directory, of all versions, and prints how much that was. Programs that run meanwhile go on; what is
    needed again is compiled again. Other files in that directory stay.

    examples:
      python -m tapegrad clean
      TAPEGRAD_CACHE_DIR=/shared/tapegrad python -m tapegrad clean

    exit codes: 0, or 1 if a file could not be removed
    """
    count, nbytes, failed = clear()
    print(f"removed {count} files, {nbytes:,} bytes: {config.cache_dir()}")
    for path, why in failed:
        print(f"python -m tapegrad clean: {path}: {why}", file=sys.stderr)
    return int(bool(failed))


def run_supported(options):
    """Print every supported and every refused function (docs/supported.md).

    Prints the list of functions and primitives, made from the rules table, as Markdown.

    examples:
      python -m tapegrad supported | grep cumsum

    exit code: 0
    """
    print(supported_page.page(), end="")
    return 0


def run_reference(options):
    """Print the reference, made from the docstrings (docs/reference.md).

    Prints the docstrings of all public names as one page.

    examples:
      python -m tapegrad reference | less

    exit code: 0
    """
    print(reference_page.page(tg), end="")
    return 0


def run_explain(options):
    """Say what an error means: its cause, a program that raises it, one that does not.

    Prints the paragraph of docs/errors.md about a class of errors; without NAME all classes, a line each.

    examples:
      python -m tapegrad explain GuardError
      python -m tapegrad explain

    exit codes: 0, or 2 if there is no such class
    """
    if options.error is None:
        first, *rest = [(name, getattr(errors, name).__doc__.splitlines()[0]) for name in explanations.names()]
        print(table(first, rest))
        return 0
    try:
        print(explanations.explanation(options.error))
    except errors.OptionError as error:
        print(f"python -m tapegrad explain: {error.message}", file=sys.stderr)
        return 2
    return 0


def _parser():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad", description="Derivatives of plain Python and NumPy code, from a flat tape.",
        epilog=EPILOG, formatter_class=raw,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"tapegrad {tg.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(run):
        # The docstring, which `python -OO` leaves out, is the help.
        summary, _, text = inspect.cleandoc(run.__doc__ or "").partition("\n\n")
        description, examples, epilog = text.partition("examples:")
        command = commands.add_parser(
            run.__name__.removeprefix("run_"), help=summary[:1].lower() + summary[1:].rstrip("."), description=description,
            epilog=examples + epilog, formatter_class=raw,
        )  # fmt: skip
        command.set_defaults(run=run)
        return command.add_argument

    add(run_demo)
    argument = add(run_compare)
    argument("target", metavar="FILE.py:FUNCTION", help="what to compare the modes on")
    argument("--sizes", default="10,100,1000", help="sizes n, separated by commas (default: %(default)s)")
    argument("--plot", metavar="FILE", help="draw the costs to this file (.png, .svg, .pdf)")
    argument("--json", metavar="FILE", help="write the result as JSON to this file; - prints only that")
    argument = add(run_bench)
    argument("--seconds", type=float, default=0.5, help="to measure each function for (default: %(default)s)")
    argument("--json", metavar="FILE", help="write the result as JSON to this file; - prints only that")
    add(run_warm)
    add(run_clean)
    add(run_info)
    add(run_supported)
    add(run_reference)
    add(run_explain)("error", nargs="?", metavar="NAME", help='as the message says, or without "Error": guard')
    return parser


def main(arguments=None):
    """Run one subcommand; the return value is the exit code of the process."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); the interpreter would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
