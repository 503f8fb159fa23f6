"""The C header of an exported function."""

import numpy as np

from ..common.version import __version__
from .matrices import ROUTINES
from .module import STATUSES

_TYPES = {"d": "double", "f": "float", "?": "uint8_t"} | {c: f"{'u' * c.isupper()}int{8 * np.dtype(c).itemsize}_t" for c in "bBhHiIlLqQ"}
_FORTRAN = {"c": "const char *", "i": "const int *", "d": "const double *", "I": "int *", "D": "double *"}


def header(name, module, arguments, results, guards, target, symbols):
    """Its text.

    Parameters
    ----------
    name : str
    module : module.Alone
    arguments, results : list of module.CArgument
    guards : list of str
    target : targets.Processor
    symbols : list of str
        Functions that the object file has from outside.
    """
    upper, numbers = name.upper(), [a.shape == () and a.char == "d" for a in arguments]
    declared = [f"double {a.name}" if number else f"const {_TYPES[a.char]} *{a.name}" for a, number in zip(arguments, numbers)]
    passed = [*(f"{'&' * number}{a.name}" for a, number in zip(arguments, numbers)), *(r.name for r in results)] or ["0"]
    declared += [*(f"{_TYPES[r.char]} *{r.name}" for r in results), "void *workspace", "size_t size"]
    lines = [
        f"/* {name}: made by tapegrad {__version__} for {target.cpu or 'any processor'}, {target.triple}.", "",
        *_table("arguments", arguments), *_table("results", results), "",
        f"   The workspace is memory of at least {upper}_WORKSPACE bytes that nothing else uses during a call; it need not be initialised, and holds",
        "   nothing between calls. Nothing is allocated, and no call changes another: any number of threads may call, each with its own workspace.", "",
        "   A call returns a status. Results are written if it is 0, and else left alone. A status above 0 is the number of a guard: the",
        "   arguments would take another path than the one that was recorded, which this code does not have.", "",
        *(f"   {number:4}  {text}" for number, text in STATUSES.values()),
        *(f"   {k:4}  {_comment(text)}" for k, text in enumerate(guards, 1)), "",
        f"   Called from outside: {', '.join(symbols) or 'nothing'}." + f" Link with {' '.join(libraries(symbols))}." * bool(symbols),
        "*/", f"#ifndef {upper}_H", f"#define {upper}_H", "", "#include <stddef.h>", "#include <stdint.h>", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        f"#define {upper}_CHECKSUM UINT64_C({module.checksum:#018x})", f"#define {upper}_WORKSPACE {module.workspace}",
        *(f"#define {upper}_{status} ({number})" for status, (number, _) in STATUSES.items()), "",
        "/* Of the object file: what the header's are compared with. */", f"uint64_t {name}_checksum(void);", f"size_t {name}_workspace(void);",
        "/* What a status means, in words. */", f"const char *{name}_message(int status);",
    ]  # fmt: skip
    if module.routines:
        lines += [
            "/* Functions of BLAS and LAPACK, as Fortran calls them (dgesv_, with integers of 32 bits): set them once, before the first call.",
            "   Without dgemm, products of matrices are loops; without another, a call returns a status. */",
            *(f"void {name}_set_{one}(void (*{one})({', '.join(_FORTRAN[kind] for kind in ROUTINES[one])}));" for one in module.routines),
        ]  # fmt: skip
    lines += [
        f"/* By the addresses of arguments and results, in their order: `{name}` for other languages. */",
        f"int {name}_call(uint64_t checksum, const void *const *given, void *workspace, size_t size);", "",
        f"static inline int {name}({', '.join(declared)})", "{", f"    const void *given[] = {{{', '.join(passed)}}};",
        f"    return {name}_call({upper}_CHECKSUM, given, workspace, size);", "}", "", "#ifdef __cplusplus", "}", "#endif", "#endif", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _table(title, arguments):
    """Lines that say what arguments are."""
    lines = [f"   {title}"]
    for one in arguments:
        shape = "a number" if one.shape == () else "x".join(map(str, one.shape)) + ", by rows" * (len(one.shape) > 1)
        lines.append(f"     {one.name:<16} {_TYPES[one.char]}, {shape}: {_comment(one.what)}")
    return lines


def _comment(text):
    return text.replace("*/", "* /").replace("/*", "/ *")


def libraries(symbols):
    """What a linker is asked for."""
    return ["-lmvec"] * any(s.startswith("_ZGV") for s in symbols) + ["-lm"] * bool(symbols)
