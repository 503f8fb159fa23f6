"""Optimisers for define-by-run code, with the interface of ``torch.optim``.

Imports: common, tape, array, nn, optimize.
"""

from ..common.public import only_public
from ..nn.names import getter
from . import lr_scheduler as lr_scheduler
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .optimizers import SGD, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adam", "AdamW", "LBFGS", "Optimizer", "RMSprop"]
__dir__ = only_public(__name__)

__getattr__ = getter("tg.optim")
# Modules: of JAX's optimisers, which have these names, something is said.
del lbfgs, optimizer, optimizers  # type: ignore[name-defined]  # noqa: F821
