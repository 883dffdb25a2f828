"""Reads and writes ``origin.json``, the corpus options with which ``nmt train`` created a run. Needs no TensorFlow."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from nmt_keras.config import record_from
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.files import make_folder, read_json, write_whole
from nmt_keras.runs.directory import CORPUS, is_run

ORIGIN = "origin.json"

FILES = ("corpus", "valid", "test", "alignments", "prepared")
"""Fields of ``CorpusOptions`` that hold paths."""


def write_origin(run: Path, options: CorpusOptions) -> None:
    """Writes the corpus options of a run, with absolute paths.

    Raises:
        OSError: the file or its folder cannot be written.
    """

    def absolute(path: str) -> str:
        return path if path == SAMPLE_NAME else str(Path(path).resolve())

    several = {name: [absolute(path) for path in getattr(options, name)] for name in ("corpus", "valid", "test")}
    single = {name: path and absolute(path) for name in ("alignments", "prepared") for path in [getattr(options, name)]}
    make_folder(run)
    write_whole(run / ORIGIN, json.dumps({**asdict(options), **several, **single}, indent=2) + "\n")


def _paths(options: CorpusOptions, name: str) -> tuple[str, ...]:
    """Returns the paths in a field of ``FILES``."""
    value: str | tuple[str, ...] | None = getattr(options, name)
    return (value,) if isinstance(value, str) else value or ()


def read_origin(run: Path) -> CorpusOptions:
    """Returns the corpus options of a run.

    A run that was not created by ``nmt train`` has no ``origin.json``. If it was trained on the sample corpus, the
    options of the sample corpus are returned, else the defaults.

    Raises:
        ValueError: ``origin.json`` holds no corpus options.
    """
    path = run / ORIGIN
    if path.exists():
        fields = read_json(path)
        try:
            return record_from(CorpusOptions, fields)
        except ValueError as error:
            raise ValueError(f"{path}: expected corpus options; {error} Remove the file.") from error
    sample = (run / CORPUS).exists() and read_json(run / CORPUS)["name"] == SAMPLE_NAME
    return CorpusOptions((SAMPLE_NAME,)) if sample else CorpusOptions()


def require_corpus(run: Path, options: CorpusOptions, remedy: str = "pass") -> None:
    """Raises FileNotFoundError if ``options`` name a file of the run's corpus that no longer exists.

    Args:
        run: A run directory, or a path where a run may be trained.
        options: Corpus options of a command, by default those of the run.
        remedy: Beginning of the remedy, before the option of the missing file.
    """
    if not is_run(run):
        return
    stored = read_origin(run)
    for name in FILES:
        for path in _paths(options, name):
            if path in _paths(stored, name) and path != SAMPLE_NAME and not Path(path).exists():
                raise FileNotFoundError(
                    f"--{name}: expected the file that {run} was trained with; {path} does not exist. If it has moved, "
                    f"{remedy} --{name} with its new path."
                )


def with_languages_of(run: Path, options: CorpusOptions) -> CorpusOptions:
    """Returns ``options`` with both languages. A missing language is taken from the run, else from the corpus.

    Raises:
        ValueError: ``origin.json`` of the run holds no corpus options.
    """
    kept = read_origin(run) if is_run(run) else options
    named = replace(
        options,
        source_language=options.source_language or kept.source_language,
        target_language=options.target_language or kept.target_language,
    )
    source, target = named.languages
    return replace(named, source_language=source, target_language=target)
