"""Loops, choices and calls as single instructions: `scan`, `while_loop`, `fori_loop`, `cond`, `switch`, `map`, `associative_scan`.

Imports: common, rules, tape, codegen, interpreter, array, autograd, program, kernel.

`api`     what users call.
`plain`   the same on numbers and arrays: the Python that they stand for.
"""
