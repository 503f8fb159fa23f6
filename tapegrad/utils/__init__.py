"""Names of ``torch.utils``: data in batches, from arrays, files and whatever has items.

Imports: common, array.
"""

from . import data

__all__ = ["data"]
