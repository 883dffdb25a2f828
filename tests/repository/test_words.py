"""One word per idea: no class, function, argument, attribute or option is named by a word that another one replaced."""

import ast
from pathlib import Path

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
"""Words that no identifier holds, and the words to use."""


def wrong_names(source):
    """The names that Python code defines with a replaced word, each with the word to use."""
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


def test_a_replaced_word_is_found_wherever_a_name_is_defined():
    code = "class Walk:\n    carry: int\n    def _price(self, readout):\n        self.board = os.walk(partners=1)"
    assert {*wrong_names(code)} == {
        "Walk: use iterate or batches",
        "carry: use state",
        "_price: use bias",
        "readout: use output_layer",
        "board: use callback",
    }
