"""The rules table: one row per primitive, a file per family."""

from . import elementwise, special, reductions, products, shaping, learning, linalg, triangular, stepping, transposed  # noqa: F401
from .table import BY_FUNCTION, BY_NAME, ROWS, by_opcode  # noqa: F401
