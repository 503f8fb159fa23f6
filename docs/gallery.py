"""The pictures of the gallery, and how long its programs take: ``python docs/gallery.py [NAME ...]`` runs them, and writes to ``gallery/``.

Each runs twice, and the second time counts, with all code compiled.  The site is built of what lies there: no program runs then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES, PICTURES = HERE.parent / "examples", HERE / "gallery"
#: How a program is told where its picture goes, if not by ``--plot FILE``.
TOLD = {"clusters": ["{file}"], "modes": ["{file}"], "graphs": ["{folder}"]}
#: Of several pictures in a folder, the one that is shown.
SHOWN = {"graphs": "automata_ctc.png"}
#: Pixels of a picture.
WIDTH, HEIGHT = 400, 260


def run(name, folder):
    """Run a program; its picture, and seconds."""
    file = folder / SHOWN.get(name, f"{name}.png")
    told = [part.format(file=file, folder=folder) for part in TOLD.get(name, ["--plot", "{file}"])]
    began = time.perf_counter()
    subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py"), *told], cwd=folder, env=os.environ | {"MPLBACKEND": "Agg"}, check=True)
    return file, time.perf_counter() - began


def small(picture, to):
    """The picture at the size of a card."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.imshow(plt.imread(picture), interpolation="antialiased")
    figure.savefig(to, pil_kwargs={"optimize": True})
    plt.close(figure)


def main(names):
    PICTURES.mkdir(exist_ok=True)
    taken = PICTURES / "seconds.json"
    seconds = json.loads(taken.read_text(encoding="utf-8")) if taken.exists() else {}
    for name in names or sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py")):
        with tempfile.TemporaryDirectory() as folder:
            run(name, Path(folder))
            picture, seconds[name] = run(name, Path(folder))
            small(picture, PICTURES / f"{name}.png")
        seconds[name] = float(f"{seconds[name]:.2g}")
        print(f"{name}: {seconds[name]:g} s")
    taken.write_text(json.dumps(dict(sorted(seconds.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
