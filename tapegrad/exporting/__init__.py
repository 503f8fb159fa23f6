"""Recorded functions for programs without Python: `export` writes a C header and object code.

Imports: common, rules, codegen, program, kernel, transforms.

`exported`  `export`.
`files`     which kernel answers, the files, the linker.
`module`    the LLVM module of a kernel that stands alone: its tables inside, and around it a function with a status that C can call.
`targets`   processors, and the question to one whether it is the right one.
`header`    the C header.
"""

from .exported import export

__all__ = ["export"]
