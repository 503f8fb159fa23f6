"""Optimisers for define-by-run code, with the interface of ``torch.optim``.

Imports: common, tape, array, optimize.
"""

from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "LBFGS", "Optimizer"]
