"""Which mode is cheaper, predicted from a recording before anything is run.

`costs` is the prediction; `reach` and `footprint` count what a sweep will do.
"""
