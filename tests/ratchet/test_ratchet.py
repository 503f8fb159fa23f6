"""What was gained is not lost: the size of the core and what thirty calls take are the numbers of `held.json`, up to 3 %."""

import pytest

from tests.ratchet.__main__ import changes, counted, held
from tests.ratchet.size import core, python

UPDATE = (
    "\nLess of something: keep it, by `python -m tests.ratchet --update`, in the commit that has gained it."
    "\nMore: mend it, or say in the commit what it buys, and update."
)


def test_no_number_is_another_than_the_one_that_is_held():
    found = changes(held(), counted())
    assert found == [], "\n".join(["", *found, UPDATE])


@pytest.mark.parametrize("now, said", [
    ({"a": 103}, []), ({"a": 97}, []), ({"a": 104}, ["a: 100 -> 104 (+4.0 %)"]), ({"a": 96}, ["a: 100 -> 96 (-4.0 %)"]),
    ({"a": 100, "b": 1}, ["b: None -> 1"]), ({}, ["a: 100 -> None"]),
])  # fmt: skip
def test_changes(now, said):
    assert changes({"a": 100}, now) == said


def test_thirty_calls_are_held():
    assert len({name.partition(":")[0] for name in held()} - {"core"}) == 30


def test_what_is_code():
    text = b'''"""Of a module."""

# a comment
LINES = """
def compiled(): pass
"""  # text that is compiled


def f(x):
    """What it is."""
    return (
        f"a {x} b"
    )
'''
    assert python(text) == (7, 13)


def test_clients_are_no_core_and_programs_in_other_languages_are(tmp_path):
    for file, text in {
        "kernel/a.py": "x = 1\n", "kernel/b.c": "int x;\n\nint y;\n", "scipy/a.py": "x = 1\n", "optimize.py": "x = 1\n", "kernel/c.md": "words\n",
    }.items():  # fmt: skip
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert core(tmp_path) == (3, 7)
