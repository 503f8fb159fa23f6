"""What a public module shows: ``dir(module)``, and so an editor, lists what it offers and nothing that it needs."""

import sys


def only_public(module):
    """``__dir__`` of the module of this name: the names in its ``__all__``."""
    return lambda: sorted([*sys.modules[module].__all__, "__doc__", "__file__", "__name__"])
