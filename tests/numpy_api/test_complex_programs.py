"""Random programs of complex numbers: every mode, PyTorch and JAX say the same (`complex_programs`)."""

import pytest

from tests.numpy_api.complex_programs import verdict

pytestmark = pytest.mark.filterwarnings("ignore")


def judged(seeds, **options):
    verdicts = {seed: verdict(seed, **options) for seed in seeds}
    assert not {seed: why for seed, why in verdicts.items() if why}
    assert sum(why is None for why in verdicts.values()) < 0.25 * len(verdicts)


def test_forward_and_reverse_mode_agree():
    judged(range(200), peers=False)


def test_kernels_agree():
    judged(range(0, 200, 40), peers=False, kernel=True)


#: Real frequencies below zero, on the branch cut of log and sqrt, where the sign of an imaginary part of zero decides.
FAILED = 4543, 5945, 6032, 8010, 9846, 9934, 9944, 10471, 10728


@pytest.mark.long
def test_pytorch_and_jax_agree():
    pytest.importorskip("torch"), pytest.importorskip("jax")
    judged([*range(0, 200, 20), *FAILED])


@pytest.mark.long
def test_pytorch_and_jax_agree_on_more():
    pytest.importorskip("torch"), pytest.importorskip("jax")
    judged(range(200, 400), kernel=False)
