"""Batches: every pair occurs once in an epoch, and training can resume at any position."""

from itertools import combinations, islice, takewhile

import numpy as np
import pytest

from nmt_keras.config import END, FilterConfig, TokenizerConfig, TrainConfig
from nmt_keras.corpus import Pair
from nmt_keras.corpus.batches import (
    Batches,
    Bucket,
    Position,
    TokenLists,
    bucket_count,
    choose_buckets,
    prefetched,
    rows_by_bucket,
)
from nmt_keras.corpus.encoding import batch_pairs
from nmt_keras.corpus.reading import ReadReport
from nmt_keras.corpus.shards import EncodedPair, PreparedCorpus, ShardedBatches, complete, write_shard
from nmt_keras.text import fit_tokenizer


def corpus(size, longest_source, longest_target):
    """Returns both sides of a corpus. Each side of pair i repeats the token i + 10 and ends in END."""
    random = np.random.default_rng(1)
    lengths = [random.integers(2, longest + 1, size) for longest in (longest_source, longest_target)]
    return tuple(
        TokenLists(np.concatenate([[i + 10] * (n - 1) + [END] for i, n in enumerate(side)]), side) for side in lengths
    )


SOURCE, TARGET = corpus(53, 11, 9)
BUCKETS = choose_buckets(SOURCE.lengths, TARGET.lengths, 3)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The corpus of 53 pairs in five shards, one of them without pairs."""
    folder = tmp_path_factory.mktemp("numbers")
    pairs = iter([EncodedPair(i.to_bytes(16, "big"), SOURCE[i], TARGET[i]) for i in range(53)])
    shards = [write_shard(folder / f"{size}.tfrecord", islice(pairs, size), True) for size in (13, 0, 7, 21, 12)]
    for side in ("source", "target"):
        (folder / side).mkdir()
        (folder / side / "text.json").write_text('{"sha256": {}}')
    complete(folder, "numbers", Pair("Uno.", "One."), shards, ReadReport(53), {}, FilterConfig())
    return PreparedCorpus(folder)


@pytest.fixture(params=["in memory", "in shards"])
def batches_of(request, prepared):
    """A function that returns batches of the 53 pairs in three buckets and pools of 17 pairs."""

    def batches(batch_tokens=None, **fields):
        fields = {"pool_size": 17, "seed": 1, **fields}
        if request.param == "in shards":
            return ShardedBatches(prepared, buckets=3, batch_size=5, batch_tokens=batch_tokens, **fields)
        rows = rows_by_bucket(BUCKETS, 5, batch_tokens)
        return Batches(SOURCE, TARGET, batch_size=rows, buckets=BUCKETS, **fields)

    return batches


def epoch_of(batches, epoch):
    """Returns the batches of an epoch with their positions."""
    return list(takewhile(lambda each: each[0].epoch == epoch, batches.iterate(Position(epoch, 0, 0))))


def pairs_of(batch):
    return (batch.source[: batch.pairs, 0] - 10).tolist()


def order_of(batches, epoch):
    return [pair for _, batch in epoch_of(batches, epoch) for pair in pairs_of(batch)]


def bucket_of(batch):
    return Bucket(batch.source.shape[1], batch.target.shape[1])


@pytest.mark.parametrize(
    ("pairs", "minutes", "count"),
    [(100_000, None, 8), (100_000, 60.0, 8), (100_000, 4.0, 3), (5_082, 4.0, 3), (5_082, None, 5), (20, 1.0, 1)],
)
def test_a_short_training_and_a_small_corpus_have_few_buckets(pairs, minutes, count):
    config = TrainConfig(minutes=minutes, epochs=1.0 if minutes is None else None)
    assert bucket_count(config, pairs) == count


# Epochs


@pytest.mark.parametrize("pool_size", [1, 4, 10, 17, 20, 53, 1000])
@pytest.mark.parametrize("batch_tokens", [None, 24])
def test_every_pair_is_seen_exactly_once_in_an_epoch(batches_of, pool_size, batch_tokens):
    batches = batches_of(batch_tokens, pool_size=pool_size)
    assert batches.buckets == BUCKETS
    assert sorted(order_of(batches, 0)) == list(range(53))
    epoch = [batch for _, batch in epoch_of(batches, 0)]
    rows = rows_by_bucket(BUCKETS, 5, batch_tokens)
    assert all(len(batch.source) == len(batch.target) == rows[bucket_of(batch)] for batch in epoch)
    if batch_tokens is None or isinstance(batches, Batches):
        assert len(epoch) == len(batches)


def test_a_batch_holds_its_pairs_whole_and_masked_rows(batches_of):
    partial = 0
    for _, batch in epoch_of(batches_of(), 0):
        for ids, side in ((batch.source, SOURCE), (batch.target, TARGET)):
            for row, pair in enumerate(pairs_of(batch)):
                n = side.lengths[pair]
                assert ids[row, :n].tolist() == side[pair].tolist()
                assert not ids[row, n:].any()
        masked = 5 - batch.pairs
        assert batch.source[batch.pairs :, 0].tolist() == [END] * masked
        assert not batch.source[batch.pairs :, 1:].any()
        assert not batch.target[batch.pairs :].any()
        partial += masked > 0
    assert partial == 4  # 53 pairs are 3 pools of 17 and one of 2; none of these sizes is a multiple of 5


def test_the_order_is_a_pure_function_of_seed_and_epoch(batches_of):
    again = batches_of()
    order_of(again, 7)
    assert order_of(again, 2) == order_of(batches_of(), 2)
    orders = [order_of(again, 0), order_of(again, 1), order_of(batches_of(seed=2), 0)]
    assert len(set(map(tuple, orders))) == 3
    together = [{frozenset(pairs_of(batch)) for _, batch in epoch_of(again, epoch)} for epoch in (0, 1)]
    assert len(together[0] & together[1]) < len(together[0]) / 2


def test_training_can_resume_at_any_position(batches_of):
    batches = batches_of()
    whole = epoch_of(batches, 3) + epoch_of(batches, 4)
    for number, (position, _) in enumerate(whole):
        for found, wanted in zip(batches.iterate(position), whole[number:], strict=False):
            assert found[0] == wanted[0]
            np.testing.assert_array_equal(found[1].source, wanted[1].source)
            np.testing.assert_array_equal(found[1].target, wanted[1].target)


def test_a_batch_of_masked_rows_has_the_shape_of_its_bucket(batches_of):
    for bucket in BUCKETS:
        masked = batches_of().masked(bucket)
        assert (len(masked.source), bucket_of(masked)) == (5, bucket)
        assert (masked.pairs, masked.target.any()) == (0, False)


def test_the_pools_of_a_prepared_corpus_mix_the_pairs_of_a_shard(prepared):
    batches = ShardedBatches(prepared, buckets=3, batch_size=5, pool_size=10, seed=1)
    first = next(batches.pools(0))[0]
    assert [row[0] for row in first] != sorted(row[0] for row in first)
    assert sum(batches.pairs_of.values()) == 53
    batches.rows = dict(zip(batches.buckets, (53, 54, 55), strict=True))
    assert len(batches) == 3  # one of each bucket


def test_prefetched_items_come_in_order_and_errors_in_their_turn():
    def items():
        yield from range(5)
        raise OSError("the disk is gone")

    ahead = prefetched(items(), 3)
    assert list(islice(ahead, 5)) == list(range(5))
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


def test_the_paper_s_pool_of_1600_pairs_is_20_batches_of_80_which_hold_neighbouring_lengths():
    source, target = corpus(4800, 51, 51)
    buckets = choose_buckets(source.lengths, target.lengths, 12)
    batches = Batches(source, target, batch_size=80, buckets=buckets, pool_size=1600, seed=1)
    epoch = list(batches.epoch(0))
    for one, (_, other) in zip(epoch, epoch_of(batches, 0), strict=True):
        np.testing.assert_array_equal(one.source, other.source)
    assert [batch.pairs for batch in epoch] == [80] * 60
    for pool in (epoch[:20], epoch[20:40], epoch[40:]):
        in_order = sorted(batches.bucket_of[pair] for batch in pool for pair in pairs_of(batch))
        shapes = sorted((*batch.source.shape, *batch.target.shape) for batch in pool)
        assert shapes == sorted((80, buckets[b].source, 80, buckets[b].target) for b in in_order[79::80])


# Buckets


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_buckets_waste_the_fewest_positions_of_all_choices_in_two_orders(count, seed):
    random = np.random.default_rng(seed)
    source, target = random.integers(1, 10, 23), random.integers(1, 10, 23) * (1 + seed // 2)

    def least(order):
        sizes = np.unique(order)
        return min(positions(order, (*inner, sizes[-1])) for n in range(count) for inner in combinations(sizes[:-1], n))

    def positions(order, boundaries):
        total, below = 0, 0
        for boundary in boundaries:
            held = order <= boundary
            total += (held & (order > below)).sum() * (source[held].max() + target[held].max())
            below = boundary
        return total

    relative = np.maximum(source / source.mean(), target / target.mean()).round(9)
    buckets = choose_buckets(source, target, count)
    assert len(buckets) <= count
    assert buckets == sorted(buckets)
    first = [next(b for b in buckets if b.source >= s and b.target >= t) for s, t in zip(source, target, strict=True)]
    assert sum(b.source + b.target for b in first) == min(least(np.maximum(source, target)), least(relative))
    lengths, pairs = np.unique(np.stack([source, target]), axis=1, return_counts=True)
    assert choose_buckets(*lengths, count, pairs) == buckets


def test_token_positions_decide_the_rows_of_a_bucket():
    buckets = [Bucket(9, 4), Bucket(9, 7), Bucket(9, 30)]
    assert list(rows_by_bucket(buckets, 5, 24).values()) == [6, 3, 1]


# Borders


@pytest.mark.parametrize(("source", "target"), [(2, 1), (0, 0)])
def test_sides_of_different_length_or_without_pairs_are_refused(source, target):
    sides = [TokenLists(np.full(n, END), np.ones(n)) for n in (source, target)]
    with pytest.raises(ValueError, match=rf"source, target: .*received {source} and {target}"):
        Batches(*sides, batch_size=5, buckets=[Bucket(3, 3)], pool_size=17, seed=1)


def test_token_lists_return_their_sentences():
    lists = TokenLists(np.array([5, 6, 7, 8]), np.array([1, 0, 3]))
    assert [lists[row].tolist() for row in range(len(lists))] == [[5], [], [6, 7, 8]]
    taken = lists.take(np.array([2, 0]))
    assert [taken[row].tolist() for row in range(len(taken))] == [[6, 7, 8], [5]]
    assert len(lists.take(np.zeros(0, int))) == 0


# Pairs that are too long


@pytest.mark.parametrize(("long", "limit", "warned"), [(5, 40, False), (6, 40, True), (6, 3, True)])
def test_leaving_out_more_than_a_twentieth_of_the_pairs_is_warned_of_with_the_option(long, limit, warned):
    """The corpus has 100 pairs. ``long`` of them have 5 tokens on a side, one on the target side."""
    pairs = [Pair("a", "a b c d")] + [Pair("a b c d", "a")] * (long - 1) + [Pair("a", "a")] * (100 - long)
    text = fit_tokenizer(TokenizerConfig(kind="word", vocabulary_size=20, max_tokens=limit), ["a b c d"])
    said = []
    batch_pairs(pairs, (text, text), TrainConfig(max_tokens=3 if limit == 40 else 10), said.append)
    option = "TrainConfig.max_tokens" if limit == 40 else "TokenizerConfig.max_tokens"
    assert [option in line for line in said if line.startswith("Warning: ")] == [True] * warned
