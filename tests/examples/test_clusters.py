"""The picture of the page on clusters."""

from concurrent.futures import ThreadPoolExecutor


def test_the_results_are_one_and_the_picture_is_drawn(load, picture, monkeypatch):
    import sys

    module = load("clusters")
    # What is sent by pickle is found by the name of its module.
    monkeypatch.setitem(sys.modules, "clusters", module)
    results = module.main(picture, chunks=32, seconds=0.001, executor=ThreadPoolExecutor)
    assert results == {(sum((0.5 - k) ** 2 for k in range(32)), sum(1.0 - 2.0 * k for k in range(32)))}
