"""``nmt serve``: the embedded server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import tyro
from nmt_keras_serve.options import Options

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console

MODELS = Options(model_dir=Path("saved_models"))


@dataclass(frozen=True)
class Serve(Command):
    """Serve exported models over TensorFlow Serving's REST and gRPC APIs, and the page."""

    computes: ClassVar[bool] = False  # the server imports TensorFlow itself, once it has its port
    options: Annotated[Options, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="")] = field(
        default_factory=lambda: MODELS
    )

    def __call__(self, console: Console) -> None:
        """Serves models until a signal comes."""
        from nmt_keras_serve.server import serve

        serve(self.options)


def serving_defaults(arguments: Sequence[str]) -> Serve:
    """What a command line of ``nmt serve`` changes: the models in saved_models, or those that a file lists.

    Args:
        arguments: what follows ``serve``.
    """
    by_file = any(each.replace("_", "-").startswith("--model-config-file") for each in arguments)
    return Serve(options=Options(model_config_file=Path("models.config")) if by_file else MODELS)
