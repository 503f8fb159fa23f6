"""Pictures of tapes: every instruction has its box, nothing overlaps, lines go down; what notebooks show."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import draw

SVG = "{http://www.w3.org/2000/svg}"


x, w = tg.tensor(2.0, requires_grad=True), tg.tensor([1.0, 2.0, 3.0], requires_grad=True)


def small():
    with tg.Tape() as tape:
        y = w[0] * x + np.sin(x)
        np.sum(w * y) * np.exp(-x)
    return tape


def boxes(text):
    """(title, x, y, width, height, hint) of each box."""
    found = []
    for group in ET.fromstring(text).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect").attrib
        numbers = [float(rect[name]) for name in ("x", "y", "width", "height")]
        found.append((group.findall(f"{SVG}text")[0].text, *numbers, group.find(f"{SVG}title").text))
    return found


def test_every_line_of_the_listing_is_a_box(tmp_path):
    tape = small()
    path = tmp_path / "tape.svg"
    text = tape.draw(path)
    assert path.read_text(encoding="utf-8") == text
    found = boxes(text)
    assert len(found) == len(str(tape).splitlines()) - 1
    titles = [title for title, *_ in found]
    assert {"leaf x", "leaf w", "sin", "exp", "negative"} <= set(titles)
    assert all("test_draw.py" in hint for title, *_, hint in found if not title.startswith("leaf"))


def test_lines_join_what_the_listing_says():
    text = small().draw()
    reads = sum(len(set(re.findall(r"%\d+", line.split("  ", 2)[2]))) for line in str(small()).splitlines()[1:] if "leaf" not in line)
    assert len(ET.fromstring(text).findall(f"{SVG}path")) == reads


def test_boxes_do_not_overlap_and_are_inside():
    text = small().draw()
    root = ET.fromstring(text)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    found = boxes(text)
    for k, (_, x, y, w, h, _) in enumerate(found):
        assert left <= x and x + w <= left + width and top <= y and y + h <= top + height
        for _, x2, y2, w2, h2, _ in found[:k]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_every_line_goes_down():
    for path in ET.fromstring(small().draw()).findall(f"{SVG}path"):
        heights = [float(pair.split(",")[1]) for pair in re.findall(r"-?[\d.]+,-?[\d.]+", path.attrib["d"])]
        assert heights == sorted(heights)


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs(seed):
    rng = np.random.default_rng(seed)
    rows = [(f"%{k}", "leaf", "", "scalar", "1", "") for k in range(1, 4)]
    for k in range(4, 60):
        a, b = rng.integers(1, k, 2)
        rows.append((f"%{k}", "add", f"%{a}, %{b}", "scalar", "1", "f.py:1"))
    found = boxes(draw.svg(rows))
    height = {hint.split()[0]: y for _, _, y, _, _, hint in found}
    for slot, _, operands, *_ in rows:
        assert all(height[s] < height[slot] for s in re.findall(r"%\d+", operands))
    for y in set(height.values()):
        spans = sorted((x, x + w) for _, x, y2, w, _, _ in found if y2 == y)
        assert all(b[0] >= a[1] for a, b in zip(spans, spans[1:]))


def test_finished_tapes():
    g = tg.grad(lambda x: np.sum(np.sin(x) * x) if x[0] > 0 else x[1])
    titles = [title for title, *_ in boxes(g.tape(np.ones(3)).draw())]
    assert "argument 0" in titles and "argument 0[0]" in titles and "sin" in titles and any("guard bool" in t for t in titles)


def test_names_and_values_are_escaped():
    assert "a&lt;b" in draw.svg([("%1", "leaf a<b", "", "scalar", "1", "")])


def test_a_long_tape_is_refused_and_an_empty_one_is_empty():
    y = x
    with tg.Tape() as tape:
        for _ in range(300):
            y = y + 1.0
    with pytest.raises(tg.errors.OptionError, match=r"print\(tape\) lists it"):
        tape.draw()
    assert boxes(tg.Tape().draw()) == []


def test_notebooks():
    tape = small()
    shown = tape._repr_html_()
    assert "<svg" in shown and "recorded at" in shown
    y = x
    with tg.Tape() as long:
        for _ in range(60):
            y = y + 1.0
    assert "<svg" not in long._repr_html_() and "add" in long._repr_html_()
    assert "sin" in tg.grad(np.sin).tape(1.0)._repr_html_()


def test_results_in_notebooks():
    result = tg.optimize.lbfgs(lambda x: np.sum((x - 1.0) ** 4), np.zeros(3))
    shown = result._repr_html_()
    ET.fromstring(f"<all>{shown}</all>")
    assert result.message in shown and "polyline" in shown
    del result["history"]
    assert "polyline" not in result._repr_html_()
