"""Names of pandas and NumPy, by how `Labelled` answers them."""

import operator

import numpy as np

#: Operators -> ufuncs.
OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide, "mod": np.remainder,
    "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
LOGICAL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
#: What pandas does with two tables of booleans for a ufunc.
OF_BOOLEANS = {np.logical_and: operator.and_, np.logical_or: operator.or_, np.logical_xor: operator.xor}
OF_BOOLEANS |= {np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor}
#: Methods that stand for operators -> ufuncs.
FLEXIBLE = {name: f for name, f in OPERATORS.items() if name != "matmul"} | {
    "subtract": np.subtract, "multiply": np.multiply, "div": np.true_divide, "divide": np.true_divide,
}  # fmt: skip
#: ufuncs of two operands whose result is NaN wherever an operand is.
PROPAGATES = set(OPERATORS.values()) - {np.power} | set(COMPARISONS.values()) | {np.maximum, np.minimum, np.arctan2, np.fmod}
#: ufuncs of one operand whose results are no numbers.
PREDICATES = {np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not}
#: What pandas answers from the labels alone.
LABELS = frozenset("index columns name shape ndim size axes empty keys".split())
#: Methods of pandas that move elements and compute nothing.
SELECTIONS = frozenset(
    "head tail shift reindex reindex_like sort_index drop droplevel set_axis rename rename_axis take truncate squeeze stack unstack "
    "transpose swaplevel reorder_levels dropna ffill bfill repeat add_prefix add_suffix between_time at_time tz_localize tz_convert "
    "to_frame xs filter sample asfreq reset_index to_timestamp to_period copy".split()
)  # fmt: skip
#: Of these, those that look for missing values.
LOOKING = frozenset("dropna ffill bfill stack".split())
#: Arguments that are values of the table, or put something into it: positions do not answer these.
NOT_POSITIONS = frozenset("fill_value inplace weights downcast".split())
#: Methods without derivative: pandas answers them from the values.
VALUES = frozenset(
    "idxmax idxmin argmax argmin argsort isna isnull notna notnull nunique count duplicated is_unique is_monotonic_increasing "
    "is_monotonic_decreasing first_valid_index last_valid_index hasnans any all isin rank searchsorted between equals round".split()
)  # fmt: skip
#: Of NumPy's functions that call a method, those that give it ``axis=None``.
REDUCTIONS = frozenset("sum prod mean std var min max".split())
#: NumPy's functions that call a method of what they are given.
METHODS_OF_NUMPY = {
    getattr(np, name): name
    for name in "sum prod mean std var max min any all cumsum cumprod clip round argmax argmin argsort take repeat squeeze transpose "
    "searchsorted".split()
} | {np.amax: "max", np.amin: "min"}  # fmt: skip
