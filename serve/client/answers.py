"""What a client answers: typed records, made of the named outputs of a signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Columns = Mapping[str, Any]
"""Outputs by name, each a nested list whose first axis is the sentence."""


class ClientError(RuntimeError):
    """A request that got no answer, or an answer that is an error; the message is one line and says what to do."""


class Unavailable(ClientError):
    """A server that is overloaded, restarting or unreachable: the same request may succeed later."""

    def __init__(self, message: str, after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds
        """How long the server asks to be left alone; 0 where it does not say."""


class ModelSpec(NamedTuple):
    """Which model is asked; neither version nor label means the newest version."""

    name: str
    version: int | None = None
    label: str | None = None


class VersionStatus(NamedTuple):
    """The state of one version of the model."""

    version: int
    state: str
    """START, LOADING, AVAILABLE, UNLOADING or END."""
    error_code: str
    error_message: str


class Translation(NamedTuple):
    """A sentence in the target language."""

    translation: str
    score: float
    """The export's ranking score: log-probability in nats, normalised as its search does."""
    truncated: bool
    """Whether the source was longer than the model reads, so that its end is missing."""


class TranslatedText(NamedTuple):
    """A text of any length, translated sentence by sentence."""

    translation: str
    """The sentences' translations with the source's own white space between them."""
    sentences: list[Translation]

    @property
    def truncated(self) -> bool:
        """Whether any of its sentences was longer than the model reads."""
        return any(sentence.truncated for sentence in self.sentences)


class Alignment(NamedTuple):
    """A translation and how it attends to its source."""

    translation: str
    score: float
    truncated: bool
    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]
    """[T][S], padding removed; every row sums to 1."""


class Hypothesis(NamedTuple):
    """One of several translations of a sentence."""

    translation: str
    score: float
    """What hypotheses are ranked by."""
    log_prob: float
    """Nats: the sum of its tokens' log-probabilities, END included."""
    tokens: list[str]
    weights: list[list[float]]
    """[T][S], padding removed."""


class Hypotheses(NamedTuple):
    """What beam search found for a sentence, best first."""

    source_tokens: list[str]
    truncated: bool
    hypotheses: list[Hypothesis]


def translations(outputs: Columns, size: int) -> list[Translation]:
    """The rows of ``serving_default``'s outputs for ``size`` sentences."""
    return [Translation(*row) for row in _rows(outputs, Translation._fields, size)]


def alignments(outputs: Columns, size: int) -> list[Alignment]:
    """The rows of ``align``'s outputs for ``size`` sentences, without their padding."""
    names = (*Alignment._fields[:-1], "alignment", "source_lengths", "target_lengths")
    answers = []
    for translation, score, truncated, source, target, weights, source_length, target_length in _rows(
        outputs, names, size
    ):
        tokens = source[:source_length], target[:target_length]
        answers.append(Alignment(translation, score, truncated, *tokens, _cut(weights, target_length, source_length)))
    return answers


def hypotheses(outputs: Columns, size: int) -> list[Hypotheses]:
    """The rows of ``beam``'s outputs for ``size`` sentences, without their padding."""
    per_sentence = ("source_tokens", "source_lengths", "truncated")
    per_hypothesis = ("translations", "scores", "log_probs", "tokens", "alignment", "lengths")
    answers = []
    for source, source_length, truncated, *ranked in _rows(outputs, per_sentence + per_hypothesis, size):
        found = [
            Hypothesis(translation, score, log_prob, tokens[:length], _cut(weights, length, source_length))
            for translation, score, log_prob, tokens, weights, length in zip(*ranked, strict=True)
        ]
        answers.append(Hypotheses(source[:source_length], truncated, found))
    return answers


def _rows(outputs: Columns, names: Sequence[str], size: int) -> list[tuple[Any, ...]]:
    columns = [outputs.get(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if not isinstance(column, list) or len(column) != size:
            raise ClientError(
                f"The answer's output {name!r} is not a list of {size}: is this a translation model's export?"
            )
    return list(zip(*columns, strict=True))


def _cut(weights: list[list[float]], target_length: int, source_length: int) -> list[list[float]]:
    return [row[:source_length] for row in weights[:target_length]]
