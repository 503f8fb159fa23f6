"""Memory shared with other libraries by DLPack."""

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every

LEAF = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)


# ---- out ------------------------------------------------------------------------------


@every("dtype", ["f8", "f4", "i8", "i4", "u1", "?"])
def test_numpy_shares_the_memory_of_a_plain_tensor(dtype):
    t = tg.tensor(np.array([[0, 1, 0], [1, 1, 0]], dtype))
    a = np.from_dlpack(t)
    assert a.dtype == dtype and np.array_equal(a, t.numpy())
    a[0, 0] = 1
    assert t[0, 0].item() == 1
    assert np.shares_memory(np.from_dlpack(t.T), a) and np.from_dlpack(t[:, ::2]).tolist() == t[:, ::2].tolist()
    assert not np.shares_memory(np.from_dlpack(t, copy=True), a)


def test_numbers_and_complex_numbers_are_copied():
    assert np.from_dlpack(tg.tensor(2.0)) == 2.0
    assert np.from_dlpack(tg.tensor([1.0 + 2.0j])).tolist() == [1.0 + 2.0j]
    assert tg.from_dlpack(np.array([1.0 + 2.0j])).tolist() == [1.0 + 2.0j]


def test_what_requires_a_gradient_is_refused():
    squares = LEAF * LEAF
    for t in (LEAF, squares, tg.Dual(np.ones(2), np.ones(2)), tg.tensor(np.ones(2) + 1j, requires_grad=True)):
        with pytest.raises(tg.errors.LeaveTapeError, match=r"write t\.detach\(\) for the value alone.*requires a gradient"):
            np.from_dlpack(t)
    with pytest.raises(tg.errors.LeaveTapeError, match="memory of 'squares', which"):
        squares.__dlpack__()
    for transformation in (tg.grad, tg.jacfwd, lambda f: tg.jit(tg.grad(f)), tg.jit):
        with pytest.raises(tg.errors.LeaveTapeError, match="'argument'"):
            transformation(lambda argument: np.from_dlpack(argument).sum())(np.ones(2))


def test_a_recording_guards_what_it_hands_out():
    scaled = tg.jit(tg.grad(lambda x, w: np.sum(x * np.from_dlpack(w.detach()))))
    for w in (np.array([1.0, 2.0]), np.array([5.0, 6.0])):
        assert scaled(np.ones(2), w).tolist() == w.tolist()


def test_memory_that_a_tape_needs_is_read_only_and_watched():
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    squares = x * x
    sines = np.sin(squares)
    capsule = squares.detach().__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    with pytest.raises(BufferError, match="readonly"):
        squares.detach().__dlpack__()
    # Some libraries write to memory that is said to be read-only.
    memory = squares._v
    np.from_dlpack(squares.detach())
    memory[0] = 5.0
    with pytest.raises(tg.errors.ModifiedInPlaceError, match="sin"):
        sines.sum().backward()


def test_options_are_numpys():
    t = tg.tensor([1.0, 2.0])
    assert t.__dlpack_device__() == np.ones(1).__dlpack_device__()
    assert t.__dlpack__(dl_device=t.__dlpack_device__(), copy=False) is not None
    with pytest.raises(RuntimeError, match="stream"):
        t.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        t.__dlpack__(dl_device=(2, 0))


# ---- in -------------------------------------------------------------------------------


@every("dtype", ["f8", "f4", "i8", "?"])
def test_a_tensor_shares_the_memory_of_another_librarys_array(dtype):
    a = np.array([[0, 1, 0], [1, 1, 0]], dtype)
    t = tg.from_dlpack(a)
    assert type(t) is tg.Tensor and not t.requires_grad and t.dtype == dtype
    a[0, 0] = 1
    assert t[0, 0].item() == 1
    t[1, 2] = 1
    assert a[1, 2] == 1
    assert tg.from_dlpack(a[:, ::2]).tolist() == a[:, ::2].tolist()
    copied = tg.from_dlpack(a, copy=True)
    a[...] = 0
    assert copied[0, 0].item() == 1
    assert np.shares_memory(tg.from_dlpack(t).numpy(), a)


def test_a_tape_notices_when_the_other_library_writes():
    a = np.ones(1000)
    x = tg.tensor(np.ones(1000), requires_grad=True)
    total = (x * tg.from_dlpack(a)).sum()
    a[0] = 5.0
    with pytest.raises(tg.errors.ModifiedInPlaceError):
        total.backward()


def test_wrong_input():
    with pytest.raises(TypeError, match=r"not list; for lists and numbers write tg\.tensor\(x\)"):
        tg.from_dlpack([1.0])
    with pytest.raises(tg.errors.LeaveTapeError, match="'LEAF'"):
        tg.from_dlpack(LEAF)
    with pytest.raises(ValueError, match='"cpu"'):
        tg.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises((TypeError, BufferError)):
        tg.from_dlpack(np.array(["a"]))


# ---- PyTorch and JAX -------------------------------------------------------------------


def test_torch():
    torch = pytest.importorskip("torch")
    t = tg.tensor([1.0, 2.0, 3.0])
    shared = torch.from_dlpack(t)
    shared[0] = 9.0
    assert t.tolist() == [9.0, 2.0, 3.0]
    theirs = torch.arange(4.0)
    ours = tg.from_dlpack(theirs)
    theirs[0] = 7.0
    assert ours.tolist() == [7.0, 1.0, 2.0, 3.0] and ours.dtype == np.float32
    for refused in (LEAF, LEAF * 2.0):
        with pytest.raises(tg.errors.LeaveTapeError, match="detach"):
            torch.from_dlpack(refused)
    with pytest.raises(BufferError, match="detach"):
        tg.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="dtype"):
        tg.from_dlpack(torch.ones(2, dtype=torch.bfloat16))


def test_jax():
    jax = pytest.importorskip("jax")
    t = tg.tensor(np.array([1.0, 2.0, 3.0], np.float32))
    assert jax.numpy.from_dlpack(t).tolist() == [1.0, 2.0, 3.0]
    assert tg.from_dlpack(jax.numpy.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(tg.errors.LeaveTapeError, match="detach"):
        jax.numpy.from_dlpack(LEAF)
