"""CTC beside PyTorch's, ASG and conditional random fields beside dense recursions."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tests.every import every

CASES = 100


def ctc_case(rng):
    times, labels, length = int(rng.integers(1, 15)), int(rng.integers(2, 6)), int(rng.integers(0, 7))
    blank = int(rng.integers(0, labels))
    target = rng.choice([k for k in range(labels) if k != blank], length)
    return rng.normal(scale=2.0, size=(times, labels)), target, blank


def ctc_check(seed):
    """One random case; whether the target was possible."""
    torch = pytest.importorskip("torch")
    scores, target, blank = ctc_case(np.random.default_rng(seed))
    value, gradient = tg.value_and_grad(lambda x: automata.ctc_loss(tg.log_softmax(x, axis=-1), target, blank))(scores)
    x = torch.tensor(scores, requires_grad=True)
    loss = torch.nn.functional.ctc_loss(
        torch.log_softmax(x, -1)[:, None], torch.tensor(target)[None], torch.tensor([len(scores)]), torch.tensor([len(target)]), blank, "sum"
    )
    if not torch.isfinite(loss):
        assert value == np.inf and not gradient.any()
        return False
    loss.backward()
    np.testing.assert_allclose(value, loss.item(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-9, atol=1e-11)
    return True


def test_ctc_is_pytorchs():
    possible = [ctc_check(seed) for seed in range(CASES)]
    assert CASES // 10 < sum(possible) < CASES, "both kinds"


def dense(scores, target, transitions, start, stay):
    """Minus the log probability by recursions over labels, and over places in the target."""
    times, labels = scores.shape
    alpha = start + scores[0]
    for t in range(1, times):
        alpha = scores[t] + np.logaddexp.reduce(alpha[:, None] + transitions, axis=0)
    everything = np.logaddexp.reduce(alpha)
    place = np.full(len(target), -np.inf)
    for t in range(times):
        before = np.append(-np.inf, place[:-1] + transitions[target[:-1], target[1:]]) if t else np.append(start[target[0]], np.full(len(target) - 1, -np.inf))
        stayed = place + transitions[target, target] if t and stay else np.full(len(target), -np.inf)
        place = scores[t, target] + np.logaddexp(before, stayed)
    return everything - place[-1]


@every("seed", range(25))
@every("stay", [True, False])
def test_asg_and_crf_are_dense_recursions(seed, stay):
    rng = np.random.default_rng(seed)
    times, labels = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    target = rng.integers(0, labels, int(rng.integers(1, times + 1)) if stay else times)
    arrays = rng.normal(size=(times, labels)), rng.normal(size=(labels, labels)), rng.normal(size=labels)
    loss = automata.asg_loss if stay else automata.crf_loss
    ours = lambda scores, transitions, start: loss(scores, target, transitions, start)
    reference = lambda scores, transitions, start: dense(scores, target, transitions, start, stay)
    report = tg.check(ours, *arrays, reference=reference, modes=["value", "reverse", "forward"]) if seed < 5 else None
    assert report is None or report.passed, report
    np.testing.assert_allclose(float(ours(*arrays)), reference(*arrays), rtol=1e-11, atol=1e-12)


def test_what_there_is_no_time_for():
    scores = np.zeros((2, 3))
    loss, gradient = tg.value_and_grad(lambda x: automata.ctc_loss(x, [1, 1]))(scores)
    assert loss == np.inf and not gradient.any()
    x = tg.tensor(scores, requires_grad=True)
    automata.ctc_loss(x, [1, 2, 1]).backward()
    assert not np.asarray(x.grad).any()
    assert float(automata.asg_loss(scores, [0, 1, 2], np.zeros((3, 3)))) == np.inf
    # The empty target is spelt by blanks alone.
    assert float(automata.ctc_loss(np.log(np.full((2, 2), 0.5)), [])) == pytest.approx(2 * np.log(2))


def test_batches_are_single_losses():
    rng = np.random.default_rng(0)
    scores, targets, transitions = rng.normal(size=(3, 5, 4)), [[1, 2], [3], [1, 1]], rng.normal(size=(4, 4))
    one = [float(automata.ctc_loss(s, t)) for s, t in zip(scores, targets)]
    np.testing.assert_array_equal(np.asarray(automata.ctc_loss(scores, targets)), one)
    ragged = [scores[0], scores[1][:3], scores[2]]
    assert float(automata.ctc_loss(ragged, targets)[1]) == float(automata.ctc_loss(ragged[1], targets[1]))
    gradient = tg.grad(lambda x: automata.asg_loss(x, targets, transitions).sum())(scores)
    for g, s, t in zip(gradient, scores, targets):
        np.testing.assert_allclose(g, tg.grad(lambda x, t=t: automata.asg_loss(x, t, transitions))(s), atol=1e-12)


def test_they_replay_and_notice_another_target():
    rng, scores = np.random.default_rng(0), np.random.default_rng(1).normal(size=(6, 4))
    f = tg.jit(tg.value_and_grad(automata.ctc_loss))
    for target in ([1, 2], [1, 2], [3, 3], [1, 2]):
        value, gradient = f(scores, np.array(target))
        expected = tg.value_and_grad(lambda x, target=target: automata.ctc_loss(x, target))(scores)
        assert value == pytest.approx(expected[0], rel=1e-13)
        np.testing.assert_allclose(gradient, expected[1], atol=1e-13)
        scores = scores + rng.normal(size=scores.shape)
    assert f.stats().records == 2


def test_define_by_run_trains_transitions():
    rng = np.random.default_rng(0)
    transitions = tg.tensor(np.zeros((3, 3)), requires_grad=True)
    optimizer = tg.optim.Adam([transitions], lr=0.1)
    data = [np.cumsum(rng.integers(0, 2, 8)) % 3 for _ in range(10)]
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = automata.crf_loss([np.zeros((8, 3))] * 10, data, transitions).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.75 * losses[0]
    # A label is followed by itself or the next one.
    assert np.asarray(transitions.detach())[[0, 1, 2], [2, 0, 1]].max() < np.asarray(transitions.detach())[[0, 1, 2], [1, 2, 0]].min() - 2.0


@pytest.mark.parametrize("call, kind, words", [
    (lambda: automata.ctc_loss(np.zeros((3, 4)), [1, 4]), tg.errors.GraphError, "label 1 of the target is 4, and there are 4 labels"),
    (lambda: automata.ctc_loss(np.zeros((3, 4)), [1, 0]), tg.errors.GraphError, "label 1 of the target is 0, which is the blank"),
    (lambda: automata.ctc_loss(np.zeros((3, 4)), [1], blank=4), tg.errors.GraphError, "blank is 4, and there are 4 labels"),
    (lambda: automata.ctc_loss(np.zeros((3, 4)), [-1]), tg.errors.GraphError, "label 0 of the target is -1"),
    (lambda: automata.ctc_loss(np.zeros((3, 4)), [1.5]), tg.errors.GraphError, "integers"),
    (lambda: automata.ctc_loss(np.zeros(3), [1]), tg.errors.ShapeError, "two axes"),
    (lambda: automata.ctc_loss(np.zeros((2, 3, 4)), [[1]]), tg.errors.ShapeError, "2 arrays of scores, and 1 targets"),
    (lambda: automata.crf_loss(np.zeros((3, 4)), [1, 2], np.zeros((4, 4))), tg.errors.ShapeError, "2 labels for 3 times"),
    (lambda: automata.asg_loss(np.zeros((3, 4)), [1, 2], np.zeros((3, 3))), tg.errors.ShapeError, "a column for each label"),
    (lambda: automata.transition_graph(np.zeros((3, 4))), tg.errors.ShapeError, r"\(n, n\)"),
    (lambda: automata.transition_graph(np.zeros((3, 3)), np.zeros(2)), tg.errors.ShapeError, r"\(n,\)"),
])  # fmt: skip
def test_wrong_input_is_named(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


if __name__ == "__main__":
    import sys

    print(sum(map(ctc_check, range(int(sys.argv[1])))), "possible; all as PyTorch's")
