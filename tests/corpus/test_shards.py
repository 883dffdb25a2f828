"""Prepared corpora: filters and their counts, and the content of shards."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, TINY_TEXT, write_pairs, write_sides

from nmt_keras.config import FilterConfig, TokenizerConfig
from nmt_keras.corpus import preparing
from nmt_keras.corpus.filtering import Rejection, pair_key, reject_text
from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.shards import EncodedPair, PreparedCorpus, ShardedBatches, read_shard, write_shard
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


def test_a_damaged_shard_and_a_missing_one_are_named(pairs, tmp_path):
    corpus = prepare([write_pairs(tmp_path / "a.tsv", pairs)], tmp_path / "corpus", shards=2)
    path = Path(corpus.files[1])
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{path}: .*shard"):
        read_shard(corpus.files[1])
    path.write_bytes(b"")  # as after a copy onto a full disk
    with pytest.raises(ValueError, match=rf"^{path}: expected \d+ pairs, .*received 0"):
        list(ShardedBatches(corpus, buckets=1, batch_size=4, pool_size=50, seed=1).pools(0))
    path.unlink()
    with pytest.raises(ValueError, match=rf"{path}: expected a shard that .*json lists"):
        PreparedCorpus(corpus.folder)


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
