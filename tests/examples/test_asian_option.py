"""The example of an option: closed forms, derivatives, the control variate."""

import numpy as np
import pytest
from scipy.stats import norm

import tapegrad as tg


@pytest.fixture(scope="module")
def example(load):
    return load("asian_option")


def test_price_and_greeks(example, picture):
    found = example.main(picture, paths=20_000)
    assert found["off"] < 4.0
    # From 10 million paths with the control variate.
    assert abs(found["price"][0] - 7.0636) < 5 * found["price"][1]


def test_the_closed_form_for_one_date_is_that_of_black_and_scholes(example):
    spot, volatility, rate = example.MARKET
    d = (np.log(spot / example.STRIKE) + (rate + volatility**2 / 2)) / volatility
    price = spot * norm.cdf(d) - example.STRIKE * np.exp(-rate) * norm.cdf(d - volatility)
    value, greeks = tg.value_and_grad(lambda m: example.closed_form(m, 1))(example.MARKET)
    assert value == pytest.approx(price, rel=1e-12)
    np.testing.assert_allclose(
        greeks, [norm.cdf(d), spot * norm.pdf(d), example.STRIKE * np.exp(-rate) * norm.cdf(d - volatility)], rtol=1e-10
    )


def test_derivatives(example):
    normals = np.random.default_rng(3).normal(size=(6, 12))
    tg.check(lambda m: np.mean(example.payoffs(m, normals)[0]), example.MARKET)
    tg.check(example.closed_form, example.MARKET)


def test_a_wrong_closed_form_is_noticed(example, monkeypatch):
    right = example.closed_form
    monkeypatch.setattr(example, "closed_form", lambda m: 1.05 * right(m))
    with pytest.raises(AssertionError, match="standard errors"):
        example.main(paths=20_000)
