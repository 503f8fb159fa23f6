"""Data in batches, hooks of modules, gradcheck and the schedule that waits, beside PyTorch where it is installed."""

import pickle

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import CheckError, OptionError, ShapeError, StructureError
from tapegrad.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10)


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, k):
        if k >= 7:
            raise IndexError(k)
        return {"x": np.array([k, k * k], float), "k": k}


def test_batches_of_arrays_in_order():
    batches = list(DataLoader(TensorDataset(X, Y), batch_size=4))
    assert [type(x) is tg.Tensor and type(y) is np.ndarray for x, y in batches] == [True] * 3
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x, _ in batches]), X)
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), Y)
    loader = DataLoader(X, batch_size=4, drop_last=True)
    assert len(loader) == 2 == len(list(loader)) and next(iter(loader)).shape == (4, 2)


def test_the_same_seed_gives_the_same_epochs_and_each_epoch_has_another_order():
    epochs = lambda seed: [[k for _, ks in loader for k in ks] for loader in [DataLoader(TensorDataset(X, Y), 3, shuffle=True, generator=seed)] for _ in range(3)]  # noqa: E731
    once = epochs(5)
    assert once == epochs(5) != epochs(6) and once[0] != once[1] and all(sorted(epoch) == list(range(10)) for epoch in once)


def test_samples_are_stacked_in_their_containers():
    batches = list(DataLoader(Squares(), batch_size=3))
    assert [b["x"].shape for b in batches] == [(3, 2), (3, 2), (1, 2)] and batches[1]["k"].tolist() == [3, 4, 5]
    assert next(iter(DataLoader([1.0, 2.0, 3.0], batch_size=2))).tolist() == [1.0, 2.0]
    assert next(iter(DataLoader(["a", "b"], batch_size=2, collate_fn="".join))) == "ab"


def test_parts_and_files(tmp_path):
    parts = random_split(TensorDataset(X, Y), [0.7, 0.3], generator=1)
    assert [len(p) for p in parts] == [7, 3] and sorted(int(k) for p in parts for _, ks in DataLoader(p, 2) for k in ks) == list(range(10))
    assert [len(p) for p in random_split(Squares(), [5, 2])] == [5, 2] and [len(p) for p in random_split(Y, [1.0])] == [10]
    np.save(tmp_path / "x.npy", X)
    kept = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = TensorDataset(kept, Y)
    assert data.tensors[0] is kept
    np.testing.assert_array_equal(next(iter(DataLoader(Subset(data, [8, 1]), 2)))[0].numpy(), X[[8, 1]])
    assert [k for _, ks in DataLoader(data, 2, sampler=[4, 2, 0]) for k in ks] == [4, 2, 0]


def test_the_length_of_a_loader_leaves_its_sampler_alone():
    class Drawn:
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __len__(self):
            return 4

        def __iter__(self):
            return iter(self.rng.permutation(10)[:4].tolist())

    one, other = (DataLoader(Y, 2, sampler=Drawn()) for _ in range(2))
    assert len(one) == 2
    np.testing.assert_array_equal([*one], [*other])
    loader = DataLoader(Y, 2, sampler=iter([1, 2, 3]))
    with pytest.raises(TypeError):
        len(loader)
    assert [ks.tolist() for ks in loader] == [[1, 2], [3]]


def test_wrong_data():
    for call, error, said in [
        (lambda: DataLoader(iter([1.0]), 1), StructureError, "with a length and items, not list_iterator"), (lambda: DataLoader(X, 0), OptionError, "batch_size=0"),
        (lambda: DataLoader(X, 2, num_workers=4), OptionError, "num_workers=4: batches are made in this process; leave it out"),
        (lambda: DataLoader(X, 2, shuffle=True, sampler=[0]), OptionError, "give one"), (lambda: TensorDataset(X, Y[:3]), ShapeError, "of one length, not 10, 3"),
        (lambda: random_split(Y, [3, 3]), OptionError, "do not add up to the 10 samples"), (lambda: random_split(Y, [12, -2]), OptionError, "from 0 on"),
        (lambda: list(DataLoader([np.ones(2), np.ones(3)], 2)), ShapeError, "different shapes"),
        (lambda: list(DataLoader([(1.0,), [1.0]], 2)), StructureError, "containers of different forms"),
    ]:  # fmt: skip
        with pytest.raises(error, match=said.replace("(", r"\(")):
            call()


def test_a_network_is_trained_by_batches_as_by_a_loop_over_rows():
    def trained(batches):
        tg.manual_seed(0)
        model = tg.nn.Linear(2, 1)
        optimizer = tg.optim.SGD(model.parameters(), lr=1e-3)
        for x, y in batches:
            optimizer.zero_grad()
            ((model(x).reshape(-1) - y) ** 2).mean().backward()
            optimizer.step()
        return model.weight.detach().numpy()

    by_loader = trained(DataLoader(TensorDataset(X, Y.astype(float)), batch_size=5))
    by_hand = trained([(X[:5], Y[:5].astype(float)), (X[5:], Y[5:].astype(float))])
    np.testing.assert_array_equal(by_loader, by_hand)


def test_hooks_of_modules():
    layer, seen = tg.nn.Linear(2, 2), []
    x = tg.ones(3, 2)
    plain = layer(x)
    first = layer.register_forward_pre_hook(lambda module, inputs: (2.0 * inputs[0],))
    second = layer.register_forward_hook(lambda module, inputs, output: seen.append((module is layer, inputs[0].tolist(), output.shape)))
    third = layer.register_forward_hook(lambda module, inputs, output: output * 0.0)
    assert layer(x).tolist() == [[0.0, 0.0]] * 3 and seen == [(True, [[2.0, 2.0]] * 3, (3, 2))]
    assert set(layer.state_dict()) == {"weight", "bias"} and len(list(layer.parameters())) == 2
    for handle in (first, second, third):
        handle.remove()
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain.detach().numpy())
    assert len(seen) == 1


def test_hooks_beside_pytorch():
    torch = pytest.importorskip("torch")
    shown = []
    for library in (torch, tg):
        layer = library.nn.Linear(2, 2)
        layer.register_forward_pre_hook(lambda module, inputs: inputs[0] * 2.0)
        layer.register_forward_hook(lambda module, inputs, output: output.sum())
        with library.no_grad():
            layer.weight.copy_(library.tensor([[1.0, 2.0], [3.0, 4.0]]))
            layer.bias.copy_(library.tensor([0.5, 0.25]))
        shown.append(float(layer(library.ones(3, 2)).detach()))
    assert shown[0] == shown[1]


def test_the_schedule_that_waits_for_a_plateau():
    losses = [3.0, 2.0, 2.0, 1.9999, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    def rates(library, optim, **options):
        optimizer = optim.SGD([library.nn.Parameter(library.tensor([1.0]))], lr=1.0)
        scheduler, found = optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options), []
        for loss in losses:
            scheduler.step(loss)
            found.append(optimizer.param_groups[0]["lr"])
        return found

    assert rates(tg, tg.optim, patience=1, factor=0.5) == [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625]
    with pytest.raises(OptionError, match="factor=2.0"):
        rates(tg, tg.optim, factor=2.0)
    torch = pytest.importorskip("torch")
    for options in ({"patience": 1}, {"patience": 0, "cooldown": 2}, {"mode": "max", "patience": 1}, {"threshold_mode": "abs", "threshold": 0.5, "patience": 1}, {"patience": 0, "min_lr": 0.3}):
        assert np.allclose(rates(tg, tg.optim, **options), rates(torch, torch.optim, **options), rtol=1e-12), options


def test_a_plateau_with_a_lowest_rate_for_each_group_and_another_schedule():
    torch, found = pytest.importorskip("torch"), []
    for library in (tg, torch):
        groups = [{"params": [library.nn.Parameter(library.tensor([1.0]))], "lr": lr} for lr in (1.0, 2.0)]
        optimizer = library.optim.SGD(groups, lr=1.0)
        warm = library.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 3)
        plateau = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=[0.3, 0.1])
        found.append([])
        for loss in (3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0):
            optimizer.step()
            warm.step()
            plateau.step(loss)
            found[-1].append(plateau.get_last_lr())
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_gradients_of_complex_parameters_are_clipped():
    torch, found = pytest.importorskip("torch"), []
    for library in (tg, torch):
        z = library.tensor(np.array([1.0 + 2.0j, -3.0j]), requires_grad=True)
        (abs(z) ** 2).sum().backward()
        found.append([float(library.nn.utils.clip_grad_norm_([z], 1.0)), *z.grad.numpy()])
        z.grad = None
        (abs(z) ** 2).sum().backward()
        found[-1].append(float(library.nn.utils.clip_grad_norm_(z, 100.0)))
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_gradcheck():
    x, y = tg.tensor([0.5, 1.5], requires_grad=True), tg.tensor([2.0, 3.0])
    assert tg.autograd.gradcheck(lambda x, y: x.sin() * y, (x, y), eps=1e-6, atol=1e-4)
    wrong = tg.custom_vjp(lambda x: np.sin(x), lambda g, r, x: g * np.cos(x) * 1.5)
    assert not tg.autograd.gradcheck(wrong, (x,), raise_exception=False)
    with pytest.raises(CheckError, match="central differences"):
        tg.autograd.gradcheck(wrong, (x,))
    with pytest.raises(StructureError, match="no input requires a gradient"):
        tg.autograd.gradcheck(np.sin, (y,))


def test_loaders_and_modules_with_hooks_are_pickled():
    loader = DataLoader(TensorDataset(X, Y), 3, shuffle=True, generator=2)
    other = pickle.loads(pickle.dumps(loader))
    assert [y.tolist() for _, y in loader] == [y.tolist() for _, y in other]
