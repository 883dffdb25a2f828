"""The client's answers: typed records of the outputs of a signature."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from typeguard import TypeCheckError, check_type

from nmt_keras.io.lines import message

Columns = Mapping[str, Any]
"""Outputs by name. Each output is a nested list whose first axis is the sentence."""


class ClientError(RuntimeError):
    """A request failed. The message is one line, of limited length and without control characters."""

    def __init__(self, reason: str) -> None:
        super().__init__(message(reason))


class Unavailable(ClientError):
    """The server is overloaded, restarting or unreachable. The same request may succeed later."""

    def __init__(self, reason: str, after_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.after_seconds = after_seconds
        """Pause in seconds that the server requests. 0 if unspecified."""


def without_password(url: str) -> str:
    """Returns a URL without user name and password, for messages."""
    return re.sub(r"^(\w+://)?.*@", r"\1", url)


class ScoredTranslation(NamedTuple):
    """A sentence in the target language."""

    translation: str
    score: float
    """Log-probability in nats, normalised by length as the export specifies."""
    truncated: bool
    """If `True`, the source exceeded the model's length limit or the client's ``max_text_bytes`` and was truncated."""


class Alignment(NamedTuple):
    """A translation with its alignment."""

    translation: str
    score: float
    truncated: bool
    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]
    """Attention weights [T][S] without padding. Each row sums to 1."""


class Hypothesis(NamedTuple):
    """One of several translations of a sentence."""

    translation: str
    score: float
    """Score that ranks hypotheses."""
    log_prob: float
    """Sum of the tokens' log-probabilities in nats, END included."""
    tokens: list[str]
    weights: list[list[float]]
    """Attention weights [T][S] without padding."""


class Hypotheses(NamedTuple):
    """Hypotheses of a sentence, best first."""

    source_tokens: list[str]
    truncated: bool
    hypotheses: list[Hypothesis]


Record = TypeVar("Record", ScoredTranslation, Alignment, Hypotheses)


@contextlib.contextmanager
def expected(what: str) -> Iterator[None]:
    """Raises ClientError in place of the errors that an answer of another form causes."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, TypeCheckError) as error:
        raise ClientError(f"{what} has another form than expected: {error}. Is this an export of nmt_keras?") from error


def checked(records: list[Record]) -> list[Record]:
    """Returns the records. Raises TypeCheckError if a field of one has another type than it declares."""
    return [check_type(record, type(record)) for record in records]


def translations(outputs: Columns, size: int) -> list[ScoredTranslation]:
    """Returns the outputs of ``serving_default`` for ``size`` sentences as records."""
    return [ScoredTranslation(*row) for row in _rows(outputs, ScoredTranslation._fields, size)]


def alignments(outputs: Columns, size: int) -> list[Alignment]:
    """Returns the outputs of ``align`` for ``size`` sentences as records without padding."""
    names = (*Alignment._fields[:-1], "alignment", "source_lengths", "target_lengths")
    return [
        Alignment(translation, score, truncated, source[:s], target[:t], _cut(weights, target[:t], source[:s]))
        for translation, score, truncated, source, target, weights, s, t in _rows(outputs, names, size)
    ]


def hypotheses(outputs: Columns, size: int) -> list[Hypotheses]:
    """Returns the outputs of ``beam`` for ``size`` sentences as records, without padding and missing hypotheses.

    If several hypotheses have the same text, spelt with different tokens, the best one is returned.
    """
    per_sentence = ("source_tokens", "source_lengths", "truncated")
    per_hypothesis = ("translations", "scores", "log_probs", "tokens", "alignment", "lengths")
    answers = []
    for source, source_length, truncated, *ranked in _rows(outputs, per_sentence + per_hypothesis, size):
        found = [
            Hypothesis(
                translation, score, log_prob, tokens[:length], _cut(weights, tokens[:length], source[:source_length])
            )
            for translation, score, log_prob, tokens, weights, length in zip(*ranked, strict=True)
            if length > 0  # a missing hypothesis
        ]
        texts = [hypothesis.translation for hypothesis in found]
        distinct = [hypothesis for rank, hypothesis in enumerate(found) if hypothesis.translation not in texts[:rank]]
        answers.append(Hypotheses(source[:source_length], truncated, distinct))
    return answers


def _rows(outputs: Columns, names: Sequence[str], size: int) -> list[list[Any]]:
    return [row for _, *row in zip(range(size), *(outputs[name] for name in names), strict=True)]


def _cut(weights: list[list[float]], targets: list[str], sources: list[str]) -> list[list[float]]:
    """Returns the weights of the tokens, without padding. Raises ValueError if a token has none."""
    return [
        [weight for weight, _ in zip(row[: len(sources)], sources, strict=True)]
        for row, _ in zip(weights[: len(targets)], targets, strict=True)
    ]
