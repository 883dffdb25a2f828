"""Measures translation of sentences as people type them, and of names and numbers that the corpus does not contain.

    python -m benchmarks.typed_text --corpus spa-eng.zip --model runs/spa-eng > docs/measured/typed-text.json

Translates the Spanish test set as written and in changed forms. The BLEU of each form ignores case and punctuation.
Then translates 200 sentences with names, numbers and addresses, and counts those whose translation contains all of
these words. Prints JSON.
"""

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tyro
from sacrebleu.metrics import BLEU

from benchmarks.machine import machine, output_of, print_result, spanish_english
from nmt_keras.languages import without_accents

SIGNS = re.compile(r"[^\w\s]")
FORMS: dict[str, Callable[[str], str]] = {
    "as written": str,
    "lower case": str.lower,
    "no punctuation": lambda text: SIGNS.sub("", text),
    "lower case, no punctuation": lambda text: SIGNS.sub("", text).lower(),
    "capitals": str.upper,
    "no accents": without_accents,
}
PEOPLE = ("Ximena Zubiri", "Iker Goikoetxea", "Nahuel Quispe", "Yolotli Tecuapetla", "Wenceslao Urrutia")
TOWNS = ("Guanajuato", "Tlaquepaque", "Chichicastenango", "Zumárraga", "Villahermosa")
NUMBERS = ("4817", "83-2290", "19:47", "6,75", "902 554")
ADDRESSES = (
    "ximena.z@ejemplo.org",
    "https://www.ejemplo.org/mapa?id=7",
    "www.nahuel-q.net",
    "@yolotli",
    "iker@goi.eus",
)
SENTENCES = (
    ("{} vive en {}.", PEOPLE, TOWNS),
    ("Me llamo {} y soy de {}.", PEOPLE, TOWNS),
    ("¿Conoces a {}? Ahora trabaja en {}.", PEOPLE, TOWNS),
    ("Mi amigo {} tiene el número {}.", PEOPLE, NUMBERS),
    ("La casa de {} está cerca de {}.", PEOPLE, TOWNS),
    ("Escribe a {} y pregunta por {}.", ADDRESSES, PEOPLE),
    ("Puedes ver la foto de {} en {}.", TOWNS, ADDRESSES),
    ("Ayer vi a {} en el tren {}.", PEOPLE, NUMBERS),
)
"""Sentences, and the words for their two gaps. Each is used with all combinations: 8 times 25 sentences."""


def main(corpus: Path, model: str) -> None:
    """Translates and prints.

    Args:
        corpus: Path of the Spanish-English corpus file.
        model: Run directory or exported version.
    """
    before, split = machine(), spanish_english(corpus)
    pairs = split["test"]
    references = [_bare(pair.target) for pair in pairs]
    forms = {}
    for name, change in FORMS.items():
        found = translate(model, [change(pair.source) for pair in pairs])
        forms[name] = round(BLEU().corpus_score(list(map(_bare, found)), [references]).score, 2)
    # with the words that the translations must contain
    sentences = [(text.format(*words), words) for text, *gaps in SENTENCES for words in itertools.product(*gaps)]
    text = "\n".join(pair.source for pair in split["train"])
    words = {word for group in (PEOPLE, TOWNS, NUMBERS, ADDRESSES) for each in group for word in each.split()}
    if repeated := [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]:
        raise SystemExit(f"typed_text: the training set contains {repeated}.")
    answers = translate(model, [sentence for sentence, _ in sentences])
    copied = [all(word in answer for word in words) for (_, words), answer in zip(sentences, answers, strict=True)]
    missed = [(text, answer) for (text, _), answer, found in zip(sentences, answers, copied, strict=True) if not found]
    written, count = forms["as written"], sum(copied)
    rows = [
        {"Spanish test set": name, "BLEU without case and punctuation": bleu, "difference": f"{bleu - written:+.1f}"}
        for name, bleu in forms.items()
    ]
    told = (
        f"{count} of {len(sentences)} sentences with names, numbers and addresses: {count / len(sentences):.1%} copied."
    )
    result = {"bleu_without_case_and_punctuation": forms, "sentences": len(sentences), "copied": count}
    print_result(before, {**result, "missed": missed[:20]}, rows, told)


def translate(model: str, sentences: Sequence[str]) -> list[str]:
    """Translates sentences with ``nmt translate``."""
    command = [sys.executable, "-m", "nmt_keras", "translate", model]
    return output_of(command, input="\n".join(sentences) + "\n").split("\n")[:-1]


def _bare(text: str) -> str:
    return " ".join(SIGNS.sub(" ", text).lower().split())


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
