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

from PIL import Image, ImageOps

HERE = Path(__file__).parent
EXAMPLES, PICTURES = HERE.parent / "examples", HERE / "gallery"
#: Pixels of a picture.
SIZE = (400, 260)


def run(name, folder):
    """Run a program; its picture, and seconds."""
    file, began = folder / f"{name}.png", time.perf_counter()
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--plot", str(file)]
    subprocess.run(command, cwd=folder, env=os.environ | {"MPLBACKEND": "Agg"}, check=True)
    return file, time.perf_counter() - began


def main(names):
    PICTURES.mkdir(exist_ok=True)
    taken = PICTURES / "seconds.json"
    seconds = json.loads(taken.read_text(encoding="utf-8")) if taken.exists() else {}
    for name in names or sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py")):
        with tempfile.TemporaryDirectory() as folder:
            run(name, Path(folder))
            picture, seconds[name] = run(name, Path(folder))
            ImageOps.pad(Image.open(picture).convert("RGB"), SIZE, color="white").save(PICTURES / f"{name}.png", optimize=True)
        seconds[name] = float(f"{seconds[name]:.2g}")
        print(f"{name}: {seconds[name]:g} s")
    taken.write_text(json.dumps(dict(sorted(seconds.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
