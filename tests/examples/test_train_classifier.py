"""The digits example: it learns, it draws, and one step of it agrees with PyTorch."""

import numpy as np
import pytest

import tapegrad as tg

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def example(load):
    return load("train_classifier")


def test_a_few_epochs_learn_and_save_the_curve(example, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "loss.png"
    result = example.main(epochs=4, seed=1, plot=plot, require=0.85)
    assert result["losses"][-1] < 0.3 * result["losses"][0]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert f"test accuracy {result['accuracy']:.2%}" in capsys.readouterr().out


def test_jit_makes_the_same_steps(example):
    by_tape, by_kernel = (example.main(epochs=2, seed=1, plot=None, require=0.5, jit=jit) for jit in (False, True))
    np.testing.assert_allclose(by_kernel["losses"], by_tape["losses"], rtol=1e-8)
    stats = example.jitted_gradient.stats()
    assert stats.kernels == 1 and stats.kernel_calls > 10 and not stats.not_lowered


def test_an_accuracy_that_is_too_low_is_an_error(example):
    with pytest.raises(AssertionError, match="below 100%"):
        example.main(epochs=1, plot=None, require=1.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_whole_run_reaches_96_percent(example, seed):
    assert example.main(seed=seed, plot=None)["accuracy"] >= 0.96


def test_gradients_of_one_step_agree_with_pytorch(example):
    torch = pytest.importorskip("torch")
    images, labels, _, _ = example.load_digits(seed=0)
    images, labels = images[: example.BATCH], labels[: example.BATCH]
    parameters = example.new_parameters(np.random.default_rng(0))
    loss = example.loss_of(parameters, images, labels)
    loss.backward()

    theirs = [torch.tensor(p.detach().numpy().copy(), requires_grad=True) for p in parameters]
    w1, b1, w2, b2 = theirs
    scores = torch.relu(torch.tensor(images) @ w1 + b1) @ w2 + b2
    their_loss = torch.nn.functional.cross_entropy(scores, torch.tensor(labels))
    their_loss.backward()

    np.testing.assert_allclose(loss.item(), their_loss.item(), rtol=1e-12)
    for mine, other in zip(parameters, theirs):
        wanted = other.grad.numpy()
        error = np.max(np.abs(mine.grad.numpy() - wanted)) / np.max(np.abs(wanted))
        assert error <= 1e-10


def test_value_and_derivatives_of_the_loss(example):
    images, labels, _, _ = example.load_digits(seed=0)
    arrays = [p.detach().numpy() for p in example.new_parameters(np.random.default_rng(0))]
    tg.check(lambda *parameters: example.loss_of(parameters, images[:8], labels[:8]), *arrays)
