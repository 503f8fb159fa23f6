"""Programs written for HIPS autograd, of the kind of its examples: each function gives a function, and what it is differentiated by.

`test_programs` runs this file as it stands, and once more with ``autograd`` replaced by ``tapegrad`` in the imports.
"""

import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import elementwise_grad, grad, jacobian, value_and_grad
from autograd.scipy.special import expit, gammaln, logsumexp
from autograd.scipy.stats import norm


def neural_net():
    rs = npr.RandomState(0)
    inputs, targets = rs.randn(20, 4), np.eye(3)[rs.randint(3, size=20)]
    params = [(0.1 * rs.randn(m, n), 0.1 * rs.randn(n)) for m, n in zip([4, 6, 5], [6, 5, 3])]

    def predict(params, x):
        for w, b in params:
            outputs = np.dot(x, w) + b
            x = np.tanh(outputs)
        return outputs - logsumexp(outputs, axis=1, keepdims=True)

    def log_posterior(params):
        prior = sum([np.sum(w**2) + np.sum(b**2) for w, b in params])
        return -0.5 * prior + np.sum(predict(params, inputs) * targets)

    return log_posterior, params


def logistic_regression():
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = np.array([True, True, False, True])

    def sigmoid(x):
        return 0.5 * (np.tanh(x / 2.0) + 1)

    def training_loss(weights):
        preds = sigmoid(np.dot(inputs, weights))
        return -np.sum(np.log(preds * targets + (1 - preds) * (1 - targets)))

    return training_loss, np.array([0.1, -0.2, 0.3])


def tanh():
    def by_exp(x):
        return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))

    third = elementwise_grad(elementwise_grad(by_exp))

    def f(x):
        return np.sum(third(x) * np.arange(7.0))

    return f, np.linspace(-2.0, 2.0, 7)


def sinusoid():
    def taylor_sine(x):
        ans = currterm = x
        i = 0
        while np.abs(currterm) > 0.001:
            currterm = -currterm * x**2 / ((2 * i + 3) * (2 * i + 2))
            ans = ans + currterm
            i += 1
        return ans

    return taylor_sine, 1.9


def rosenbrock():
    def f(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return f, np.array([0.3, -0.4, 0.9, 1.2])


def negative_binomial_mle():
    counts = np.array([3, 0, 4, 2, 7, 1, 1, 0, 5])

    def negbin_loglike(r, p, x):
        return gammaln(r + x) - gammaln(r) - gammaln(x + 1) + x * np.log(p) + r * np.log(1 - p)

    def objective(params):
        r, p = np.exp(params[0]), expit(params[1])
        return -np.mean(negbin_loglike(r, p, counts))

    return objective, np.array([0.4, -0.2])


def gaussian_process():
    rs = npr.RandomState(1)
    x = np.concatenate([np.linspace(0, 3, num=7), np.linspace(6, 8, num=5)])[:, None]
    y = np.cos(x[:, 0] - 4.0) / 2.0 + 0.1 * rs.randn(12)

    def rbf(lengthscales, x1, x2):
        diffs = np.expand_dims(x1 / lengthscales, 1) - np.expand_dims(x2 / lengthscales, 0)
        return np.exp(-0.5 * np.sum(diffs**2, axis=2))

    def log_marginal_likelihood(params):
        mean, output_scale, noise, lengthscales = params[0], np.exp(params[1]), np.exp(params[2]) + 0.001, np.exp(params[3:])
        cov = output_scale * rbf(lengthscales, x, x) + noise * np.eye(len(y))
        sign, logdet = np.linalg.slogdet(cov)
        residual = y - mean
        return -0.5 * (np.dot(residual, np.linalg.solve(cov, residual)) + logdet + len(y) * np.log(2 * np.pi))

    return log_marginal_likelihood, np.array([0.1, -0.3, -2.0, 0.2])


def gaussian_mixture():
    rs = npr.RandomState(2)
    num, dim = 3, 2
    data = rs.randn(15, dim)

    def log_gaussian(x, mean, factor):
        cov = np.dot(factor, factor.T) + 0.1 * np.eye(dim)
        delta = x - mean
        return -0.5 * np.einsum("ni,ij,nj->n", delta, np.linalg.inv(cov), delta) - 0.5 * np.linalg.slogdet(cov)[1] - 0.5 * dim * np.log(2 * np.pi)

    def log_likelihood(params):
        weights, means, factors = params["log proportions"], params["means"], params["lower triangles"]
        proportions = weights - logsumexp(weights)
        parts = [p + log_gaussian(data, mean, np.tril(factor)) for p, mean, factor in zip(proportions, means, factors)]
        return np.sum(logsumexp(np.vstack(parts), axis=0))

    return log_likelihood, {"log proportions": 0.1 * rs.randn(num), "means": rs.randn(num, dim), "lower triangles": np.zeros((num, dim, dim)) + np.eye(dim)}


def lstm():
    rs = npr.RandomState(3)
    inputs, targets = rs.randn(6, 4, 3), rs.rand(6, 4, 2)
    inner = 5
    params = {"init cell": 0.1 * rs.randn(1, inner), "init hiddens": 0.1 * rs.randn(1, inner), "predict": 0.3 * rs.randn(inner + 1, 2)}
    for gate in ("change", "forget", "ingate", "outgate"):
        params[gate] = 0.3 * rs.randn(3 + inner + 1, inner)

    def sigmoid(x):
        return 0.5 * (np.tanh(x) + 1.0)

    def concat_and_multiply(weights, *args):
        cat_state = np.hstack(args + (np.ones((args[0].shape[0], 1)),))
        return np.dot(cat_state, weights)

    def update(x, hiddens, cells):
        change = np.tanh(concat_and_multiply(params_of["change"], x, hiddens))
        forget = sigmoid(concat_and_multiply(params_of["forget"], x, hiddens))
        ingate = sigmoid(concat_and_multiply(params_of["ingate"], x, hiddens))
        outgate = sigmoid(concat_and_multiply(params_of["outgate"], x, hiddens))
        cells = cells * forget + ingate * change
        return outgate * np.tanh(cells), cells

    params_of = {}

    def log_likelihood(params):
        params_of.update(params)
        hiddens = np.repeat(params["init hiddens"], inputs.shape[1], axis=0)
        cells = np.repeat(params["init cell"], inputs.shape[1], axis=0)
        total = 0.0
        for x, target in zip(inputs, targets):
            hiddens, cells = update(x, hiddens, cells)
            output = concat_and_multiply(params["predict"], hiddens)
            total += np.sum((output - logsumexp(output, axis=1, keepdims=True)) * target)
        return total

    return log_likelihood, params


def recurrent_net():
    rs = npr.RandomState(4)
    sequence = rs.randn(8, 2, 3)
    params = {"change": 0.4 * rs.randn(3 + 4 + 1, 4), "init": 0.1 * rs.randn(4), "out": 0.4 * rs.randn(4, 3)}

    def loss(params):
        hiddens = np.tile(params["init"], (2, 1))
        outputs = []
        for x in sequence:
            hiddens = np.tanh(np.dot(np.concatenate([x, hiddens, np.ones((2, 1))], axis=1), params["change"]))
            outputs.append(np.dot(hiddens, params["out"]))
        return np.mean((np.array(outputs)[:-1] - sequence[1:]) ** 2)

    return loss, params


def ode_net():
    rs = npr.RandomState(5)
    params = [(0.3 * rs.randn(2, 6), 0.1 * rs.randn(6)), (0.3 * rs.randn(6, 2), 0.1 * rs.randn(2))]
    times = np.linspace(0.0, 2.0, 9)
    truth = np.stack([np.cos(times), -np.sin(times)], axis=1)

    def dynamics(y, params):
        for w, b in params:
            outputs = np.dot(y, w) + b
            y = np.tanh(outputs)
        return outputs

    def loss(params):
        y, path = np.array([1.0, 0.0]), []
        for start, end in zip(times[:-1], times[1:]):
            path.append(y)
            h = end - start
            k1 = dynamics(y, params)
            k2 = dynamics(y + 0.5 * h * k1, params)
            k3 = dynamics(y + 0.5 * h * k2, params)
            y = y + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + dynamics(y + h * k3, params))
        return np.mean(np.abs(np.stack(path) - truth[:-1]))

    return loss, params


def fluid_simulation():
    rs = npr.RandomState(6)
    rows = cols = 6
    smoke, target = rs.rand(rows, cols), rs.rand(rows, cols)

    def project(vx, vy):
        p = np.zeros(vx.shape)
        h = 1.0 / vx.shape[0]
        div = -0.5 * h * (np.roll(vx, -1, axis=0) - np.roll(vx, 1, axis=0) + np.roll(vy, -1, axis=1) - np.roll(vy, 1, axis=1))
        for _ in range(10):
            p = (div + np.roll(p, 1, axis=0) + np.roll(p, -1, axis=0) + np.roll(p, 1, axis=1) + np.roll(p, -1, axis=1)) / 4.0
        vx = vx - 0.5 * (np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)) / h
        vy = vy - 0.5 * (np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1)) / h
        return vx, vy

    def advect(f, vx, vy):
        right, up = np.maximum(vx, 0.0), np.maximum(vy, 0.0)
        left, down = np.maximum(-vx, 0.0), np.maximum(-vy, 0.0)
        stay = 1.0 - 0.1 * (right + up + left + down)
        return stay * f + 0.1 * (
            right * np.roll(f, 1, axis=0) + left * np.roll(f, -1, axis=0) + up * np.roll(f, 1, axis=1) + down * np.roll(f, -1, axis=1)
        )

    def objective(params):
        vx, vy = np.reshape(params[: rows * cols], (rows, cols)), np.reshape(params[rows * cols :], (rows, cols))
        flow = smoke
        for _ in range(3):
            vx, vy = project(advect(vx, vx, vy), advect(vy, vx, vy))
            flow = advect(flow, vx, vy)
        return np.mean((flow - target) ** 2)

    return objective, 0.3 * rs.randn(2 * rows * cols)


def black_box_variational_inference():
    rs = npr.RandomState(7)
    dim, samples = 2, 30
    noise = rs.randn(samples, dim)

    def log_density(x):
        mu, log_sigma = x[:, 0], x[:, 1]
        return norm.logpdf(log_sigma, 0, 1.35) + norm.logpdf(mu, 0, np.exp(log_sigma))

    def gaussian_entropy(log_std):
        return 0.5 * dim * (1.0 + np.log(2 * np.pi)) + np.sum(log_std)

    def variational_objective(params):
        mean, log_std = params[:dim], params[dim:]
        draws = noise * np.exp(log_std) + mean
        return -(gaussian_entropy(log_std) + np.mean(log_density(draws)))

    return variational_objective, np.concatenate([-np.ones(dim), -0.5 * np.ones(dim)])


def rkhs():
    class Function:
        """A function of a reproducing kernel Hilbert space, by the weights of its features."""

        def __init__(self, kernel, alphas):
            self.kernel, self.alphas = kernel, alphas

        def __call__(self, x):
            return sum([a * self.kernel(x, repr_x) for repr_x, a in self.alphas.items()], 0.0)

    xs, ys = [-1.0, 0.3, 0.8, 2.0], [0.4, 0.1, -0.3, 0.7]

    def kernel(x1, x2):
        return np.exp(-((x1 - x2) ** 2))

    def loss(weights):
        f = Function(kernel, dict(zip(xs, weights)))
        return sum([(f(x) - y) ** 2 for x, y in zip(xs, ys)]) + 0.1 * np.dot(weights, weights)

    return loss, np.array([0.2, -0.1, 0.4, 0.3])


def deep_sets():
    rs = npr.RandomState(8)
    sets = [rs.randn(n, 2) for n in (3, 5, 2)]
    labels = np.array([1.0, -1.0, 0.5])
    params = {"phi": 0.5 * rs.randn(2, 6), "rho": 0.5 * rs.randn(6, 1), "bias": np.zeros(6)}

    def predict(params, points):
        features = np.maximum(np.dot(points, params["phi"]) + params["bias"], 0.0)
        return np.dot(np.sum(features, axis=0) + np.max(features, axis=0), params["rho"])[0]

    def loss(params):
        return np.mean((np.array([predict(params, s) for s in sets]) - labels) ** 2)

    return loss, params


def convolutional_net():
    rs = npr.RandomState(9)
    images, labels = rs.randn(3, 6, 6), np.eye(2)[[0, 1, 1]]
    params = {"filters": 0.4 * rs.randn(2, 3, 3), "dense": 0.3 * rs.randn(8, 2)}

    def convolve(images, filters):
        size = images.shape[1] - 2
        patches = np.stack([images[:, i : i + size, j : j + size] for i in range(3) for j in range(3)], axis=-1)
        return np.einsum("nxyp,fp->nfxy", patches, np.reshape(filters, (2, 9)))

    def pool(x):
        n, f, h, w = x.shape
        return np.max(np.max(np.reshape(x, (n, f, h // 2, 2, w // 2, 2)), axis=3), axis=4)

    def loss(params):
        hidden = np.tanh(pool(convolve(images, params["filters"])))
        logits = np.dot(np.reshape(hidden, (3, -1)), params["dense"])
        return -np.sum((logits - logsumexp(logits, axis=1, keepdims=True)) * labels)

    return loss, params


def variational_autoencoder():
    rs = npr.RandomState(10)
    data, noise = (rs.rand(5, 6) > 0.5).astype(float), rs.randn(5, 2)
    params = (0.3 * rs.randn(6, 4), 0.3 * rs.randn(2, 6))

    def elbo(params):
        encoder, decoder = params
        code = np.dot(data, encoder)
        mean, log_std = code[:, :2], code[:, 2:]
        latents = mean + noise * np.exp(log_std)
        logits = np.dot(latents, decoder)
        likelihood = -np.sum(np.logaddexp(0, np.where(data > 0.5, -logits, logits)), axis=1)
        kl = 0.5 * np.sum(np.exp(2 * log_std) + mean**2 - 1.0 - 2 * log_std, axis=-1)
        return np.mean(likelihood - kl)

    return elbo, params


def hidden_markov_model():
    rs = npr.RandomState(11)
    observed = rs.randint(0, 3, size=12)
    params = (rs.randn(2), rs.randn(2, 2), rs.randn(2, 3))

    def log_normalize(a):
        return a - logsumexp(a, axis=-1, keepdims=True)

    def log_partition(params):
        initial, transitions, emissions = [log_normalize(p) for p in params]
        alpha = initial + emissions[:, observed[0]]
        for y in observed[1:]:
            alpha = logsumexp(alpha[:, None] + transitions, axis=0) + emissions[:, y]
        return logsumexp(alpha)

    def responsibilities(params):
        expected = grad(log_partition)(params)
        return sum([np.sum(e * e) for e in expected])

    return responsibilities, params


def expectation_maximisation():
    rs = npr.RandomState(12)
    data = np.concatenate([rs.randn(8) - 2.0, rs.randn(8) + 2.0])

    def log_joint(params):
        means, log_stds, logits = params[0:2], params[2:4], params[4:6]
        return norm.logpdf(data[:, None], means, np.exp(log_stds)) + logits - logsumexp(logits)

    def expected_complete(params):
        joint = log_joint(params)
        posterior = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return np.sum(posterior * joint)

    return expected_complete, np.array([-1.5, 1.0, 0.1, -0.1, 0.3, 0.0])


def matrix_factorisation():
    rs = npr.RandomState(13)
    table = rs.randn(5, 4)
    table[rs.rand(5, 4) < 0.3] = np.nan
    seen = ~np.isnan(table)
    filled = np.nan_to_num(table)

    def loss(params):
        u, v = params
        error = np.where(seen, filled - np.dot(u, v.T), 0.0)
        return np.sum(error**2) + 0.1 * (np.linalg.norm(u) ** 2 + np.linalg.norm(v) ** 2)

    return loss, (rs.randn(5, 2), rs.randn(4, 2))


def kalman_filter():
    rs = npr.RandomState(14)
    observed = rs.randn(6)

    def log_likelihood(params):
        angle, q, r = params[0], np.exp(params[1]), np.exp(params[2])
        transition = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        mean, cov, total = np.zeros(2), np.eye(2), 0.0
        for y in observed:
            mean, cov = np.dot(transition, mean), np.dot(np.dot(transition, cov), transition.T) + q * np.eye(2)
            s, innovation = cov[0, 0] + r, y - mean[0]
            gain = cov[:, 0] / s
            mean, cov = mean + gain * innovation, cov - np.outer(gain, cov[0])
            total += norm.logpdf(innovation, 0.0, np.sqrt(s))
        return total

    return log_likelihood, np.array([0.4, -1.0, -0.5])


def hamiltonian_dynamics():
    masses = np.array([1.0, 2.0, 0.5])

    def energy(q):
        total = 0.0
        for i in range(3):
            for j in range(i):
                total = total - masses[i] * masses[j] / np.sqrt(np.sum((q[i] - q[j]) ** 2) + 0.01)
        return total

    def final(state):
        q, p = np.reshape(state[:6], (3, 2)), np.reshape(state[6:], (3, 2))
        force = grad(energy)
        for _ in range(4):
            p = p - 0.05 * force(q)
            q = q + 0.05 * p / masses[:, None]
        return np.sum(q**2) + np.sum(p**2)

    return final, np.array([0.0, 1.0, -1.0, -0.5, 1.0, -0.6, 0.3, 0.0, -0.2, 0.1, 0.0, 0.4])


def newton_step():
    def f(x):
        return np.sum(np.cosh(x)) + 0.5 * np.dot(x, x) + x[0] * x[1]

    def improved(x):
        return f(x - np.linalg.solve(jacobian(grad(f))(x), grad(f)(x)))

    return improved, np.array([0.7, -0.4, 0.2])


def gradient_descent_unrolled():
    target = np.array([0.3, -0.2])

    def inner(w, rates):
        return np.sum((w - target) ** 2 * np.exp(rates[2:])) + 0.1 * np.sum(w**4)

    def outer(rates):
        w = np.ones(2)
        for _ in range(5):
            value, g = value_and_grad(inner)(w, rates)
            w = w - expit(rates[:2]) * g
        return np.sum((w - target) ** 2) + value

    return outer, np.array([-1.0, -1.5, 0.2, 0.1])


def softmax_of_lists():
    def f(x):
        a, b, c = x[0], x[1], x[2]
        rows = np.array([[a * b, np.sin(c)], [np.exp(-a), 1.0]])
        scores = np.dot(rows, np.array([b, c]))
        weights = np.exp(scores - np.max(scores))
        return np.sum(np.linalg.inv(rows) * np.outer(weights, scores)) / np.sum(weights)

    return f, np.array([0.4, 0.7, -0.9])


PROGRAMS = [
    neural_net, logistic_regression, tanh, sinusoid, rosenbrock, negative_binomial_mle, gaussian_process, gaussian_mixture, lstm, recurrent_net, ode_net, fluid_simulation,
    black_box_variational_inference, rkhs, deep_sets, convolutional_net, variational_autoencoder, hidden_markov_model, expectation_maximisation, matrix_factorisation,
    kalman_filter, hamiltonian_dynamics, newton_step, gradient_descent_unrolled, softmax_of_lists,
]  # fmt: skip


def answer(program):
    """The value of a program, and its gradient."""
    function, argument = program()
    return value_and_grad(function)(argument)
