"""Folder of a tokenizer: ``text.json`` with configuration and checksum, and the vocabulary files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from nmt_keras.config import TokenizerConfig
from nmt_keras.files import make_folder, write_whole, writing

RECORD_FILE = "text.json"
_NEXT_STEP = "Restore the folder from a copy. A newly fitted tokenizer needs a newly trained model."


def write_record(folder: Path, config: TokenizerConfig, files: Mapping[str, bytes]) -> None:
    """Writes ``files``, by name, into ``folder``, and then ``text.json`` with ``config`` and their checksums."""
    with writing(folder):
        make_folder(folder)
    for name, content in files.items():
        write_whole(folder / name, content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    record = {"config": dataclasses.asdict(config), "sha256": sums}
    write_whole(folder / RECORD_FILE, json.dumps(record, indent=2) + "\n")


def read_config(folder: str | PathLike[str]) -> TokenizerConfig:
    """Returns the configuration of the tokenizer in ``folder``.

    Raises:
        FileNotFoundError: ``text.json`` is missing.
        ValueError: ``text.json`` is damaged.
    """
    return _config_of(_read_json(Path(folder) / RECORD_FILE), Path(folder) / RECORD_FILE)


def read_record(
    folder: str | PathLike[str], kinds: Sequence[str], vocabulary_file: str
) -> tuple[TokenizerConfig, dict[str, bytes]]:
    """Returns the configuration and the files of the tokenizer in ``folder``, after verifying the checksums.

    Raises:
        FileNotFoundError: ``text.json`` or another file is missing.
        ValueError: a file is damaged, or the kind of the tokenizer is not in ``kinds``.
    """
    path = Path(folder) / RECORD_FILE
    record = _read_json(path)
    config = _config_of(record, path)
    if config.kind not in kinds:
        wanted = " or ".join(kinds)
        raise ValueError(
            f"{path}: expected a {wanted} tokenizer, received {config.kind!r}. Load it with load_tokenizer(folder)."
        )
    files = {name: _read(Path(folder) / name) for name in {vocabulary_file, *record["sha256"]}}
    for name, content in files.items():
        expected, received = record["sha256"].get(name), hashlib.sha256(content).hexdigest()
        if received != expected:
            raise ValueError(
                f"{Path(folder) / name}: expected sha256 {expected}, as recorded in {RECORD_FILE}; "
                f"received {received} ({len(content)} bytes). {_NEXT_STEP}"
            )
    return config, files


def _config_of(record: dict[str, Any], path: Path) -> TokenizerConfig:
    """Returns the TokenizerConfig in ``record``."""
    try:
        return TokenizerConfig(**record["config"])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected the fields of a TokenizerConfig under 'config' ({error}). {_NEXT_STEP}"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in ``path``, which must have the objects ``config`` and ``sha256``."""
    try:
        record = json.loads(_read(path))
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON; {error}. {_NEXT_STEP}") from error
    if not isinstance(record, dict) or not all(isinstance(record.get(key), dict) for key in ("config", "sha256")):
        raise ValueError(
            f"{path}: expected an object with 'config' and 'sha256', received {record!r:.80}. {_NEXT_STEP}"
        )
    return record


def _read(path: Path) -> bytes:
    """Returns the bytes of ``path``."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file of a saved tokenizer, received none. {_NEXT_STEP}")
    return path.read_bytes()
