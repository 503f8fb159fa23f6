"""Where an instruction was recorded: code object and bytecode offset, resolved late.

Looking up a line number costs microseconds in long functions; the code object
and the offset of the instruction being executed cost a tenth of one.
"""

import dis
import itertools
import linecache
import os
import sys
from traceback import walk_stack

from ..common.tracebacks import PACKAGE


class Place:
    """A source location that resolves itself when printed.

    What a derivative records stands at the place of the operation it belongs to (`TapeStore.calling`), so a place can be asked as a frame is.
    """

    __slots__ = ("f_code", "f_lasti")
    f_back = None

    def __init__(self, code, offset):
        self.f_code, self.f_lasti = code, offset

    @property
    def filename(self):
        return self.f_code.co_filename if self.f_code is not None else "<unknown>"

    @property
    def line(self):
        """Line number, 0 if unknown."""
        if self.f_code is None:
            return 0
        lines = (line for start, end, line in self.f_code.co_lines() if start <= self.f_lasti < end and line is not None)
        return next(lines, self.f_code.co_firstlineno)

    @property
    def text(self):
        """The source line, stripped; empty if the source is not at hand."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self):
        return "an unknown place" if self.f_code is None else self._named(self.filename)

    @property
    def short(self):
        """File name without its folder, and line."""
        return "?" if self.f_code is None else self._named(os.path.basename(self.filename))

    def _named(self, file):
        """The line of a `file` of this name; of a notebook's cell "cell [3], line 2"."""
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        cell = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(self.filename)
        return f"cell {cell[1].removeprefix('In')}, line {self.line}" if cell else f"{file}:{self.line}"


def caller_frame(depth=1):
    """The nearest frame outside tapegrad, or the outermost of all, looking outwards from `depth` frames up."""
    frame = sys._getframe(depth)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def inner_frames(depth=2):
    """The frames of tapegrad on the way from `depth` frames up to the user's, which is not among them."""
    return itertools.takewhile(lambda frame: frame.f_code.co_filename.startswith(PACKAGE), (frame for frame, _ in walk_stack(sys._getframe(depth))))


def caller_place(depth=2):
    """The `Place` of the user's line that is running now, at least `depth` calls away."""
    frame = caller_frame(depth)
    return Place(frame.f_code, frame.f_lasti)


def running_text(frame):
    """The source of the expression that `frame` is running, and whether it is the target of an assignment.

    Where the source is not at hand (at the prompt, say) it is the names that the expression begins with, ``math.sin(``, by the bytecode.
    """
    code, offset = frame.f_code, frame.f_lasti
    line, end, column, end_column = next(itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    text = ""
    if line is not None and line == end and column is not None:
        # Columns count bytes.
        text = linecache.getline(code.co_filename, line).encode()[column:end_column].decode(errors="replace")
    operation = dis.opname[code.co_code[offset]]
    if not text and column is not None:
        begun = [i for i in dis.get_instructions(code) if i.offset < offset and i.positions and i.positions[0] == line and i.positions[2] == column]
        text = ".".join(str(i.argval) for i in begun if i.opname.startswith("LOAD_") and isinstance(i.argval, str)) + "(" * operation.startswith("CALL")
    return text, operation in ("STORE_SUBSCR", "STORE_SLICE")


def function_name(function):
    """The name of a function in messages: its own, or that of its class."""
    return getattr(function, "__name__", type(function).__name__)


def placed_name(function):
    """The qualified name of a function, with its file and line if it is one of Python's."""
    code = getattr(function, "__code__", None)
    # (Before its first instruction.)
    return f"{getattr(function, '__qualname__', repr(function))}{f' ({Place(code, -1)})' if code is not None else ''}"


def name_of(thing):
    """The name of a variable of the running user code bound to `thing`, or None.

    Looks at the locals of every user frame, innermost first, then its globals; those of NumPy and SciPy are not the user's.
    """
    for frame, _ in walk_stack(caller_frame(2)):
        if not frame.f_code.co_filename.startswith(PACKAGE) and not str(frame.f_globals.get("__name__")).startswith(("numpy.", "scipy.")):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in list(scope.items()):
                    if value is thing and not name.startswith("_"):
                        return name
    return None


def called(tensor, otherwise):
    """The name of a tensor in messages: the name of a variable bound to it, or `otherwise` and its shape."""
    name = name_of(tensor)
    return f"{name!r}" if name else f"{otherwise} of shape {tuple(tensor.shape)}"
