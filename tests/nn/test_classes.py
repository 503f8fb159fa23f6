"""What PyTorch refuses of classes and widths is refused, without PyTorch beside it."""

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every

F, SCORES = tg.nn.functional, np.log(np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]))


@every("which", [-1, 3, -100])
def test_classes_count_from_zero(which):
    """NumPy would take the last one for -1."""
    target = np.array([which, 1])
    for call in (
        lambda: F.nll_loss(tg.tensor(SCORES), target), lambda: F.cross_entropy(tg.tensor(SCORES), target), lambda: F.one_hot(target, 3),
        lambda: F.embedding(target, tg.tensor(SCORES.T)), lambda: tg.jit(tg.grad(lambda x: F.nll_loss(x, target)))(SCORES),
    ):  # fmt: skip
        with pytest.raises(IndexError, match=r"a class outside 0 \.\. 2"):
            call()
    assert F.one_hot(np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_what_stands_for_classes_is_a_tensor():
    assert F.one_hot(np.array([1, 0]), 2).float().dtype == np.float32 and (F.one_hot(tg.tensor([1, 0]), 2) @ tg.tensor([3.0, 4.0])).tolist() == [4.0, 3.0]


def test_each_number_has_its_own_target():
    """NumPy would broadcast."""
    for loss in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
        with pytest.raises(ValueError, match="[Tt]arget"):
            loss(tg.tensor([0.5, 0.2]), tg.tensor([1.0]))


def test_probabilities_of_0_and_1_are_pulled_away():
    """The slopes are PyTorch's."""
    for char in "df":
        slope = tg.value_and_grad(lambda p: F.binary_cross_entropy(p, np.array([1.0, 0.0, 1.0, 0.5], char), reduction="sum"))
        for call in (slope, tg.jit(slope)):
            value, found = call(np.array([0.0, 1.0, 1.0, 0.5], char))
            np.testing.assert_allclose(value, 200.0 + np.log(2.0), rtol=1e-6)
            np.testing.assert_allclose(found, [-1e12, 1e12, -1.0, 0.0], rtol=1e-6)


def test_a_single_row_has_one_class():
    assert tg.value_and_grad(lambda x: F.nll_loss(x, 1))(SCORES[0])[1].tolist() == [0.0, -1.0, 0.0]
    for scores in (SCORES[0, 0], SCORES[None]):
        with pytest.raises(ValueError, match="axes"):
            F.nll_loss(scores, 0)


def test_widths_of_huber_losses():
    x, y = np.array([0.5, -2.0]), np.array([1.5, 1.0])
    value, slope = tg.value_and_grad(lambda x: F.smooth_l1_loss(x, y, beta=0.0))(x)
    assert value == 2.0 and slope.tolist() == [-0.5, -0.5]
    for call in (lambda: F.smooth_l1_loss(tg.tensor(x), y, beta=-1.0), lambda: F.huber_loss(tg.tensor(x), y, delta=0.0)):
        with pytest.raises(tg.errors.OptionError, match="must be positive"):
            call()
