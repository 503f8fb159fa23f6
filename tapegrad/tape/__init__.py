"""The flat tape itself: a list of instructions in plain arrays, which knows no rule and no NumPy function.

Imports: common.

`layout` is the record of an instruction, and the descriptions of values; `store` one generation of a tape with its records and saved
values; `places` says where an instruction came from, `watch` whether a constant was changed since, and `modes` switches recording off.
"""
