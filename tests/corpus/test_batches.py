"""Batches: nothing is lost, nothing is seen twice, and any place of any epoch can be sought."""

from itertools import combinations

import numpy as np
import pytest

from nmt_keras.corpus.batches import Batches, Bucket, TokenLists, choose_buckets

PAD, END = 0, 3


def corpus(source_lengths, target_lengths):
    """Pair i has the token i + 10 on both sides, as often as its lengths say, and END."""
    return tuple(
        TokenLists(np.concatenate([[i + 10] * (n - 1) + [END] for i, n in enumerate(lengths)]), np.array(lengths))
        for lengths in (source_lengths, target_lengths)
    )


@pytest.fixture
def batches():
    random = np.random.default_rng(1)
    source, target = corpus(random.integers(2, 12, 53), random.integers(2, 10, 53))
    buckets = choose_buckets(source.lengths, target.lengths, 3)
    return Batches(source, target, batch_size=5, buckets=buckets, pool_size=17, seed=1)


def pairs_of(batch):
    return (batch.source[: batch.pairs, 0] - 10).tolist()


def assert_equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.source, other.source)
        np.testing.assert_array_equal(one.target, other.target)
        assert one.pairs == other.pairs


# Epochs


@pytest.mark.parametrize("pool_size", [1, 4, 17, 53, 1000])
def test_every_pair_is_seen_exactly_once_in_an_epoch(batches, pool_size):
    pools = Batches(batches.source, batches.target, batch_size=5, buckets=batches.buckets, pool_size=pool_size, seed=1)
    epoch = list(pools.epoch(0))
    assert sorted(pair for batch in epoch for pair in pairs_of(batch)) == list(range(53))
    assert len(pools) == len(epoch)


def test_each_epoch_puts_other_pairs_together(batches):
    first, second = ({frozenset(rows.tolist()) for rows in batches.order(epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 2


def test_a_batch_holds_its_pairs_whole_and_nothing_else(batches):
    for batch in batches.epoch(0):
        assert batch.source.shape[0] == batch.target.shape[0] == 5
        assert Bucket(batch.source.shape[1], batch.target.shape[1]) in batches.buckets
        for row, pair in enumerate(pairs_of(batch)):
            for ids, side in ((batch.source[row], batches.source), (batch.target[row], batches.target)):
                n = side.lengths[pair]
                assert ids[:n].tolist() == side[pair].tolist()
                assert not ids[n:].any()


def test_rows_that_are_missing_are_masked(batches):
    partial = [batch for batch in batches.epoch(0) if batch.pairs < 5]
    assert len(partial) == 4  # 53 pairs are 3 pools of 17 and one of 2, and none of them is a multiple of 5
    for batch in partial:
        assert batch.source[batch.pairs :, 0].tolist() == [END] * (5 - batch.pairs)
        assert not batch.source[batch.pairs :, 1:].any()
        assert not batch.target[batch.pairs :].any()


def test_the_order_is_a_pure_function_of_seed_and_epoch(batches):
    again = Batches(batches.source, batches.target, batch_size=5, buckets=batches.buckets, pool_size=17, seed=1)
    list(again.epoch(7))
    assert_equal(again.epoch(2), batches.epoch(2))


def test_epochs_and_seeds_differ(batches):
    other = Batches(batches.source, batches.target, batch_size=5, buckets=batches.buckets, pool_size=17, seed=2)
    orders = [
        [pair for batch in epoch for pair in pairs_of(batch)]
        for epoch in (batches.epoch(0), batches.epoch(1), other.epoch(0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


@pytest.mark.parametrize("begin", [0, 1, 6, 13, 14])
def test_an_epoch_can_be_entered_anywhere(batches, begin):
    assert_equal(batches.epoch(3, begin), list(batches.epoch(3))[begin:])


def test_a_pool_s_batches_are_sorted_by_length_and_permuted():
    source, target = corpus([2] * 40 + [9] * 40, [2] * 40 + [9] * 40)
    batches = Batches(source, target, batch_size=8, buckets=[Bucket(2, 2), Bucket(9, 9)], pool_size=80, seed=1)
    widths = [batch.source.shape[1] for batch in batches.epoch(0)]
    assert sorted(widths) == [2] * 5 + [9] * 5
    assert widths != sorted(widths)


def test_shape_counts_are_those_of_the_epoch(batches):
    buckets = [Bucket(batch.source.shape[1], batch.target.shape[1]) for batch in batches.epoch(4)]
    assert batches.bucket_counts(4) == {shape: buckets.count(shape) for shape in batches.buckets}


# Shapes


def test_two_clusters_of_lengths_get_a_shape_each():
    assert choose_buckets(np.array([3, 3, 20, 20]), np.array([4, 4, 18, 18]), 2) == [Bucket(3, 4), Bucket(20, 18)]


def test_no_more_shapes_than_lengths_are_made():
    assert choose_buckets(np.array([3, 3]), np.array([2, 2]), 8) == [Bucket(3, 2)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_shapes_waste_the_fewest_positions_of_all_choices(count, seed):
    random = np.random.default_rng(seed)
    source, target = random.integers(1, 10, 23), random.integers(1, 10, 23)
    longer = np.maximum(source, target)
    sizes = np.unique(longer)

    def positions(boundaries):
        total, below = 0, 0
        for boundary in boundaries:
            held = longer <= boundary
            total += (held & (longer > below)).sum() * (source[held].max() + target[held].max())
            below = boundary
        return total

    least = min(positions((*inner, sizes[-1])) for n in range(count) for inner in combinations(sizes[:-1], n))
    buckets = choose_buckets(source, target, count)
    assert len(buckets) <= count
    assert buckets == sorted(buckets)
    first = [next(s for s in buckets if max(s) >= n) for n in longer]  # a pair's shape holds its longer side
    assert sum(s.source + s.target for s in first) == least


# Borders


def batches_of(source, target, buckets):
    return Batches(source, target, batch_size=5, buckets=buckets, pool_size=17, seed=1)


def test_sides_of_different_length_are_refused():
    source, _ = corpus([2, 3], [2, 3])
    with pytest.raises(ValueError, match=r"source, target: expected two sides of one length.* received 2 and 1"):
        batches_of(source, source.take(np.array([0])), [Bucket(3, 3)])


def test_a_corpus_without_pairs_is_refused():
    nothing = TokenLists(np.zeros(0), np.zeros(0))
    with pytest.raises(ValueError, match=r"at least 1 pair"):
        batches_of(nothing, nothing, [Bucket(3, 3)])


def test_a_pair_that_fits_no_shape_is_refused_with_its_size():
    with pytest.raises(ValueError, match=r"buckets: .*a pair of 2 and 7 tokens"):
        batches_of(*corpus([2, 2], [3, 7]), [Bucket(9, 3), Bucket(9, 6)])


def test_token_lists_give_back_their_sentences():
    lists = TokenLists(np.array([5, 6, 7, 8]), np.array([1, 0, 3]))
    assert len(lists) == 3
    assert [row.tolist() for row in (lists[0], lists[1], lists[2])] == [[5], [], [6, 7, 8]]
    taken = lists.take(np.array([2, 0]))
    assert [row.tolist() for row in (taken[0], taken[1])] == [[6, 7, 8], [5]]
    assert len(lists.take(np.zeros(0, int))) == 0
