"""More programs written for HIPS autograd: each function gives a function, and what it is differentiated by (`test_programs`)."""

import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import elementwise_grad, grad, hessian, jacobian, value_and_grad
from autograd.numpy.linalg import cholesky, eigh, inv, slogdet, solve
from autograd.scipy.linalg import solve_triangular
from autograd.scipy.special import digamma, erf, expit, gammaln, logsumexp
from autograd.scipy.stats import beta, gamma, multivariate_normal, norm, poisson, t


def draw(*shape, seed=0):
    return npr.RandomState(seed).randn(*shape)


def softmax_regression():
    x, labels = draw(12, 4), npr.RandomState(1).randint(3, size=12)

    def loss(params):
        scores = np.dot(x, params["w"]) + params["b"]
        picked = scores[np.arange(12), labels]
        return np.mean(logsumexp(scores, axis=1) - picked) + 0.1 * np.sum(params["w"] ** 2)

    return loss, {"w": draw(4, 3, seed=2), "b": np.zeros(3)}


def bayesian_net_with_bumps():
    x = np.linspace(-2, 2, 10).reshape(10, 1)
    y = np.cos(x) + 0.1 * draw(10, 1)

    def log_posterior(weights):
        w1, b1 = weights[:5].reshape(1, 5), weights[5:10]
        w2, b2 = weights[10:15].reshape(5, 1), weights[15]
        hidden = np.exp(-((np.dot(x, w1) + b1) ** 2))
        return np.sum(norm.logpdf(y, np.dot(hidden, w2) + b2, 0.3)) + np.sum(norm.logpdf(weights))

    return log_posterior, draw(16, seed=3)


def generative_adversaries():
    noise, data = draw(8, 2), draw(8, 2, seed=1) + 1.0

    def relu(x):
        return np.maximum(0, x)

    def objective(params):
        (g1, g2), (d1, d2) = params
        fake = np.dot(relu(np.dot(noise, g1)), g2)

        def logit(x):
            return np.dot(np.tanh(np.dot(x, d1)), d2)

        return np.mean(-np.log1p(np.exp(-logit(data)))) + np.mean(-np.log1p(np.exp(logit(fake))))

    return objective, ((draw(2, 4, seed=2), draw(4, 2, seed=3)), (draw(2, 5, seed=4), draw(5, 1, seed=5)))


def student_mixture():
    x = draw(15) * 2.0

    def loglike(params):
        weights = params[0] - logsumexp(params[0])
        parts = np.array([np.log(np.exp(weights[k])) + t.logpdf(x, 4.0, params[1][k], np.exp(params[2][k])) for k in range(2)])
        return np.sum(logsumexp(parts, axis=0))

    return loglike, [np.array([0.2, -0.3]), np.array([-1.0, 1.2]), np.array([0.1, 0.4])]


def gamma_fit():
    x = np.abs(draw(10)) + 0.2
    return lambda p: np.sum(gamma.logpdf(x * np.exp(p[1]), np.exp(p[0])) + p[1]), np.array([0.3, -0.2])


def beta_fit():
    x = expit(draw(9))
    return lambda p: np.sum(beta.logpdf(x, np.exp(p[0]), np.exp(p[1]))), np.array([0.5, 0.2])


def poisson_regression():
    x, counts = draw(10, 3), npr.RandomState(2).poisson(2.0, 10)
    return lambda w: np.sum(poisson.logpmf(counts, np.exp(np.dot(x, w)))), np.array([0.1, -0.3, 0.2])


def probit():
    x, side = draw(10, 3), np.sign(draw(10, seed=4))
    return lambda w: np.sum(norm.logcdf(side * np.dot(x, w))), np.array([0.5, -0.3, 0.2])


def gaussian_by_cholesky():
    x = draw(9, 3)

    def loglike(params):
        lower = np.tril(params["l"], -1) + np.diag(np.exp(np.diag(params["l"])))
        return np.sum(multivariate_normal.logpdf(x, params["mean"], np.dot(lower, lower.T)))

    return loglike, {"mean": np.zeros(3), "l": 0.3 * draw(3, 3, seed=1)}


def experts():
    x, y = draw(10, 2), draw(10, seed=6)

    def loss(params):
        gate, experts = params
        scores = np.dot(x, gate)
        weights = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        outputs = np.stack([np.dot(x, w) + b for w, b in experts], axis=1)
        return np.sum((np.sum(weights * outputs, axis=1) - y) ** 2)

    return loss, (draw(2, 3, seed=1), [(draw(2, seed=k), 0.1 * k) for k in range(3)])


def attention():
    words = draw(5, 4)

    def score(params):
        q, k, v = [np.dot(words, w) for w in params]
        scores = np.dot(q, k.T) / np.sqrt(4.0) + np.triu(np.full((5, 5), -1e9), 1)
        weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        return np.sum(np.dot(weights / np.sum(weights, axis=1, keepdims=True), v) ** 2)

    return score, [draw(4, 4, seed=k) for k in range(3)]


def gated_recurrent_unit():
    steps = draw(6, 2)

    def last(params):
        h = np.zeros(3)
        for x in steps:
            both = np.concatenate([x, h])
            z, r = expit(np.dot(params["z"], both)), expit(np.dot(params["r"], both))
            h = (1.0 - z) * h + z * np.tanh(np.dot(params["h"], np.hstack([x, r * h])))
        return np.sum(h**2)

    return last, {name: 0.4 * draw(3, 5, seed=k) for k, name in enumerate("zrh")}


def batch_norm_net():
    x, y = draw(12, 3), draw(12, seed=8)

    def loss(params):
        w1, scale, shift, w2 = params
        hidden = np.dot(x, w1)
        hidden = (hidden - np.mean(hidden, axis=0)) / np.std(hidden, axis=0)
        hidden = scale * hidden + shift
        return np.mean((np.dot(np.where(hidden > 0, hidden, 0.1 * hidden), w2) - y) ** 2)

    return loss, (draw(3, 4, seed=1), np.ones(4), np.zeros(4), draw(4, seed=2))


def heat_equation():
    def final(u):
        for _ in range(8):
            u = u + 0.2 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
        return np.sum((u - np.linspace(0.0, 1.0, 8)) ** 2)

    return final, draw(8)


def wave_in_two_dimensions():
    def energy(u):
        before, now = u, u
        for _ in range(5):
            laplace = sum([np.roll(now, s, axis=a) for s in (-1, 1) for a in (0, 1)]) - 4.0 * now
            before, now = now, 2.0 * now - before + 0.1 * laplace
        return np.sum(now**2) + np.sum(np.diff(now, axis=0) ** 2)

    return energy, draw(4, 5)


def advected_smoke():
    smoke = np.exp(-np.linspace(-2, 2, 12) ** 2)

    def moved(v):
        values, xs = smoke, np.arange(12)
        for _ in range(3):
            at = xs - np.tanh(v)
            left = np.floor(at).astype(int)
            part = at - left
            values = (1.0 - part) * values[left % 12] + part * values[(left + 1) % 12]
        return np.sum(values * xs)

    return moved, 0.7 * draw(12, seed=5)


def lotka_volterra():
    data = np.abs(draw(6, 2)) + 0.5

    def misfit(p):
        a, b, c, d = np.exp(p)

        def rate(y):
            return np.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])

        y, total, h = np.array([1.0, 0.7]), 0.0, 0.1
        for k in range(6):
            k1 = rate(y)
            k2 = rate(y + h / 2 * k1)
            k3 = rate(y + h / 2 * k2)
            k4 = rate(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            total = total + np.sum((y - data[k]) ** 2)
        return total

    return misfit, np.array([0.1, -0.2, -0.3, 0.05])


def lagrangian_pendulum():
    def lagrangian(q, v):
        kinetic = v[0] ** 2 + 0.5 * v[1] ** 2 + v[0] * v[1] * np.cos(q[0] - q[1])
        return kinetic + 2.0 * np.cos(q[0]) + np.cos(q[1])

    def acceleration(state):
        q, v = state[:2], state[2:]
        mass = hessian(lagrangian, 1)(q, v)
        mixed = jacobian(grad(lagrangian, 1), 0)(q, v)
        return np.sum(solve(mass, grad(lagrangian, 0)(q, v) - np.dot(mixed, v)) ** 2)

    return acceleration, np.array([0.4, -0.7, 0.3, 0.9])


def control_by_riccati():
    A, B = np.eye(3) + 0.1 * draw(3, 3), draw(3, 1, seed=1)

    def cost(logs):
        Q, R = np.diag(np.exp(logs[:3])), np.exp(logs[3:]).reshape(1, 1)
        P = Q
        for _ in range(5):
            gain = solve(R + B.T @ P @ B, B.T @ P @ A)
            P = Q + A.T @ P @ (A - B @ gain)
        return np.trace(P)

    return cost, np.array([0.1, -0.2, 0.3, 0.2])


def soft_alignment():
    a, b = draw(4), draw(5, seed=1)

    def distance(warp):
        costs = (warp[0] * a[:, None] + warp[1] - b[None, :]) ** 2
        table = [[np.inf] * 6 for _ in range(5)]
        table[0][0] = 0.0
        for i in range(4):
            for j in range(5):
                near = [x for x in (table[i][j], table[i][j + 1], table[i + 1][j]) if not isinstance(x, float) or x < np.inf]
                table[i + 1][j + 1] = costs[i, j] - logsumexp(-np.array(near))
        return table[4][5]

    return distance, np.array([0.9, 0.1])


def conditional_random_field():
    emissions, tags = draw(6, 3), [0, 2, 1, 1, 0, 2]

    def loss(transitions):
        forward = emissions[0]
        for row in emissions[1:]:
            forward = row + logsumexp(forward[:, None] + transitions, axis=0)
        path = sum([transitions[i, j] for i, j in zip(tags, tags[1:])])
        return logsumexp(forward) - path

    return loss, draw(3, 3, seed=1)


def soft_clusters():
    x = draw(10, 2)

    def energy(centres):
        squares = np.sum((x[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        return -np.sum(logsumexp(-2.0 * squares, axis=1)) / 2.0

    return energy, draw(3, 2, seed=1)


def neighbour_embedding():
    x = draw(6, 4)
    mask = 1.0 - np.eye(6)

    def affinity(y, kernel):
        squares = np.sum((y[:, None] - y[None]) ** 2, axis=-1)
        weights = kernel(squares) * mask
        return weights / np.sum(weights) + 1e-12

    p = affinity(x, lambda s: np.exp(-s / 4.0))
    return lambda y: np.sum(p * np.log(p / affinity(y, lambda s: 1.0 / (1.0 + s)))), draw(6, 2, seed=1)


def principal_components():
    x = draw(8, 4)

    def kept(scales):
        _, s, vt = np.linalg.svd(x * np.exp(scales), full_matrices=False)
        return np.sum(s[:2] ** 2) / np.sum(s**2) + np.sum(np.abs(vt[0]))

    return kept, np.array([0.1, -0.2, 0.3, 0.0])


def roots_of_matrices():
    def f(entries):
        a = np.dot(entries, entries.T) + np.eye(3)
        w, v = eigh(a)
        root = np.dot(v * np.sqrt(w), v.T)
        return np.sum(np.dot(root, np.arange(3.0)) ** 3) + slogdet(root)[1]

    return f, draw(3, 3)


def kernel_regression():
    x, y = draw(8, 2), draw(8, seed=3)

    def left_out(params):
        scale, noise = np.exp(params[:2]), np.exp(params[2])
        d = (x[:, None, :] - x[None, :, :]) / scale
        K = np.exp(-0.5 * np.sum(d**2, axis=2)) + noise * np.eye(8)
        precision = inv(K)
        return np.sum((np.dot(precision, y) / np.diag(precision)) ** 2)

    return left_out, np.array([0.2, -0.1, -0.5])


def gaussian_process_by_triangles():
    x, y = np.linspace(0, 3, 7), draw(7)

    def marginal(params):
        length, height, noise = np.exp(params)
        K = height * np.exp(-(((x[:, None] - x[None, :]) / length) ** 2)) + noise * np.eye(7)
        L = cholesky(K)
        white = solve_triangular(L, y, lower=True)
        return -0.5 * np.sum(white**2) - np.sum(np.log(np.diag(L)))

    return marginal, np.array([0.0, 0.1, -1.0])


def support_vectors():
    x, side = draw(12, 3), np.sign(draw(12, seed=2))
    return lambda w: 0.5 * np.dot(w[:3], w[:3]) + np.sum(np.maximum(0.0, 1.0 - side * (np.dot(x, w[:3]) + w[3]))), np.array([0.3, -0.2, 0.5, 0.1])


def quantile_regression():
    x, y = np.linspace(0, 1, 11), draw(11)

    def pinball(w):
        r = y - (w[0] + w[1] * x + w[2] * x**2)
        return np.sum(np.where(r > 0, 0.8 * r, -0.2 * r))

    return pinball, np.array([0.1, -0.3, 0.2])


def option_greeks():
    def price(p):
        spot, rate, sigma = p[0], p[1], p[2]
        d1 = (np.log(spot / 1.1) + (rate + sigma**2 / 2.0) * 0.75) / (sigma * np.sqrt(0.75))
        return spot * norm.cdf(d1) - 1.1 * np.exp(-rate * 0.75) * norm.cdf(d1 - sigma * np.sqrt(0.75))

    return lambda p: price(p) + grad(price)(p)[2] + hessian(price)(p)[0, 0], np.array([1.0, 0.03, 0.25])


def portfolio():
    returns = 0.1 * draw(20, 4)

    def objective(z):
        w = np.exp(z) / np.sum(np.exp(z))
        gains = np.dot(returns, w)
        return -np.mean(gains) + 2.0 * np.var(gains) + 0.1 * np.sort(gains)[0]

    return objective, draw(4, seed=1)


def spins():
    states = np.sign(draw(10, 4))

    def pseudo(couplings):
        J = (couplings + couplings.T) / 2.0
        J = J - np.diag(np.diag(J))
        fields = np.dot(states, J)
        return np.sum(states * fields - np.logaddexp(fields, -fields))

    return pseudo, 0.3 * draw(4, 4, seed=1)


def page_rank():
    def rank(links):
        P = np.exp(links) / np.sum(np.exp(links), axis=0)
        v = np.ones(5) / 5.0
        for _ in range(6):
            v = 0.85 * np.dot(P, v) + 0.03
        return np.max(v) + np.sum(v**2)

    return rank, draw(5, 5)


def bodies():
    masses = np.array([1.0, 0.5, 0.8])

    def final(state):
        q, v = state[:3], state[3:]
        for _ in range(4):
            force = []
            for i in range(3):
                total = np.zeros(2)
                for j in range(3):
                    if i != j:
                        d = q[j] - q[i]
                        total = total + masses[j] * d / (np.sum(d**2) + 0.1) ** 1.5
                force.append(total)
            v = v + 0.05 * np.array(force)
            q = q + 0.05 * v
        return np.sum(q * q) + np.sum(masses * np.sum(v**2, axis=1))

    return final, draw(6, 2)


def robot_arm():
    def reach(angles):
        position, heading = np.zeros(2), 0.0
        for k in range(4):
            heading = heading + angles[k]
            position = position + np.array([np.cos(heading), np.sin(heading)])
        rotation = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
        return np.sum((position - np.array([1.0, 2.0])) ** 2) + np.sum(np.dot(rotation, position))

    return reach, np.array([0.3, 0.4, -0.2, 0.9])


def projected_points():
    points, seen = draw(6, 3) + np.array([0.0, 0.0, 5.0]), draw(6, 2, seed=1)

    def cross(w):
        return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])

    def misfit(camera):
        w, shift, focal = camera[:3], camera[3:6], camera[6]
        angle = np.sqrt(np.sum(w**2))
        K = cross(w / angle)
        R = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * np.dot(K, K)
        moved = np.dot(points, R.T) + shift
        return np.sum((focal * moved[:, :2] / moved[:, 2:] - seen) ** 2)

    return misfit, np.array([0.2, -0.1, 0.3, 0.0, 0.1, 0.2, 1.1])


def optical_flow_by_shifts():
    image = np.outer(np.hanning(8), np.hanning(8))

    def blurred(kernel):
        padded = np.pad(image, 1, "constant")
        parts = [kernel[i, j] * padded[i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
        return np.sum((sum(parts) - image) ** 2)

    return blurred, draw(3, 3)


def tensor_factors():
    data = draw(3, 4, 5)
    return lambda f: np.sum((np.einsum("ir,jr,kr->ijk", f[0], f[1], f[2]) - data) ** 2), [draw(n, 2, seed=n) for n in (3, 4, 5)]


def curvature_of_a_curve():
    def curve(s, p):
        return p[0] * np.sin(s) + p[1] * np.sin(2.0 * s + p[2])

    first = elementwise_grad(curve)
    second = elementwise_grad(first)

    def bent(p):
        s = np.linspace(0.0, 3.0, 9)
        return np.sum(second(s, p) ** 2 / (1.0 + first(s, p) ** 2) ** 3)

    return bent, np.array([1.0, 0.4, 0.2])


def variational_gamma():
    noise = np.abs(draw(30, seed=9)) + 0.3

    def bound(params):
        a, b = np.exp(params)
        entropy = a - np.log(b) + gammaln(a) + (1.0 - a) * digamma(a)
        return entropy + np.mean(-noise * a / b + np.log(a / b))

    return bound, np.array([0.4, -0.3])


def error_function_net():
    x, y = draw(9, 3), draw(9, seed=1)

    def loss(params):
        hidden = x
        for w, b in params[:-1]:
            z = np.dot(hidden, w) + b
            hidden = 0.5 * z * (1.0 + erf(z / np.sqrt(2.0)))
        return np.mean(np.abs(np.dot(hidden, params[-1]) - y))

    return loss, [(draw(3, 4, seed=2), np.zeros(4)), (draw(4, 4, seed=3), np.ones(4)), draw(4, seed=4)]


def meta_learning():
    tasks = [(draw(5, 2, seed=k), draw(5, seed=k + 10)) for k in range(3)]

    def adapted(w):
        total = 0.0
        for x, y in tasks:

            def loss(v, x=x, y=y):
                return np.mean((np.tanh(np.dot(x, v)) - y) ** 2)

            inner = w
            for _ in range(2):
                _, g = value_and_grad(loss)(inner)
                inner = inner - 0.1 * g
            total = total + loss(inner)
        return total

    return adapted, np.array([0.3, -0.4])


def optical_design():
    n = 8
    rows, columns = np.meshgrid(np.arange(n) - 3.5, np.arange(n) - 3.5)
    frequencies = np.fft.fftfreq(n)
    propagator = np.exp(-2.0j * np.pi * 1.5 * (frequencies[:, None] ** 2 + frequencies[None, :] ** 2))
    beam = np.exp(-0.1 * (rows**2 + columns**2))
    target = np.exp(-((rows - 2.0) ** 2) - (columns + 1.0) ** 2) + np.exp(-((rows + 2.0) ** 2) - columns**2)

    def loss(masks):
        field = beam * np.exp(1j * masks[0])
        for mask in (masks[1], masks[2]):
            field = np.fft.ifft2(np.fft.fft2(field) * propagator) * np.exp(1j * mask)
        intensity = np.abs(np.fft.fftshift(np.fft.fft2(field, norm="ortho"))) ** 2
        return np.sum((intensity / np.sum(intensity) - target / np.sum(target)) ** 2)

    return loss, draw(3, n, n)


def blind_deconvolution():
    signal, n = draw(12), 12
    observed = np.real(np.fft.ifft(np.fft.fft(signal) * np.fft.fft(np.exp(-np.arange(n) / 2.0))))

    def loss(params):
        guess, kernel = params
        spectrum = np.fft.fft(guess) * np.fft.fft(np.exp(kernel))
        return np.sum((np.real(np.fft.ifft(spectrum)) - observed) ** 2) + 0.01 * np.sum(np.abs(spectrum * np.conj(spectrum)))

    return loss, (draw(n, seed=1), 0.1 * draw(n, seed=2))


PROGRAMS = [
    optical_design, blind_deconvolution, softmax_regression, bayesian_net_with_bumps, generative_adversaries, student_mixture, gamma_fit, beta_fit, poisson_regression, probit,
    gaussian_by_cholesky, experts, attention, gated_recurrent_unit, batch_norm_net, heat_equation, wave_in_two_dimensions, advected_smoke,
    lotka_volterra, lagrangian_pendulum, control_by_riccati, soft_alignment, conditional_random_field, soft_clusters, neighbour_embedding,
    principal_components, roots_of_matrices, kernel_regression, gaussian_process_by_triangles, support_vectors, quantile_regression, option_greeks,
    portfolio, spins, page_rank, bodies, robot_arm, projected_points, optical_flow_by_shifts, tensor_factors, curvature_of_a_curve,
    variational_gamma, error_function_net, meta_learning,
]  # fmt: skip


def answer(program):
    """The value of a program, and its gradient."""
    function, argument = program()
    return value_and_grad(function)(argument)
