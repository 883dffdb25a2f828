"""One word per idea: no class, function, argument, attribute or option is named by a replaced word."""

import ast
from pathlib import Path

from prose import files, found_in, phrases, questions

ROOT = Path(__file__).parents[2]
REPLACED = {
    "accumulate": "accumulation_steps",
    "board": "callback",
    "carry": "state",
    "partners": "shortlist",
    "price": "bias",
    "readout": "output_layer",
    "walk": "iterate or batches",
}
"""Words that no identifier contains, and their replacements."""


def wrong_names(source):
    """Yields the names with a replaced word that Python code defines, each with the word to use."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield from (f"{name}: use {REPLACED[word]}" for word in name.lower().split("_") if word in REPLACED)


def test_names_hold_no_replaced_word():
    paths = [path for package in ("nmt_keras", "serve") for path in (ROOT / package).rglob("*.py")]
    assert not [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in wrong_names(path.read_text("utf-8"))]


def test_no_docstring_begins_with_a_question_word():
    assert not found_in(files(".py"), questions)


def test_questions_and_unclear_phrases_are_found_with_their_lines():
    code = '"""Reads."""\n\n\nclass Part:\n    """What a part is."""\n\n    size: int\n    """How large it is."""\n'
    assert [*questions(code)] == ["5: What a part is.", "8: How large it is."]
    assert [*phrases("at most one\nNobody reads that one, or at the most two of that one kind")] == [
        "2: Nobody",
        "2: that one",
        "2: at the most",
    ]


def test_a_replaced_word_is_found_wherever_a_name_is_defined():
    code = "class Walk:\n    carry: int\n    def _price(self, readout):\n        self.board = os.walk(partners=1)"
    assert {*wrong_names(code)} == {
        "Walk: use iterate or batches",
        "carry: use state",
        "_price: use bias",
        "readout: use output_layer",
        "board: use callback",
    }
