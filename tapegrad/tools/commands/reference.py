"""The page `docs/reference.md`, made from the docstrings of the public names.

``python -m tapegrad reference`` prints it; a test keeps the committed page equal to
it, and its examples run with the other pages.
"""

import inspect
import operator
import re
import types

from ... import automata, interop  # noqa: F401  (their names are public)
from ...array import functions
from ...common.printing import markdown
from ...scipy.mirrors import MIRRORS

_HEAD = """# Reference

*Made by `python -m tapegrad reference` from the docstrings; do not edit.*

Functions that NumPy has, too, serve `np.f(tensor)` as well; [every function](supported.md) lists them all with
their primitives. `tapegrad.scipy` mirrors SciPy under its names, [`tapegrad.numpy`](numpy.md) has all of NumPy's.
"""

#: Modules with public functions, and which: those named, all of `__all__` (None), or the classes of errors (none named).
_MODULES = {
    "autograd": ("Function", "backward", "grad", "jvp"),
    "tree": ("leaves", "map", "ravel", "register"),
    "implicit": ("argmin", "fixed_point", "root"),
    "fits": ("Fit", "FitMany", "Profile"),
    "optimize": None,
    "optim": None,
    "optim.lr_scheduler": ("LRScheduler",),
    "nn": ("Dropout", "LayerNorm", "Linear", "Module", "ModuleList", "Sequential"),
    "nn.functional": None,
    "nn.utils": None,
    "automata": None,
    "interop": None,
    "errors": (),
}

_SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


def public(tg):
    """All public names of the package `tg`, by the module in which users find them.

    Parameters
    ----------
    tg : module
        `tapegrad` itself, which stands above this file.

    Returns
    -------
    list of (str, list of (str, object))

    Examples
    --------
    >>> from tapegrad.tools.commands import reference
    >>> import tapegrad
    >>> [title for title, names in reference.public(tapegrad)]  # doctest: +NORMALIZE_WHITESPACE
    ['tg', 'tg.autograd', 'tg.tree', 'tg.implicit', 'tg.fits', 'tg.optimize', 'tg.optim', 'tg.optim.lr_scheduler', 'tg.nn',
    'tg.nn.functional', 'tg.nn.utils', 'tg.automata', 'tg.interop', 'tg.errors']
    """
    modules = [("tg", [(n, getattr(tg, n)) for n in tg.__all__ if not isinstance(getattr(tg, n), types.ModuleType)])]
    for module, names in _MODULES.items():
        namespace = operator.attrgetter(module)(tg)
        if names is None:
            names = [n for n in namespace.__all__ if not isinstance(getattr(namespace, n), int)]
        elif not names:
            classes = {n: c for n, c in vars(namespace).items() if isinstance(c, type) and c.__module__ == namespace.__name__}
            names = [n for n, c in classes.items() if issubclass(c, Exception)]
        modules.append((f"tg.{module}", [(n, getattr(namespace, n)) for n in sorted(names)]))
    return modules


class _Plain(str):
    """An annotation, which a signature shows without quotes."""

    __repr__ = str.__str__


def _signature(member):
    try:
        signature = inspect.signature(member)
    except (TypeError, ValueError):
        return "(...)"

    def unquoted(annotation):
        annotation = getattr(annotation, "__forward_arg__", annotation)
        return _Plain(annotation) if isinstance(annotation, str) else annotation

    parameters = [p.replace(annotation=unquoted(p.annotation)) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=unquoted(signature.return_annotation)))


def _entries(text):
    """Lines ``name : type`` with indented descriptions, as a list."""
    lines = []
    for line in text.strip("\n").split("\n"):
        if line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            lines.append(f"- `{name}`" + (f": {kind}" if colon else ""))
        elif line.strip():
            lines.append("  " + line.strip())
    return "\n".join(lines)


def _body(doc):
    """A docstring in NumPy's style as Markdown."""
    parts = _SECTION.split(doc)
    lines = [_prose(parts[0])]
    for title, text in zip(parts[1::2], parts[2::2]):
        text = text.rstrip()
        if title == "Examples":
            lines += ["", *_examples(text)]
        elif title in ("Parameters", "Attributes", "Methods", "Returns", "Yields", "Raises"):
            lines += ["", f"*{title}*", "", _entries(text)]
        else:
            lines += ["", f"*{title}*", "", _prose(text)]
    return "\n".join(lines)


def _prose(text):
    """Text, with what is indented in it kept as it is."""
    return text.strip("\n").replace("``", "`")


def _examples(text):
    """Examples as blocks that run; what stands between them as text."""
    lines = []
    for part in re.split(r"\n\s*\n", text):
        if part.lstrip().startswith(">>>"):
            lines += ["```python", part, "", "```", ""]
        else:
            lines += [part, ""]
    return lines[:-1]


def _rows(names):
    """Element-wise functions: a line each."""
    summaries = (inspect.getdoc(member).split("\n")[0].removesuffix(", element-wise.") for _, member in names)
    return markdown(("function", "value"), [(f"`tg.{n}{_signature(m)}`", summary) for (n, m), summary in zip(names, summaries)])


def page(tg):
    """The text of `docs/reference.md`.

    Parameters
    ----------
    tg : module
        `tapegrad` itself.

    Returns
    -------
    str

    Examples
    --------
    >>> from tapegrad.tools.commands import reference
    >>> import tapegrad
    >>> reference.page(tapegrad).splitlines()[0]
    '# Reference'
    """
    lines = [_HEAD]
    for title, names in public(tg):
        small = [(n, member) for n, member in names if title == "tg" and functions.ELEMENTWISE.get(n) is member]
        lines += [f"## {title}", ""]
        for name, member in names:
            if (name, member) in small:
                continue
            # What no call of a user's makes: the class.
            made = isinstance(member, type) and (issubclass(member, Exception) or title == "tg.fits")
            bases = ", ".join(b.__name__ for b in member.__bases__) if made else ""
            lines += [f"### `{title}.{name}{f'({bases})' if made else _signature(member)}`", "", _body(inspect.getdoc(member)), ""]
        if small:
            lines += ["### Element-wise functions", "", *_rows(small), ""]
    lines += ["## tapegrad.scipy", ""]
    lines += [f"- `tapegrad.{module}`: " + ", ".join(f"`{n}`" for n in names) for module, names in MIRRORS.items()]
    return "\n".join(lines) + "\n"
