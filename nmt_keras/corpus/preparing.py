"""Prepares a corpus larger than memory: text files in, shards of token ids out, on one machine.

    lines -> pairs -> not identical -> token ids -> not too long, not unlike -> shard by hash -> sorted, each once

The text is read four times: to be counted, once for each vocabulary, and to be encoded. Memory holds a few thousand
lines, or one shard; while SentencePiece learns a vocabulary, up to two million lines, and while a word text does, every
word that there is. ``pipelines.preparing`` is the same on many machines, and makes the same shards.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from os import PathLike
from pathlib import Path

import numpy as np

from nmt_keras.config import FilterConfig, TokenizerConfig, require
from nmt_keras.corpus.batching import encode_lines
from nmt_keras.corpus.filtering import Rejection, pair_key, reject_lengths, reject_text, shard_of
from nmt_keras.corpus.reading import Pair, ReadReport, Tally, require_usable, stream_pairs, stream_parallel
from nmt_keras.corpus.shards import (
    EncodedPair,
    PreparedCorpus,
    ShardReport,
    remove_leftovers,
    require_new,
    shard_name,
    write_record,
    write_shard,
)
from nmt_keras.files import make_folder, writing
from nmt_keras.text import Tokenizer, fit_tokenizer
from nmt_keras.text.subword import MAX_LINES

PAIRS_AT_ONCE = 4096
PAIRS_OF_SHARD = 100_000
FEWEST_SHARDS = 16  # so that an epoch's order has some to permute
MOST_SHARDS = 512  # as many files are open at once
Place = str | PathLike[str]


def prepare(
    files: Sequence[Place | tuple[Place, Place]],
    folder: str | PathLike[str],
    source: TokenizerConfig,
    target: TokenizerConfig,
    filters: FilterConfig,
    *,
    source_column: int,
    target_column: int,
    shards: int | None = None,
    max_malformed: float = 0.01,
    report: Callable[[str], None] = lambda _: None,
) -> PreparedCorpus:
    """Makes ``folder`` a prepared corpus.

    Args:
        files: each a file of tab-separated text, see ``read_pairs``, or a source and a target file, see
            ``read_parallel``; plain, gzipped or zipped. Validation pairs do not belong here.
        folder: is made; what an interrupted preparation left in it is removed.
        source, target: how vocabularies are learnt, each from its side of ``files``: a word text from all lines, the
            others from two million at the most that are taken evenly, as every third line, say.
        filters: what is left out.
        source_column, target_column: counted from 0.
        shards: files to write, 512 at the most, of which one is held in memory at a time. None: one for each hundred
            thousand pairs that are read, 16 at the least.
        max_malformed: the share of malformed lines up to which they are left out.
        report: told, in sentences, what happens.

    Raises:
        FileExistsError: ``folder`` holds a prepared corpus.
        FileNotFoundError, ValueError: a file cannot be read, or has too many malformed lines; an argument is out of its
            range; the filters leave nothing.
        OSError: ``folder`` cannot be written.
    """
    require(len(files) > 0, "files", "at least one file of sentence pairs", list(files))
    require(shards is None or 1 <= shards <= MOST_SHARDS, "shards", f"1 to {MOST_SHARDS}", shards)
    folder = Path(folder)
    require_new(str(folder))
    names = ", ".join(_named(each) for each in files)
    spilled = folder / "spilled"

    def pairs(tally: Tally) -> Iterator[Pair]:
        for each in files:
            if isinstance(each, tuple):
                yield from tally.pairs(stream_parallel(*each))
            else:
                yield from tally.pairs(stream_pairs(each, source_column=source_column, target_column=target_column))

    report("counting the pairs")
    tally = Tally()
    count = sum(1 for _ in pairs(tally))
    found = tally.report()
    require_usable(found, names, max_malformed)
    shards = shards or shards_for(count)
    with writing(folder, "Nothing was prepared."):
        make_folder(folder)
    remove_leftovers(str(folder))
    report(f"learning the vocabularies; {found}")
    texts = (
        fit_tokenizer(source, _evenly((pair.source for pair in pairs(Tally())), count, source)),
        fit_tokenizer(target, _evenly((pair.target for pair in pairs(Tally())), count, target)),
    )
    for text, side in zip(texts, ("source", "target"), strict=True):
        text.save(folder / side)
    report("encoding")
    left_out = Counter[Rejection]()
    try:
        _put_aside(encoded(pairs(Tally()), texts, filters, left_out), spilled, shards)
        report(f"writing {shards} shards")
        written = [
            write_shard(str(folder / shard_name(n, shards)), _unpacked(spilled / str(n)), filters.drop_duplicates)
            for n in range(shards)
        ]
    finally:
        shutil.rmtree(spilled, ignore_errors=True)  # nobody goes on from it, and a full disk has use for its room
    complete(str(folder), names, written, found, left_out, filters)
    prepared = PreparedCorpus(folder)
    report(f"{len(prepared):,} pairs prepared; left out: {prepared.told_left_out()}")
    return prepared


def shards_for(pairs: int) -> int:
    """How many shards hold ``pairs``, a hundred thousand in each: 16 at the least, 512 at the most."""
    return min(max(-(-pairs // PAIRS_OF_SHARD), FEWEST_SHARDS), MOST_SHARDS)


def complete(
    folder: str,
    names: str,
    written: Sequence[ShardReport],
    found: ReadReport,
    left_out: Mapping[Rejection, int],
    filters: FilterConfig,
) -> None:
    """Makes a folder of shards a prepared corpus, whoever wrote them.

    Args:
        folder: the folder, wherever TensorFlow can write.
        names: the files that were read.
        written: the shards.
        found: what became of the lines.
        left_out: pairs by reason, duplicates aside.
        filters: what was left out.

    Raises:
        OSError: the folder cannot be written.
        ValueError: no pair was left.
    """
    rejected = {reason.value: left_out.get(reason, 0) for reason in Rejection if reason is not Rejection.DUPLICATE}
    if not any(shard.pairs for shard in written):
        counts = ", ".join(f"{count:,} {reason}" for reason, count in rejected.items() if count)
        raise ValueError(
            f"filters: expected some that leave pairs of {names}, received ones that leave none: {counts}. Loosen them."
        )
    rejected["malformed lines"] = found.malformed
    write_record(folder, written, found.lines, rejected, {"filters": dataclasses.asdict(filters)})
    remove_leftovers(folder, [shard.file for shard in written])


def encoded(
    pairs: Iterable[Pair], texts: tuple[Tokenizer, Tokenizer], filters: FilterConfig, left_out: Counter[Rejection]
) -> Iterator[EncodedPair]:
    """The pairs that pass the filters, as token ids; the others are counted in ``left_out``."""
    remaining = iter(pairs)
    while chunk := list(islice(remaining, PAIRS_AT_ONCE)):
        kept = []
        for pair in chunk:
            if reason := reject_text(pair, filters):
                left_out[reason] += 1
            else:
                kept.append(pair)
        source, source_cut = encode_lines(texts[0], [pair.source for pair in kept])
        target, target_cut = encode_lines(texts[1], [pair.target for pair in kept])
        for row, pair in enumerate(kept):
            cut = bool(source_cut[row] or target_cut[row])
            if reason := reject_lengths(int(source.lengths[row]), int(target.lengths[row]), cut, filters):
                left_out[reason] += 1
            else:
                yield EncodedPair(pair_key(pair), source[row], target[row])


def _named(files: Place | tuple[Place, Place]) -> str:
    """A corpus's file, or both."""
    return " and ".join(map(str, files)) if isinstance(files, tuple) else str(files)


def _evenly(lines: Iterator[str], count: int, config: TokenizerConfig) -> Iterator[str]:
    """Of ``count`` lines as many as a text of this kind learns from, evenly: the first are often of one origin."""
    step = 1 if config.kind == "word" else -(-count // MAX_LINES)
    return islice(lines, 0, None, step)


def _put_aside(pairs: Iterable[EncodedPair], folder: Path, shards: int) -> None:
    """Writes pairs into a file for each shard, as they come; ``_unpacked`` reads one."""
    with ExitStack() as stack:
        stack.enter_context(writing(folder, "Nothing was prepared."))
        folder.mkdir(exist_ok=True)
        heaps = [stack.enter_context((folder / str(number)).open("wb")) for number in range(shards)]
        for pair in pairs:
            heaps[shard_of(pair.key, shards)].write(_packed(pair))


def _packed(pair: EncodedPair) -> bytes:
    """A pair as it is put aside: its key, the lengths of its sides, their ids."""
    lengths = np.array([len(pair.source), len(pair.target)], np.int32)
    return b"".join((pair.key, lengths.tobytes(), pair.source.tobytes(), pair.target.tobytes()))


def _unpacked(path: Path) -> Iterator[EncodedPair]:
    """The pairs that were put aside in a file."""
    with path.open("rb") as file:
        while key := file.read(16):
            source, target = np.frombuffer(file.read(8), np.int32)
            ids = np.frombuffer(file.read(4 * int(source + target)), np.int32)
            yield EncodedPair(key, ids[:source], ids[source:])
