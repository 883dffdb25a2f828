"""``nmt serve``: the embedded server."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Self

import tyro
from nmt_keras_serve.options import Options

from nmt_keras.cli.command import Command, Console

MODELS = Options(model_dir=Path("saved_models"))


@dataclass(frozen=True)
class Serve(Command):
    """Serve exported models over TensorFlow Serving's REST API, with a web page."""

    rare: ClassVar[Collection[str]] = (
        "debug",
        "limits",
        "load_retry_interval_micros",
        "shutdown_seconds",
    )
    computes: ClassVar[bool] = False  # the server imports TensorFlow itself, after it has opened its ports
    options: Annotated[Options, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="")] = field(
        default_factory=lambda: MODELS
    )

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Self:
        """Returns a command that serves saved_models, or the models listed in the file of --model-config-file."""
        by_file = any(each.replace("_", "-").startswith("--model-config-file") for each in arguments)
        return cls(options=Options(model_config_file=Path("models.config")) if by_file else MODELS)

    def __call__(self, console: Console) -> None:
        """Serves the models until a signal stops the process."""
        from nmt_keras_serve.server import serve

        serve(self.options)
