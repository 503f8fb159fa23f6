"""Recorded functions for programs without tapegrad: `export` writes a C header and object code, `to_python` gives the text of a NumPy program.

Imports: common, rules, tape, codegen, interpreter, program, kernel, transforms.

`exported`  `export`, `to_python`.
`files`     which kernel answers, the files, the linker.
`module`    the LLVM module of a kernel that stands alone: its tables inside, and around it a function with a status that C can call.
`inside`    what that has inside beside the kernel: functions in Python that are compiled into it.
`matrices`  solves, determinants and factorisations by the LAPACK that the caller sets.
`targets`   processors, and the question to one whether it is the right one.
`header`    the C header.
`python`    the text of a program.
"""

from .exported import export, to_python

__all__ = ["export", "to_python"]
