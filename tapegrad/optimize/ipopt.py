"""IPOPT: values and derivatives are ours.

It comes with cyipopt, where that is installed (as conda-forge has it, with other linear solvers), or else inside of CasADi's wheel.

CasADi builds its own derivatives of a problem, unless it is given functions for them: `grad_f`, `jac_g` and `hess_lag`, each with names and
sparsity as CasADi would have made it.  Ours are callbacks, whose numbers CasADi reads and writes where they are.  An exception in one of
them, Ctrl-C too, would be lost in C++: it is kept, each later call fails at once, and `solve` raises it when the solver has come back.
(A. Wächter, L. T. Biegler, "On the implementation of an interior-point filter line-search algorithm for large-scale nonlinear
programming", 2006; J. A. E. Andersson et al., "CasADi", 2019.)
"""

import importlib.util
from functools import cache

import numpy as np

from ..common.errors import MissingPackageError
from ..common.uninterrupted import imported

#: What a run ended with: IPOPT's number for it, how it is said, and whether there is a solution.
STATUSES = {
    "Solve_Succeeded": (0, "an optimal point was found", True),
    "Solved_To_Acceptable_Level": (1, "a point was found that is optimal to the acceptable tolerance, not to the one asked for", True),
    "Infeasible_Problem_Detected": (2, "the constraints seem to contradict each other: no point near the last one satisfies them better", False),
    "Search_Direction_Becomes_Too_Small": (3, "the steps became too small; the derivatives may not be continuous there", False),
    "Diverging_Iterates": (4, "the variables grow without bound; the problem may have no minimum", False),
    "User_Requested_Stop": (5, "it was stopped", False),
    "Feasible_Point_Found": (6, "a point was found that satisfies the constraints", True),
    "Maximum_Iterations_Exceeded": (-1, "the limit of iterations (max_iter) was reached", False),
    "Restoration_Failed": (-2, "no point was found that satisfies the constraints better than the last one", False),
    "Error_In_Step_Computation": (-3, "no step could be computed at the last point", False),
    "Maximum_CpuTime_Exceeded": (-4, "the limit of processor time (max_cpu_time) was reached", False),
    "Maximum_WallTime_Exceeded": (-5, "the limit of time (max_wall_time) was reached", False),
    "Not_Enough_Degrees_Of_Freedom": (-10, "there are more equality constraints than free variables", False),
    "Invalid_Number_Detected": (-13, "a value or derivative at the last point is infinite or not a number", False),
}
#: Its number for anything else.
INTERNAL_ERROR = -199
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
            def written():
                found = self.compute(*[None if one is None else np.frombuffer(one) for one in given])
                for place, one in zip(results, found, strict=True):
                    if place is not None:
                        np.frombuffer(place)[:] = one
                return True

            return 0 if self.guard.call(written) else 1

    return ForSolver


class FirstError:
    """The first exception of a callback: after it none is called any more."""

    error = None

    def call(self, compute, *arguments):
        """What a callback computes; None from its first exception on."""
        if self.error is None:
            try:
                return compute(*arguments)
            except BaseException as error:
                self.error = error
        return None


def solve(problem, start, multipliers, tol, options):
    """Solve a problem from `start` on.

    Parameters
    ----------
    problem : nlp.Problem
    start : ndarray
    multipliers : pair of ndarray, or None
        Of the constraints and the bounds, where they are known.
    tol : float or None
    options : dict
        IPOPT's.

    Returns
    -------
    OptimizeResult
        Has ``v`` and ``z``, the multipliers of the constraints and of the bounds.
    """
    name, guard = package(), FirstError()
    if name is None:
        raise MissingPackageError('IPOPT comes with CasADi: pip install "tapegrad[nlp]"; method="trust-constr" needs nothing')
    given = {"print_level": 0, "sb": "yes", **(WARM if multipliers else {}), **({} if tol is None else {"tol": tol}), **options}
    try:
        word, found = (_by_cyipopt if name == "cyipopt" else _by_casadi)(problem, start, multipliers, given, guard)
    except Exception:
        if guard.error is None:
            raise
    if guard.error is not None:
        raise guard.error
    status, text, success = STATUSES.get(word, (INTERNAL_ERROR, f"it says {word}", False))
    return imported("scipy.optimize").OptimizeResult(success=success, status=status, message=f"IPOPT: {text}", **found)


def _by_cyipopt(problem, start, multipliers, options, guard):
    cyipopt, iterations, (low, high) = imported("cyipopt"), [0], problem.bounds

    def guarded(compute):
        def called(*arguments):
            found = guard.call(compute, *arguments)
            if found is None:
                raise cyipopt.CyIpoptEvaluationError
            return found

        return staticmethod(called)

    def intermediate(mode, count, *_):
        iterations[0] = count
        return guard.error is None

    class Callbacks:
        """What cyipopt asks for."""

        objective, gradient, constraints, jacobian = map(guarded, (problem.value, problem.gradient, problem.values, problem.of_jacobian))
        hessian = guarded(lambda x, weights, weight: problem.of_hessian(x, weight, weights))
        jacobianstructure = staticmethod(lambda: problem.jacobian.places()[::-1])
        # The lower triangle: that of the upper one, turned.
        hessianstructure = staticmethod(problem.hessian.places)

    Callbacks.intermediate = staticmethod(intermediate)
    solver = cyipopt.Problem(problem.size, len(problem.lower), Callbacks, low, high, problem.lower, problem.upper)
    for name, value in options.items():
        solver.add_option(name, value)
    given = {}
    if multipliers:
        given = {"lagrange": multipliers[0], "zl": np.maximum(-multipliers[1], 0.0), "zu": np.maximum(multipliers[1], 0.0)}
    x, said = solver.solve(np.array(start), **given)
    word = next((word for word, (number, *_) in STATUSES.items() if number == said["status"]), f"status {said['status']}")
    return word, {"x": x, "v": said["mult_g"], "z": said["mult_x_U"] - said["mult_x_L"], "nit": iterations[0]}


def _by_casadi(problem, start, multipliers, options, guard):
    ca, size = imported("casadi"), problem.size

    def pattern(entries):
        column, row = entries.places()
        return ca.Sparsity(entries.rows, size, np.searchsorted(column, np.arange(size + 1)).tolist(), row.tolist())

    def called(name, takes, gives, compute):
        return _callback_class()(name, takes, gives, compute, guard)

    one, column = ca.Sparsity.dense(1, 1), ca.Sparsity.dense(size, 1)
    x, p, f, g = ("x", column), ("p", ca.Sparsity(0, 0)), ("f", one), ("g", ca.Sparsity.dense(len(problem.lower), 1))
    jacobian, triangle = ("jac_g_x", pattern(problem.jacobian)), ("triu_hess_gamma_x_x", pattern(problem.hessian))
    weights = [("lam_f", one), ("lam_g", g[1])]
    objective = called("objective", [x], [f], lambda x: (problem.value(x),))
    constraints = called("constraints", [x], [g], lambda x: (problem.values(x),))
    given = {
        "grad_f": called("grad_f", [x, p], [f, ("grad_f_x", column)], lambda x, _: (problem.value(x), problem.gradient(x))),
        "jac_g": called("jac_g", [x, p], [g, jacobian], lambda x, _: (problem.values(x), problem.of_jacobian(x))),
        "hess_lag": called("hess_lag", [x, p, *weights], [triangle], lambda x, _, weight, weights: (problem.of_hessian(x, weight[0], weights),)),
        "no_nlp_grad": True, "calc_lam_p": False, "print_time": False, "error_on_fail": False, "show_eval_warnings": False, "ipopt": options,
    }  # fmt: skip
    at = ca.MX.sym("x", size)
    solver = ca.nlpsol("solver", "ipopt", {"x": at, "f": objective(at), "g": constraints(at)}, given)
    begin = {"x0": start, "lbx": problem.bounds[0], "ubx": problem.bounds[1], "lbg": problem.lower, "ubg": problem.upper}
    if multipliers:
        begin |= {"lam_g0": multipliers[0], "lam_x0": multipliers[1]}
    found, said = solver(**begin), solver.stats()
    x, v, z = (np.array(found[name], np.float64).reshape(-1) for name in ("x", "lam_g", "lam_x"))
    return said["return_status"], {"x": x, "v": v, "z": z, "nit": said["iter_count"]}
