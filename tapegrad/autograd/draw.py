"""Tapes as pictures: the graph of a small one as SVG, without other programs.

The drawing has layers from top to bottom: an instruction stands below everything it
reads.  Within a layer boxes are put near the middle of what they are connected with
(some passes down and up); a line that crosses layers keeps a free place in each of them.

What is drawn is the rows of a tape's listing (`tape.rows`, `program.listing.rows`).
"""

import re
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from ..common.errors import OptionError
from ..common.printing import Picture

#: Instructions that are still drawn when asked for, and that a notebook draws by itself.
MOST, MOST_SHOWN = 300, 50
#: Passes down and up that order the boxes of each layer, and passes that then bring them near their neighbours.
ORDERING, PLACING = 12, 30
#: Sizes: of a box, between boxes and between layers; of letters.
HEIGHT, GAP, DROP, LETTER, MARGIN = 40, 18, 46, 7.2, 12
#: Fill and line of leaves, of instructions, of constants and guards, of results.
COLORS = {
    "leaf": ("#e8f3ec", "#1b7f5c"), "instruction": ("#eef2f8", "#1f5a99"), "other": ("#f3f3f3", "#888888"),
    "result": ("#fbeee0", "#b5651d"),
}  # fmt: skip


@dataclass
class _Box:
    """A box, or (without a title) the place that a line passes."""

    title: str = ""
    slot: str = ""
    text: str = ""
    hint: str = ""
    kind: str = "instruction"
    above: list = field(default_factory=list)
    below: list = field(default_factory=list)
    layer: int = 0
    x: float = 0.0
    width: float = 10.0


def _boxes(rows, adjoints):
    """The boxes of a listing, connected."""
    boxes = {}
    for slot, name, operands, shape, value, place in rows:
        read = [s for s in re.findall(r"%\d+", operands) if s in boxes]
        constants = re.sub(r"%\d+(, )?", "", operands).strip(", ")
        argument = name == "leaf" and operands
        kind = "leaf" if name.startswith("leaf") else "other" if name.startswith(("constant", "guard", "cleared")) else "instruction"
        title = argument or (f"{name} {constants}" if len(constants) < 16 else name)
        text = value or (shape if shape != "scalar" else "")
        if slot in adjoints:
            text = f"{text}, adjoint {adjoints[slot]}"
        hint = " ".join(part for part in (slot, name, operands, f"shape {shape}" if shape else "", place) if part)
        box = boxes[slot] = _Box(title.strip(), slot, text, hint, kind)
        box.width = max(44.0, LETTER * max(len(box.title), len(box.text)) + 18)
        for operand in dict.fromkeys(read):
            box.above.append(boxes[operand])
            boxes[operand].below.append(box)
    for box in boxes.values():
        if box.kind == "instruction" and not box.below:
            box.kind = "result"
    return list(boxes.values())


def _layers(boxes):
    """The boxes by layer, with places for the lines that cross a layer in between."""
    for box in boxes:
        box.layer = 1 + max((b.layer for b in box.above), default=-1)
    for box in boxes:
        if not box.above and box.below:
            # What reads nothing stands directly above its first reader.
            box.layer = min(b.layer for b in box.below) - 1
    layers = [[] for _ in range(1 + max(b.layer for b in boxes))]
    for box in boxes:
        layers[box.layer].append(box)
    for box in boxes:
        for k, upper in enumerate(box.above):
            while box.layer - upper.layer > 1:
                way = _Box(layer=upper.layer + 1, above=[upper], below=[box])
                upper.below[upper.below.index(box)] = way
                box.above[k] = upper = way
                layers[way.layer].append(way)
                upper.below = [box]
    return layers


def _arrange(layers):
    """Order and positions within the layers: each box goes near the middle of its neighbours above, below, and in the end of both."""
    for iteration in range(ORDERING + PLACING):
        down, both = iteration % 2 == 0, iteration >= ORDERING
        for layer in layers if down else reversed(layers):
            for box in layer:
                others = [*box.above, *box.below] if both else box.above if down else box.below
                box.x = sum(b.x for b in others) / len(others) if others else box.x
            layer.sort(key=lambda b: b.x)
            _apart(layer)


def _apart(layer):
    """Push the boxes of a layer apart where they overlap, to both sides alike."""
    centres = [b.x for b in layer]
    right = list(centres)
    for k in range(1, len(layer)):
        right[k] = max(right[k], right[k - 1] + (layer[k - 1].width + layer[k].width) / 2 + GAP)
    left = list(centres)
    for k in range(len(layer) - 2, -1, -1):
        left[k] = min(left[k], left[k + 1] - (layer[k + 1].width + layer[k].width) / 2 - GAP)
    for box, a, b in zip(layer, left, right):
        box.x = (a + b) / 2


def svg(rows, adjoints=None, partials=None):
    """The graph of a listing as SVG text.

    Parameters
    ----------
    rows : list of tuple of str
        Slot, primitive, operands, shape, value and place.
    adjoints : dict of str to str, optional
        By slot: what is written behind the value.
    partials : dict of (str, str) to str, optional
        By slots of an operand and of what reads it: what is written at the line between them.

    Raises
    ------
    OptionError
        If there are more than `MOST` rows.
    """
    if len(rows) > MOST:
        raise OptionError(f"a tape of {len(rows)} lines is too long to be drawn (at most {MOST}); print(tape) lists it")
    boxes, partials = _boxes(rows, adjoints or {}), partials or {}
    layers = _layers(boxes) if boxes else []
    _arrange(layers)
    everything = [b for layer in layers for b in layer]
    first = min((b.x - b.width / 2 for b in everything), default=0.0) - MARGIN
    width = max((b.x + b.width / 2 for b in everything), default=0.0) + MARGIN - first
    height = len(layers) * (HEIGHT + DROP) - DROP + 2 * MARGIN if layers else 2 * MARGIN

    def top(box):
        return MARGIN + box.layer * (HEIGHT + DROP)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{first:.1f} 0 {width:.1f} {height:.1f}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3.5" orient="auto">'
        '<path d="M0,0 L7,3.5 L0,7 z" fill="#777777"/></marker></defs>',
        f'<rect x="{first:.1f}" y="0" width="{width:.1f}" height="{height:.1f}" fill="white"/>',
    ]
    lines += [_line(box, upper, top, partials) for box in boxes for upper in box.above]
    for box in boxes:
        fill, stroke = COLORS[box.kind]
        x, y = box.x - box.width / 2, top(box)
        lines.append(
            f'<g><title>{escape(box.hint)}</title><rect x="{x:.1f}" y="{y}" width="{box.width:.1f}" height="{HEIGHT}" rx="6" '
            f'fill="{fill}" stroke="{stroke}"/>'
        )
        lines.append(f'<text x="{box.x:.1f}" y="{y + (17 if box.text else 24)}" text-anchor="middle" font-weight="bold">{escape(box.title)}</text>')
        if box.text:
            lines.append(f'<text x="{box.x:.1f}" y="{y + 32}" text-anchor="middle" fill="#444444">{escape(box.text)}</text>')
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _line(box, upper, top, partials):
    """The line from an operand to what reads it, through the places between, and the partial at its end."""
    corners = [(box.x, top(box) - 1)]
    while True:
        corners.append((upper.x, top(upper) + HEIGHT))
        if upper.title:
            break
        corners.append((upper.x, top(upper)))
        upper = upper.above[0]
    corners.reverse()
    path = f"M{corners[0][0]:.1f},{corners[0][1]}"
    for (x0, y0), (x1, y1) in pairwise(corners):
        bend = (y1 - y0) / 2
        path += f" C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1}"
    said, (x0, y0), (x1, y1) = partials.get((upper.slot, box.slot), ""), corners[-2], corners[-1]
    label = f'<text x="{(x0 + x1) / 2 + 4:.1f}" y="{(y0 + y1) / 2 + 4:.1f}" font-size="11" fill="#b5651d">{escape(said)}</text>' if said else ""
    return f'<path d="{path}" fill="none" stroke="#777777" marker-end="url(#tip)"/>{label}'


def write(path, *drawn):
    """The SVG text of what `svg` draws, also written to `path` unless that is None."""
    text = Picture(svg(*drawn))
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def html(rows, listing):
    """What a notebook shows of a tape: the picture if it is small, and the listing."""
    picture = svg(rows) if 0 < len(rows) <= MOST_SHOWN else ""
    return f"<div>{picture}<details{'' if picture else ' open'}><summary>{len(rows)} lines</summary><pre>{escape(listing)}</pre></details></div>"
