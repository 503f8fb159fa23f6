"""Programs as they are written for PyTorch: `test_modules` runs this file as it stands, and with ``torch`` replaced by ``tapegrad`` in the imports."""

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def start(model):
    """The same weights in both libraries."""
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(0.5 * numbers(*p.shape, seed=k))
    return model


class MLP(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Dropout(p=0.0), nn.Linear(hidden, hidden, bias=False), nn.Tanh())
        self.head = nn.Linear(hidden, classes)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        x = self.norm(x)
        return self.head(x[:, :1] * self.scale + self.layers(x))


def mlp(path):
    model = start(MLP(4, 6, 3))
    x = numbers(20, 4, seed=9)
    labels = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, centered=True)
    scheduler = StepLR(optimizer, step_size=5, gamma=0.5)
    losses = []
    model.train()
    for _ in range(12):
        optimizer.zero_grad()
        loss = criterion(model(x), labels)
        loss.backward()
        total = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.4)
        optimizer.step()
        scheduler.step()
        losses += [loss.item(), total.item(), scheduler.get_last_lr()[0]]
    model.eval()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 12}, path)
    other = MLP(4, 6, 3)
    saved = torch.load(path)
    other.load_state_dict(saved["model"])
    with torch.no_grad():
        predictions = other(x).argmax(dim=1)
    names = [name for name, _ in other.named_parameters()]
    again = optim.RMSprop(other.parameters(), lr=0.01)
    again.load_state_dict(saved["optimizer"])
    other.zero_grad()
    criterion(other(x), labels).backward()
    again.step()
    return losses, predictions, names, list(other.state_dict()), other.head.weight, saved["epoch"], again.param_groups[0]["momentum"]


class RNN(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.i2h = nn.Linear(inputs + hidden, hidden)
        self.h2o = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.hidden)
        outputs = []
        for step in x.unbind(1):
            h = torch.tanh(self.i2h(torch.cat([step, h], dim=1)))
            outputs.append(self.h2o(h))
        return torch.stack(outputs, dim=1).squeeze(-1)


def rnn(path):
    model = start(RNN(2, 5))
    x = numbers(8, 7, 2, seed=4)
    target = x.cumsum(dim=1)[:, :, 0]
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    scheduler = CosineAnnealingLR(optimizer, T_max=10, eta_min=0.001)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x), target)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.grad.clamp_(-0.05, 0.05)
        optimizer.step()
        scheduler.step()
        losses += [loss.item(), optimizer.param_groups[0]["lr"]]
    torch.save(model.state_dict(), path)
    torch.save(scheduler.state_dict(), path + ".scheduler")
    other = RNN(2, 5)
    other.load_state_dict(torch.load(path))
    return losses, other(x), [p.grad for p in model.parameters()], torch.load(path + ".scheduler")["last_epoch"]


class Table(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.weight = nn.Parameter(numbers(words, width, seed=3))

    def forward(self, x):
        return F.embedding(x, self.weight)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.out = nn.Linear(width, width)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in self.parts)
        scores = (q @ k.transpose(-2, -1)) * self.temperature
        mask = torch.ones(length, length).tril()
        scores = scores.masked_fill(mask.eq(0), float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, length, width))


def attention(path):
    model = nn.Sequential(Table(11, 4), start(Attention(4, 2)), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(20, 2))
    with torch.no_grad():
        model[-1].weight.copy_(numbers(2, 20, seed=5))
        model[-1].bias.fill_(0.1)
    words = torch.tensor(np.random.default_rng(1).integers(0, 11, (6, 5)))
    target = torch.tensor(np.array([0, 1, 1, 0, 0, 1]))
    optimizer = optim.SGD([{"params": model[0].parameters(), "lr": 0.1}, {"params": list(model.parameters())[1:]}], lr=0.01, momentum=0.9)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        log_probability = F.log_softmax(model(words), dim=1)
        loss = F.nll_loss(log_probability, target) + 0.01 * sum(p.pow(2).sum() for p in model.parameters())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    chosen = log_probability.gather(1, target.unsqueeze(1)).squeeze(1)
    values, places = log_probability.topk(1, dim=1)
    return losses, chosen, values, places, len(list(model.modules())), sum(p.numel() for p in model.parameters())


PROGRAMS = [mlp, rnn, attention]
