"""Bulk translation from lines of text to JSON lines, in the order of the lines.

    lines -> drop empty lines -> blocks of lines -> Translator.translate -> records -> one file for each block

An engine may run a step twice, for example after a worker has died. A repeated step writes the same bytes, because the
blocks of lines depend only on the input files, and each block has a fixed output file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.shared import Shared

import nmt_keras
from nmt_keras.config import require
from nmt_keras.io.files import sole_writer, to_json
from nmt_keras.io.lines import text_blocks
from nmt_keras.pipelines import absolute
from nmt_keras.pipelines.preparing import matching, opened
from nmt_keras.text.normalisation import in_blocks
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.translator import Translator

LINES_AT_ONCE = 4096


def read_blocks(file: int, paths: Iterable[str]) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Yields the non-empty lines of a file in blocks. The key of a block is (file number, block number).

    Args:
        file: Number of the file.
        paths: The path of a text file, plain or packed, as the only item.
    """
    (path,) = paths
    with opened(path) as stream:
        lines = chain.from_iterable(text_blocks(stream, path, logging.getLogger(__name__).warning))
        for number, block in enumerate(in_blocks(filter(None, map(str.strip, lines)), LINES_AT_ONCE)):
            yield (file, number), block


def translated_lines(
    translator: Translator, lines: Sequence[str], batch_size: int, greedy: bool
) -> list[dict[str, Any]]:
    """Returns the records of lines, which are written as JSON; see ``TranslateBlocks`` and ``Translation``."""
    if isinstance(translator, ServedTranslator) and greedy:
        translator = translator.with_search(translator.search.greedy)
    return [
        {
            "text": line,
            "translation": found.text,
            "score": found.score,
            "log_prob": found.log_prob,
            "truncated": found.truncated,
        }
        for line, found in zip(lines, translator.translate(lines, batch_size), strict=True)
    ]


class TranslateBlocks(beam.DoFn):
    """Translates blocks of lines and writes a file for each.

    Args:
        model: Exported version, folder of versions or run directory; see ``nmt_keras.load``. Every worker must be able
            to read it. Each process loads it once.
        output: Prefix of the files.
        batch_size: Maximum number of sentences in a batch.
        greedy: If ``True``, uses the greedy search of an export, else its default search. A run directory always uses
            the search of its recipe.
    """

    def __init__(self, model: str, output: str, batch_size: int, greedy: bool):
        super().__init__()
        self._model, self._output, self._batch_size, self._greedy = model, output, batch_size, greedy
        self._shared = Shared()

    def setup(self) -> None:
        """Loads the translator unless this process has already loaded it."""
        self._translator = self._shared.acquire(lambda: nmt_keras.load(self._model))

    def process(self, numbered: tuple[tuple[int, int], Iterable[list[str]]]) -> Iterator[tuple[int, Counter[str]]]:
        """Writes the file of a block, and yields the number of files, of lines, and of truncated lines."""
        (file, number), blocks = numbered
        for block in blocks:
            found = translated_lines(self._translator, block, self._batch_size, self._greedy)
            text = "".join(to_json(line) + "\n" for line in found)
            _write(f"{self._output}-{file:05d}-{number:05d}.jsonl", text)
            yield 0, Counter(files=1, lines=len(found), truncated=sum(line["truncated"] for line in found))


def translate_files(
    source: str, output: str, model: str, batch_size: int, options: list[str], greedy: bool = False
) -> dict[str, int]:
    """Runs the pipeline to completion. Empty lines are skipped.

    Args:
        source: Path or pattern, such as ``corpus/*.txt``, of text files, plain or packed, with one sentence per line.
            Each file is read by a single worker.
        output: Prefix of the JSON lines files ``OUTPUT-FILE-BLOCK.jsonl``. FILE is the number of the input file, BLOCK
            the number of the block of lines. Sorted by name, the files have the order of the input lines.
            ``OUTPUT.json`` has the counts and is written last. Leftovers of an interrupted translation are removed.
            There are no locks on paths with a scheme, such as gs://. Do not start two pipelines with one prefix there.
        model: See ``TranslateBlocks``.
        batch_size: Maximum number of sentences in a batch.
        options: Options of Beam, such as ``--runner=DirectRunner``. If empty, the pipeline runs on this machine.
        greedy: See ``TranslateBlocks``.

    Returns:
        The number of written ``files``, of their ``lines`` and of ``truncated`` lines.

    Raises:
        FileExistsError: ``OUTPUT.json`` exists.
        FileNotFoundError: no file matches ``source``.
        ValueError: ``output`` has a character of Beam's patterns, or another pipeline writes files with this prefix
            (see ``files.sole_writer``).
    """
    require(batch_size >= 1, "batch_size", "1 or more", batch_size)
    source, output, model = map(absolute, (source, output, model))
    require(
        not set("*?[") & set(output), "output", "a path without *, ? and [", output, "Beam reads them as a pattern."
    )
    pipeline = beam.Pipeline(argv=options)  # created first, because its options also configure file systems
    totals = f"{output}.json"
    paths = matching(source)
    folder, name = os.path.split(output)
    with nullcontext() if "://" in output else sole_writer(Path(folder), f"{name}.lock"):
        if FileSystems.exists(totals):
            raise FileExistsError(
                f"output: expected a new prefix, found {totals}. Pass another prefix, or delete the files {output}*."
            )
        _remove_leftovers(output, r"-\d{5}-\d{5}\.jsonl(\.\w+\.partial)?")

        def write_totals(_: int, counts: Iterable[Counter[str]]) -> None:
            sums = sum(map(Counter, counts), Counter())  # Beam passes them as mappings
            _write(totals, json.dumps({name: sums[name] for name in ("files", "lines", "truncated")}) + "\n")

        counts = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(paths)))
            | "SpreadFiles" >> beam.GroupByKey()
            | "Read" >> beam.FlatMapTuple(read_blocks)
            | "SpreadBlocks" >> beam.GroupByKey()
            | "Translate" >> beam.ParDo(TranslateBlocks(model, output, batch_size, greedy))
        )
        nothing = pipeline | "Nothing" >> beam.Create([(0, Counter[str]())])
        (
            (counts, nothing)
            | beam.Flatten()
            | "ToOne" >> beam.GroupByKey()
            | "WriteTotals" >> beam.MapTuple(write_totals)
        )
        pipeline.run().wait_until_finish()
        _remove_leftovers(output, r"-\d{5}-\d{5}\.jsonl\.\w+\.partial")  # of workers that died
        with FileSystems.open(totals) as file:
            return dict(json.loads(file.read()))


def _remove_leftovers(output: str, ending: str) -> None:
    """Removes the files whose names are ``output`` followed by a match of the regular expression ``ending``."""
    found = (each.path for match in FileSystems.match([f"{output}-*"]) for each in match.metadata_list)
    if left := [path for path in found if re.search(ending + "$", path)]:
        FileSystems.delete(left)


def _write(path: str, text: str) -> None:
    """Writes a temporary file and renames it, so the file is complete as soon as it exists."""
    partial = f"{path}.{uuid.uuid4().hex}.partial"
    with FileSystems.create(partial, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(text.encode("utf-8"))
    FileSystems.rename([partial], [path])
