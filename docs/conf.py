"""The site: ``pip install .[docs] && sphinx-build -W docs site``.

The pages are the Markdown files of this folder, as the forge shows them; `shelves/` puts them on four shelves, and its `front.md` stands in
for `index.md`.  Sphinx-Gallery makes the gallery of the programs in ``examples/`` and of what ``gallery.py`` has kept of their runs; autosummary
and numpydoc make a page of each docstring.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import tapegrad
from tapegrad.array.functions import ELEMENTWISE
from tapegrad.scipy.mirrors import MIRRORS
from tapegrad.tools.commands.reference import public

HERE = Path(__file__).parent
project, author, copyright = "tapegrad", "The tapegrad authors", "The tapegrad authors"
version = release = tapegrad.__version__
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autosummary", "sphinx.ext.intersphinx", "numpydoc", "sphinx_gallery.gen_gallery"]
root_doc = "index"
exclude_patterns = ["shelves/front.md", "reference.md", "made/gallery/*.ipynb", "inventories/README.md"]
templates_path = ["templates"]
myst_enable_extensions = ["colon_fence"]
html_theme = "pydata_sphinx_theme"
html_title = "tapegrad"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"], "footer_end": []}
html_sidebars = {"index": []}
html_show_sourcelink = False
html_static_path, html_css_files = ["static"], ["site.css"]
html_search_scorer = str(HERE / "scorer.js")
myst_heading_anchors = 4
# A block of a session says what it prints, and Pygments would colour the marks of tests.
highlight_language = "pycon"
pygments_style = "friendly"

# The addresses of names stand in files: building needs no network (inventories/README.md).
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", "inventories/numpy.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "inventories/scipy.inv"),
    "numba": ("https://numba.readthedocs.io/en/stable/", "inventories/numba.inv"),
}
#: What the inventories call a name that is written otherwise.
CALLED = {r"np\.": "numpy.", r"numpy\.\w+\.(at|reduce|reduceat|accumulate)$": r"numpy.ufunc.\1", r"@?(numba\.)?njit$": "numba.jit"}

# A page for each function, of its docstring.
autosummary_generate = ["made/functions.rst"]
numpydoc_show_class_members = False
numpydoc_xref_param_type, numpydoc_xref_ignore = True, "all"
#: Words for types that numpydoc would look for in Python's pages.
OWN = "None bool boolean True False list tuple str string dict float int callable iterable sequence contextmanager namedtuple generator scalar".split()
numpydoc_xref_aliases = {"dtype": "numpy.dtype", **{word: word for word in OWN}}
default_role = "py:obj"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# The gallery shows the programs and does not run them: ``gallery.py`` does, and keeps picture and seconds of each.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "made/gallery",
    "plot_gallery": False,
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (),
    "reset_modules": (),
    "remove_config_comments": True,
    "copyfile_regex": r".*\.dat",
    "backreferences_dir": "made/backreferences",
    "doc_module": ("tapegrad",),
    "reference_url": {"tapegrad": None},
    "write_computation_times": False,
    "show_signature": False,
    # A kernel has neither a file nor options of its own.
    "first_notebook_cell": 'import sys\n\n__file__ = "program.py"  # data lie beside it\nsys.argv[1:] = ["--plot", "picture.png"]',
    "last_notebook_cell": 'from IPython.display import Image\n\nImage("picture.png")',
}
SECONDS = json.loads((HERE / "gallery" / "seconds.json").read_text(encoding="utf-8"))

MADE = HERE / "made"
#: Pages that stand outside of this folder: file, and its name here.
OUTSIDE = {"README.md": "readme", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog", "benchmarks/results/RESULTS.md": "results"}
#: They name everything once, and would stand before the pages that explain it.
UNSEARCHED = {"contributing", "changelog", "results"}


def written(path, text):
    """Write a file that is made, unless it is as it should be: what has not changed is not built again."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def functions(app):
    """The list of the reference's functions and classes, of which autosummary makes a page for each."""
    (first, names), *others = public(tapegrad)
    small = [(name, member) for name, member in names if ELEMENTWISE.get(name) is member]
    sections = [(first, [named for named in names if named not in small]), ("Element-wise functions", small), *others]
    listing = ["Reference", "=========", "", "Every public function and class: what it takes and what it gives, with examples."]
    for title, names in sections:
        module = "tapegrad" if names is small else title.replace("tg", "tapegrad", 1)
        listing += ["", title, "-" * len(title), "", f".. currentmodule:: {module}", "", ".. autosummary::", "   :nosignatures:"]
        listing += ["   :toctree: reference", "   :template: function.rst", "", *(f"   {name}" for name, _ in names)]
    listing += ["", "tapegrad.scipy", "--------------", ""]
    listing += [f"- ``tapegrad.{module}``: " + ", ".join(f"``{name}``" for name in names) for module, names in MIRRORS.items()]
    written(MADE / "functions.rst", "\n".join(listing) + "\n")


def copied(app):
    """The pages that stand outside, with links that lead from here."""
    for file, name in OUTSIDE.items():
        text = (HERE.parent / file).read_text(encoding="utf-8")
        if name in UNSEARCHED:
            text = f"---\nnosearch: true\n---\n\n{text}"

        def moved(match, base=Path(file).parent):
            target, _, place = match[1].partition("#")
            if "://" in target or not target:
                return match[0]
            path = (base / target).as_posix()
            if path in OUTSIDE:
                target = f"{OUTSIDE[path]}.md"
            elif path == "docs/index.md":
                target = "../index.md"
            elif path.startswith("docs/"):
                target = f"../{path[5:]}"
            else:
                target = f"../../{path}"
            return f"]({target}{'#' + place if place else ''})"

        written(MADE / f"{name}.md", re.sub(r"\]\(([^)\s]+)\)", moved, text))


def links(app, docname, source):
    """Links of this folder's pages to those that are copied; the front page."""
    if docname == "index":
        source[0] = (HERE / "shelves" / "front.md").read_text(encoding="utf-8")
    source[0] = source[0].replace("](reference.md", "](made/functions.rst").replace("](../reference.md", "](../made/functions.rst")
    for file, name in OUTSIDE.items():
        source[0] = source[0].replace(f"](../{file}", f"](made/{name}.md")


def programs(app, docname, source):
    """On a program's page its kept picture, how long it runs, and its files; in the gallery how long each runs."""
    folder, _, name = docname.rpartition("/")
    if folder == "made/gallery" and name in SECONDS:
        files = ", ".join(f":download:`{file}`" for file in [f"{name}.py", *re.findall(r"with_name\(\"(.+?)\"\)", source[0]), f"{name}.ipynb"])
        shown = f"\n{files}; it runs for {SECONDS[name]:g} s.\n\n.. image:: /gallery/{name}.png\n\n.. GENERATED FROM"
        source[0] = source[0].replace("\n.. GENERATED FROM", shown, 1)
    elif docname == "made/gallery/index":
        card = re.compile(r"(sphx_glr_(\w+)_thumb\.png.*?thumbnail-title\">[^<]*)", re.DOTALL)
        source[0], count = card.subn(lambda found: f"{found[1]}<br>{SECONDS[found[2]]:g} s", source[0])
        if count != len(SECONDS):
            from sphinx.errors import ExtensionError  # the tests load this file where Sphinx is not installed

            raise ExtensionError(f"{count} of {len(SECONDS)} cards are found in Sphinx-Gallery's page")


def unsigned(app, kind, name, *_):
    """What fits return has attributes and methods, and no arguments: no call of a user's makes it."""
    return ("", None) if kind == "class" and name.startswith("tapegrad.fits.") else None


def renamed(app, env, node, contnode):
    """Texts write `tg` for `tapegrad`, as programs do."""
    if node["reftarget"].startswith("tg."):
        return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", f"tapegrad{node['reftarget'][2:]}", node, contnode)


def original(text):
    """The name of NumPy, SciPy or Numba that code in a sentence may be: ``np.sum``, ``np.sum()``, ``@njit``."""
    name = text.removesuffix("()")
    for written_as, called in CALLED.items():
        name = re.sub(rf"^{written_as}", called, name)
    return name if re.fullmatch(r"(numpy|scipy|numba)(\.\w+)+", name) else None


def originals(app, tree):
    """Names of NumPy, SciPy and Numba in sentences and tables lead to their own pages; one that no inventory has stays as it is."""
    from docutils import nodes
    from sphinx.addnodes import pending_xref

    if app.env.docname == "made/gallery/index":  # its cards are links
        return
    for node in list(tree.findall(nodes.literal)):
        name = original(node.astext())
        if name and not isinstance(node.parent, (nodes.title, nodes.reference, pending_xref)):
            link = pending_xref("", node.deepcopy(), refdomain="py", reftype="obj", reftarget=name, refdoc=app.env.docname, refexplicit=True)
            node.replace_self(link)


def setup(app):
    # Before autosummary reads the list.
    app.connect("builder-inited", functions, priority=100)
    app.connect("builder-inited", copied)
    app.connect("source-read", links)
    app.connect("source-read", programs)
    app.connect("missing-reference", renamed)
    app.connect("autodoc-process-signature", unsigned)
    app.connect("doctree-read", originals)
