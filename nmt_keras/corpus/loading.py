"""Loads the corpus that ``CorpusOptions`` describe: reads or downloads it, splits it, and attaches word alignments."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from nmt_keras.config import CorpusConfig, PairFilters, require
from nmt_keras.corpus.alignments import from_pharaoh
from nmt_keras.corpus.columns import Layout
from nmt_keras.corpus.download import PAIRS_URL, SPANISH_ENGLISH_SHA256, SPANISH_ENGLISH_URL, fetch_corpus
from nmt_keras.corpus.filtering import kept_rows
from nmt_keras.corpus.options import CorpusOptions, pair_code
from nmt_keras.corpus.reading import Corpus, Pair, collect, refuse, stream_files
from nmt_keras.corpus.sample import SAMPLE_FILE, SAMPLE_NAME
from nmt_keras.corpus.split import SET_NAMES, Side, SplitCorpus, group_names, repetitions, shuffle_pairs, split_pairs
from nmt_keras.io.lines import MAX_FILE_BYTES, read_lines

MAX_ALIGNMENT_BYTES = 4096  # of the alignment of a pair, on average: about 700 links

NO_FILTERS = PairFilters()

LARGE_GROUP = 0.2
"""Share of a corpus from which on a group of the split is reported."""


def load_corpus(
    options: CorpusOptions,
    config: CorpusConfig,
    folder: Path,
    report: Callable[[str], None],
    *,
    with_alignments: bool = False,
    filters: PairFilters = NO_FILTERS,
) -> SplitCorpus:
    """Reads a corpus and splits it into training, validation and test set.

    Args:
        options: Files and columns of the corpus. It must not be a prepared corpus.
        config: Number of pairs to use, and method of the split.
        folder: Folder for downloads.
        report: Function that receives messages for the user.
        with_alignments: If ``True``, the file ``options.alignments`` is also read.
        filters: Filters of validation and test sets that are split off the corpus. Those of files of their own are
            kept, and reported. Training filters the training set.

    Raises:
        CorpusUnavailable: the download failed.
        FileNotFoundError, ValueError: a file cannot be read, or a set of the split is empty.
    """
    require(
        options.prepared is None,
        "--prepared",
        "no prepared corpus",
        options.prepared,
        "Only nmt train supports prepared corpora.",
    )
    read = read_corpus(options, folder, report)
    layout = read.report.layouts[0] if read.report.layouts else Layout(*options.order)
    # The left column of a table, or the second of two files, names the groups. Swapped columns keep the same sets.
    is_table = len(options.corpus) < 2 or options.tables
    key_side: Side = "source" if (layout.source < layout.target) == is_table else "target"
    corpus = _parts(options, read.pairs[: config.first], config, key_side, filters, report)
    if options.alignments is None or not with_alignments:
        return corpus
    lines = _alignments(options.alignments, read.report.lines)
    line_of = {}
    for pair, (number, _, _) in zip(read.pairs, read.report.places, strict=True):
        line_of[id(pair)] = lines[number - 1]
        from_pharaoh(lines[number - 1], f"{options.alignments}:{number}", pair)
    return corpus._replace(alignments=[line_of[id(pair)] for pair in corpus.train])


def read_corpus(
    options: CorpusOptions,
    folder: Path,
    report: Callable[[str], None],
    uneven: Callable[[str], object] = refuse,
) -> Corpus:
    """Reads the files of a corpus, in order.

    Args:
        options, folder, report: See ``load_corpus``.
        uneven: Receives the error if one of two files has more lines. The lines that both have are then returned.
            By default, it is raised.

    Raises:
        CorpusUnavailable, FileNotFoundError, ValueError: see ``load_corpus``.
    """
    is_sample = options.corpus == (SAMPLE_NAME,)
    files = (str(SAMPLE_FILE),) if is_sample else options.corpus or (_downloaded(options, folder, report),)
    known = options.downloaded().of(english_first=is_sample)
    read = read_files(known, files, options.tables, report, uneven)
    if options.licence is not None:
        report(f"{options.name}: {options.licence}")
    return read


def load_pairs(options: CorpusOptions, files: Sequence[str], report: Callable[[str], None]) -> list[Pair]:
    """Returns all pairs of one table, or of two files whose lines correspond.

    Args:
        options: Columns of the files, and maximum share of malformed lines.
        files: One or two paths.
        report: Function that receives messages for the user.

    Raises:
        FileNotFoundError, ValueError: a file cannot be read.
    """
    return read_files(options, files, False, report).pairs


def _downloaded(options: CorpusOptions, folder: Path, report: Callable[[str], None]) -> str:
    if options.languages is not None:
        (code,) = {*map(pair_code, options.languages.split("-"))} - {"eng"}
        url = PAIRS_URL.format(code)
        source, target = options.languages.split("-")
        columns = options.downloaded()
        remedy = (
            f"{url.rpartition('/')[0]} lists the languages. The host refuses some programs: download the zip with a "
            f"browser, and pass --corpus {code}-eng.zip --source-column {columns.source_column} "
            f"--target-column {columns.target_column} --source-language {source} --target-language {target}."
        )
        return str(fetch_corpus(url, folder / "anki", None, remedy=remedy, report=report))
    return str(fetch_corpus(SPANISH_ENGLISH_URL, folder, SPANISH_ENGLISH_SHA256, report=report))


def read_files(
    options: CorpusOptions,
    files: Sequence[str],
    tables: bool,
    report: Callable[[str], None],
    uneven: Callable[[str], object] = refuse,
) -> Corpus:
    """Reads a table, two files whose lines correspond, or several ``tables``. For ``uneven``, see ``read_corpus``."""
    found = chain.from_iterable(
        stream_files(each, options, uneven) for each in ([(file,) for file in files] if tables else [files])
    )
    read = collect(found, " and ".join(files), options.max_malformed)
    report(f"{' and '.join(files)}: {len(read.pairs):,} pairs; {read.report}")
    return read


def _parts(
    options: CorpusOptions,
    pairs: Sequence[Pair],
    config: CorpusConfig,
    key_side: Side,
    filters: PairFilters,
    report: Callable[[str], None],
) -> SplitCorpus:
    """Returns the split of ``pairs``. If there are validation files, all ``pairs`` are training pairs."""
    if not options.valid:
        return _split(options.name, pairs, config, key_side, filters, report)
    valid = load_pairs(options, options.valid, report)
    test = load_pairs(options, options.test, report) if options.test else []
    corpus = SplitCorpus(options.name, pairs, valid, test, key_side)
    for option, held in (("--valid", corpus.valid), ("--test", corpus.test)):
        if seen := repetitions(held, corpus.train):
            report(
                f"{option}: {len(seen):,} of {len(held):,} pairs share a sentence with the training data, which "
                "inflates their scores."
            )
        for reason, count in kept_rows(held, filters)[1].items():
            report(f"{option}: {count:,} of {len(held):,} pairs are kept, although the filters skip {reason}.")
    return corpus


def _split(
    name: str,
    pairs: Sequence[Pair],
    config: CorpusConfig,
    key_side: Side,
    filters: PairFilters,
    report: Callable[[str], None],
) -> SplitCorpus:
    if config.split == "hashed-groups":
        names = group_names(pairs, key_side=key_side)
        parts = split_pairs(pairs, key_side=key_side, names=names)
    else:
        names = [getattr(pair, key_side) for pair in pairs]
        parts = shuffle_pairs(pairs, seed=config.seed, key_side=key_side)
    for group, size in Counter(names).most_common(1):
        if 1 < size >= LARGE_GROUP * len(pairs):
            inside = [pair for pair, one in zip(pairs, names, strict=True) if one == group]
            ((sentence, _),) = Counter(chain.from_iterable(inside)).most_common(1)
            (where,) = (SET_NAMES[part] for part, found in parts.items() if inside[0] in found)
            report(
                f"Warning: {size:,} of {len(pairs):,} pairs are one group of the split, because they share sentences "
                f"such as {sentence!r:.60}. All are in the {where}. Remove such pairs, or pass --valid and --test."
            )
    for part in ("valid", "test"):
        rows, skipped = kept_rows(parts[part], filters)
        parts[part] = [parts[part][row] for row in rows]
        for reason, count in skipped.items():
            report(f"{count:,} pairs of the {SET_NAMES[part]} skipped: {reason}")
    for part, found in parts.items():
        if not found:
            raise ValueError(
                f"{name}: expected pairs in every set, received none in the {SET_NAMES[part]} after splitting "
                f"{len(pairs):,} pairs. Use a larger corpus, or pass these sets as files with --valid and --test."
            )
    return SplitCorpus(name, parts["train"], parts["valid"], parts["test"], key_side)


def _alignments(path: str, expected: int) -> list[str]:
    """Returns the lines of an alignment file for a corpus with ``expected`` lines.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, or has fewer or more lines than the corpus.
    """
    lines = [*read_lines(path, MAX_FILE_BYTES + expected * MAX_ALIGNMENT_BYTES)]
    while len(lines) > expected and not lines[-1].strip():
        lines.pop()
    require(
        len(lines) == expected,
        "--alignments",
        f"a line for each of the {expected:,} lines of the corpus",
        f"{len(lines):,} lines",
        f"Check {path}.",
    )
    return lines
