"""Ten programs in the manner of PyTorch, and the lines of each that change: what it was -> what it is with tapegrad.

Each defines `main()`, which returns values and gradients in any containers.  Numbers are float64: PyTorch's default dtype is set so.
"""

#: Lines that change in all of them.
IMPORTS = {
    "import torch": "import tapegrad as torch",
    "from torch import nn": "from tapegrad import nn",
    "import torch.nn.functional as F": "import tapegrad.nn.functional as F",
    "from torch.utils.data import DataLoader, TensorDataset": "from tapegrad.utils.data import DataLoader, TensorDataset",
    "from torch.func import grad, jacrev, vmap": "from tapegrad import grad, jacrev, vmap",
}

BY_HAND = '''
import numpy as np
import torch

rng = np.random.default_rng(0)
X, Y = torch.tensor(rng.normal(size=(50, 3))), torch.tensor(rng.normal(size=50))


def main():
    w = torch.zeros(3, requires_grad=True)
    b = torch.tensor(0.0, requires_grad=True)
    losses = []
    for _ in range(20):
        loss = ((X @ w + b - Y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            w.grad.zero_()
            b.grad = None
        losses.append(loss.item())
    return losses, w, b
'''
SEQUENTIAL = '''
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(1)
X, LABELS = torch.tensor(rng.normal(size=(40, 4))), torch.tensor(rng.integers(0, 3, 40))
WEIGHTS = [rng.normal(size=(8, 4)), rng.normal(size=8), rng.normal(size=(3, 8)), rng.normal(size=3)]


def main():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), WEIGHTS):
            parameter.copy_(torch.tensor(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = criterion(model(X), LABELS)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.grad for p in model.parameters()]
'''
MODULE = '''
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

rng = np.random.default_rng(2)
T = torch.linspace(0.0, 2.0, 30)
OBSERVED = torch.tensor(rng.poisson(20.0, 30).astype(float))


class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.height = nn.Parameter(torch.tensor(3.0))
        self.rate = nn.Parameter(torch.tensor(0.2))

    def forward(self, t):
        return F.softplus(self.height) * torch.exp(-self.rate * t)


def main():
    model = Decay()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for _ in range(30):
        optimizer.zero_grad()
        expected = model(T)
        loss = (expected - OBSERVED * torch.log(expected)).sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss, dict(model.named_parameters()), scheduler.get_last_lr()
'''
FUNCTION = '''
import numpy as np
import torch


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, adjoint):
        (x,) = ctx.saved_tensors
        return adjoint * 3.0 * ctx.scale * x**2, None


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


def main():
    x = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    y = MyReLU.apply(Cubed.apply(x, 2.0))
    y.backward(torch.tensor([1.0, 0.5, 2.0]))
    return y, x.grad
'''
CURVATURE = '''
import numpy as np
import torch

W = torch.tensor(np.random.default_rng(3).normal(size=(5, 1)))


def main():
    x = torch.linspace(0.0, 1.0, 7).reshape(-1, 1).requires_grad_()
    theta = torch.ones(5, requires_grad=True)
    u = torch.tanh(x @ W.T) @ theta
    (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    loss = ((curvature[:, 0] + u) ** 2).mean()
    loss.backward()
    return loss, slope, curvature, theta.grad, x.grad
'''
CLOSURE = '''
import numpy as np
import torch


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def main():
    x = torch.tensor([-1.2, 1.0, 0.8], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-12, tolerance_change=1e-15)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    optimizer.step(closure)
    return x, rosenbrock(x)
'''
HOOKS = '''
import numpy as np
import torch


def main():
    seen = []
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    y.retain_grad()
    y.register_hook(lambda g: g.clamp(max=1.0))
    x.register_hook(lambda g: seen.append(g.clone()))
    z = (y * torch.tensor([0.5, 1.0, 4.0])).sum()
    z.backward(retain_graph=True)
    z.backward()
    return z, y.grad, x.grad, seen
'''
BATCHES = '''
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(4)
X, Y = rng.normal(size=(32, 5)), (rng.uniform(size=(32, 1)) > 0.5).astype(float)


def main():
    batches = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=8, shuffle=False)
    model = nn.Linear(5, 1)
    nn.init.constant_(model.weight, 0.1)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    total = 0.0
    for epoch in range(3):
        for x, y in batches:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            optimizer.step()
            total += loss.item()
    return total, model.weight, model.bias
'''
FUNCTIONAL = '''
import numpy as np
import torch
from torch.func import grad, jacrev, vmap

A = torch.tensor(np.random.default_rng(5).normal(size=(4, 4)))


def energy(x, scale):
    return scale * torch.sum(torch.sin(A @ x) ** 2)


def main():
    x = torch.linspace(-1.0, 1.0, 4)
    points = torch.stack([x, 2.0 * x, x**2])
    return grad(energy)(x, 1.5), jacrev(grad(energy))(x, 1.5), vmap(grad(energy), in_dims=(0, None))(points, 0.5)
'''
RECURRENT = '''
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(6)
SERIES = torch.tensor(np.sin(0.3 * np.arange(25.0)))
WEIGHTS = [0.5 * rng.normal(size=shape) for shape in ((6, 7), (6,), (1, 6), (1,))]


class Recurrent(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.inner = nn.Linear(size + 1, size)
        self.outer = nn.Linear(size, 1)

    def forward(self, series):
        state, found = torch.zeros(self.size), []
        for value in series:
            state = torch.tanh(self.inner(torch.cat([value.view(1), state])))
            found.append(self.outer(state))
        return torch.cat(found)


def main():
    model = Recurrent(6)
    model.load_state_dict({name: torch.tensor(w) for name, w in zip(model.state_dict(), WEIGHTS)})
    loss = nn.functional.mse_loss(model(SERIES[:-1]), SERIES[1:])
    loss.backward()
    return loss, [p.grad for p in model.parameters()], sum(p.numel() for p in model.parameters())
'''
#: Name -> program, and the lines that change besides the imports.
PROGRAMS = {
    "gradient descent by hand": (BY_HAND, {}),
    "`nn.Sequential` and SGD": (SEQUENTIAL, {}),
    "a module of one's own with Adam and a scheduler": (MODULE, {}),
    "`autograd.Function`": (
        FUNCTION,
        {
            "return input.clamp(min=0)": "return torch.as_tensor(input).clamp(min=0)",
            "grad_input = grad_output.clone()": "grad_input = torch.as_tensor(grad_output).clone()",
        },
    ),
    "second derivatives by `create_graph`": (CURVATURE, {}),
    "L-BFGS with a closure": (CLOSURE, {}),
    "hooks and `retain_grad`": (HOOKS, {}),
    "`DataLoader`, clipping": (
        BATCHES,
        {
            "nn.init.constant_(model.weight, 0.1)": "with torch.no_grad(): model.weight.fill_(0.1)",
            "nn.init.zeros_(model.bias)": "with torch.no_grad(): model.bias.fill_(0.0)",
        },
    ),
    "`torch.func`": (
        FUNCTIONAL,
        {
            "return grad(energy)(x, 1.5), jacrev(grad(energy))(x, 1.5), vmap(grad(energy), in_dims=(0, None))(points, 0.5)":
            "return grad(energy)(x, 1.5), jacrev(grad(energy))(x, 1.5), vmap(grad(energy), in_axes=(0, None))(points, 0.5)"
        },
    ),
    "a recurrent network": (RECURRENT, {}),
}  # fmt: skip
