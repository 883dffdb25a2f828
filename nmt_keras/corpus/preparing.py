"""Converts text files larger than memory to shards of token ids, on one machine.

    lines -> pairs -> drop identical -> token ids -> filter by length -> shard by hash -> sort, deduplicate

The text is read five times: to count the pairs, to learn each vocabulary and what is copied, and to encode. Memory
holds a few thousand lines or one shard. While a vocabulary is learnt, memory holds up to two million lines
(SentencePiece) or all distinct words (word tokenizers). ``pipelines.preparing`` writes the same shards on many
machines.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nmt_keras.config import FilterConfig, TokenizerConfig, require
from nmt_keras.corpus.columns import Columns
from nmt_keras.corpus.encoding import MAX_LEFT_OUT, encode_pairs
from nmt_keras.corpus.filtering import MAX_SHARDS, Rejection, pair_key, reject_text, shard_of
from nmt_keras.corpus.reading import Pair, ReadReport, require_usable, stream_files
from nmt_keras.corpus.shards import (
    LOST,
    SPILLED,
    EncodedPair,
    PreparedCorpus,
    complete,
    remove_leftovers,
    require_new,
    shard_name,
    write_shard,
)
from nmt_keras.io.files import sole_writer, writing
from nmt_keras.io.lines import Place, require_files
from nmt_keras.text import Codec, fit_tokenizer
from nmt_keras.text.normalisation import in_blocks
from nmt_keras.text.subword import MAX_LINES

PAIRS_OF_SHARD = 100_000
MIN_SHARDS = 16  # an epoch shuffles by permuting the shards, so it needs several


def prepare(
    files: Sequence[Place | tuple[Place, Place]],
    folder: str | Path,
    source: TokenizerConfig,
    target: TokenizerConfig,
    filters: FilterConfig,
    *,
    source_column: int | str | None = None,
    target_column: int | str | None = None,
    reverse: bool = False,
    placeholders: bool = True,
    shards: int | None = None,
    max_malformed: float = 0.01,
    report: Callable[[str], None] = lambda _: None,
) -> PreparedCorpus:
    """Writes a prepared corpus into ``folder``.

    Args:
        files: Tables (see ``read_pairs``), or tuples of a source and a target file (see ``read_parallel``). They must
            not contain validation pairs.
        folder: Output folder, created if missing. Leftovers of an interrupted preparation are removed.
        source, target: Tokenizers of the two sides. Word tokenizers learn from all lines, other tokenizers from at most
            two million evenly spaced lines.
        filters: Filters that pairs must pass.
        source_column, target_column, reverse: Columns of tables; see ``Columns``.
        placeholders: If True, subword vocabularies have placeholders for words to copy (``text.placeholders``).
        shards: Number of shards to write, at most 512. One shard at a time is held in memory. ``None`` writes one per
            100,000 pairs, and at least 16.
        max_malformed: Maximum share (0 to 1) of malformed lines. Malformed lines are skipped.
        report: Function that receives messages for the user.

    Raises:
        FileExistsError: ``folder`` holds a prepared corpus.
        FileNotFoundError, ValueError: a file cannot be read, too many lines are malformed, an argument is out of range,
            the filters leave no pair, or another process writes ``folder``.
        OSError: ``folder`` cannot be written.
    """
    require(len(files) > 0, "files", "at least one file of sentence pairs", list(files))
    require(shards is None or 1 <= shards <= MAX_SHARDS, "shards", f"1 to {MAX_SHARDS}", shards)
    folder = Path(folder)
    columns = Columns(source_column=source_column, target_column=target_column, reverse=reverse)
    sides = [each if isinstance(each, tuple) else (each,) for each in files]
    require_files(path for each in sides for path in each)
    names = ", ".join(" and ".join(map(str, each)) for each in sides)

    def pairs(found: ReadReport) -> Iterator[Pair]:
        return found.pairs(chain.from_iterable(stream_files(each, columns) for each in sides))

    with sole_writer(folder):
        require_new(folder)
        report("counting the pairs")
        found = ReadReport()
        count = sum(1 for _ in pairs(found))
        require_usable(found, names, max_malformed)
        shards = shards or min(max(-(-count // PAIRS_OF_SHARD), MIN_SHARDS), MAX_SHARDS)
        report(f"learning the vocabularies; {found}")
        remove_leftovers(folder)
        tokenizers = (
            fit_tokenizer(source, (pair.source for pair in pairs(ReadReport())), placeholders, count),
            fit_tokenizer(target, (pair.target for pair in pairs(ReadReport())), placeholders, count),
        )
        codec = Codec(*tokenizers)
        codec.learn_copying(islice(pairs(ReadReport()), 0, None, -(-count // MAX_LINES)))
        tokenizers[0].save(folder / "source")
        tokenizers[1].save(folder / "target")
        report("encoding")
        left_out = Counter[Rejection]()
        with TemporaryDirectory(prefix=SPILLED, dir=folder, ignore_cleanup_errors=True) as temporary:
            _spill(encoded(pairs(ReadReport()), codec, filters, left_out), Path(temporary), shards)
            report(f"writing {shards} shards")
            written = [
                write_shard(folder / shard_name(n, shards), _spilled(Path(temporary, f"{n}")), filters.drop_duplicates)
                for n in range(shards)
            ]
        complete(folder, names, next(pairs(ReadReport())), written, found, left_out, filters)
    prepared = PreparedCorpus(folder)
    report(f"{len(prepared):,} pairs prepared; skipped: {prepared.describe_skipped()}")
    if (share := (count - len(prepared)) / count) > MAX_LEFT_OUT:
        report(
            f"Warning: {share:.0%} of the pairs were skipped. To keep them, change FilterConfig.max_tokens, "
            "FilterConfig.max_ratio, FilterConfig.drop_identical or FilterConfig.drop_duplicates."
        )
    return prepared


def encoded(
    pairs: Iterable[Pair], codec: Codec, filters: FilterConfig, left_out: Counter[Rejection]
) -> Iterator[EncodedPair]:
    """Yields the pairs that pass the filters, as token ids. Counts skipped pairs by reason in ``left_out``."""
    for block in in_blocks(pairs):
        reasons = [reject_text(pair, filters) for pair in block]
        kept = [pair for pair, reason in zip(block, reasons, strict=True) if reason is None]
        left_out.update(filter(None, reasons))
        source, target, truncated = encode_pairs(codec, kept)
        for row, pair in enumerate(kept):
            if truncated[row] or max(len(source[row]), len(target[row])) > filters.max_tokens:
                left_out[Rejection.TOO_LONG] += 1
            else:
                yield EncodedPair(pair_key(pair), source[row], target[row])


def _spill(pairs: Iterable[EncodedPair], folder: Path, shards: int) -> None:
    """Writes the pairs of each shard into a temporary file, in the order of ``pairs``; ``_spilled`` reads it."""
    with ExitStack() as stack:
        stack.enter_context(writing(folder, LOST))
        files = [stack.enter_context((folder / str(number)).open("wb")) for number in range(shards)]
        for key, source, target in pairs:
            lengths = np.array([len(source), len(target)], np.int32)
            files[shard_of(key, shards)].write(key + np.concatenate([lengths, source, target]).tobytes())


def _spilled(path: Path) -> Iterator[EncodedPair]:
    """Yields the pairs of a temporary file from ``_spill``."""
    with path.open("rb") as file:
        while key := file.read(16):
            source, target = np.frombuffer(file.read(8), np.int32)
            ids = np.frombuffer(file.read(4 * int(source + target)), np.int32)
            yield EncodedPair(key, ids[:source], ids[source:])
