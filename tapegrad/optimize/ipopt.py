"""IPOPT: values and derivatives are ours.

It comes with cyipopt, where that is installed (as conda-forge has it, with other linear solvers), or else inside of CasADi's wheel.

CasADi builds its own derivatives of a problem, unless it is given functions for them: `grad_f`, `jac_g` and `hess_lag`, each with names and
sparsity as CasADi would have made it.  Ours are callbacks, whose numbers CasADi reads and writes where they are.  An exception in one of
them, Ctrl-C too, would be lost in C++: it is kept, each later call fails at once, and `solve` raises it when the solver has come back.
(A. Wächter, L. T. Biegler, "On the implementation of an interior-point filter line-search algorithm for large-scale nonlinear
programming", 2006; J. A. E. Andersson et al., "CasADi", 2019.)
"""

from __future__ import annotations

import importlib.util
from functools import cache

import numpy as np

from ..common.errors import MissingPackageError
from ..common.uninterrupted import imported

#: What a run ended with: how it is said, and whether there is a solution.
STATUSES = {
    "Solve_Succeeded": ("an optimal point was found", True),
    "Solved_To_Acceptable_Level": ("a point was found that is optimal to the acceptable tolerance, not to the one asked for", True),
    "Feasible_Point_Found": ("a point was found that satisfies the constraints", True),
    "Infeasible_Problem_Detected": ("the constraints seem to contradict each other: no point near the last one satisfies them better", False),
    "Search_Direction_Becomes_Too_Small": ("the steps became too small; the derivatives may not be continuous there", False),
    "Diverging_Iterates": ("the variables grow without bound; the problem may have no minimum", False),
    "Maximum_Iterations_Exceeded": ("the limit of iterations (max_iter) was reached", False),
    "Maximum_CpuTime_Exceeded": ("the limit of processor time (max_cpu_time) was reached", False),
    "Maximum_WallTime_Exceeded": ("the limit of time (max_wall_time) was reached", False),
    "Restoration_Failed": ("no point was found that satisfies the constraints better than the last one", False),
    "Error_In_Step_Computation": ("no step could be computed at the last point", False),
    "Not_Enough_Degrees_Of_Freedom": ("there are more equality constraints than free variables", False),
    "Invalid_Number_Detected": ("a value or derivative at the last point is infinite or not a number", False),
    "User_Requested_Stop": ("it was stopped", False),
}
#: IPOPT's numbers for them.
_RETURNED = {
    0: "Solve_Succeeded", 1: "Solved_To_Acceptable_Level", 2: "Infeasible_Problem_Detected", 3: "Search_Direction_Becomes_Too_Small",
    4: "Diverging_Iterates", 5: "User_Requested_Stop", 6: "Feasible_Point_Found", -1: "Maximum_Iterations_Exceeded", -2: "Restoration_Failed",
    -3: "Error_In_Step_Computation", -4: "Maximum_CpuTime_Exceeded", -5: "Maximum_WallTime_Exceeded", -10: "Not_Enough_Degrees_Of_Freedom",
    -13: "Invalid_Number_Detected",
}  # fmt: skip
#: Options of a start with multipliers, which are to be kept.
WARM = {
    "warm_start_init_point": "yes", "mu_init": 1e-6, "warm_start_bound_push": 1e-9, "warm_start_bound_frac": 1e-9,
    "warm_start_slack_bound_push": 1e-9, "warm_start_slack_bound_frac": 1e-9, "warm_start_mult_bound_push": 1e-9,
}  # fmt: skip


def package():
    """The name of the package that has IPOPT; None if there is none."""
    return next((name for name in ("cyipopt", "casadi") if importlib.util.find_spec(name) is not None), None)


@cache
def _callback_class():
    ca = imported("casadi")

    class ForSolver(ca.Callback):
        """A function for CasADi: ``compute(*vectors of nonzeros)`` gives the nonzeros of each result."""

        def __init__(self, name, takes, gives, compute, guard):
            super().__init__()
            self.takes, self.gives, self.compute, self.guard = takes, gives, compute, guard
            self.construct(name, {"enable_fd": False})

        get_n_in, get_n_out = (lambda self: len(self.takes)), (lambda self: len(self.gives))
        get_name_in, get_name_out = (lambda self, i: self.takes[i][0]), (lambda self, i: self.gives[i][0])
        get_sparsity_in, get_sparsity_out = (lambda self, i: self.takes[i][1]), (lambda self, i: self.gives[i][1])
        has_eval_buffer = lambda self: True  # noqa: E731

        def eval_buffer(self, given, results):
            if self.guard.error is None:
                try:
                    found = self.compute(*[None if one is None else np.frombuffer(one) for one in given])
                    for place, one in zip(results, found, strict=True):
                        if place is not None:
                            np.frombuffer(place)[:] = one
                    return 0
                except BaseException as error:
                    self.guard.error = error
            return 1

    return ForSolver


class FirstError:
    """The exception of a callback."""

    error = None


def solve(problem, start, multipliers, options):
    """Solve a problem from `start` on.

    Parameters
    ----------
    problem : nlp.Problem
    start : ndarray
    multipliers : pair of ndarray, or None
        Of the constraints and the bounds, where they are known.
    options : dict
        IPOPT's.

    Returns
    -------
    dict
        ``x``, ``g`` and ``bounds`` (the multipliers), ``status`` (IPOPT's word for it), ``nit``.
    """
    name, guard = package(), FirstError()
    if name is None:
        raise MissingPackageError('IPOPT comes with CasADi: pip install "tapegrad[nlp]"; method="trust-constr" needs nothing')
    ipopt = {"print_level": 0, "sb": "yes", **(WARM if multipliers else {}), **options}
    try:
        found = (_by_cyipopt if name == "cyipopt" else _by_casadi)(problem, start, multipliers, ipopt, guard)
    except Exception:
        if guard.error is None:
            raise
    if guard.error is not None:
        raise guard.error
    return found


def _by_cyipopt(problem, start, multipliers, options, guard):
    def guarded(compute):
        def called(*arguments):
            if guard.error is None:
                try:
                    return compute(*arguments)
                except BaseException as error:
                    guard.error = error
            raise imported("cyipopt").CyIpoptEvaluationError

        return called

    def intermediate(mode, count, *_):
        iterations[0] = count
        return guard.error is None

    class Callbacks:
        """What cyipopt asks for."""

        objective, gradient, constraints, jacobian = (staticmethod(guarded(f)) for f in (problem.value, problem.gradient, problem.values, problem.of_jacobian))
        hessian = staticmethod(guarded(lambda x, weights, weight: problem.of_hessian(x, weight, weights)))
        jacobianstructure = staticmethod(lambda: np.divmod(problem.jacobian.keys, max(len(problem.lower), 1))[::-1])
        # The lower triangle: that of the upper one, turned.
        hessianstructure = staticmethod(lambda: np.divmod(problem.hessian.keys, problem.size))

    iterations, (low, high) = [0], problem.bounds
    Callbacks.intermediate = staticmethod(intermediate)
    solver = imported("cyipopt").Problem(problem.size, len(problem.lower), Callbacks, low, high, problem.lower, problem.upper)
    for name, value in options.items():
        solver.add_option(name, value)
    given = {}
    if multipliers:
        given = {"lagrange": multipliers[0], "zl": np.maximum(-multipliers[1], 0.0), "zu": np.maximum(multipliers[1], 0.0)}
    x, said = solver.solve(np.array(start), **given)
    status = _RETURNED.get(said["status"], f"status {said['status']}")
    return {"x": x, "g": said["mult_g"], "bounds": said["mult_x_U"] - said["mult_x_L"], "status": status, "nit": iterations[0]}


def _by_casadi(problem, start, multipliers, ipopt, guard):
    ca = imported("casadi")
    size, count = problem.size, len(problem.lower)
    column, one = ca.Sparsity.dense, ca.Sparsity.dense(1, 1)
    x, p, nothing = ("x", column(size, 1)), ("p", ca.Sparsity(0, 0)), ca.Sparsity(0, 0)
    g, jacobian, hessian = ("g", column(count, 1) if count else nothing), problem.jacobian, problem.hessian

    def called(name, takes, gives, compute):
        return _callback_class()(name, takes, gives, compute, guard)

    def pattern(entries, rows, columns):
        at, of_row = np.divmod(entries.keys, rows)
        return ca.Sparsity(rows, columns, np.searchsorted(at, np.arange(columns + 1)).tolist(), of_row.tolist())

    value, values = (lambda x, *_: (problem.value(x),)), (lambda x, *_: (problem.values(x),))
    oracle = {"grad_f": called("grad_f", [x, p], [("f", one), ("grad_f_x", column(size, 1))], lambda x, _: (problem.value(x), problem.gradient(x)))}
    objective, constraints = called("objective", [x], [("f", one)], value), called("constraints", [x], [g], values) if count else None
    if count:
        jac = ("jac_g_x", pattern(jacobian, count, size))
        oracle["jac_g"] = called("jac_g", [x, p], [g, jac], lambda x, _: (problem.values(x), problem.of_jacobian(x)))
    weights = [("lam_f", one), ("lam_g", g[1])]
    triangle = [("triu_hess_gamma_x_x", pattern(hessian, size, size))]
    oracle["hess_lag"] = called("hess_lag", [x, p, *weights], triangle, lambda x, _, f, g: (problem.of_hessian(x, f[0], g),))
    at = ca.MX.sym("x", size)
    symbols = {"x": at, "f": objective(at), **({"g": constraints(at)} if count else {})}
    given = {**oracle, "no_nlp_grad": True, "calc_lam_p": False, "print_time": False, "error_on_fail": False, "show_eval_warnings": False, "ipopt": ipopt}
    solver = ca.nlpsol("solver", "ipopt", symbols, given)
    begin = {"x0": start, "lbx": problem.bounds[0], "ubx": problem.bounds[1]}
    if count:
        begin |= {"lbg": problem.lower, "ubg": problem.upper}
    if multipliers:
        begin |= {"lam_x0": multipliers[1]} | ({"lam_g0": multipliers[0]} if count else {})
    found, said = solver(**begin), solver.stats()
    vector = lambda name: np.array(found[name], np.float64).reshape(-1)  # noqa: E731
    return {"x": vector("x"), "g": vector("lam_g"), "bounds": vector("lam_x"), "status": said["return_status"], "nit": said["iter_count"]}
