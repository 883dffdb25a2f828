"""The processor time of every function that searches a user's text is proportional to the length of the text."""

import io
import json
import time
from contextlib import suppress

import numpy as np
import pytest

from nmt_keras.cli.console import with_options
from nmt_keras.config import Recipe
from nmt_keras.corpus import Pair, sentence_key
from nmt_keras.corpus.alignments import from_pharaoh, words_of_tokens
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.columns import Columns
from nmt_keras.corpus.reading import parse_table
from nmt_keras.io.lines import byte_blocks
from nmt_keras.io.markup import differing
from nmt_keras.io.sentences import beginning, rejoin, split
from nmt_keras.languages import split_words
from nmt_keras.text import normalise_lines
from serve.models.status import StatusError
from serve.rest import json_text

UNITS = (
    *("1", "a", "A", " ", ".", ",", "-", "'", '"', '""', "(", "[", "\\", "|", "*", "`", "=", "_", "\t", "\r", "\ufe0f"),
    *("\n", ")", "." + ")" * 20_000),
    *("\u200b", "\u00a0", "¿", "。", "•", "א", "ñ", "a ", "1 ", ". ", "a.", "A.", "sr.", '."', '" ', "1.", "1a"),
    *(
        "0-",
        "0-0 ",
        "a\t",
        "a,",
        "&#",
        "e\u0301",
        "\u0301",
        "\u0301\u0323",
        "TrainConfig",
        "train.",
        "a=1",
        " (--",
        "\\u",
        *("%", "%0", "%(", "{", "{{", "{%", "<a", "<a ", " a=b", "&a", "](", "**"),
    ),
)
"""Texts whose repetitions match a part of many patterns."""
TAILS = ("", " x", "!")
"""Texts after the repetitions, with which the whole pattern fails."""


def failing(function):
    """Returns ``function``, which may refuse its argument."""

    def call(text):
        with suppress(ValueError, StatusError):
            function(text)

    return call


def table(name, line):
    def read(text):
        lines = "".join(line(text) + "\n" for _ in range(3)).encode()
        list(parse_table(io.BytesIO(lines), name, Columns()))

    return failing(read)


def varied(text):
    augmentation = Augmentation(1.0, [Pair("a Ana b", "a Ana b")])
    return [augmentation.draw(Pair(text, text), np.random.default_rng(seed)) for seed in range(4)]


FUNCTIONS = {
    "markup": lambda text: differing(text, text),
    "tsv": table("a.tsv", lambda text: f"{text}\tHola.\tHello."),
    "csv": table("a.csv", lambda text: f"{text},Hola.,Hello."),
    "json": table("a.jsonl", lambda text: json.dumps({"id": text, "es": "Hola.", "en": "Hello."})),
    "keys": table("a.jsonl", lambda text: json.dumps({text: "x", "es": "Hola.", "en": "Hello."})),
    "columns": failing(lambda text: Columns().find([[text] * 3] * 2, "a.tsv")),
    "lines": failing(lambda text: list(byte_blocks(io.BytesIO(text.encode()), "a.txt"))),
    "sentences": lambda text: (rejoin(split(text), [text] * len(text)), beginning(text, len(text) // 2)),
    "words": split_words,
    "links": failing(from_pharaoh),
    "tokens": lambda text: words_of_tokens(next(normalise_lines([text])), ["a", "1", "."], text),
    "messages": with_options,
    "recipe": failing(lambda text: Recipe.from_json(json.dumps({"name": text, "train": {"seed": text}}))),
    "request": failing(lambda text: json_text.parse(json.dumps({"inputs": text}).encode(), 10**9)),
    "raw request": failing(lambda text: json_text.parse(f'{{"inputs": "{text}'.encode(), 10**9)),
    "keys of sentences": sentence_key,
    "augmentation": varied,
}
SENTENCES = {"keys of sentences", "augmentation"}
"""Functions that get sentences of at most ``MAX_CHARACTERS``. The normal forms of runs of marks take quadratic time."""


def seconds(function, text):
    start = time.thread_time()
    function(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", FUNCTIONS)
def test_four_times_the_text_takes_about_four_times_as_long(name):
    function = FUNCTIONS[name]
    for unit in UNITS if name not in SENTENCES else [each for each in UNITS if each[0] != "\u0301"]:
        for tail in TAILS:
            short, long = ((unit * (size // len(unit) + 1))[:size] + tail for size in (5_000, 20_000))
            # quadratic functions take 16 times as long; the other repetitions exclude that the processor was busy
            assert any(seconds(function, long) < 8 * seconds(function, short) + 0.05 for _ in range(3)), (unit, tail)
