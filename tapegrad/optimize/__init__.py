"""Optimisation with exact, compiled derivatives.

Imports: common, codegen, interpreter, array, autograd, program, transforms, many, sparse.

`loops` has optimisers that run wholly in compiled code.  All of them, and
SciPy's through `minimize`, see an objective as `objective.Objective`: value and gradient at a vector.
In the order in which to read:

what users call
    `loops`             `gradient_descent`, `adam`, `lbfgs`: in compiled loops.
    `minimize`          SciPy's methods; `constraints`, `curvature`, second derivatives for them.
    `nlp`               constraints and sparse second derivatives, for `ipopt` or trust-constr.
    `fitting`           `least_squares`, `root`, `curve_fit`: SciPy's, by a `vector_function`.
    `result`, `state`   what they return, and what they can be resumed from.

the objective
    `layout`            containers of numbers and arrays as one vector, and bounds as two.
    `objective`         value and gradient at a vector, by replay; `entry`, how compiled code calls it.
    `proof`             whether the recording stands for the function.

the compiled loop
    `run`               one for all, with the steps of gradient descent and Adam; `state`, what it knows, and why it comes back to Python.
    `quasi_newton`      the steps of L-BFGS, with `line_search`.
    `vectors`           sums and products, in a fixed order.
    `drive`             the Python around it: Ctrl-C, `progress`, callbacks.

SciPy, and what is compiled, is imported by the functions that need it: ``import tapegrad`` imports this package.
"""

from ..common.public import only_public
from .fitting import curve_fit, least_squares, root
from .loops import adam, gradient_descent, lbfgs
from .minimize import minimize
from .nlp import nlp
from .state import State

__all__ = ["State", "adam", "curve_fit", "gradient_descent", "lbfgs", "least_squares", "minimize", "nlp", "root"]
__dir__ = only_public(__name__)
