"""Prepared corpora: filters and their counts, the content of shards, and an order that can resume anywhere."""

import random
from collections import Counter
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, TINY_TEXT, write_pairs, write_sides

from nmt_keras.config import FilterConfig, TokenizerConfig
from nmt_keras.corpus import preparing
from nmt_keras.corpus.batches import Position, prefetched
from nmt_keras.corpus.filtering import Rejection, pair_key, reject_text
from nmt_keras.corpus.reading import Pair, ReadReport
from nmt_keras.corpus.shards import (
    EncodedPair,
    PreparedCorpus,
    ShardedBatches,
    complete,
    read_shard,
    write_shard,
)
from nmt_keras.io.files import sole_writer
from nmt_keras.runs import Run
from nmt_keras.runs.training_data import PreparedSplit
from nmt_keras.text import Codec, fit_tokenizer, load_tokenizer, subword, word
from nmt_keras.text.normalisation import normalise_lines

FILTERS = FilterConfig(max_tokens=20, max_ratio=3.0)


def prepare(files, folder, source=TINY_TEXT, filters=FILTERS, **fields):
    return preparing.prepare(files, folder, source, TINY_TEXT, filters, **fields)


def shard_bytes(corpus):
    return [Path(file).read_bytes() for file in corpus.files]


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def corpus(pairs, tmp_path_factory):
    """A corpus prepared from two files: 120 pairs in four shards. The filters skip the other pairs of the files."""
    folder = tmp_path_factory.mktemp("prepared")
    unlike = [Pair("No", "one two three four five six seven"), Pair("No.", "No.")]
    files = [
        write_pairs(folder / "one.tsv", [*pairs[:70], *pairs[:5], *unlike]),
        write_pairs(folder / "two.tsv", [*pairs[70:], Pair("largo " * 22, "long " * 22)], "no tab\n"),
    ]
    return prepare(files, folder / "corpus", shards=4)


# Filters


def test_a_ratio_counts_words_and_signs_and_the_end_of_the_sentence():
    pair, equal = Pair("¿Sí?", "Is it really so, my friend?"), Pair("我来了", "I am here now")
    assert reject_text(pair, replace(FILTERS, max_ratio=2.2)) == Rejection.RATIO  # 9 : 4
    assert [reject_text(pair, replace(FILTERS, max_ratio=ratio)) for ratio in (2.3, None)] == [None, None]
    assert reject_text(equal, replace(FILTERS, max_ratio=1.25)) is None


def test_identical_sides_may_differ_in_spaces_but_not_in_case():
    assert [reject_text(Pair("Tom", other), FILTERS) for other in (" Tom", "tom")] == [Rejection.IDENTICAL, None]


def test_only_equal_pairs_share_a_key():
    assert len({pair_key(Pair(*sides)) for sides in [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a", "b")]}) == 4


def test_a_pair_is_too_long_if_the_tokenizer_cuts_either_side():
    cutting = fit_tokenizer(replace(TINY_TEXT, max_tokens=3), ["a b c d"])
    whole = fit_tokenizer(TINY_TEXT, ["a b c d"])
    for tokenizers, kept in [((whole, whole), 1), ((cutting, whole), 0), ((whole, cutting), 0)]:
        left_out = Counter()
        assert len(list(preparing.encoded([Pair("a b c d", "d c b a")], Codec(*tokenizers), FILTERS, left_out))) == kept
        assert left_out[Rejection.TOO_LONG] == 1 - kept


# Preparing


def test_every_reason_is_counted(corpus):
    assert corpus.record["left_out"] == {
        "identical sides": 1, "too many tokens on a side": 1, "ratio of lengths too large": 1,
        "malformed lines": 1, "duplicate pairs": 5,
    }  # fmt: skip
    assert corpus.record["lines"] == 120 + 5 + 4
    assert len(corpus) == corpus.lengths[:, 2].sum() == 120


def test_the_shards_hold_every_pair_once(corpus, pairs):
    texts = [load_tokenizer(corpus.folder / side) for side in ("source", "target")]

    found = [
        tuple(
            text.decode(tf.constant([side[row].tolist()])).numpy()[0].decode()
            for text, side in zip(texts, sides, strict=True)
        )
        for sides in map(read_shard, corpus.files)
        for row in range(len(sides[0]))
    ]
    spelt = [
        text.decode(text.encode(tf.constant(column)).ids).numpy()
        for text, column in zip(texts, zip(*pairs, strict=True), strict=True)
    ]
    assert sorted(found) == sorted((source.decode(), target.decode()) for source, target in zip(*spelt, strict=True))


def test_shards_depend_neither_on_the_order_of_lines_nor_on_the_form_of_files(pairs, tmp_path):
    shuffled = random.Random(1).sample(pairs, len(pairs))
    whole = prepare([write_pairs(tmp_path / "a", pairs)], tmp_path / "A")
    other = prepare([write_pairs(tmp_path / "b", shuffled)], tmp_path / "B")
    assert shard_bytes(other) == shard_bytes(whole)
    files = [
        write_sides(tmp_path / "one", pairs[:50]),
        write_pairs(tmp_path / "b.tsv", pairs[50:60]),
        write_sides(tmp_path / "two", pairs[60:]),
    ]
    parted = prepare(files, tmp_path / "C")
    assert parted.record == whole.record
    assert shard_bytes(parted) == shard_bytes(whole)


def test_the_source_comes_first_unless_the_preparation_is_reversed(pairs, tmp_path):
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    whole = prepare([write_pairs(tmp_path / "a", pairs)], tmp_path / "A", shards=2)
    for name, files in (("B", write_pairs(tmp_path / "b", turned)), ("C", write_sides(tmp_path / "c", turned))):
        assert shard_bytes(prepare([files], tmp_path / name, shards=2, reverse=True)) == shard_bytes(whole)


def test_an_interrupted_preparation_is_no_corpus_and_can_be_repeated_with_other_shards(pairs, tmp_path):
    file, folder = write_pairs(tmp_path / "a.tsv", pairs), tmp_path / "corpus"

    def stop(sentence):
        if sentence.startswith("writing"):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        prepare([file], folder, shards=2, report=stop)
    with pytest.raises(FileNotFoundError, match=r"prepared\.json"):
        PreparedCorpus(folder)
    for name in ("train-00007-of-00009.tfrecord", "train-00008-of-00009.tfrecord.0a1b.partial", "mine.tfrecord"):
        (folder / name).write_bytes(b"")
    assert len(prepare([file], folder, shards=1)) == 120
    assert names(folder) == {"prepared.json", "source", "target", "train-00000-of-00001.tfrecord", "mine.tfrecord"}


@pytest.mark.parametrize("name", ["prepared.json", "recipe.json", "train-00007-of-00009.tfrecord"])
def test_a_folder_with_other_content_is_refused_and_left_as_it_is(pairs, tmp_path, name):
    file, folder = write_pairs(tmp_path / "a.tsv", pairs), tmp_path / "taken"
    folder.mkdir()
    (folder / name).write_text("{}")
    with pytest.raises(FileExistsError, match=r"taken: expected a new folder"):
        prepare([file], folder)
    assert names(folder) == {name}


def test_a_second_preparation_ends_before_it_reads(pairs, tmp_path):
    file, said = write_pairs(tmp_path / "a.tsv", pairs), []
    with sole_writer(tmp_path / "out"), pytest.raises(ValueError, match="another process"):
        prepare([file], tmp_path / "out", report=said.append)
    assert said == []


def test_filters_that_skip_all_pairs_are_refused(tmp_path):
    file = write_pairs(tmp_path / "a.tsv", [Pair("Tom", "Tom"), Pair("Sí, sí, sí.", "Yes.")])
    with pytest.raises(ValueError, match=r"filters: .*a\.tsv.*1 identical sides, 1 ratio of lengths"):
        prepare([file], tmp_path / "corpus", filters=replace(FILTERS, max_ratio=1.0))
    assert not (tmp_path / "corpus" / "prepared.json").exists()


def test_pieces_are_learnt_from_evenly_spaced_lines_and_words_from_all(pairs, tmp_path, monkeypatch):
    learnt_from = []

    def recorded(lines):
        learnt_from.append(list(lines))
        return normalise_lines(learnt_from[-1])

    for module in (subword, word):
        monkeypatch.setattr(module, "normalise_lines", recorded)
    monkeypatch.setattr(subword, "MAX_LINES", 50)
    files = [write_pairs(tmp_path / "a.tsv", pairs[:70]), write_pairs(tmp_path / "b.tsv", pairs[70:])]
    prepare(files, tmp_path / "corpus", TokenizerConfig(kind="subword"))
    sources, targets = map(list, zip(*pairs, strict=True))
    assert learnt_from == [sources[::3], targets]  # every second line would be 60 lines, over the limit
    fit_tokenizer(TokenizerConfig(kind="subword"), sources)
    assert learnt_from[2] == sources[::3]


@pytest.mark.parametrize(("drop", "written"), [(True, 1), (False, 2)])
def test_equal_pairs_are_written_once_only_if_duplicates_are_dropped(tmp_path, drop, written):
    report = write_shard(tmp_path / "shard", [EncodedPair(b"k", np.array([3]), np.array([3]))] * 2, drop)
    assert (report.pairs, report.duplicates) == (written, 2 - written)


def test_a_damaged_shard_and_a_missing_one_are_named(tmp_path):
    corpus = numbered(tmp_path, [5, 5])
    path = Path(corpus.files[1])
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{path}: .*shard"):
        read_shard(corpus.files[1])
    path.unlink()
    with pytest.raises(ValueError, match=rf"{path}: expected a shard that .*json lists"):
        PreparedCorpus(tmp_path)


# Order


def numbered(folder, sizes, length=lambda number: 2 + number % 5):
    """Returns a prepared corpus whose pair i consists of the token i + 10 and END. Reading it needs no tokenizer."""
    reports, number = [], 0
    for shard, size in enumerate(sizes):
        pairs = []
        for _ in range(size):
            ids = np.array([number + 10] * (length(number) - 1) + [3], np.int32)
            pairs.append(EncodedPair(number.to_bytes(16, "big"), ids, ids[-2:]))
            number += 1
        reports.append(write_shard(folder / f"{shard}.tfrecord", pairs, True))
    for side in ("source", "target"):
        (folder / side).mkdir()
        (folder / side / "text.json").write_text('{"sha256": {}}')
    complete(folder, "numbers", Pair("Uno.", "One."), reports, ReadReport(number), {}, FILTERS)
    return PreparedCorpus(folder)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    return numbered(tmp_path_factory.mktemp("numbers"), [13, 0, 7, 21, 12])


def batches_of(corpus, **fields):
    return ShardedBatches(corpus, **{"buckets": 2, "batch_size": 4, "pool_size": 10, "seed": 1, **fields})


def epoch_of(batches, epoch):
    return list(takewhile(lambda each: each[0].epoch == epoch, batches.iterate(Position(epoch, 0, 0))))


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


def test_training_can_resume_at_any_position(numbers):
    batches = batches_of(numbers)
    whole, following = epoch_of(batches, 2), epoch_of(batches, 3)
    for number, (position, _) in enumerate(whole):
        for (place, batch), (wanted_place, wanted) in zip(
            islice(batches.iterate(position), 3), [*whole, *following][number:], strict=False
        ):
            assert place == wanted_place
            np.testing.assert_array_equal(batch.source, wanted.source)
            np.testing.assert_array_equal(batch.target, wanted.target)


def test_epochs_and_seeds_differ_and_pools_mix_the_pairs_of_a_shard(numbers):
    orders = [
        [pair for _, batch in epoch_of(batches, epoch) for pair in pairs_of(batch)]
        for batches, epoch in ((batches_of(numbers), 0), (batches_of(numbers), 1), (batches_of(numbers, seed=2), 0))
    ]
    assert len({tuple(order) for order in orders}) == 3
    first = next(batches_of(numbers).pools(0))[0]
    assert [row[0] for row in first] != sorted(row[0] for row in first)


def test_buckets_are_those_of_all_lengths(numbers):
    batches = batches_of(numbers)
    assert max(bucket.source for bucket in batches.buckets) == 6
    for bucket in batches.buckets:
        masked = batches.masked(bucket)
        assert masked.source.shape == (4, bucket.source)
        assert (masked.pairs, masked.target.any()) == (0, False)
    assert sum(batches.pairs_of.values()) == 53
    batches.rows = dict(zip(batches.buckets, (53, 54), strict=True))
    assert len(batches) == 2  # one of each bucket


# Prefetching


def test_prefetched_items_come_in_order_and_errors_in_their_turn():
    def items():
        yield from range(5)
        raise OSError("the disk is gone")

    ahead = prefetched(items(), 3)
    assert list(islice(ahead, 5)) == list(range(5))
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


# Training


@pytest.mark.parametrize(
    ("recipe", "field"),
    [
        (replace(TINY_RECIPE, source=replace(TINY_TEXT, lowercase=True)), "source: .*lowercase=True"),
        (replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, max_tokens=4)), r"TrainConfig\.max_tokens: "),
    ],
)
def test_a_recipe_that_the_corpus_was_not_prepared_for_is_refused(corpus, pairs, tmp_path, recipe, field):
    with pytest.raises(ValueError, match=field):
        Run(tmp_path, recipe).train(PreparedSplit("sample", corpus, pairs[:10]), print, print)
