"""Bulk translation on a Beam runner: ``python -m nmt_keras.pipelines --input 'corpus/*.txt' --output out/part ...``."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from nmt_keras.io.lines import print_utf8
from nmt_keras.io.startup import ignore_settings_of_keras


@dataclass(frozen=True)
class Options:
    """Translates the lines of many files. Other options, such as --runner, are passed to Apache Beam."""

    input: str
    """Path or pattern of UTF-8 text files with one sentence per line."""
    output: str
    """Prefix of the JSON lines files to write. The order of the lines is kept."""
    model: str
    """Exported version or folder of versions. Every worker must be able to read it."""
    batch_size: int = 64
    """Maximum number of sentences in a batch."""
    greedy: bool = False
    """Use the greedy search of an export, which is faster than its beam search."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the pipeline with command-line ``arguments`` and prints the number of translated lines."""
    options, for_beam = tyro.cli(
        Options, prog="python -m nmt_keras.pipelines", args=arguments, return_unknown_args=True
    )
    print_utf8()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    ignore_settings_of_keras()
    try:
        from nmt_keras.pipelines.translation import translate_files

        counts = translate_files(
            options.input, options.output, options.model, options.batch_size, for_beam, options.greedy
        )
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise SystemExit(
            'pipelines: Apache Beam is not installed. Run pip install "nmt-keras-attention[beam]".'
        ) from error
    except (ValueError, OSError) as error:
        raise SystemExit(f"pipelines: {error}") from error
    print(f"{counts['lines']} lines translated, {counts['truncated']} of them truncated to the model's limit")


if __name__ == "__main__":
    main()
