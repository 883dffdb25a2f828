"""Files of a run directory, and checks that its recipe and corpus have not changed. Needs no TensorFlow.

``origin.json`` holds the corpus options with which ``nmt train`` created the run, and the runs that it was fine-tuned
from.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt_keras.config import Recipe, record_from
from nmt_keras.corpus import SAMPLE_NAME, CorpusOptions
from nmt_keras.corpus.options import SPANISH_ENGLISH_NAME
from nmt_keras.io.files import PARTIAL, make_folder, read_json, require_format, stamped, write_whole
from nmt_keras.io.modules import FIELD, IMPORTED, require_imported
from nmt_keras.manifest import exported_recipe, exported_version, read_manifest

FORMAT = 3
"""Format number of run directories, stored in ``recipe.json``."""

RECIPE = "recipe.json"
CORPUS = "corpus.json"
ORIGIN, ANCESTORS = "origin.json", "ancestors"
LEXICON = "lexicon.tsv"
SCORES = "scores.json"
CHECKPOINTS = "checkpoints"
INITIAL = "initial"
LOG = "log.jsonl"


def is_run(path: Path) -> bool:
    """Returns ``True`` if ``path`` is a run directory, and ``False`` for any other path, including invalid ones."""
    return os.path.isfile(path / RECIPE)


def read_recipe(folder: Path) -> Recipe:
    """Returns the recipe of a run directory.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a recipe, the run directory has another format, or a module that registers layers
            of the run has not been imported.
    """
    path = folder / RECIPE
    fields = read_json(path)
    require_format(path, fields, [FORMAT], "Or train a new run with this version.")
    require_imported(path, fields)
    recipe = {name: value for name, value in fields.items() if name not in stamped(FORMAT)}
    return Recipe.from_json(json.dumps(recipe), str(path))


def initial_recipe(path: Path) -> Recipe:
    """Returns the recipe of a run directory, or of an exported version; see ``read_recipe`` and ``exported_recipe``."""
    version = exported_version(path)
    return exported_recipe(version) if version else read_recipe(path)


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Writes the recipe, the format number and the imported modules into a run directory; see ``write_whole``."""
    modules = IMPORTED or imports(folder)
    record = {**stamped(FORMAT), **({FIELD: modules} if modules else {}), **dataclasses.asdict(recipe)}
    write_whole(folder / RECIPE, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def imports(folder: Path) -> list[str]:
    """Returns the modules that register layers of a run, as given to --import."""
    path = folder / RECIPE
    return list(read_json(path).get(FIELD, ())) if path.exists() else []


def resolve_recipe(folder: Path, recipe: Recipe | None) -> Recipe:
    """Returns the stored recipe of a run, or ``recipe`` for a new run.

    Until the first checkpoint is written, ``recipe`` may have another training time than the stored recipe.

    Raises:
        FileNotFoundError: ``recipe`` is ``None`` and no recipe is stored.
        ValueError: the stored recipe differs from ``recipe``.
    """
    path = folder / RECIPE
    if not path.exists():
        if recipe is None:
            hint = (
                "This is an exported version. Pass the run that it was exported from."
                if exported_version(folder)
                else "Train a run there first."
            )
            raise FileNotFoundError(f"{path}: expected the recipe of a run, found none. {hint}")
        return recipe
    stored = read_recipe(folder)
    if recipe is None:
        return stored
    if all(path.name.endswith(PARTIAL) for path in (folder / CHECKPOINTS).glob("*/ckpt-*")):
        longer = {name: getattr(recipe.train, name) for name in ("steps", "epochs", "minutes")}
        stored = dataclasses.replace(stored, train=dataclasses.replace(stored.train, **longer))
    if changed := changes(dataclasses.asdict(stored), dataclasses.asdict(recipe)):
        remedy = f"Pass the recipe of the run, train in another run directory, or remove {folder}."
        if changed.keys() <= {"train.steps", "train.epochs", "train.minutes"}:
            remedy = (
                f"To train a finished run longer, run nmt train --run {folder} with RunOptions.more_epochs or "
                "RunOptions.more_minutes."
            )
        raise ValueError(f"{path}: the run has another recipe: {', '.join(changed.values())}. {remedy}")
    return stored


def refuse_other_corpus(folder: Path, facts: Mapping[str, Any]) -> None:
    """Raises ValueError if ``facts`` differ from ``corpus.json``, except for the name of the corpus file."""
    path = folder / CORPUS
    changed = changes(read_json(path), facts)
    if changed.keys() == {"key_side"}:
        raise ValueError(
            f"{path}: the run was trained on this corpus in the opposite direction. To resume the run, pass only "
            f"--run {folder}, or the same --reverse, --source-column and --target-column as at its start. To translate "
            "in this direction, train in another run directory."
        )
    if not changed.keys() <= {"name"}:  # a renamed file has the same checksums
        raise ValueError(
            f"{path}: the run was trained on another corpus: {', '.join(changed.values())}. Train in another run "
            "directory."
        )


def identity(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """Returns the identity of a run's checkpoints: fields of the recipe, and checksums of corpus and vocabularies."""
    sums = {
        "corpus": read_json(folder / CORPUS)["sha256"],
        "vocabulary": {side: read_json(folder / side / "text.json")["sha256"] for side in ("source", "target")},
    }
    return flat(dataclasses.asdict(recipe) | sums)


def flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested mappings: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Returns "name before -> now" for each field in which two records differ, by its flattened name."""
    there, here = flat(before), flat(now)
    differing = [name for name in there | here if there.get(name) != here.get(name)]
    return {name: f"{name} {there.get(name)!r} -> {here.get(name)!r}" for name in differing}


FILES = ("corpus", "valid", "test", "alignments", "prepared")
"""Fields of ``CorpusOptions`` that hold paths."""


def write_origin(run: Path, options: CorpusOptions | None, ancestors: Sequence[Mapping[str, Any]] = ()) -> None:
    """Writes the corpus options of a run, with absolute paths, and its ancestors.

    Args:
        run: The run directory.
        options: The corpus options; ``None`` if unknown.
        ancestors: See ``read_ancestors``.

    Raises:
        OSError: the file or its folder cannot be written.
    """

    def absolute(path: str) -> str:
        return path if path == SAMPLE_NAME else str(Path(path).resolve())

    fields: dict[str, Any] = dataclasses.asdict(options) if options else {}
    paths = {name: fields[name] for name in FILES if fields.get(name)}
    placed = {
        name: absolute(value) if isinstance(value, str) else [*map(absolute, value)] for name, value in paths.items()
    }
    make_folder(run)
    write_whole(run / ORIGIN, json.dumps({**fields, **placed, ANCESTORS: ancestors}, indent=2) + "\n")


def read_ancestors(run: Path) -> list[dict[str, Any]]:
    """Returns the runs and exported versions that a run was fine-tuned from, the nearest first.

    Each has the fields "run" (path), "checkpoint" and "corpus" (content of ``corpus.json``).
    """
    return list(read_json(run / ORIGIN).get(ANCESTORS, [])) if (run / ORIGIN).exists() else []


def _paths(options: CorpusOptions, name: str) -> tuple[str, ...]:
    """Returns the paths in a field of ``FILES``."""
    value: str | tuple[str, ...] | None = getattr(options, name)
    return (value,) if isinstance(value, str) else value or ()


def read_origin(run: Path) -> CorpusOptions:
    """Returns the corpus options of a run.

    A run that was not created by ``nmt train`` has no ``origin.json``. Its corpus is known only by its name.

    Raises:
        ValueError: ``origin.json`` holds no corpus options.
    """
    path = run / ORIGIN
    found = read_json(path) if path.exists() else {}
    if fields := {name: value for name, value in found.items() if name != ANCESTORS}:
        try:
            return record_from(CorpusOptions, fields)
        except ValueError as error:
            raise ValueError(f"{path}: expected corpus options; {error} Remove the file.") from error
    name = read_json(run / CORPUS)["name"] if (run / CORPUS).exists() else SPANISH_ENGLISH_NAME
    return CorpusOptions() if name == SPANISH_ENGLISH_NAME else CorpusOptions((name,))


def require_corpus(run: Path, options: CorpusOptions) -> None:
    """Raises FileNotFoundError if ``options`` name a file of the run's corpus that no longer exists.

    Args:
        run: A run directory, or a path where a run may be trained.
        options: Corpus options of a command, by default those of the run.
    """
    if not is_run(run):
        return
    stored = read_origin(run)
    for name in FILES:
        for path in _paths(options, name):
            if path in _paths(stored, name) and path != SAMPLE_NAME and not Path(path).exists():
                raise FileNotFoundError(
                    f"--{name}: expected the file that {run} was trained with; {path} does not exist. If it has moved, "
                    f"pass --{name} with its new path."
                )


def with_languages_of(path: Path, options: CorpusOptions) -> CorpusOptions:
    """Returns ``options`` with both languages.

    A missing language is taken from the run or exported version at ``path``, else from the corpus.

    Raises:
        ValueError: ``origin.json`` of the run holds no corpus options.
    """
    kept = read_origin(path) if is_run(path) else options
    if version := exported_version(path):
        languages = read_manifest(version).get("languages", {})
        kept = CorpusOptions(source_language=languages.get("source"), target_language=languages.get("target"))
    named = dataclasses.replace(
        options,
        source_language=options.source_language or kept.source_language,
        target_language=options.target_language or kept.target_language,
    )
    source, target = named.language_tags
    return dataclasses.replace(named, source_language=source, target_language=target)
