"""The client's command line: ``python -m nmt_keras_serve.client TEXT ...``."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nmt_keras.io.lines import CUT, STANDARD_INPUT, STDIN, one_line, sentence_blocks, tell_lines
from nmt_keras.io.sentences import TranslatedText, translate_texts
from nmt_keras.io.usage import orderly_end, read_options

from . import DEFAULT_MODEL, DEFAULT_URL, Alignment, Client, ClientError, Retry, ScoredTranslation


@dataclass(frozen=True)
class Options:
    """Translates texts with a served model. Each text is split into sentences."""

    texts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT [TEXT ...]")]
    """Texts to translate. Pass a single - to read one text per line from standard input."""
    url: Annotated[str, tyro.conf.arg(metavar="URL")] = DEFAULT_URL
    """URL of the server: http:// or https://."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = DEFAULT_MODEL
    """Name of the model: its folder in the server's ``--model-dir``."""
    version: Annotated[int | None, tyro.conf.arg(metavar="VERSION")] = None
    """Version of the model. Default: the newest."""
    label: Annotated[str | None, tyro.conf.arg(metavar="LABEL")] = None
    """Label of a version, instead of its number."""
    timeout: float = 60.0
    """Time limit of a whole answer in seconds."""
    attempts: int = Retry.attempts
    """Maximum number of attempts if the server is busy or restarting."""
    ca_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """PEM file of the certificates that signed the server's certificate."""
    signature: Literal["serving_default", "greedy", "align"] = "serving_default"
    """Signature of the model. serving_default: the search of the export. greedy: greedy search, which is faster than
    beam search. align: greedy search; also prints the alignment."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object per text, with its sentences."""


@orderly_end(f"{__package__}")
def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line; prints a translation or an object per text."""
    options = read_options(Options, f"python -m {__package__}", arguments)
    if not options.texts:
        raise SystemExit(f"{__package__}: no text. Pass a text, or - to read standard input.")
    reads_lines = options.texts == (STANDARD_INPUT,)
    cut: list[int] = []
    before = 0
    try:
        names = options.url, options.model, options.version, options.label
        with Client(*names, options.timeout, retry=Retry(options.attempts), ca_file=options.ca_file) as client:
            translate: Callable[[list[str]], Sequence[ScoredTranslation | Alignment]] = (
                client.align
                if options.signature == "align"
                else partial(client.translate_with_scores, signature=options.signature)
            )
            for texts in sentence_blocks(options.texts, _say):
                translated = translate_texts(texts, translate, lambda answer: answer.translation)
                for text, found in zip(texts, translated, strict=True):
                    _print(text, found, options.json, reads_lines)
                cut += [before + n for n, found in enumerate(translated, start=1) if found.truncated]
                before += len(texts)
                sys.stdout.flush()
    except (ClientError, ValueError) as error:
        raise SystemExit(f"{__package__}: {error}") from error
    tell_lines(_say, CUT, cut, STDIN if reads_lines else "the arguments")


def _say(message: str) -> None:
    print(f"{__package__}: {message}", file=sys.stderr)


def _print(text: str, translated: TranslatedText, as_json: bool, as_line: bool) -> None:
    if as_json:
        sentences = [{"text": sentence, **answer._asdict()} for sentence, answer in translated.sentences]
        row = {"text": text, "translation": translated.text, "sentences": sentences}
        print(json.dumps(row, ensure_ascii=False, allow_nan=False))
        return
    print(one_line(translated.text) if as_line else translated.text)
    for _, answer in translated.sentences:
        if isinstance(answer, Alignment):
            for token, weights in zip(answer.target_tokens, answer.weights, strict=True):
                strongest = max(range(len(weights)), key=weights.__getitem__)
                print(f"    {token}  <-  {answer.source_tokens[strongest]} ({weights[strongest]:.2f})")


if __name__ == "__main__":
    main()
