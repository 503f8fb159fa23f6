"""Filters, distances and tables of SciPy's on tensors."""

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.spatial.distance

import tapegrad as tg
import tapegrad.scipy as mirrored
from tapegrad.errors import UnsupportedFunctionError
from tests.every import every
from tests.scipy.mirrored import check_mirror

RNG = np.random.default_rng(0)
SIGNAL, IMAGE = RNG.normal(size=12), RNG.normal(size=(5, 7))
#: Without the ones of the fourth column.
SECTIONS = np.array([[1.0, 0.3, 0.1, -0.5, 0.2], [0.5, 0.2, 0.0, 0.4, 0.1]])
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
GRID = np.arange(4.0), np.array([0.0, 0.5, 1.5, 2.0, 4.0])
TABLE, AT = RNG.normal(size=(4, 5, 2)), np.column_stack([RNG.uniform(0.1, 2.9, 6), RNG.uniform(0.1, 3.9, 6)])
#: Inside of an image, and beyond it on both sides.
PLACES = np.array([[0.3, 1.7, 2.2, 3.6, 2.9, -0.8, 4.6], [5.4, 0.6, 3.3, 1.2, 4.8, 2.4, 7.3]])
#: Module, name, a call, and arrays that are differentiated.
CALLS = {
    "savgol": ("scipy.signal", "savgol_filter", lambda m, x: m.savgol_filter(x, 5, 2), (SIGNAL,)),
    "savgol, slopes of columns": ("scipy.signal", "savgol_filter", lambda m, x: m.savgol_filter(x, 3, 1, 1, 0.5, axis=0, mode="nearest"), (IMAGE,)),
    "savgol, a constant outside": ("scipy.signal", "savgol_filter", lambda m, x: m.savgol_filter(x, 5, 2, mode="constant", cval=2.0), (SIGNAL,)),
    "sosfilt": ("scipy.signal", "sosfilt", lambda m, s, x: m.sosfilt(np.concatenate([s[:, :3], np.ones((2, 1)), s[:, 3:]], axis=1), x), (SECTIONS, SIGNAL)),
    "gaussian": ("scipy.ndimage", "gaussian_filter", lambda m, x: m.gaussian_filter(x, np.array([0.8, 1.5]), (0, 1), mode=("wrap", "reflect")), (IMAGE,)),
    "gaussian, a constant outside": ("scipy.ndimage", "gaussian_filter", lambda m, x: m.gaussian_filter(x, 1.0, mode="constant", cval=3.0, axes=(1,)), (IMAGE,)),
    "gaussian of rows": ("scipy.ndimage", "gaussian_filter1d", lambda m, x: m.gaussian_filter1d(x, 1.2, 0), (IMAGE,)),
    **{metric: ("scipy.spatial.distance", "cdist", lambda m, a, b, metric=metric: m.cdist(a, b, metric), (A, B)) for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev")},
    "minkowski": ("scipy.spatial.distance", "cdist", lambda m, a, b: m.cdist(a, b, "minkowski", p=3), (A, B)),
    "pairs": ("scipy.spatial.distance", "pdist", lambda m, a: m.pdist(a), (A,)),
    "table": ("scipy.interpolate", "RegularGridInterpolator", lambda m, v, x: m.RegularGridInterpolator(GRID, v)(x), (TABLE, AT)),
    "table, outside": ("scipy.interpolate", "RegularGridInterpolator", lambda m, v, x: m.RegularGridInterpolator(GRID, v, bounds_error=False, fill_value=None)(x - 1.3), (TABLE, AT)),
    "table, a value outside": ("scipy.interpolate", "RegularGridInterpolator", lambda m, v, x: m.RegularGridInterpolator(GRID, v, bounds_error=False, fill_value=7.0)(x - 1.3), (TABLE, AT)),
    "table, falling": ("scipy.interpolate", "RegularGridInterpolator", lambda m, v, x: m.RegularGridInterpolator((GRID[0], GRID[1][::-1]), v)(x), (TABLE, AT)),
    "nearest": ("scipy.interpolate", "RegularGridInterpolator", lambda m, v: m.RegularGridInterpolator(GRID, v, "nearest")(AT), (TABLE,)),
    **{
        f"coordinates, order {order}, {mode}": ("scipy.ndimage", "map_coordinates", lambda m, x, at, order=order, mode=mode: m.map_coordinates(x, at, order=order, mode=mode, cval=0.4), (IMAGE, PLACES))
        for order in (1, 2, 3) for mode in ("reflect", "constant", "nearest", "mirror", "grid-wrap", *(["grid-constant"] if order == 1 else []))
    },
    "coordinates, the nearest": ("scipy.ndimage", "map_coordinates", lambda m, x: m.map_coordinates(x, PLACES, order=0, mode="mirror"), (IMAGE,)),
    "coordinates of coefficients": ("scipy.ndimage", "map_coordinates", lambda m, x, at: m.map_coordinates(x, at, mode="reflect", prefilter=False), (SIGNAL, PLACES[1:])),
    "pchip": ("scipy.interpolate", "PchipInterpolator", lambda m, x, y, t: m.PchipInterpolator(x, y)(t), (np.cumsum(RNG.uniform(0.3, 1.5, 7)), SIGNAL[:7], RNG.uniform(0.5, 4.0, 6))),
    "pchip of columns": ("scipy.interpolate", "PchipInterpolator", lambda m, y, t: m.PchipInterpolator(np.arange(7.0) ** 1.2, y, axis=1)(t, 1), (IMAGE, RNG.uniform(0.5, 4.0, 6))),
    "pchip, tiny": ("scipy.interpolate", "PchipInterpolator", lambda m, y, t: 1e200 * m.PchipInterpolator(np.arange(7.0), 1e-200 * np.cumsum(y**2))(t), (SIGNAL[:7], RNG.uniform(0.5, 4.0, 6))),
    "pchip of two": ("scipy.interpolate", "PchipInterpolator", lambda m, y, t: m.PchipInterpolator([0.0, 2.0], y)(t), (SIGNAL[:2], np.array([0.3, 2.5]))),
}  # fmt: skip


@every("name", list(CALLS))
def test_values_and_derivatives_are_scipys(name):
    module, of, call, arrays = CALLS[name]
    check_mirror(module, of, call, arrays, atol=1e-9)


@every("name", ["savgol", "sosfilt", "gaussian", "euclidean", "table", "pchip", "coordinates, order 3, mirror"])
def test_second_derivatives_and_jit(name):
    module, _, call, arrays = CALLS[name]
    ours = mirrored.spatial.distance if module.endswith("distance") else getattr(mirrored, module.removeprefix("scipy."))

    def f(*xs):
        return np.sum(np.sin(call(ours, *xs)))

    assert tg.check(f, *arrays, order=2).passed
    g = tg.jit(tg.grad(f))
    # The positions of points among knots are decided anew where these move.
    moving = 1 if name == "pchip" else 0
    for k in range(3):
        moved = [a * (1.0 + 0.001 * k * (j == moving)) for j, a in enumerate(arrays)]
        np.testing.assert_allclose(g(*moved), tg.grad(f)(*moved), rtol=1e-9, atol=1e-12)
    assert g.stats().records == 1


def test_a_point_from_itself_has_no_slope():
    np.testing.assert_array_equal(tg.grad(lambda a: np.sum(mirrored.spatial.distance.cdist(a, a)))(np.zeros((2, 3))), np.zeros((2, 3)))


def test_what_is_refused_says_why():
    image = tg.tensor(IMAGE, requires_grad=True)
    for options, match in (({"order": 4}, "order 0, 1, 2 or 3, not 4"), ({"order": 1, "mode": "wrap"}, "not 'wrap'"), ({"mode": "grid-constant"}, "up to order 1")):
        with pytest.raises(UnsupportedFunctionError, match=match):
            mirrored.ndimage.map_coordinates(image, PLACES, **options)
    for lost in (np.nan, np.inf):
        with pytest.raises(ValueError, match="infinite or not a number"):
            mirrored.ndimage.map_coordinates(image, np.where(PLACES > 5.0, lost, PLACES), order=1, mode="reflect")
    with pytest.raises(RuntimeError, match="coordinate array"):
        mirrored.ndimage.map_coordinates(image, PLACES[:1])
    t = tg.tensor(TABLE, requires_grad=True)
    with pytest.raises(ValueError, match="out of bounds in dimension 1"):
        mirrored.interpolate.RegularGridInterpolator(GRID, t)([[1.0, 9.0]])
    with pytest.raises(ValueError, match="dimension 3 but this RegularGridInterpolator has dimension 2"):
        mirrored.interpolate.RegularGridInterpolator(GRID, t)([[1.0, 1.0, 1.0]])
    with pytest.raises(UnsupportedFunctionError, match="linear or nearest, not 'cubic'"):
        mirrored.interpolate.RegularGridInterpolator(GRID, t)([[1.0, 1.0]], method="cubic")
    with pytest.raises(ValueError, match="strictly"):
        mirrored.interpolate.RegularGridInterpolator((GRID[0][::-1][[0, 2, 1, 3]], GRID[1]), t)
    with pytest.raises(ValueError, match="increasing"):
        mirrored.interpolate.PchipInterpolator([0.0, 2.0, 1.0], tg.tensor(SIGNAL[:3], requires_grad=True))
    with pytest.raises(UnsupportedFunctionError, match="distances of tensors have the metrics euclidean, .* not 'cosine'"):
        mirrored.spatial.distance.cdist(tg.tensor(A, requires_grad=True), B, "cosine")
    with pytest.raises(ValueError, match="two sets of points of one dimension"):
        mirrored.spatial.distance.cdist(tg.tensor(A, requires_grad=True), B[:, :2])
    with pytest.raises(UnsupportedFunctionError, match="savgol_filter has no rule for complex numbers"):
        mirrored.signal.savgol_filter(tg.tensor(np.ones(5) * 1j, requires_grad=True), 3, 1)
    with pytest.raises(UnsupportedFunctionError, match="zi="):
        mirrored.signal.sosfilt(np.ones((2, 6)), tg.tensor(SIGNAL, requires_grad=True), zi=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="n_sections, 6"):
        mirrored.signal.sosfilt(SECTIONS, tg.tensor(SIGNAL, requires_grad=True))
    with pytest.raises(ValueError, match="should be all ones"):
        mirrored.signal.sosfilt(2.0 * np.ones((2, 6)), tg.tensor(SIGNAL, requires_grad=True))
    assert mirrored.ndimage.label is scipy.ndimage.label and mirrored.spatial.KDTree is scipy.spatial.KDTree


def test_plain_arguments_give_scipys_objects_and_numbers():
    table = mirrored.interpolate.RegularGridInterpolator(GRID, TABLE)
    np.testing.assert_array_equal(table(AT), scipy.interpolate.RegularGridInterpolator(GRID, TABLE)(AT))
    pchip = mirrored.interpolate.PchipInterpolator(np.arange(7.0), SIGNAL[:7])
    np.testing.assert_array_equal(pchip.roots(), scipy.interpolate.PchipInterpolator(np.arange(7.0), SIGNAL[:7]).roots())


@every("method", ["linear", "nearest"])
def test_points_of_a_table_that_are_no_numbers(method):
    at, theirs = np.where(np.arange(12).reshape(6, 2) % 5 == 1, np.nan, AT - 1.3), scipy.interpolate.RegularGridInterpolator
    for fill in (7.0, None):
        found = mirrored.interpolate.RegularGridInterpolator(GRID, tg.tensor(TABLE, requires_grad=True), method, False, fill)(at)
        np.testing.assert_allclose(found.detach().numpy(), theirs(GRID, TABLE, method, False, fill)(at), rtol=1e-12)
    with pytest.raises(ValueError, match="out of bounds in dimension 1"):
        mirrored.interpolate.RegularGridInterpolator(GRID, tg.tensor(TABLE, requires_grad=True), method)([[1.0, np.nan]])


def test_convolutions_at_the_edges():
    """Numbers, arrays of nothing, axes along which one is repeated, and what SciPy refuses."""
    t = tg.tensor(2.0, requires_grad=True)
    assert mirrored.signal.convolve(t, 3.0).item() == mirrored.signal.fftconvolve(t, 3.0).item() == 6.0
    wide = RNG.normal(size=(4, 5))
    for mode in ("full", "same", "valid"):
        empty, theirs = mirrored.signal.fftconvolve(np.zeros(0), tg.tensor(SIGNAL), mode), scipy.signal.fftconvolve(np.zeros(0), SIGNAL, mode)
        assert np.shape(empty) == theirs.shape
        check_mirror("scipy.signal", "fftconvolve", lambda m, a, b, mode=mode: m.fftconvolve(a, b, mode, axes=0), (wide[:, :1], wide[:3]))
    signal = mirrored.signal
    for call, match in {
        lambda x: signal.convolve(x, np.ones((2, 9)), "valid"): "one must be at least as large", lambda x: signal.convolve(x, x, method="none"): "method flags",
        lambda x: signal.fftconvolve(x, x, axes=()): "axes", lambda x: signal.fftconvolve(x, x, axes=(0, 0)): "axes",
        lambda x: signal.lfilter([1.0], [0.0, 1.0], x): "coefficients a is zero",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=match):
            call(tg.tensor(wide))
    np.testing.assert_allclose(signal.lfilter(2.0, 4.0, tg.tensor(SIGNAL)).numpy(), SIGNAL / 2.0)
    assert signal.lfilter([1.0], [1.0, 0.2], tg.tensor(np.zeros(0))).shape == (0,)


def test_axes_and_metrics_that_are_others():
    with pytest.raises(np.exceptions.AxisError, match="axis 5"):
        mirrored.ndimage.gaussian_filter(tg.tensor(IMAGE), 1.0, axes=5)
    for name in ("fftn", "rfft2"):
        check_mirror("scipy.fft", name, lambda m, x, name=name: abs(getattr(m, name)(x, axes=1)), (IMAGE,))
        with pytest.raises(ValueError, match="axis is repeated"):
            getattr(mirrored.fft, name)(tg.tensor(IMAGE), axes=(1, 1))

    def euclidean(x, y):
        return np.sum(np.abs(x - y) ** 3)

    with pytest.raises(UnsupportedFunctionError, match="have the metrics"):
        mirrored.spatial.distance.cdist(tg.tensor(A), B, euclidean)
    named = mirrored.spatial.distance.cdist(tg.tensor(A), B, scipy.spatial.distance.cityblock)
    np.testing.assert_allclose(named.numpy(), scipy.spatial.distance.cdist(A, B, "cityblock"))
    for dtype in (np.uint8, bool):
        points, others = np.array([[0, 1], [3, 1]], dtype), np.array([[2, 0]], dtype)
        for metric in ("euclidean", "chebyshev"):
            found = mirrored.spatial.distance.cdist(tg.tensor(points), others, metric)
            np.testing.assert_array_equal(found.numpy(), scipy.spatial.distance.cdist(points, others, metric))
    with pytest.raises(ValueError, match="p must not be 0"):
        mirrored.spatial.distance.pdist(tg.tensor(A), "minkowski", p=0)


def test_float32_stays_float32():
    rows = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)
    at = np.array([[0.5, 1.2], [3.0, 17.4]])
    for computed in (
        lambda sp, y: sp.signal.savgol_filter(y, 5, 2), lambda sp, y: sp.ndimage.gaussian_filter(y, 1.2), lambda sp, y: sp.ndimage.map_coordinates(y, at),
        lambda sp, y: sp.ndimage.map_coordinates(y, at, order=1, mode="nearest"), lambda sp, y: sp.integrate.trapezoid(y, dx=0.5),
        lambda sp, y: sp.integrate.cumulative_trapezoid(y, dx=0.5, initial=0), lambda sp, y: sp.integrate.simpson(y, dx=0.5),
        lambda sp, y: sp.integrate.simpson(y, x=np.arange(20.0)),
    ):  # fmt: skip
        found, wanted = computed(mirrored, tg.tensor(rows, requires_grad=True)), computed(scipy, rows)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=2e-5, atol=1e-6)


def test_integers_give_floats():
    numbers = tg.tensor(np.arange(9) ** 2)
    for function in (
        lambda y: mirrored.signal.savgol_filter(y, 5, 2), lambda y: mirrored.ndimage.gaussian_filter(y, 1.2), lambda y: mirrored.integrate.simpson(y),
        lambda y: mirrored.integrate.trapezoid(y), lambda y: mirrored.ndimage.map_coordinates(y, np.array([[1.5, 3.2]]), order=1),
    ):  # fmt: skip
        found = function(numbers)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found.numpy(), function(numbers.astype(float)).numpy())


@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "constant", "grid-wrap", "grid-constant"])
def test_the_nearest_element_halfway_between_two_is_scipys(mode):
    numbers, at = np.arange(5.0), np.arange(-3.0, 8.0, 0.25)[None]
    found = mirrored.ndimage.map_coordinates(tg.tensor(numbers, requires_grad=True), at, order=0, mode=mode)
    np.testing.assert_array_equal(found.detach().numpy(), scipy.ndimage.map_coordinates(numbers, at, order=0, mode=mode))
