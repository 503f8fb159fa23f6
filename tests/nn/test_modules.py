"""Layers, schedules, clipping and files: programs line for line as in PyTorch, and what each does by itself."""

import contextlib
import io
import re
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, NonFiniteError, OptionError, ShapeError, StructureError, TapeFileError
from tapegrad.nn import names

torch = pytest.importorskip("torch")

SOURCE = Path(__file__).with_name("programs.py")


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loaded(package):
    """The programs, written for `package`."""
    text = SOURCE.read_text(encoding="utf-8")
    for line in ("import torch\n", "from torch import nn, optim", "from torch.nn import", "from torch.optim."):
        assert line in text
        text = text.replace(line, line.replace("torch", package))
    module = types.ModuleType(f"programs_of_{package}")
    exec(compile(text.replace(f"import {package}\n", f"import {package} as torch\n"), str(SOURCE), "exec"), vars(module))
    return module


def plain(thing):
    if isinstance(thing, (list, tuple)):
        return [plain(part) for part in thing]
    return thing.detach().numpy() if hasattr(thing, "detach") else thing


def same(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            same(f, e)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-8, atol=1e-10)
        assert np.shape(found) == np.shape(expected)


@pytest.mark.parametrize("name", ["mlp", "rnn", "attention"])
def test_line_for_line_as_in_pytorch(name, tmp_path):
    ours, theirs = loaded("tapegrad"), loaded("torch")
    same(plain(getattr(ours, name)(str(tmp_path / "ours"))), plain(getattr(theirs, name)(str(tmp_path / "theirs"))))


SCHEDULES = {
    "StepLR": [(3,), {"step_size": 2, "gamma": 0.5}], "MultiStepLR": [([2, 5],), {"milestones": [1, 4, 4], "gamma": 0.3}], "ExponentialLR": [(0.9,)], "ConstantLR": [(), (0.5, 3)],
    "LinearLR": [(), {"start_factor": 0.2, "total_iters": 4}], "PolynomialLR": [(), {"total_iters": 6, "power": 2.0}], "CosineAnnealingLR": [(5,), {"T_max": 8, "eta_min": 0.01}], "LambdaLR": [(lambda t: 0.9**t,)],
}  # fmt: skip


@pytest.mark.parametrize("name, options", [(name, options) for name, many in SCHEDULES.items() for options in many])
def test_schedules_as_in_pytorch(name, options):
    rates = []
    for library in (tg, torch):
        parameters = [library.nn.Parameter(library.tensor([1.0])) for _ in range(2)]
        optimizer = library.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 3.0}], lr=0.5)
        schedule = getattr(library.optim.lr_scheduler, name)
        scheduler = schedule(optimizer, **options) if isinstance(options, dict) else schedule(optimizer, *options)
        rates.append([scheduler.get_last_lr()])
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            rates[-1].append(scheduler.get_last_lr())
    np.testing.assert_allclose(*rates, rtol=1e-12)


CHAINS = {
    "factors": lambda s, o: [s.ExponentialLR(o, 0.9), s.MultiStepLR(o, [3, 6], 0.1)], "warm": lambda s, o: [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)],
    "slope": lambda s, o: [s.LinearLR(o, 0.1, 1.0, 4), s.StepLR(o, 3, 0.5)], "cosine": lambda s, o: [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 3, 0.05)],
    "power": lambda s, o: [s.PolynomialLR(o, 6, 2.0), s.StepLR(o, 2, 0.5)], "function": lambda s, o: [s.StepLR(o, 2, 0.5), s.LambdaLR(o, lambda t: 0.9**t)],
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_schedules_in_a_chain_as_in_pytorch(name):
    """Each changes the rates by its factor, whatever others, or a hand, have done to them."""
    rates = []
    for library in (tg, torch):
        parameters = [library.nn.Parameter(library.tensor([1.0])) for _ in range(2)]
        optimizer = library.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 3.0}], lr=0.5)
        schedules = CHAINS[name](library.optim.lr_scheduler, optimizer)
        rates.append([])
        for k in range(12):
            optimizer.step()
            for schedule in schedules:
                schedule.step()
                rates[-1].append(schedule.get_last_lr())
            if k == 7:
                optimizer.param_groups[0]["lr"] = 0.7
            rates[-1].append([group["lr"] for group in optimizer.param_groups])
        rates[-1] += [schedule.get_last_lr() for schedule in schedules]
    np.testing.assert_allclose(*rates, rtol=1e-12)


def test_a_schedule_that_goes_on_from_a_step_needs_the_rate_of_the_beginning():
    p, rates = tg.Parameter([1.0]), []
    for library in (tg, torch):
        optimizer = library.optim.SGD([{"params": [library.nn.Parameter(library.tensor([1.0]))], "initial_lr": 0.8}], lr=0.2)
        scheduler = library.optim.lr_scheduler.StepLR(optimizer, 2, 0.5, last_epoch=4)
        rates.append([])
        for _ in range(4):
            optimizer.step()
            scheduler.step()
            rates[-1].append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(*rates, rtol=1e-12)
    with pytest.raises(OptionError, match='"initial_lr"'):
        tg.optim.lr_scheduler.StepLR(tg.optim.SGD([p], lr=0.1), 2, last_epoch=4)


def test_every_schedule_of_the_page_is_compared():
    assert set(names.calls_of("Schedules")) == set(SCHEDULES)


def test_a_schedule_goes_on_from_its_state():
    optimizer = tg.optim.SGD([tg.Parameter([1.0])], lr=1.0)
    first = tg.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        first.step()
    second = tg.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
    second.load_state_dict(first.state_dict())
    second.step()
    assert second.get_last_lr() == [0.0625]
    with pytest.raises(TypeError, match="def rate"):
        tg.optim.lr_scheduler.LRScheduler(optimizer)
    with pytest.raises(TypeError, match="missing a required"):
        tg.optim.lr_scheduler.StepLR(optimizer)

    class Halved(tg.optim.lr_scheduler.LRScheduler):
        def rate(self, lr, t):
            return lr / (1 + t)

    mine = Halved(optimizer)
    mine.step()
    assert mine.get_last_lr() == [0.5]


OPTIONS = [{}, {"lr": 0.1, "alpha": 0.5}, {"momentum": 0.9}, {"centered": True}, {"weight_decay": 0.1, "maximize": True}, {"momentum": 0.5, "centered": True, "eps": 1e-3}]


@pytest.mark.parametrize("options", OPTIONS)
def test_rmsprop_as_in_pytorch(options):
    values = []
    for library in (tg, torch):
        p = library.nn.Parameter(library.tensor(np.array([1.0, -2.0, 0.5])))
        optimizer = library.optim.RMSprop([p], **options)
        for _ in range(6):
            optimizer.zero_grad()
            (p**4 - p).sum().backward()
            optimizer.step()
        values.append(p.detach().numpy())
    np.testing.assert_allclose(*values, rtol=1e-12)


@pytest.mark.parametrize("norm", [2.0, 1.0, np.inf])
@pytest.mark.parametrize("limit", [0.1, 1e3])
def test_clipping_as_in_pytorch(norm, limit):
    found = []
    for library in (tg, torch):
        a, b, unused = (library.nn.Parameter(library.tensor(np.array(x))) for x in ([1.0, -2.0], 3.0, 1.0))
        ((a * a).sum() * b).backward()
        total = library.nn.utils.clip_grad_norm_([a, b, unused], limit, norm_type=norm)
        found.append([float(total), *a.grad.tolist(), float(b.grad)])
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_clipping_what_is_not_finite():
    p = tg.Parameter([1.0, 2.0])
    assert float(tg.nn.utils.clip_grad_norm_(p, 1.0)) == 0.0
    p.grad = tg.tensor([np.inf, 1.0])
    with pytest.raises(NonFiniteError, match="inf"):
        tg.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("name, layer", names.rows_of("Layers"))
def test_layers_that_are_functions(name, layer):
    ours, theirs = getattr(tg.nn, name), getattr(torch.nn, name)
    x, y = (np.random.default_rng(k).uniform(0.1, 0.9, size=(3, 4)) for k in range(2))
    inputs = [x, y][: 1 + (name.endswith("Loss") or name == "CosineSimilarity")]
    if name == "GaussianNLLLoss":
        inputs.append(x + 1.0)
    if name in ("NLLLoss", "CrossEntropyLoss"):
        inputs[1] = np.array([1, 3, 0])
    if name == "KLDivLoss":
        inputs[0] = np.log(x)
    options = {"dim": 1} if name in ("Softmax", "LogSoftmax", "Softmin") else {"reduction": "sum"} if name.endswith("Loss") else {}
    same(plain(ours(**options)(*map(tg.tensor, inputs))), plain(theirs(**options)(*map(torch.tensor, inputs))))
    assert repr(ours()).startswith(name) and ours.__doc__


def test_options_by_position():
    x = np.array([[-1.0, 2.0]])
    for name, options in (("LeakyReLU", (0.3,)), ("Softmax", (1,)), ("ELU", (0.7,)), ("Hardtanh", (-0.5, 0.5)), ("Flatten", (0,)), ("Identity", (2,))):
        same(plain(getattr(tg.nn, name)(*options)(tg.tensor(x))), plain(getattr(torch.nn, name)(*options)(torch.tensor(x))))


def test_options_that_a_layer_does_not_have():
    for make, taken in (
        (lambda: tg.nn.Softplus(2.0), "Softplus.. takes no options"), (lambda: tg.nn.Softplus(beta=2.0), "no options"), (lambda: tg.nn.ELU(1.0, True), "takes alpha=1.0"),
        (lambda: tg.nn.HuberLoss("sum", 0.5, 1), "reduction='mean', delta=1.0"),
    ):  # fmt: skip
        with pytest.raises(TypeError) as raised:
            make()
        assert re.search(taken, raised.value.__notes__[0])


def test_the_mean_over_no_rows():
    for name, target in (("cross_entropy", np.zeros(0, int)), ("mse_loss", np.zeros((0, 3))), ("binary_cross_entropy_with_logits", np.zeros((0, 3)))):
        x = tg.Parameter(np.zeros((0, 3)))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            loss = getattr(tg.nn.functional, name)(x, target)
        loss.backward()
        assert np.isnan(plain(loss)) and x.grad.shape == (0, 3)


class Tied(tg.nn.Module):
    def __init__(self):
        self.first, self.second = tg.nn.Linear(2, 2, bias=False), tg.nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.shared = [self.first]  # in a list it is nobody's part


def test_what_is_in_a_module():
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == ["first.weight", "second.bias"]
    assert list(model.state_dict()) == ["first.weight", "second.weight", "second.bias"]
    assert [name for name, _ in model.named_modules()] == ["", "first", "second"] and len(list(model.children())) == 2
    assert model.eval().second.training is False and model.train().first.training is True
    (model.second(tg.ones(1, 2)).sum()).backward()
    model.zero_grad(set_to_none=False)
    assert [p.grad.tolist() for p in model.parameters()] == [[[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]]
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())
    assert {p.dtype.char for p in model.to(tg.float32).parameters()} == {"f"} and {p.dtype.char for p in model.to("cpu", dtype=tg.float64).parameters()} == {"d"}
    assert next(model.parameters()).is_leaf and type(model.first.weight) is tg.Parameter
    assert repr(model) == (
        "Tied(\n  (first): Linear(in_features=2, out_features=2, bias=False)\n  (second): Linear(in_features=2, out_features=2, bias=True)\n)"
    )
    with pytest.raises(TypeError, match="def forward"):
        tg.nn.Module()(1.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, bool])
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "softmax", "log_softmax", "logsumexp"])
def test_integers_and_truth_values_are_floats(name, dtype):
    x = np.array([[0, 1, 127], [-128, 1, 3]]).astype(dtype)
    f = getattr(tg, name, None) or getattr(tg.nn.functional, name)
    expected = f(x.astype(float))
    for found in (f(x), f(tg.tensor(x)), tg.jit(lambda w: f(x) * w)(1.0)):
        assert np.asarray(plain(found)).dtype == np.float64
        np.testing.assert_array_equal(plain(found), plain(expected))


def test_what_is_no_layer_is_refused_and_not_left_out():
    first, last = tg.nn.Linear(2, 3), tg.nn.Linear(3, 1)
    for make, message in (
        (lambda: tg.nn.Sequential(first, tg.tanh, last), "layer 1 is of type"), (lambda: tg.nn.Sequential([first, last]), "layer 0 is of type list"),
        (lambda: tg.nn.ModuleList([first, None]), "layer 1 is of type NoneType"), (lambda: tg.nn.Sequential({"a": first, "b": 2.0}), "layer b is of type float"),
    ):  # fmt: skip
        with pytest.raises(StructureError, match=message):
            make()
    model = tg.nn.Sequential({"in": first, "bend": tg.nn.Tanh(), "out": last})
    x = np.ones((4, 2))
    assert list(model.state_dict()) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    assert (model(x) == last(tg.tanh(first(x)))).all() and (model[:2](x) == tg.tanh(first(x))).all()
    assert type(model[1:]) is tg.nn.Sequential and list(tg.nn.ModuleList([first, last])[::-1]) == [last, first]


def test_a_buffer_that_is_taken_away_is_in_no_state():
    layer = tg.nn.Linear(2, 1)
    layer.register_buffer("count", tg.tensor(0.0))
    del layer.count
    assert list(layer.state_dict()) == ["weight", "bias"]


class Running(tg.nn.Module):
    def __init__(self):
        self.register_buffer("mean", tg.zeros(3))
        self.weight = tg.nn.Parameter(2.0)

    def forward(self, x):
        with tg.no_grad():
            self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
        return ((x - self.mean) * self.weight).sum()


def test_a_running_mean_runs_once_at_each_call_of_jit():
    recorded, plainly = Running(), Running()
    g = tg.jit(lambda x: recorded(x))
    for k in range(4):
        x = np.full((4, 3), 1.0 + k)
        with pytest.warns(tg.PathWarning, match="run at every call") if not k else contextlib.nullcontext():
            value = g(x)
        value.backward()
        expected = plainly(tg.tensor(x))
        expected.backward()
        assert value.item() == expected.item() and (recorded.mean == plainly.mean).all() and recorded.weight.grad == plainly.weight.grad


def test_a_counter_beside_a_parameter_counts_calls_of_jit():
    count, weight = tg.tensor(0.0), tg.nn.Parameter(2.0)

    def f(x):
        with tg.no_grad():
            count.add_(1.0)
        return (x * count * weight).sum()

    g = tg.jit(f)
    g(np.ones(3))
    for _ in range(3):
        before = count.item()
        assert g(np.ones(3)).item() == 6.0 * (before + 1.0) and count.item() == before + 1.0


def test_a_state_that_does_not_fit_changes_nothing():
    model = tg.nn.Sequential(tg.nn.Linear(2, 3), tg.nn.ReLU())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for wrong, message in (
        ({"0.weight": np.zeros((3, 2))}, "missing 0.bias"), ({**before, "extra": np.zeros(1)}, "unexpected extra"), ({**before, "0.bias": np.zeros(4)}, r"0.bias is \(4,\), not \(3,\)"),
    ):  # fmt: skip
        with pytest.raises(StructureError, match=message):
            model.load_state_dict(wrong)
        assert all((value == before[name]).all() for name, value in model.state_dict().items())
    keys = model.load_state_dict({"0.bias": np.ones(3), "more": np.zeros(1)}, strict=False)
    assert keys == (["0.weight"], ["more"]) and model[0].bias.tolist() == [1.0, 1.0, 1.0]


def test_dropout():
    tg.manual_seed(0)
    layer, x = tg.nn.Dropout(0.25), tg.Parameter(np.ones(20_000))
    y = layer(x)
    kept = plain(y) != 0.0
    assert abs(kept.mean() - 0.75) < 0.02 and np.allclose(plain(y)[kept], 1 / 0.75)
    y.sum().backward()
    np.testing.assert_allclose(plain(x.grad), plain(y))
    assert (layer.eval()(x) == x).all() and not plain(tg.nn.Dropout(1.0)(x)).any()
    with pytest.raises(OptionError, match="from 0 to 1"):
        tg.nn.Dropout(1.5)(x)


def test_dropout_is_not_recorded():
    tg.manual_seed(1)
    g = tg.jit(tg.grad(lambda x: tg.nn.functional.dropout(x, 0.5).sum()))
    with pytest.warns(tg.PathWarning, match="other numbers at every call"):
        first = g(np.ones(50))
    assert (first != g(np.ones(50))).any() and set(first) == {0.0, 2.0}
    assert plain(tg.nn.functional.dropout(tg.tensor(1.0), 0.5)) in (0.0, 2.0)


def test_dropout_of_data_is_not_recorded():
    data = np.ones(50)
    for g in (
        tg.jit(tg.grad(lambda w: np.sum(tg.nn.functional.dropout(data, 0.5) * w))),
        tg.jit(tg.grad(lambda w: tg.scan(lambda c, _: (c + w * tg.nn.functional.dropout(data, 0.5), 0.0), np.zeros(50), np.zeros(3))[0].sum())),
    ):
        with pytest.warns(tg.PathWarning, match="other numbers at every call"):
            slopes = [float(g(1.0)) for _ in range(6)]
        assert len({*slopes}) > 1


def test_first_weights_are_in_the_range_of_pytorch():
    tg.manual_seed(0)
    layer = tg.nn.Linear(100, 50, dtype="float32")
    for p in layer.parameters():
        assert p.dtype == np.float32 and abs(plain(p)).max() <= 0.1 and abs(plain(p)).max() > 0.08
    with pytest.raises(ShapeError, match="last axes"):
        tg.nn.LayerNorm(3)(tg.ones(2, 4))
    assert [name for name, _ in tg.nn.LayerNorm(np.int64(3), bias=False).named_parameters()] == ["weight"]


def test_files():
    thing = {
        "tensor": tg.tensor([1.0, 2.0], dtype="float32"), "leaf": tg.Parameter([[1.0]]), "number": tg.tensor(2.5), "whole": tg.tensor([1, 2]), "array": np.arange(6).reshape(2, 3), "state": {0: {"step": 3}},
        "betas": (0.9, 0.999), "list": ["a", None, True, 1.5, np.inf], "empty": {}, "computed": tg.Parameter([1.0]) * 2.0,
    }  # fmt: skip
    file = io.BytesIO()
    tg.save(thing, file)
    file.seek(0)
    found = tg.load(file)
    assert list(found) == list(thing) and found["state"] == thing["state"] and found["betas"] == thing["betas"] and found["list"] == thing["list"] and found["empty"] == {}
    for name in ("tensor", "leaf", "number", "whole", "array", "computed"):
        assert type(found[name]) is type(thing[name]) and found[name].dtype == thing[name].dtype
        np.testing.assert_array_equal(plain(found[name]) if name != "array" else found[name], plain(thing[name]) if name != "array" else thing[name])
    assert found["leaf"].requires_grad and not found["tensor"].requires_grad and found["array"].flags.writeable
    data = file.getvalue()
    for wrong in (data[:-30], data.replace(b"tapegrad data", b"tapegrad tape"), b"nothing", data[:400] + b"?" + data[401:]):
        with pytest.raises(TapeFileError, match="not written by tg.save"):
            tg.load(io.BytesIO(wrong))
    with pytest.raises(TapeFileError, match="max_bytes"):
        tg.load(io.BytesIO(data), max_bytes=100)
    for unknown, text in (
        (tg.nn.Linear(1, 1), "Linear cannot be written"), ({(0, 1): 2.0}, "dict cannot be written.*dicts .by strings or ints. of them"),
        (np.ones(2) * 1j, "ndarray of complex128 with 1 axes cannot be written"), (np.zeros((1,) * 17), "float64 with 17 axes"),
    ):
        with pytest.raises(TapeFileError, match=text):
            tg.save(unknown, io.BytesIO())
    with pytest.raises(DtypeError, match="save: an array of class MaskedArray"):
        tg.save({"x": np.ma.array([1.0, 2.0], mask=[False, True])}, io.BytesIO())


def test_files_with_large_integers_numbers_of_numpy_and_bytes_in_another_order():
    thing = {"rng": np.random.PCG64(0).state, "limit": -(2**63), "swapped": np.arange(3.0).astype(">f8"), "numbers": (np.float64(0.5), np.float32(2.0), np.int8(3), np.bool_(True), np.array(1.5))}
    file = io.BytesIO()
    tg.save(thing, file)
    file.seek(0)
    found = tg.load(file)
    assert found["rng"] == thing["rng"] and found["limit"] == thing["limit"]
    assert found["numbers"] == thing["numbers"] and list(map(type, found["numbers"])) == list(map(type, thing["numbers"]))
    assert found["swapped"].dtype == np.float64 and found["swapped"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("module, thing", [("t", tg.tensor([1.0])), ("tg", tg), ("tg.nn", tg.nn), ("tg.nn.utils", tg.nn.utils), ("tg.nn.functional", tg.nn.functional), ("tg.optim", tg.optim), ("tg.optim.lr_scheduler", tg.optim.lr_scheduler)])
def test_a_name_that_is_missing_says_what_to_write(module, thing):
    missing = {name: meaning for row, meaning in names.rows_of("Not offered") for name in row.split(", ")}
    mine = {name.rpartition(".")[2]: meaning for name, meaning in missing.items() if name.rpartition(".")[0] == module}
    assert mine
    for name, meaning in mine.items():
        with pytest.raises(AttributeError) as raised:
            getattr(thing, name)
        assert f"has no attribute {name!r}; write {meaning}" in str(raised.value)
        assert not hasattr(thing, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'$"):
        thing.no_such_name  # noqa: B018


def test_names_of_numpy_that_are_no_names_of_ours():
    with pytest.raises(AttributeError, match="write np.median$"):
        tg.median  # noqa: B018


def test_kinds_and_devices():
    t = tg.tensor([1.5, -2.5], requires_grad=True)
    assert t.to("cpu") is t and t.to(tg.float64) is t and t.to(t) is t and t.to(dtype=tg.float32).dtype == np.float32 and t.to(t, copy=True) is not t
    assert t.detach().long().tolist() == [1, -2] and t.detach().int().dtype == np.int32
    with pytest.raises(OptionError, match="no GPU"):
        t.to("cuda:0")
    with pytest.raises(TypeError, match="derivative"):
        t.long()
    assert (tg.float, tg.double, tg.long, tg.int, tg.bool) == (np.float32, np.float64, np.int64, np.int32, np.bool_)


def test_in_place_and_random():
    with tg.no_grad():
        t = tg.Parameter([1.0, -2.0, 3.0])
        assert t.clamp_(-1.0, 2.0) is t and t.tolist() == [1.0, -1.0, 2.0]
        assert t.masked_fill_(np.array([True, False, False]), 5.0).abs_().tolist() == [5.0, 1.0, 2.0]
        big = tg.zeros(10_000)
        assert 0.9 < plain(big.normal_(1.0, 0.1)).mean() < 1.1 and 2.0 <= plain(big.uniform_(2.0, 3.0)).min() <= 2.01
    with pytest.raises(RuntimeError, match="no_grad"):
        t.clamp_(0.0, 1.0)


def test_methods_on_dual_numbers_and_in_recordings():
    def f(x):
        x = tg.as_tensor(x)  # an array where a check asks for the value
        y = x.view(2, 3).clamp(min=-0.3).masked_fill(np.array([True, False, False]), 0.5)
        return (y.gather(1, np.array([[2, 1], [0, 2]])) * y.topk(2, dim=1).values).sum() + x.numel() * x.chunk(3)[1].sum()

    assert tg.check(f, np.random.default_rng(3).normal(size=6), order=2).passed
    place = tg.tensor([1.0, 2.0], requires_grad=True).view(-1).grad_fn
    assert place.name() == "ReshapeBackward0"
    with tg.Tape() as tape:
        tg.tensor([1.0, -1.0], requires_grad=True).clamp(min=0.0)
    assert "test_modules.py" in str(tape)


def test_a_shared_parameter_stands_where_it_comes_first():
    class Tied(tg.nn.Module):
        def __init__(self):
            self.one, self.other = tg.nn.Linear(2, 2), tg.nn.Linear(2, 2)
            self.other.weight = self.one.weight

    assert [name for name, _ in Tied().named_parameters()] == ["one.weight", "one.bias", "other.bias"]
    assert list(Tied().state_dict()) == ["one.weight", "one.bias", "other.weight", "other.bias"]
