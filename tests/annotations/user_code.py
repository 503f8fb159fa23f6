"""A program as users annotate theirs: mypy checks it, and a test runs it.

`assert_type` says for both what a result is, so a signature can be wrong neither about what
type checkers make of it nor about what it is at run time.  (A type alias or a class is written
as type checkers print it.)  One function for each part of the public namespace.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad.array.typing import Array, Axis, Pytree, TensorLike
from tapegrad.autograd.custom.primitives import Primitive
from tapegrad.common.observers import RemovableHandle
from tapegrad.common.printing import Picture, PlainTable
from tapegrad.kernel.kernel import TapeKernel
from tapegrad.optimize.result import Result
from tapegrad.program.finish import FinishedTape
from tapegrad.tools.check import Report
from tapegrad.tools.comparing.compare import Comparison
from tapegrad.tools.comparing.scaling import Scaling
from tapegrad.tools.explain_jumps import Jumps
from tapegrad.tools.explain_zero import Explanation
from tapegrad.transforms.compiled import Compiled, CompiledOutputs
from tapegrad.transforms.replay.running import Stats
from tapegrad.transforms.transformed import Jitted, Transformed
from tests.annotations.held import assert_type

POINT = np.array([1.0, 2.0])


def number(x: float) -> float:
    return x * x


def of_array(x: Array) -> float:
    return np.sum(x * x)


def between(x: Array) -> Array:
    return x[1:] * x[:-1]


def of_two(x: Array, y: float) -> float:
    return np.sum(x) * y


def of_container(p: dict[str, Array]) -> float:
    return np.sum(p["w"] * p["w"]) + np.sum(p["b"])


def with_aux(x: Array) -> tuple[float, str]:
    return np.sum(x * x), "said beside"


def gradients() -> None:
    assert_type(tg.grad(number)(3.0), float)
    assert_type(tg.grad(of_array)(POINT), Array)
    assert_type(tg.grad(of_container)({"w": POINT, "b": POINT}), dict[str, Array])
    assert_type(tg.grad(of_two, 1)(POINT, 2.0), float)
    assert_type(tg.grad(of_two, (0, 1))(POINT, 2.0), tuple[Array, float])
    assert_type(tg.grad(of_two, argnum=1)(POINT, 2.0), Any)
    assert_type(tg.grad(with_aux, has_aux=True)(POINT), tuple[Array, Any])
    assert_type(tg.value_and_grad(number)(3.0), tuple[float, float])
    assert_type(tg.value_and_grad(of_array)(POINT), tuple[float, Array])
    assert_type(tg.value_and_grad(of_two, (0, 1))(POINT, 2.0), tuple[float, tuple[Array, float]])
    assert_type(tg.value_and_grad(with_aux, has_aux=True)(POINT), tuple[tuple[float, Any], Array])
    assert_type(tg.elementwise_grad(number)(3.0), float)
    assert_type(tg.egrad(between)(POINT), Array)
    # Of a lambda nothing is known, so nothing is said.
    assert_type(tg.grad(lambda x: x * x)(3.0), Any)
    assert_type(tg.grad(tg.grad(number))(3.0), Any)
    assert_type(tg.derivative(number)(3.0), float)
    assert_type(tg.derivative(lambda x: x * x)(3.0), Any)

    @tg.grad
    def slope(x: float) -> float:
        return x**3

    assert_type(slope(2.0), float)


def looking_at_transformations() -> None:
    g = tg.grad(of_array)
    assert_type(g, Transformed[Array])
    g(POINT)
    assert_type(g.stats(), Stats)
    assert_type(g.stats().replays, int)
    assert_type(g.stats().misses, Counter[str])
    assert_type(g.tape(POINT), FinishedTape)
    assert_type(g.kernel(POINT), TapeKernel)
    assert_type(tg.jit(number), Jitted[float])
    assert_type(tg.jit(number)(3.0), float)

    @tg.jit(fastmath=True)
    def fast(x: Array) -> Array:
        return x + 1.0

    assert_type(fast(POINT), Array)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tape.npz")
        g.tape(POINT).save(path)
        assert_type(tg.load_tape(path), FinishedTape)


def jacobians() -> None:
    assert_type(tg.jacobian(between)(POINT), Array)
    assert_type(tg.jacobian(of_array)(POINT), Array)
    assert_type(tg.jacobian(number)(3.0), float)
    assert_type(tg.jit(tg.jacobian(between, mode="reverse"), kernel="never")(POINT), Array)
    assert_type(tg.jacobian(of_container)({"w": POINT, "b": POINT}), Any)
    assert_type(tg.jacobian(lambda x: x)(POINT), Any)
    assert_type(tg.jacobian(between).stats(), Stats)
    assert_type(tg.jacrev(between)(POINT), Array)
    assert_type(tg.jacfwd(between)(POINT), Array)
    value, pullback = tg.vjp(between, POINT)
    assert_type(value, Array)
    assert_type(pullback(np.ones(1)), tuple[Any, ...])
    value, push = tg.linearize(between, POINT)
    assert_type(push(POINT), Array)
    assert_type(tg.jvp(between, (POINT,), (POINT,)), tuple[Array, Array])


def second_derivatives() -> None:
    assert_type(tg.hessian(of_array)(POINT), Array)
    assert_type(tg.hessian(number)(3.0), float)
    assert_type(tg.hessian(of_container)({"w": POINT, "b": POINT}), Any)
    assert_type(tg.hessian_diag(of_array)(POINT), Array)
    assert_type(tg.laplacian(of_array)(POINT), float)
    assert_type(tg.hvp(of_array)(POINT, POINT), Array)
    assert_type(tg.gnvp(between)(POINT, POINT), Array)
    # SciPy says nothing of its types here.
    tg.sparse_jacobian(between)(POINT).toarray()
    tg.sparse_hessian(of_array)(POINT).toarray()
    tg.sparsity(between)(POINT).toarray()
    assert_type(tg.sparsity(between).stats(), Stats)


def tensors() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    assert_type(x, tg.Tensor)
    assert_type(x * x + 1.0, tg.Tensor)
    assert_type(2.0 - x / 3, tg.Tensor)
    assert_type(-x**2 % 3 @ x, tg.Tensor)
    assert_type(x > 1.0, tg.Tensor)
    assert_type(x[0], tg.Tensor)
    assert_type(list(x), list[tg.Tensor])
    assert_type(x.sum(axis=0).exp().clip(0.0, 5.0), tg.Tensor)
    assert_type(x.T.reshape(2, 1).T, tg.Tensor)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.requires_grad, bool)
    assert_type(x.detach(), tg.Tensor)
    assert_type(x.detach().numpy(), NDArray[Any])
    assert_type(x.split(2), list[tg.Tensor])
    assert_type(float(x.detach()[0]), float)
    assert_type(tg.Parameter([1.0]), tg.Parameter)
    loss = (x * x).sum()
    handle = x.register_hook(lambda g: None)
    assert_type(handle, RemovableHandle)
    assert_type(loss.backward(retain_graph=True), None)
    assert_type(x.grad, tg.Tensor | None)
    handle.remove()
    assert_type(tg.autograd.grad(loss, [x], retain_graph=True), tuple[tg.Tensor, ...])
    assert_type(tg.autograd.grad(loss, [x], allow_unused=True), tuple[tg.Tensor | None, ...])


def the_namespace() -> None:
    x = tg.tensor([1.0, 2.0])
    for made in (tg.zeros(2), tg.ones((2, 3)), tg.full(2, 1.0), tg.eye(2), tg.arange(3), tg.linspace(0.0, 1.0), tg.zeros_like(x)):
        assert_type(made, tg.Tensor)
    assert_type(tg.as_tensor([1.0]), tg.Tensor)
    assert_type(tg.from_numpy(POINT), tg.Tensor)
    assert_type(tg.sin(x), tg.Tensor)
    assert_type(tg.sin(1.0), tg.Tensor)
    assert_type(tg.arctan2(1.0, x), tg.Tensor)
    assert_type(tg.sum(x, axis=0, keepdims=True), tg.Tensor)
    assert_type(tg.where(x > 1.0, x, 0.0), tg.Tensor)
    assert_type(tg.stack([x, x]), tg.Tensor)
    assert_type(tg.split(x, 2), list[tg.Tensor])
    assert_type(tg.nn.functional.mse_loss(x, POINT, "sum"), tg.Tensor)
    assert_type(tg.stop_gradient(x), tg.Tensor)
    assert_type(tg.stop_gradient({"a": 1.0}), dict[str, float])
    assert_type(tg.info(), dict[str, str])
    assert_type(tg.manual_seed(0), np.random.Generator)


def numpys_names() -> None:
    def length(x: Array) -> float:
        filled = tnp.zeros(2)
        filled[0] = tnp.sin(x[0])
        return tnp.sum(filled * x)

    assert_type(tnp.zeros((2, 2)), np.ndarray[tuple[int, int], np.dtype[np.float64]])
    assert_type(tnp.linalg.det(tnp.eye(2)), Any)
    assert_type(tnp.random.RandomState(0).rand(), float)
    assert_type(tg.grad(length)(POINT), Array)


def dual_numbers() -> None:
    d = tg.Dual(2.0, 1.0)
    assert_type(d * d, tg.Dual)
    assert_type(tg.sin(d), tg.Dual)
    assert_type(tg.multiply(2.0, d), tg.Dual)
    assert_type(d.exp(), tg.Dual)
    assert_type(d.lanes, int | None)
    assert_type(d.level, int)


def tapes_and_modes() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    with tg.Tape() as tape:
        y = x * x
    assert_type(tape, tg.Tape)
    assert_type(len(tape), int)
    assert_type(tape.memory(), dict[str, int])
    assert_type(tape.trace(y), PlainTable)
    assert_type(tape.leaves_of(y), list[tg.Tensor])
    assert_type(tape.draw(), Picture)
    with tg.no_grad(), tg.enable_grad(), tg.set_grad_enabled(True), tg.detect_anomaly():
        assert_type(tg.is_grad_enabled(), bool)

    @tg.no_grad
    def quiet(x: Array) -> Array:
        return x

    @tg.detect_anomaly()
    @tg.enable_grad()
    @tg.checkpoint
    def step(x: Array) -> Array:
        return x

    assert_type(quiet(POINT), Array)
    assert_type(step(POINT), Array)


def rules_of_users() -> None:
    @tg.primitive
    def cube(x: float) -> float:
        return x**3

    assert_type(cube, Primitive[float])

    @cube.defvjp
    def pull(g: Any, result: Any, x: Any) -> Any:
        return 3.0 * x**2 * g

    assert_type(tg.custom_jvp(cube, lambda tangents, result, x: 3.0 * x**2 * tangents[0]), Primitive[Any])
    assert_type(tg.grad(lambda x: cube(x))(2.0), Any)

    class Exp(tg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return np.exp(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    assert_type(Exp.apply(tg.tensor(0.0)), Any)


def optimisation() -> None:
    start = np.array([3.0, 4.0])
    found = tg.optimize.minimize(of_array, start, method="BFGS", progress=False)
    assert_type(found, Result)
    assert_type(found.success, bool)
    assert_type(found.message, str)
    assert_type(found.nit, int)
    assert_type(found.counts, dict[str, int])
    assert_type(found.seconds, dict[str, float])
    assert_type(found.history, Array)
    found = tg.optimize.lbfgs(of_array, start, progress=False, max_iter=2)
    assert_type(found.state, tg.optimize.State)
    assert_type(found.state.iterations, int)
    assert_type(tg.optimize.lbfgs(of_array, found.state, progress=False), Result)
    assert_type(tg.optimize.least_squares(between, start, progress=False), Result)
    assert_type(tg.optimize.root(lambda x: x - 1.0, start), Result)
    fitted = tg.optimize.curve_fit(lambda t, a: a * t, np.arange(3.0), np.arange(3.0))
    assert_type(fitted, tuple[Any, ...])
    w = tg.Parameter([1.0])
    optimizer = tg.optim.Adam([w], lr=0.1, betas=(0.9, 0.99))

    def closure() -> tg.Tensor:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert_type(optimizer.step(closure), tg.Tensor | None)
    assert_type(tg.optim.LBFGS([w]).step(closure), tg.Tensor)
    assert_type(optimizer.param_groups, list[dict[str, Any]])
    tg.optim.SGD([{"params": [w], "lr": 0.1}]).step()
    assert_type(tg.implicit.root(lambda x, a: x * x - a, 1.0, 4.0), Any)


def compiled_code() -> None:
    c = tg.compile(of_array, POINT)
    assert_type(c, Compiled)
    assert_type(c(POINT, np.empty(2)), float)
    assert_type(c.shape, tuple[int, ...])
    slopes = tg.compile(tg.grad(of_array), POINT)
    assert_type(slopes, CompiledOutputs)
    assert_type(slopes.results, list[tuple[int, ...]])
    assert_type(tg.njit_derivative(number), Callable[..., float])


def reports() -> None:
    assert_type(tg.check(of_array, POINT), Report)
    assert_type(tg.check(of_array, POINT).passed, bool)
    assert_type(tg.explain_zero(lambda x: np.floor(x), POINT), Explanation)
    assert_type(tg.explain_jumps(lambda x: np.floor(x), POINT, near=0.2), Jumps)
    assert_type(tg.compare(between, POINT, budget=0.01), Comparison)
    assert_type(tg.compare_scaling(lambda n: (lambda x: x * x, (np.ones(n),)), [2, 3], budget=0.01), Scaling)


def annotations_of_users(x: TensorLike, axis: Axis, params: Pytree) -> tg.Tensor:
    return tg.sum(x, axis=axis)


def with_our_types() -> None:
    assert_type(annotations_of_users(POINT, 0, {}), tg.Tensor)
    assert_type(annotations_of_users([1.0, 2.0], None, {}), tg.Tensor)


ALL: list[Callable[[], None]] = [
    gradients, looking_at_transformations, jacobians, second_derivatives, tensors, the_namespace, numpys_names, dual_numbers, tapes_and_modes,
    rules_of_users, optimisation, compiled_code, reports, with_our_types,
]  # fmt: skip
