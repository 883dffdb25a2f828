"""``nmt serve``: see :mod:`serve.server`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console


@dataclass(frozen=True)
class Serve(Command):
    """Serve exported models over TensorFlow Serving's REST and gRPC APIs, and the page: nmt serve --help."""

    def __call__(self, console: Console) -> None:
        """Serves what is in saved_models."""
        serve(())


def serve(arguments: Sequence[str]) -> None:
    """Serves models until a signal comes: those in saved_models, unless ``arguments`` say otherwise.

    The server reads its own command line, as ``python -m serve.server`` does, so that it needs nothing of this package.
    """
    from serve.server import main

    says_where = any(each.startswith(("--model", "-h", "--help")) for each in arguments)
    main(arguments if says_where else ["--model-dir", "saved_models", *arguments])
