"""The site: ``pip install .[docs] && sphinx-build -W docs site``.

The pages are the Markdown files of this folder, as the forge shows them; `shelves/` puts them on four shelves, and its `front.md` stands in
for `index.md`.  The gallery is made of the programs in
``examples/``: the text at the head of each, its source, its picture (made by ``gallery.py``), and links to download it.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from pathlib import Path

import tapegrad

HERE = Path(__file__).parent
project, author, copyright = "tapegrad", "The tapegrad authors", "The tapegrad authors"
version = release = tapegrad.__version__
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.intersphinx"]
root_doc = "index"
exclude_patterns = ["shelves/front.md", "reference.md", "made/*.ipynb", "inventories/README.md"]
myst_enable_extensions = ["colon_fence"]
html_theme = "pydata_sphinx_theme"
html_title = "tapegrad"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"], "footer_end": []}
html_sidebars = {"index": []}
html_show_sourcelink = False
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
#: Types of parameters that NumPy explains.
TYPES = {"ndarray": "{py:obj}`ndarray <numpy.ndarray>`", "dtype": "{py:obj}`dtype <numpy.dtype>`", "array[-_]like": "{term}`array-like <array_like>`"}


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


def notebook(name, source):
    """The program as a notebook: what it is for, what it defines, and a call of it."""
    head, *body = ast.parse(source).body
    lines = source.splitlines()
    last = body.pop() if isinstance(body[-1], ast.If) else None
    main = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == "main"), None)
    first = main.args.args[0].arg if main and main.args.args else ""
    picture = f"{name}.png"
    given = {"folder": '"."', "plot": f'"{picture}"', "path": f'"{picture}"'}.get(first, f'plot="{picture}"')
    run = f"result = main({given})" if main else "\n".join(line[4:] for line in lines[last.lineno : last.end_lineno]).replace("sys.argv", "[]")
    shown = "" if first == "folder" else f'\n\nfrom IPython.display import Image\n\nImage("{picture if main else "modes.png"}")'
    # Data lie beside the program.
    beside = f'__file__ = "{name}.py"\n\n' if "__file__" in source else ""
    defined = beside + "\n".join(lines[head.end_lineno : body[-1].end_lineno]).strip()
    cells = [ast.get_docstring(ast.parse(source)).replace("::\n", ":\n"), defined, run + shown]
    kinds = [{"cell_type": "markdown"}, *[{"cell_type": "code", "execution_count": None, "outputs": []}] * 2]
    made = [{**kind, "id": f"{name}-{k}", "metadata": {}, "source": text} for k, (kind, text) in enumerate(zip(kinds, cells))]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def gallery(app):
    """A page for each program of ``examples/``, with its notebook, and one that shows them all."""
    seconds = json.loads((HERE / "gallery" / "seconds.json").read_text(encoding="utf-8"))
    names, cards = [], []
    for path in sorted((HERE.parent / "examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        head = ast.get_docstring(ast.parse(source))
        if head is None:
            continue
        title, _, rest = head.partition("\n\n")
        title, took = " ".join(title.split()).rstrip("."), f"{seconds[path.stem]:g} s"
        written(MADE / f"{path.stem}.ipynb", json.dumps(notebook(path.stem, source), indent=1) + "\n")
        files = [path.name, *re.findall(r"with_name\(\"(.+?)\"\)", source)]
        links = [f"{{download}}`{file} <../../examples/{file}>`" for file in files] + [f"{{download}}`{path.stem}.ipynb <{path.stem}.ipynb>`"]
        download = f"{', '.join(links)}; it runs for {took}."
        shown = f"```{{literalinclude}} ../../examples/{path.name}\n:language: python\n```\n"
        text = rest.replace("::\n", ":\n")
        written(MADE / f"example_{path.stem}.md", f"# {title}\n\n![](../gallery/{path.stem}.png)\n\n{text}\n\n{download}\n\n{shown}")
        names.append(f"example_{path.stem}")
        cards.append(f":::{{grid-item-card}} {title}\n:link: example_{path.stem}\n:link-type: doc\n:img-top: ../gallery/{path.stem}.png\n{took}\n:::")
    listing = ["# Gallery", "", "Whole programs, and how long each runs once its code is compiled.", "", "::::{grid} 1 2 2 3", ":gutter: 3"]
    listing += [*cards, "::::", "", "```{toctree}", ":hidden:", "", *names, "```", ""]
    written(MADE / "gallery.md", "\n".join(listing))


def typed(parameter):
    """A line of a parameter, its types linked."""
    types = parameter[2]
    for word, link in TYPES.items():
        types = re.sub(rf"(?<![\w.`]){word}\b", link, types)
    return parameter[1] + types


def functions(app):
    """A page for each function and class of the reference, with the programs that use it."""
    _, *sections = re.split(r"^## (.+)\n", (HERE / "reference.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    programs = {path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE.parent / "examples").glob("*.py"))}
    listing = ["# Reference", "", "Every public function and class: what it takes, what it gives, and an example."]
    for section, text in zip(sections[::2], sections[1::2]):
        first, *entries = re.split(r"^### (.+)\n", text, flags=re.MULTILINE)
        listing += ["", f"## {section}", "", first.strip(), "", "```{toctree}", ":maxdepth: 1", ""]
        for heading, body in zip(entries[::2], entries[1::2]):
            signature = heading.strip("`")
            name = re.match(r"[\w.]+", signature)[0] if heading[0] == "`" else f"{section}, {heading[0].lower()}{heading[1:]}"
            file = re.sub(r"\W+", "-", name) if heading[0] != "`" else name
            used = [stem for stem, source in programs.items() if re.search(rf"\b{re.escape(name)}\(", source)]
            seen = "\n\nUsed in " + ", ".join(f"[{stem}.py](example_{stem}.md)" for stem in used) + ".\n" if used else ""
            body = re.sub(r"\]\((?!\w+:)([^)#]+\.md)", r"](../\1", body.strip())
            body = re.sub(r"(?<=^- )(`\w+`: )(.+)$", typed, body, flags=re.MULTILINE)
            # Name and type of a parameter stand in a line of their own.
            body = re.sub(r"^(- `.+)\n(?=  \S)", r"\1\\\n", body, flags=re.MULTILINE)
            said = f"```python\n{textwrap.fill(signature, 100, subsequent_indent='    ', break_long_words=False)}\n```\n\n" if heading[0] == "`" else ""
            written(MADE / f"{file}.md", f"# {name}\n\n{said}{body}{seen}\n")
            listing.append(file)
        listing.append("```")
    written(MADE / "functions.md", "\n".join(listing) + "\n")


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
    source[0] = source[0].replace("](reference.md", "](made/functions.md").replace("](../reference.md", "](../made/functions.md")
    for file, name in OUTSIDE.items():
        source[0] = source[0].replace(f"](../{file}", f"](made/{name}.md")


def original(text):
    """The name of NumPy, SciPy or Numba that code in a sentence may be: ``np.sum``, ``np.sum()``, ``@njit``."""
    name = text.removesuffix("()")
    for written_as, called in CALLED.items():
        name = re.sub(rf"^{written_as}", called, name)
    return name if re.fullmatch(r"(numpy|scipy|numba)(\.\w+)+", name) else None


def originals(app, tree):
    """Names of NumPy, SciPy and Numba in sentences and tables lead to their own pages; one that no inventory has stays as it is."""
    from docutils import nodes  # the tests load this file where Sphinx is not installed
    from sphinx.addnodes import pending_xref

    if app.env.docname == "made/gallery":  # its cards are links
        return
    for node in list(tree.findall(nodes.literal)):
        name = original(node.astext())
        if name and not isinstance(node.parent, (nodes.title, nodes.reference, pending_xref)):
            link = pending_xref("", node.deepcopy(), refdomain="py", reftype="obj", reftarget=name, refdoc=app.env.docname, refexplicit=True)
            node.replace_self(link)


def setup(app):
    app.connect("builder-inited", gallery)
    app.connect("builder-inited", copied)
    app.connect("builder-inited", functions)
    app.connect("source-read", links)
    app.connect("doctree-read", originals)
