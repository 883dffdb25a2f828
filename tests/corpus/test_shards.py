"""Prepared corpora: what is left out and counted, what the shards hold, and an order that can be entered anywhere."""

import json
import random
import resource
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, TINY_TEXT

from nmt_keras.config import FilterConfig, TokenizerConfig
from nmt_keras.corpus import preparing
from nmt_keras.corpus.batches import Position
from nmt_keras.corpus.filtering import Rejection, pair_key, reject_lengths, reject_text, shard_of
from nmt_keras.corpus.prefetching import prefetched
from nmt_keras.corpus.preparing import prepare, shards_for
from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.shards import (
    EncodedPair,
    PreparedCorpus,
    ShardedBatches,
    joined,
    read_shard,
    write_record,
    write_shard,
)
from nmt_keras.runs import Run
from nmt_keras.runs.training_data import PreparedSplit
from nmt_keras.text import fit_tokenizer, load_tokenizer

COLUMNS = {"source_column": 0, "target_column": 1}
FILTERS = FilterConfig(max_tokens=20, max_ratio=3.0)


def write(path, pairs, *more):
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs) + "".join(more), "utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(pairs, tmp_path_factory):
    """A hundred and twenty pairs in two files and four shards, and a few that do not belong there."""
    folder = tmp_path_factory.mktemp("prepared")
    unlike = [Pair("No", "one two three four five six seven"), Pair("No.", "No.")]
    files = [
        write(folder / "one.tsv", [*pairs[:70], *pairs[:5], *unlike]),
        write(folder / "two.tsv", [*pairs[70:], Pair("largo " * 22, "long")], "no tab\n"),
    ]
    return prepare(files, folder / "corpus", TINY_TEXT, TINY_TEXT, FILTERS, shards=4, **COLUMNS)


def decoded(corpus, sides):
    """The pairs that shards hold, as text."""
    texts = [load_tokenizer(corpus.folder / side) for side in ("source", "target")]
    columns = [
        [text.decode(tf.constant([row.tolist()])).numpy()[0].decode() for row in side]
        for text, side in zip(texts, sides, strict=True)
    ]
    return list(zip(*columns, strict=True))


# Filters


@pytest.mark.parametrize(
    ("source", "target", "truncated", "reason"),
    [
        (12, 4, False, None),
        (13, 5, False, Rejection.TOO_LONG),
        (12, 4, True, Rejection.TOO_LONG),
        (4, 13, False, Rejection.TOO_LONG),
        (10, 3, False, Rejection.RATIO),
        (3, 10, False, Rejection.RATIO),
        (9, 3, False, None),
    ],
)
def test_pairs_are_judged_by_their_lengths(source, target, truncated, reason):
    assert reject_lengths(source, target, truncated, replace(FILTERS, max_tokens=12)) == reason


def test_without_a_ratio_sides_may_differ_as_they_like():
    assert reject_lengths(12, 1, False, replace(FILTERS, max_ratio=None)) is None


def test_identical_sides_are_left_out_unless_they_are_wanted():
    assert reject_text(Pair("Tom", " Tom"), FILTERS) == Rejection.IDENTICAL
    assert reject_text(Pair("Tom", "tom"), FILTERS) is None
    assert reject_text(Pair("Tom", "Tom"), replace(FILTERS, drop_identical=False)) is None


def test_equal_pairs_and_no_others_share_a_key_and_so_a_shard():
    keys = {pair_key(Pair(*sides)) for sides in [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a", "b")]}
    assert len(keys) == 4
    assert {shard_of(key, 1) for key in keys} == {0}


# Preparing


def test_every_reason_is_counted(corpus):
    assert corpus.record["left_out"] == {
        "identical sides": 1, "more than max_tokens of filter or text on a side": 1, "sides too unlike in length": 1,
        "malformed lines": 1, "duplicate pairs": 5,
    }  # fmt: skip
    assert corpus.record["lines"] == 120 + 5 + 4
    assert len(corpus) == corpus.lengths[:, 2].sum() == 120


def test_the_shards_hold_every_pair_once(corpus, pairs):
    found = [pair for shard in range(4) for pair in decoded(corpus, corpus.read(shard))]
    assert len(found) == 120
    text = load_tokenizer(corpus.folder / "source")
    spelt = text.decode(text.encode(tf.constant([pair.source for pair in pairs])).ids).numpy()
    assert sorted(source for source, _ in found) == sorted(sentence.decode() for sentence in spelt)


def test_the_shards_are_the_same_whatever_the_order_of_the_lines(corpus, pairs, tmp_path):
    shuffled = random.Random(1).sample(pairs, len(pairs))
    for side in ("source", "target"):  # the vocabularies are the given ones
        assert load_tokenizer(corpus.folder / side).vocabulary_size <= TINY_TEXT.vocabulary_size
    one = prepare([write(tmp_path / "a", pairs)], tmp_path / "A", TINY_TEXT, TINY_TEXT, FILTERS, shards=3, **COLUMNS)
    other = prepare(
        [write(tmp_path / "b", shuffled)], tmp_path / "B", TINY_TEXT, TINY_TEXT, FILTERS, shards=3, **COLUMNS
    )
    for left, right in zip(one.files, other.files, strict=True):
        assert Path(left).read_bytes() == Path(right).read_bytes()


def test_a_preparation_that_was_interrupted_is_no_corpus_and_can_be_repeated(pairs, tmp_path):
    file, folder = write(tmp_path / "a.tsv", pairs), tmp_path / "corpus"

    def stop(sentence):
        if sentence.startswith("writing"):
            raise InterruptedError

    arguments = ([file], folder, TINY_TEXT, TINY_TEXT, FILTERS)
    with pytest.raises(InterruptedError):
        prepare(*arguments, **COLUMNS, shards=2, report=stop)
    with pytest.raises(FileNotFoundError, match=r"prepared\.json: expected a prepared corpus, found none"):
        PreparedCorpus(folder)
    assert len(prepare(*arguments, **COLUMNS, shards=2)) == 120
    assert {path.name for path in folder.iterdir()} == {
        "prepared.json", "source", "target", "train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord",
    }  # fmt: skip


def test_a_run_s_directory_is_not_prepared_into(pairs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"run: expected a new folder, received the directory of a run"):
        prepare([write(tmp_path / "a.tsv", pairs)], tmp_path / "run", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)


def test_a_preparation_that_was_interrupted_can_be_repeated_with_other_shards(pairs, tmp_path):
    file, folder = write(tmp_path / "a.tsv", pairs), tmp_path / "corpus"
    (folder / "source").mkdir(parents=True)
    (folder / "source" / "text.json").write_text("{}")  # which is there before any shard
    for name in ("train-00007-of-00009.tfrecord", "train-00008-of-00009.tfrecord.0a1b.partial", "mine.tfrecord"):
        (folder / name).write_bytes(b"")
    prepare([file], folder, TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS, shards=1)
    assert {path.name for path in folder.iterdir()} == {
        "prepared.json", "source", "target", "train-00000-of-00001.tfrecord", "mine.tfrecord",
    }  # fmt: skip


def test_shards_that_no_preparation_left_are_not_removed(pairs, tmp_path):
    file, folder = write(tmp_path / "a.tsv", pairs), tmp_path / "corpus"
    folder.mkdir()
    (folder / "train-00007-of-00009.tfrecord").write_bytes(b"somebody's")
    with pytest.raises(FileExistsError, match=r"received one with train-00007-of-00009\.tfrecord and no vocabulary"):
        prepare([file], folder, TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    assert [path.name for path in folder.iterdir()] == ["train-00007-of-00009.tfrecord"]


def test_too_many_malformed_lines_are_refused_before_anything_is_written(pairs, tmp_path):
    file = write(tmp_path / "a.tsv", pairs[:10], "no tab\n")
    with pytest.raises(ValueError, match=r"at most 1\.00% malformed lines in .*a\.tsv, received 9\.09%"):
        prepare([file], tmp_path / "corpus", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    assert not (tmp_path / "corpus").exists()


def test_filters_that_leave_nothing_are_refused(tmp_path):
    file = write(tmp_path / "a.tsv", [Pair("Tom", "Tom"), Pair("Sí, sí, sí.", "Yes.")])
    with pytest.raises(
        ValueError, match=r"a\.tsv, received ones that leave none: 1 identical sides, 1 sides too unlike"
    ):
        prepare([file], tmp_path / "corpus", TINY_TEXT, TINY_TEXT, replace(FILTERS, max_ratio=1.0), **COLUMNS)
    with pytest.raises(FileNotFoundError, match="expected a prepared corpus, found none"):
        PreparedCorpus(tmp_path / "corpus")


def sides(folder, name, pairs):
    """Two files whose lines correspond."""
    paths = folder / f"{name}.es", folder / f"{name}.en"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return paths


def test_two_files_whose_lines_correspond_are_prepared_as_a_table_of_them_is(pairs, tmp_path):
    table = write(tmp_path / "a.tsv", pairs)
    files = [
        sides(tmp_path, "one", pairs[:50]),
        write(tmp_path / "b.tsv", pairs[50:60]),
        sides(tmp_path, "two", pairs[60:]),
    ]
    whole = prepare([table], tmp_path / "A", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    parted = prepare(files, tmp_path / "B", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    assert parted.record == whole.record
    for left, right in zip(whole.files, parted.files, strict=True):
        assert Path(left).read_bytes() == Path(right).read_bytes()


def test_two_files_of_unequal_length_are_refused_before_anything_is_written(pairs, tmp_path):
    source, target = sides(tmp_path, "one", pairs)
    with source.open("a") as file:
        file.write("Uno más.\nY otro.\n")
    expected = rf"received 120 lines in {target} and 122 in {source}\. .*{source}:121 is the first without a partner"
    with pytest.raises(ValueError, match=expected):
        prepare([(source, target)], tmp_path / "corpus", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize(
    ("pairs", "shards"),
    [(1, 16), (1_600_000, 16), (1_600_001, 17), (12_000_000, 120), (51_200_000, 512), (90_000_000, 512)],
)
def test_a_shard_holds_a_hundred_thousand_pairs_unless_there_were_too_few_or_too_many(pairs, shards):
    assert shards_for(pairs) == shards


def test_there_are_as_many_shards_as_the_corpus_needs_unless_it_is_said(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "PAIRS_OF_SHARD", 6)
    file = write(tmp_path / "a.tsv", pairs)
    assert len(prepare([file], tmp_path / "A", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS).files) == 20
    assert len(prepare([file], tmp_path / "B", TINY_TEXT, TINY_TEXT, FILTERS, shards=3, **COLUMNS).files) == 3


def test_pieces_are_learnt_from_lines_taken_evenly_and_words_from_all(pairs, tmp_path, monkeypatch):
    learnt_from = {}

    def fit(config, lines):
        learnt_from[config.kind] = list(lines)
        return fit_tokenizer(TINY_TEXT, learnt_from[config.kind])

    monkeypatch.setattr(preparing, "MAX_LINES", 50)
    monkeypatch.setattr(preparing, "fit_tokenizer", fit)
    files = [write(tmp_path / "a.tsv", pairs[:70]), write(tmp_path / "b.tsv", pairs[70:])]
    prepare(files, tmp_path / "corpus", TokenizerConfig(kind="subword"), TINY_TEXT, FILTERS, **COLUMNS)
    assert learnt_from == {
        "subword": [pair.source for pair in pairs[::3]],  # 40 of 120: every second one were 60
        "word": [pair.target for pair in pairs],
    }


def test_two_attempts_at_one_shard_do_not_meet(tmp_path):
    """As a runner makes them, that starts a slow worker's work again on another."""
    path = str(tmp_path / "train-00000-of-00001.tfrecord")
    written = [EncodedPair(bytes([n]), np.array([n + 10, 3]), np.array([n + 20, 3])) for n in range(5)]

    def overtaken():
        yield from written[:2]
        reports.append(write_shard(path, written, True))
        yield from written[2:]

    reports = []
    reports.append(write_shard(path, overtaken(), True))
    assert reports[0] == reports[1]
    assert [row.tolist() for row in read_shard(path)[0]] == [[n + 10, 3] for n in range(5)]
    assert [each.name for each in tmp_path.iterdir()] == ["train-00000-of-00001.tfrecord"]


@contextmanager
def filling_disk():
    """What limits the size of files to so many bytes, until the end: the system refuses more, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_is_full_while_shards_are_written_is_told_and_leaves_no_litter(pairs, tmp_path):
    file, folder = write(tmp_path / "a.tsv", pairs), tmp_path / "corpus"
    arguments = ([file], folder, TINY_TEXT, TINY_TEXT, FILTERS)
    expected = (
        r"000-of-00002\.tfrecord: could not be written; .+\. [\d,]+ MiB are free\. Nothing was prepared\. Make room"
    )
    with filling_disk() as fill, pytest.raises(OSError, match=expected):
        prepare(*arguments, **COLUMNS, shards=2, report=lambda said: fill(600) if said.startswith("writing") else None)
    assert {path.name for path in folder.iterdir()} == {"source", "target"}
    assert len(prepare(*arguments, **COLUMNS, shards=2)) == 120


def test_a_disk_that_is_full_when_the_record_is_written_is_told(tmp_path):
    expected = r"prepared\.json: could not be written; .+ MiB are free\. Nothing was prepared\. Make room"
    with filling_disk() as fill:
        fill(60)
        with pytest.raises(OSError, match=expected):
            numbered(tmp_path, [0])


def test_a_folder_that_cannot_be_made_is_told_before_vocabularies_are_learnt(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "fit_tokenizer", lambda *_: pytest.fail("a vocabulary was learnt"))
    file = write(tmp_path / "a.tsv", pairs)
    with pytest.raises(OSError, match=r"a\.tsv/corpus: could not be written; Not a directory.*Nothing was prepared\."):
        prepare([file], file / "corpus", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)


def test_a_damaged_shard_and_a_missing_one_are_named(pairs, tmp_path):
    file = write(tmp_path / "a.tsv", pairs)
    corpus = prepare([file], tmp_path / "corpus", TINY_TEXT, TINY_TEXT, FILTERS, shards=2, **COLUMNS)
    path = Path(corpus.files[1])
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"train-00001-of-00002\.tfrecord: expected a whole shard"):
        corpus.read(1)
    path.unlink()
    with pytest.raises(ValueError, match=r"train-00001-of-00002\.tfrecord: expected a shard that .*json lists"):
        PreparedCorpus(tmp_path / "corpus")


# Order


def numbered(folder, sizes, length=lambda number: 2 + number % 5):
    """A prepared corpus whose pair i has the token i + 10 and END as its last; no text is needed to read it."""
    reports, number = [], 0
    for shard, size in enumerate(sizes):
        pairs = []
        for _ in range(size):
            ids = np.array([number + 10] * (length(number) - 1) + [3], np.int32)
            pairs.append(EncodedPair(number.to_bytes(16, "big"), ids, ids[-2:]))
            number += 1
        reports.append(write_shard(str(folder / f"{shard}.tfrecord"), pairs, True))
    for side in ("source", "target"):
        (folder / side).mkdir()
        (folder / side / "text.json").write_text('{"sha256": {}}')
    write_record(str(folder), reports, number, {}, {})
    return PreparedCorpus(folder)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    return numbered(tmp_path_factory.mktemp("numbers"), [13, 0, 7, 21, 12])


def batches_of(corpus, **fields):
    return ShardedBatches(corpus, **{"buckets": 2, "batch_size": 4, "pool_size": 10, "seed": 1, **fields})


def epoch_of(batches, epoch):
    found = []
    for position, batch in batches.iterate(Position(epoch, 0, 0)):
        if position.epoch != epoch:
            return found
        found.append((position, batch))
    return found


def pairs_of(batch):
    return (batch.source[: batch.pairs, 0] - 10).tolist()


@pytest.mark.parametrize("pool_size", [1, 10, 20, 53, 1000])
@pytest.mark.parametrize("batch_tokens", [None, 24])
def test_every_pair_is_seen_exactly_once_in_an_epoch(numbers, pool_size, batch_tokens):
    batches = batches_of(numbers, pool_size=pool_size, batch_tokens=batch_tokens)
    epoch = epoch_of(batches, 1)
    assert sorted(pair for _, batch in epoch for pair in pairs_of(batch)) == list(range(53))
    if batch_tokens is None:
        assert len(epoch) == len(batches)
    else:
        assert {batch.target.size for _, batch in epoch} == {24}


def test_an_epoch_can_be_entered_anywhere(numbers):
    batches = batches_of(numbers)
    whole = epoch_of(batches, 2)
    for number, (position, _) in enumerate(whole):
        for (place, batch), (wanted_place, wanted) in zip(
            islice(batches.iterate(position), 3), [*whole, *epoch_of(batches, 3)][number:], strict=False
        ):
            assert place == wanted_place
            np.testing.assert_array_equal(batch.source, wanted.source)
            np.testing.assert_array_equal(batch.target, wanted.target)


def test_entering_late_reads_only_the_shards_that_the_pool_lies_in(numbers, monkeypatch):
    reads, read = [], PreparedCorpus.read
    monkeypatch.setattr(PreparedCorpus, "read", lambda corpus, shard: reads.append(shard) or read(corpus, shard))
    next(iter(batches_of(numbers).pools(0, 5)))  # the last three pairs of 53
    assert len(reads) == 1
    list(batches_of(numbers).pools(0))
    assert len(reads) == 1 + 4  # each once, and the empty one never


def test_epochs_and_seeds_differ_and_pools_mix_the_pairs_of_a_shard(numbers):
    orders = [
        [pair for _, batch in epoch_of(batches, epoch) for pair in pairs_of(batch)]
        for batches, epoch in ((batches_of(numbers), 0), (batches_of(numbers), 1), (batches_of(numbers, seed=2), 0))
    ]
    assert len({tuple(order) for order in orders}) == 3
    first = next(batches_of(numbers).pools(0))[0]
    assert [row[0] for row in first] != sorted(row[0] for row in first)


def test_the_pairs_of_one_shard_meet_others_in_every_epoch(tmp_path):
    batches = batches_of(numbered(tmp_path, [40]))
    first_pools = {frozenset(int(row[0]) for row in next(batches.pools(epoch))[0]) for epoch in range(4)}
    assert len(first_pools) == 4


def test_shapes_are_those_of_all_lengths_and_counts_are_as_expected(numbers):
    batches = batches_of(numbers)
    assert max(shape.source for shape in batches.buckets) == 6
    assert sum(batches.bucket_counts(0).values()) == pytest.approx(len(batches), abs=6)
    for shape in batches.buckets:
        assert not batches.masked(shape).target.any()


def test_a_shard_without_pairs_gives_none(tmp_path):
    write_shard(str(tmp_path / "empty"), [], True)
    assert [len(side) for side in read_shard(str(tmp_path / "empty"))] == [0, 0]


def test_a_corpus_without_pairs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected pairs to train on, the filters left none"):
        batches_of(numbered(tmp_path, [0, 0]))


# Ahead of their use


def test_items_that_are_made_ahead_come_in_order_and_errors_in_their_turn():
    def items():
        yield from range(5)
        raise OSError("the disk is gone")

    ahead = prefetched(items(), 3)
    assert list(islice(ahead, 5)) == list(range(5))
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)
    assert list(prefetched(iter(range(7)), 3)) == list(range(7))


def test_no_more_is_made_ahead_than_allowed():
    made = []
    items = prefetched((made.append(i) or i for i in range(100)), 3)
    assert next(items) == 0
    items.close()
    assert len(made) <= 5


# Training


@pytest.mark.long
def test_a_run_trains_on_a_prepared_corpus_and_goes_on(corpus, pairs, tmp_path):
    recipe = replace(
        TINY_RECIPE,
        train=replace(TINY_RECIPE.train, steps=4, max_tokens=20, batch_tokens=120, checkpoint_every=2),
        search=replace(TINY_RECIPE.search, replaces_unknown=True),
    )
    reports = []

    def train(show):
        Run(tmp_path / "run", recipe).train(PreparedSplit("sample", corpus, pairs[:10]), reports.append, show)

    def stop(step, *_):
        if step == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(stop)
    train(lambda *_: None)
    assert "resuming at step 2 of 4" in reports
    assert any(r.startswith("120 pairs to train on; left out when they were prepared: 1 identical") for r in reports)
    assert reports[-1].startswith("unknown words are replaced by the source word")
    assert len(Run(tmp_path / "run").translator().translate(["No."])) == 1
    facts = json.loads((tmp_path / "run" / "corpus.json").read_text())
    assert facts["pairs"]["train"] == 120


def test_some_pairs_are_those_of_whole_shards_evenly_from_all(corpus):
    shards = [corpus.read(number) for number in range(len(corpus.files))]
    assert len(shards) > 2
    whole = corpus.read_some(10 * len(corpus))
    for side in (0, 1):
        np.testing.assert_array_equal(whole[side].flat, joined([shard[side] for shard in shards]).flat)
    source, target = corpus.read_some(2 * int(corpus.sizes.max()))
    assert len(source) == len(target) < len(corpus)
    np.testing.assert_array_equal(source[0], shards[0][0][0])
    np.testing.assert_array_equal(source[len(source) - 1], shards[-1][0][len(shards[-1][0]) - 1])


def test_a_recipe_that_the_corpus_was_not_prepared_for_is_refused(corpus, pairs, tmp_path):
    other = replace(TINY_RECIPE, source=replace(TINY_TEXT, lowercase=True))
    with pytest.raises(ValueError, match=r"source: expected the recipe's TokenizerConfig.*lowercase=True"):
        Run(tmp_path, other).train(PreparedSplit("sample", corpus, pairs[:10]), print, print)
    short = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, max_tokens=4))
    with pytest.raises(ValueError, match=r"TrainConfig\.max_tokens: expected at least \d+, the longest side"):
        Run(tmp_path, short).train(PreparedSplit("sample", corpus, pairs[:10]), print, print)
