"""The compiled way into a kernel: Python's objects are read by their C structs, without Python's help.

`walk` is used by `kernel.of_tape`, `replay.quick` and `replay.quick_values`.  It is a folder because compiled functions are
kept on disk under a digest of the folders that have some (`config.package_hash`), and most of `kernel` has none.
"""
