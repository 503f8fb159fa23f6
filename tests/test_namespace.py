"""The public names: deliberate, sorted, documented, and the same after everything has been used."""

import importlib.util
import inspect
import pkgutil
import re
import types

import tapegrad as tg
from tapegrad.array import functions
from tapegrad.tools.commands import reference
from tests.every import every


def test_all_is_sorted_and_everything_in_it_exists():
    assert tg.__all__ == sorted(set(tg.__all__))
    assert all(hasattr(tg, name) for name in tg.__all__)


def test_what_is_imported_for_users_is_in_all():
    here = {name for name, thing in vars(tg).items() if not name.startswith("_") and not isinstance(thing, types.ModuleType)}
    missing = here - {"Differentiable"} - set(tg.__all__)
    assert not missing, f"add to tg.__all__, or (rows that users do not call) to functions.INNER: {missing}"


def test_dir_shows_what_is_public():
    assert {name for name in dir(tg) if not name.startswith("__")} == set(tg.__all__)


def test_functions_that_only_derivatives_use_are_not_public():
    assert not functions.INNER & set(tg.__all__)
    assert functions.INNER <= set(functions.ELEMENTWISE)


def test_no_module_that_is_imported_later_takes_the_place_of_a_function():
    before = {name: getattr(tg, name) for name in tg.__all__}
    for module in pkgutil.iter_modules(tg.__path__):
        # (Nothing imports `tapegrad.pandas` where there is no pandas.)
        if module.name != "__main__" and (module.name != "pandas" or importlib.util.find_spec("pandas")):
            importlib.import_module(f"tapegrad.{module.name}")
    assert {name: getattr(tg, name) for name in tg.__all__} == before


def documented():
    return [(f"{title}.{name}", thing) for title, names in reference.public(tg) for name, thing in names]


def parameters(thing):
    try:
        return [p for p in inspect.signature(thing).parameters if p not in ("self", "cls")]
    except (TypeError, ValueError):
        return []


@every("name, thing", documented())
def test_a_docstring_is_complete(name, thing):
    text = inspect.getdoc(thing)
    assert text and text.split("\n")[0].strip(), "no summary"
    assert ">>> " in text, "no example"
    if isinstance(thing, type) and (issubclass(thing, Exception) or name.startswith("tg.fits.")):
        return  # what no call of a user's makes
    names = parameters(thing)
    if names:
        assert "Parameters\n------" in text
        section = re.split(r"\n\n(?=[A-Z][A-Za-z ]+\n---)", text.split("Parameters\n")[1])[0]
        # A second name of a parameter may be said in the description of the first.
        missing = [p for p in names if f"`{p}`" not in section and not re.search(rf"^[\w, *]*\b{p}\b[\w, *]*( :|$)", section, re.MULTILINE)]
        assert not missing, f"not described: {missing}"
    if not isinstance(thing, type):
        assert re.search(r"^(Returns|Yields)\n---", text, re.MULTILINE), "what it returns is not said"


def test_type_checkers_are_told_of_every_element_wise_function():
    source = inspect.getsource(functions.elementwise).split("# The same names, for type checkers")[1].split("\ndef ")[0]
    told = set(re.findall(r"(\w+) =", source))
    assert told == set(functions.ELEMENTWISE), f"functions/elementwise.py tells type checkers otherwise: {told ^ set(functions.ELEMENTWISE)}"


def test_public_functions_have_types():
    for name in tg.__all__:
        thing = getattr(tg, name)
        if inspect.isfunction(thing) and thing.__module__ != "tapegrad.array.functions":
            assert "return" in thing.__annotations__, name
