"""Recorded functions for programs without tapegrad: `export` writes a C header and object code, `to_python` gives the text of a NumPy program.

Imports: common, rules, codegen, program, kernel, transforms.

`exported`  `export`, `to_python`.
`files`     which kernel answers, the files, the linker.
`module`    the LLVM module of a kernel that stands alone: its tables inside, and around it a function with a status that C can call.
`targets`   processors, and the question to one whether it is the right one.
`header`    the C header.
`python`    the text of a program.
"""

from .exported import export, to_python

__all__ = ["export", "to_python"]
