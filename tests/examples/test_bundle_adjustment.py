"""The example of cameras and points: the geometry, the Jacobian, the solution."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import tapegrad as tg


@pytest.fixture(scope="module")
def example(load):
    return load("bundle_adjustment")


def test_the_scene_is_found(example, picture):
    found = example.main(picture, cameras=4, points=25)
    assert found["error"] < 1e-6 and found["size"] == pytest.approx(1.0, abs=0.5)
    assert found["result"].success


def test_rotations_are_those_of_scipy(example):
    rng = np.random.default_rng(0)
    turns, points = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    np.testing.assert_allclose(example.rotated(turns, points), Rotation.from_rotvec(turns).apply(points), rtol=1e-9)
    np.testing.assert_allclose(example.rotated(np.zeros((5, 3)), points), points, rtol=1e-12)


def test_every_point_is_in_front_of_every_camera(example):
    cameras, points, _, _ = example.scene(8, 100, np.random.default_rng(0))
    for camera in cameras:
        seen = example.rotated(np.tile(camera[:3], (100, 1)), points) + camera[3:]
        assert np.all(seen[:, 2] > 1.0)


def test_the_jacobian_is_sparse_and_right(example):
    residuals, start, _ = example.problem(3, 10, 0.5, np.random.default_rng(1))
    split = start["cameras"].size

    def flat(x):
        return residuals({"cameras": x[:split].reshape(-1, 6), "points": x[split:].reshape(-1, 3)})

    x = np.concatenate([start["cameras"].ravel(), start["points"].ravel()])
    jacobian = tg.jacobian(flat)(x)
    difference = np.stack([(flat(x + 1e-6 * e) - flat(x - 1e-6 * e)) / 2e-6 for e in np.eye(len(x))], axis=1)
    np.testing.assert_allclose(jacobian, difference, rtol=1e-6, atol=1e-4)
    assert np.mean(jacobian != 0.0) < 0.25
