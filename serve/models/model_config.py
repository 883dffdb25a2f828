"""Served models: their folders, version policies and labels.

A folder or a file lists the models. In a folder, each child is a model, and its newest version is served. A file is in
TensorFlow Serving's text format:

    model_config_list { config {
      name: "spa-eng" base_path: "/models/spa-eng" model_platform: "tensorflow"
      model_version_policy { latest { num_versions: 2 } }      # or all { }, or specific { versions: 3 versions: 5 }
      version_labels { key: "stable" value: 3 }
    } }
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from google.protobuf import text_format
from google.protobuf.message import Message
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from .status import StatusError, invalid


@dataclass(frozen=True)
class Latest:
    """The ``number`` highest versions."""

    number: int = 1

    def choose(self, versions: Iterable[int]) -> set[int]:
        """Returns the versions to serve."""
        return set(sorted(versions)[-self.number :])


ALL = Latest(sys.maxsize)
"""Every version."""


@dataclass(frozen=True)
class Specific:
    """The existing versions among ``numbers``."""

    numbers: frozenset[int]

    def choose(self, versions: Iterable[int]) -> set[int]:
        """Returns the versions to serve."""
        return set(versions) & self.numbers


class ServedModel(NamedTuple):
    """One model: its folder of versions, the policy that selects versions, and labels of versions."""

    name: str
    base_path: Path
    policy: Latest | Specific = Latest()
    labels: Mapping[str, int] = {}


def models_in(folder: Path) -> list[ServedModel]:
    """Returns a model for each child folder, except hidden folders and the file system's ``lost+found``.

    In a name that is not UTF-8, U+FFFD replaces the other bytes.

    Raises:
        OSError: ``folder`` cannot be read.
    """
    return [
        ServedModel(os.fsencode(path.name).decode("utf-8", "replace"), path)
        for path in sorted(folder.iterdir())
        if path.name[0] != "." and path.name != "lost+found" and path.is_dir()
    ]


def read_model_configs(path: Path) -> list[ServedModel]:
    """Reads a list of models from a ``ModelServerConfig`` in protocol buffers' text format.

    Raises:
        ValueError: The file cannot be read or parsed, or lists a model that cannot be served. The message of a parse
            error holds line and column.
    """
    try:
        return model_configs(text_format.Parse(path.read_text("utf-8"), ModelServerConfig()))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected a text file with a ModelServerConfig: {error}") from error
    except text_format.ParseError as error:
        raise ValueError(f"{path}:{error}: expected a ModelServerConfig in protocol buffers' text format.") from error
    except StatusError as error:
        raise ValueError(f"{path}: {error.message}") from error


def model_configs(config: ModelServerConfig) -> list[ServedModel]:
    """Returns the models that ``config`` lists.

    Raises:
        StatusError: INVALID_ARGUMENT, with TensorFlow Serving's message if it has one.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise invalid("Expected a model_config_list")
    configs: dict[str, ServedModel] = {}
    for model in config.model_config_list.config:
        if not model.name:
            raise invalid("Illegal to list a model without a name in config list")
        if model.name in configs:
            raise invalid(f"Illegal to list model {model.name} multiple times in config list")
        if not model.base_path.startswith("/"):
            raise invalid(
                f"Expected model {model.name} to have an absolute path or URI; got base_path()={model.base_path}. "
                "This server reads absolute paths only."
            )
        if model.model_platform != "tensorflow":
            raise invalid(f"Model {model.name} requests unsupported platform {model.model_platform!r}")
        configs[model.name] = ServedModel(
            model.name, Path(model.base_path), _policy(model.model_version_policy), dict(model.version_labels)
        )
    return list(configs.values())


def _policy(policy: Message) -> Latest | Specific:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return ALL
    if choice == "specific":
        return Specific(frozenset(policy.specific.versions))
    return Latest(max(1, policy.latest.num_versions))
