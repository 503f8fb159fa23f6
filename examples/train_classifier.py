"""Train a small network on handwritten digits, one `loss.backward()` a step
=========================================================================

The digits are those that come with scikit-learn: 1 797 images of 8 by 8 pixels.
The network has 64 inputs, 64 hidden units and 10 outputs.  Nothing here but the
tensors belongs to tapegrad: the layers are `@` and `+`, the nonlinearity is
NumPy's, the loop is a `for`, and stochastic gradient descent with momentum is
written out.

With ``--jit`` the same network is trained by `tg.jit`: the gradient is recorded at the first step
and runs as machine code in all others, on plain arrays.

Run it with::

    python examples/train_classifier.py
    python examples/train_classifier.py --jit
    python examples/train_classifier.py --epochs 60 --plot loss.png
    python examples/train_classifier.py --quick

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/train_classifier.png"

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import tapegrad as tg

HIDDEN = 64
BATCH = 128
LEARNING_RATE = 0.4
MOMENTUM = 0.9


def load_digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, then test images and labels (one fifth)."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    digits = datasets.load_digits()
    images = digits.data / 16.0  # pixels are counts from 0 to 16
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=0.2, random_state=seed, stratify=digits.target
    )
    return train_x, train_y, test_x, test_y


def new_parameters(rng: np.random.Generator, inputs: int = 64, outputs: int = 10) -> list:
    """Weights of both layers, scaled to keep the size of the activations, and zero biases."""
    return [
        tg.Parameter(rng.normal(size=(inputs, HIDDEN)) * np.sqrt(2 / inputs)),
        tg.Parameter(np.zeros(HIDDEN)),
        tg.Parameter(rng.normal(size=(HIDDEN, outputs)) * np.sqrt(1 / HIDDEN)),
        tg.Parameter(np.zeros(outputs)),
    ]


def scores_of(parameters: list, images: np.ndarray):
    """The network: ten scores for each image, the largest at the digit it looks like."""
    w1, b1, w2, b2 = parameters
    hidden = np.maximum(images @ w1 + b1, 0.0)
    return hidden @ w2 + b2


def loss_of(parameters: list, images: np.ndarray, labels: np.ndarray):
    """Mean negative log-probability that the network gives to the right digits."""
    log_probability = tg.log_softmax(scores_of(parameters, images), axis=1)
    return -log_probability[np.arange(len(labels)), labels].mean()


def accuracy_of(parameters: list, images: np.ndarray, labels: np.ndarray) -> float:
    """Share of the images whose largest score stands at the right digit."""
    with tg.no_grad():
        scores = np.asarray(scores_of(parameters, images))
    return float(np.mean(np.argmax(scores, axis=1) == labels))


def step(parameters: list, velocities: list, images: np.ndarray, labels: np.ndarray) -> float:
    """One step of gradient descent with momentum; returns the loss before it."""
    loss = loss_of(parameters, images, labels)
    loss.backward()
    with tg.no_grad():  # the update is no part of the function that is differentiated
        for parameter, velocity in zip(parameters, velocities):
            velocity *= MOMENTUM
            velocity += parameter.grad.numpy()
            parameter -= LEARNING_RATE * velocity
            parameter.grad = None  # gradients add up otherwise
    return loss.item()


#: Called at every step, so recorded once; images and labels are its inputs and may change from call to call.
jitted_gradient = tg.jit(tg.value_and_grad(loss_of))


def jitted_step(parameters: list, velocities: list, images: np.ndarray, labels: np.ndarray) -> float:
    """`step` on plain arrays, by machine code."""
    loss, gradients = jitted_gradient(parameters, images, labels)
    for parameter, velocity, gradient in zip(parameters, velocities, gradients):
        velocity *= MOMENTUM
        velocity += gradient
        parameter -= LEARNING_RATE * velocity
    return loss


def progress(epochs: int):
    """Count the epochs, with a bar if tqdm is there and the output is a terminal."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            return tqdm(range(epochs), unit="epoch")
    return range(epochs)


def save_plot(losses: list[float], path: str | Path) -> None:
    """Draw the loss of every step, and its running mean, to an image file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.semilogy(losses, linewidth=0.6, alpha=0.5, label="each step")
    window = min(20, len(losses))
    mean = np.convolve(losses, np.ones(window) / window, mode="valid")
    axes.semilogy(np.arange(window - 1, len(losses)), mean, label=f"mean of {window}")
    axes.set(xlabel="step", ylabel="negative log-likelihood", title="Digits, 64-64-10 network")
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    epochs: int = 30,
    seed: int = 0,
    plot: str | Path | None = "train_classifier_loss.png",
    require: float = 0.96,
    jit: bool = False,
) -> dict:
    """Train, report and check.

    Parameters
    ----------
    epochs : int
        Passes over the training images.
    seed : int
        Decides the split, the first weights and the order of the images.
    plot : str, Path or None
        Where to save the loss curve; None saves nothing.
    require : float
        Accuracy on the test images below which the run counts as failed.
    jit : bool
        Train plain arrays by `tg.jit`, instead of tensors by `loss.backward()`.

    Returns
    -------
    dict
        ``accuracy``, ``losses`` (one a step), ``seconds`` and ``parameters``.

    Raises
    ------
    AssertionError
        If the accuracy stays below `require`.
    """
    train_x, train_y, test_x, test_y = load_digits(seed)
    rng = np.random.default_rng(seed)
    parameters = new_parameters(rng)
    velocities = [np.zeros(parameter.shape) for parameter in parameters]
    one_step = step
    if jit:
        parameters, one_step = [p.detach().numpy().copy() for p in parameters], jitted_step
    losses = []

    start = time.perf_counter()
    bar = progress(epochs)
    for _ in bar:
        order = rng.permutation(len(train_x))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[first : first + BATCH]
            losses.append(one_step(parameters, velocities, train_x[batch], train_y[batch]))
        if hasattr(bar, "set_postfix"):
            bar.set_postfix(loss=f"{losses[-1]:.4f}")
    seconds = time.perf_counter() - start

    accuracy = accuracy_of(parameters, test_x, test_y)
    print(f"{len(losses)} steps in {seconds:.2f} s, loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"test accuracy {accuracy:.2%} on {len(test_y)} images")
    if plot is not None:
        save_plot(losses, plot)
        print(f"loss curve saved as {plot}")
    assert accuracy >= require, f"test accuracy {accuracy:.2%} is below {require:.0%}"
    return {
        "accuracy": accuracy,
        "losses": losses,
        "seconds": seconds,
        "parameters": parameters,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the images (30)")
    parser.add_argument("--seed", type=int, default=0, help="split, first weights, order (0)")
    parser.add_argument(
        "--plot", default="train_classifier_loss.png", help="where to save the loss curve"
    )
    parser.add_argument(
        "--quick", action="store_true", help="5 epochs, with 90%% as the accuracy to reach"
    )
    parser.add_argument("--jit", action="store_true", help="train by tg.jit instead of define-by-run")
    options = parser.parse_args()
    if options.quick:
        main(epochs=5, seed=options.seed, plot=options.plot, require=0.90, jit=options.jit)
    else:
        main(epochs=options.epochs, seed=options.seed, plot=options.plot, jit=options.jit)
