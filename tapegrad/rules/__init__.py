"""The rules table: one row per primitive, a file per family."""

from . import elementwise, special, reductions, products, shaping, learning, linalg  # noqa: F401
from . import triangular, stepping, scans, orders, transposed  # noqa: F401
from . import choices, accumulating, cofactors  # noqa: F401
from .table import BY_FUNCTION, BY_NAME, ROWS, by_opcode  # noqa: F401
