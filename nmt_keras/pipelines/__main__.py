"""Bulk translation on a Beam runner: ``python -m nmt_keras.pipelines --input 'corpus/*.txt' --output out/part ...``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Options:
    """Translates the lines of many files; options that are not listed here are Apache Beam's (--runner ...)."""

    input: str
    """Files of UTF-8 text, a sentence per line; a pattern."""
    output: str
    """Prefix of the JSON lines files that are written."""
    model: str
    """An exported version, or the folder that holds its versions; every worker must be able to read it."""
    batch_size: int = 64
    """Maximum number of sentences in a batch."""
    greedy: bool = False
    """Use an export's greedy search, which is faster than its beam search."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line, runs the pipeline, prints the number of translated lines."""
    options, for_beam = tyro.cli(
        Options, prog="python -m nmt_keras.pipelines", args=arguments, return_unknown_args=True
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from nmt_keras.pipelines.translation import translate_files

        counts = translate_files(
            options.input, options.output, options.model, options.batch_size, for_beam, options.greedy
        )
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise SystemExit('pipelines: Apache Beam is missing: pip install "nmt-keras-attention[beam]".') from error
    except (ValueError, OSError) as error:
        raise SystemExit(f"pipelines: {error}") from error
    print(f"{counts['lines']} lines translated, {counts['truncated']} of them longer than the model reads and cut")


if __name__ == "__main__":
    main()
