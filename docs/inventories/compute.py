"""Compute an inventory from the source of a documentation: ``python compute.py numpy FOLDER`` (README.md)."""

import re
import sys
import tempfile
import types
import warnings
import zlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.inventory import InventoryFile

#: The extensions whose directives define names; those that draw, run or copy something are left out.
EXTENSIONS = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.ifconfig", "sphinx.ext.mathjax", "sphinx_design", "numpydoc"]
OWN = {"numpy": [], "scipy": ["scipyoptdoc", "doi_role", "array_api_capabilities_table"], "numba": ["ghfiles"]}


def main(name, folder):
    """Read the pages, without writing them, and keep what Python code and the glossary name."""
    settings = {"extensions": EXTENSIONS + OWN[name], "numpydoc_use_plots": False, "exclude_patterns": ["**.md", "release", "dev"]}
    with tempfile.TemporaryDirectory() as out:
        app = Sphinx(folder, folder, out, out, "dummy", settings)
        warnings.simplefilter("ignore")
        app.builder.read()
        path = Path(out) / "objects.inv"
        InventoryFile.dump(path, app.env, types.SimpleNamespace(get_target_uri=lambda page: f"{page}.html"))
        *head, body = path.read_bytes().split(b"\n", 4)
    kept = [line for line in zlib.decompress(body).splitlines(keepends=True) if re.match(rb".+? (py:\w+|std:term) ", line)]
    Path(__file__).with_name(f"{name}.inv").write_bytes(b"\n".join(head) + b"\n" + zlib.compress(b"".join(kept), 9))


if __name__ == "__main__":
    main(*sys.argv[1:])
