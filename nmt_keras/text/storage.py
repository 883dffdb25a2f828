"""Folder of a tokenizer: ``text.json`` with configuration and checksum, and the vocabulary files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from nmt_keras.config import TokenizerConfig, require
from nmt_keras.files import make_folder, read_json, write_whole, writing

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
    return _read_record(Path(folder))[0]


def read_files(
    folder: str | PathLike[str], kinds: Sequence[str], vocabulary_file: str
) -> tuple[TokenizerConfig, dict[str, bytes]]:
    """Returns the configuration and the files of the tokenizer in ``folder``, after verifying the checksums.

    Raises:
        FileNotFoundError: ``text.json`` or another file is missing.
        ValueError: a file is damaged, or the kind of the tokenizer is not in ``kinds``.
    """
    config, sums = _read_record(Path(folder))
    where, hint = str(Path(folder) / RECORD_FILE), "Load it with load_tokenizer(folder)."
    require(config.kind in kinds, where, f"a {' or '.join(kinds)} tokenizer", config.kind, hint)
    files = {name: _existing(Path(folder) / name).read_bytes() for name in {vocabulary_file, *sums}}
    for name, content in files.items():
        received = f"{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"
        wanted = f"sha256 {sums.get(name)}, as recorded in {RECORD_FILE}"
        require(received.split()[0] == sums.get(name), str(Path(folder) / name), wanted, received, _NEXT_STEP)
    return config, files


def _read_record(folder: Path) -> tuple[TokenizerConfig, dict[str, str]]:
    """Returns the configuration in ``text.json``, and the checksums of the other files."""
    record = read_json(_existing(folder / RECORD_FILE))
    try:
        return TokenizerConfig(**record["config"]), dict(record["sha256"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / RECORD_FILE}: expected the fields of a TokenizerConfig under 'config', and checksums under "
            f"'sha256' ({error}). {_NEXT_STEP}"
        ) from error


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file of a saved tokenizer, received none. {_NEXT_STEP}")
    return path
