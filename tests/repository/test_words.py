"""The linter of words (tests/prose.py) finds nothing in the project, and finds each kind of error."""

from prose import errors, phrases, questions, wrong_names, wrong_options


def test_the_project_has_no_error():
    assert not errors()


def test_questions_and_unclear_phrases_are_found_with_their_lines():
    code = '"""Reads."""\n\n\nclass Part:\n    """What a part is."""\n\n    size: int\n    """How large it is."""\n'
    assert [*questions(code)] == ["5: What a part is.", "8: How large it is."]
    assert [*phrases("at most one\nNobody reads that one, or at the most two of that one kind")] == [
        "2: Nobody",
        "2: that one",
        "2: at the most",
    ]


def test_a_replaced_word_is_found_wherever_a_name_is_defined():
    code = """class Walk:
    carry: int
    def _price(self, readout, source_text: Tokenizer):
        self.board = os.walk(partners=1)
"""
    assert {*wrong_names(code)} == {
        "1: Walk: use iterate or batches",
        "2: carry: use state",
        "3: _price: use bias",
        "3: readout: use output_layer",
        "3: source_text: use tokenizer",
        "4: board: use callback",
    }


def test_a_replaced_option_is_found_in_a_dataclass_only():
    field = "    keep: int = 3\n"
    assert [*wrong_options(f"@dataclass(frozen=True)\nclass Options:\n{field}")] == ["3: keep: use max_to_keep"]
    assert not [*wrong_options(f"class Index:\n{field}")]
