"""The compiled way into a kernel: Python's objects are read by their C structs, without Python's help."""
