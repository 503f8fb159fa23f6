"""The compiled way into a kernel: Python's objects are read by their C structs, without Python's help.

`walk` is used by `kernel.of_tape`, `transforms.replay.quick` and `transforms.replay.quick_values`.
"""
