"""The turns of loops, run by compiled code."""

import numpy as np
import pytest

import tapegrad as tg


@pytest.mark.parametrize("turns", [3, 4, 9])
def test_a_path_that_is_met_on_the_way_keeps_its_carry_once(turns):
    """The way back of a loop that has met a path which was not recorded before."""

    def end(p):
        def body(carry):
            y = carry["y"] + carry["h"] * p * carry["y"]
            if y[0] > 2.0:
                return carry | {"h": carry["h"] * 0.5, "k": carry["k"] + 1.0}
            return {"y": y, "h": carry["h"], "k": carry["k"] + 1.0}

        return np.sum(tg.while_loop(lambda carry: carry["k"] < turns, body, {"y": p * 1.0, "h": 0.3, "k": 0.0})["y"])

    p = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.grad(end)(p), tg.jacfwd(end)(p), rtol=1e-14)
