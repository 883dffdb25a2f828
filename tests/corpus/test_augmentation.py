"""Variations of sentence pairs: as people type them, and with other names."""

import unicodedata
from functools import cache, partial
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from nmt_keras.config import TokenizerConfig, TrainConfig
from nmt_keras.corpus import Pair, varied_batches
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.batches import Batches, Bucket, Position
from nmt_keras.corpus.encoding import _token_links as token_links_of
from nmt_keras.corpus.encoding import batch_pairs, encode_pairs
from nmt_keras.corpus.varied_batches import VariedBatches
from nmt_keras.languages import without_accents
from nmt_keras.text import Codec, fit_tokenizer
from nmt_keras.text.normalisation import in_blocks

PAIRS = [
    Pair("¿Dónde está Tom, mi amigo de Boston?", "Where is Tom, my friend from Boston?"),
    Pair("Creo que Tom y Alice están bien.", "I think Tom and Alice are fine."),
    Pair("¡No!", "No!"),
]


def drawn(pair, count=400, share=1.0):
    augmentation, random = Augmentation(share, PAIRS), np.random.default_rng(1)
    return [varied for _ in range(count) if (varied := augmentation.draw(pair, random)) is not None]


def test_sentences_lose_case_accents_inverted_marks_and_punctuation():
    sources = {pair.source for pair in drawn(PAIRS[0])}
    assert "¿dónde está tom, mi amigo de boston?" in sources
    assert "dónde está tom, mi amigo de boston" in sources
    assert "donde esta tom mi amigo de boston" in sources
    assert any(source.startswith("¿Donde esta ") for source in sources)


def test_the_target_loses_its_final_punctuation_with_the_source_and_keeps_its_case():
    for source, target in drawn(PAIRS[0]):
        assert source.endswith("?") == target.endswith("?")
        assert target.startswith("Where is ")


def test_marks_before_a_closing_quote_end_a_sentence_too():
    for source, target in drawn(Pair('Dijo: "Hola."', 'He said, "Hello!"')):
        assert ("." in source) == ("!" in target)


def test_quotes_and_apostrophes_of_the_source_become_typographic():
    varied = drawn(Pair('"It\'s late", he said.', '"Es tarde", dijo.'))
    assert "“It’s late”, he said." in {pair.source for pair in varied}
    assert {pair.target.rstrip(".") for pair in varied} == {'"Es tarde", dijo'}


@pytest.mark.parametrize("sentence", ["Cuesta $5 o 90%, en C++.", "यह में है।", "ที่นี่", "A -5 °C."])
def test_signs_and_marks_that_belong_to_words_are_kept(sentence):
    kept = set("$%+-°") | {character for character in sentence if unicodedata.category(character)[0] == "M"}
    for source, _ in drawn(Pair(sentence, "x")):
        assert all(source.count(character) == sentence.count(character) for character in kept)


def test_names_of_both_sides_become_the_same_name():
    changed = [pair for pair in drawn(PAIRS[1]) if "Tom" not in pair.source and "tom" not in pair.source]
    assert len({pair.source for pair in changed}) > 5
    for source, target in changed:
        name = source.split()[2]
        assert name[0].isupper()
        assert target.split()[2] == name
        assert len(source.split()) <= len(PAIRS[1].source.split()) + 2  # a name is changed once


def test_most_names_become_full_names_and_some_keep_the_known_first_name():
    casa = Pair("La casa de Tom es roja.", "Tom's house is red.")
    varied = [pair for pair in drawn(casa) if "tom" not in pair.source]
    names = [pair.target.partition("'s")[0] for pair in varied]
    assert all(f"La casa de {name} es roja" in pair.source for name, pair in zip(names, varied, strict=True))
    full = [name.split() for name in names if " " in name]
    assert 0.65 < len(full) / len(names) < 0.85
    assert {"Alice", "Boston"} & {last for first, last in full if first == "Tom"}


def test_a_share_of_the_pairs_is_varied_and_none_becomes_blank():
    assert 60 < len(drawn(PAIRS[1], share=0.2)) < 100
    assert drawn(PAIRS[1], share=0.0) == []
    assert all(pair.source and pair.target for pair in drawn(PAIRS[2]))
    assert drawn(Pair("?!", "?!")) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("¿Qué pasó, señor?", "¿Que paso, senor?"),
        ("Ελλάδα й", "Ελλαδα и"),
        ("が हिन्दी", "が हिन्दी"),
        ("cafe\u0301", "cafe"),
        ("за\u0301мок n\u0308", "замок n"),  # no letter has these accents in NFC
    ],
)
def test_accents_are_dropped_in_scripts_where_they_are_accents(text, plain):
    assert without_accents(text) == plain


@cache
def tokenizers_of(placeholders):
    """Returns the tokenizers of both sides."""
    return tuple(
        fit_tokenizer(TokenizerConfig("subword", 330), side, placeholders) for side in zip(*PAIRS, strict=True)
    )


def batches_of(share):
    config = TrainConfig(batch_size=16, length_buckets=2, augmentation=share, max_tokens=40, pool_size=32)
    return batch_pairs(PAIRS * 20, tokenizers_of(share > 0), config, lambda _: None)


def test_variations_are_a_pure_function_of_seed_epoch_and_pair(monkeypatch):
    def rows(skipped=0):
        batches = batches_of(0.5)
        places = [place for place, _ in islice(batches.iterate(Position(1, 0, 0)), len(batches))]
        found = islice(batches.iterate(places[skipped]), len(batches) - skipped)
        return [(batch.source.tolist(), batch.target.tolist()) for _, batch in found]

    whole = rows()
    monkeypatch.setattr(varied_batches, "in_blocks", partial(in_blocks, size=7))
    for skipped in range(len(whole)):
        assert rows(skipped) == whole[skipped:]
    written = [batch.source.tolist() for _, batch in islice(batches_of(0.0).iterate(Position(1, 0, 0)), 4)]
    assert [source for source, _ in whole] != written


def given(pairs, variations, buckets, batch_size=4, max_tokens=80, links=None, seed=1):
    """Returns batches of four pairs as written and with given variations, and the tokenizers."""
    words = fit_tokenizer(TokenizerConfig("word", 50, max_tokens=max_tokens), ["a b c d e f ."])
    codec = Codec(words, words)
    source, target, _ = encode_pairs(codec, pairs)
    written = Batches(
        source,
        target,
        batch_size=batch_size,
        buckets=buckets,
        pool_size=4,
        seed=seed,
        links=None if links is None else token_links_of(pairs, links, codec),
    )
    augmentation = SimpleNamespace(draw=lambda pair, random: variations.get(pair))
    return written, VariedBatches(written, pairs, codec, augmentation, links), codec


def test_a_variation_longer_than_its_pair_is_trained_on_in_a_longer_bucket():
    short, long = Pair("a b", "a b"), Pair("b c d e a", "b c d e a")
    longer = {short: Pair("a b c d", "a b c d e")}
    _, varied, _ = given([short] * 2 + [long] * 2, longer, [Bucket(3, 3), Bucket(6, 6)], batch_size=2)
    found = [batch for _, batch in islice(varied.iterate(Position(0, 0, 0)), 2)]
    assert sorted(len(row[row > 0]) for batch in found for row in batch.source) == [5, 5, 6, 6]
    assert {batch.target.shape for batch in found} == {(2, 6)}


def test_a_variation_beyond_the_length_limit_is_not_trained_on():
    pair, longer = Pair("a b c", "a b c"), Pair("f e d c b a", "a")
    written, varied, _ = given([pair] * 4, {pair: longer}, [Bucket(4, 4)], max_tokens=4)
    _, found = next(varied.iterate(Position(0, 0, 0)))
    np.testing.assert_array_equal(found.source, written.batch(np.arange(4)).source)


def test_a_variation_keeps_the_links_of_its_words_unless_their_places_change():
    variations = {
        Pair("¿b c.", "e. d"): Pair("b c", "e d"),
        Pair("¿c b .", "d. e"): Pair("c c b", "d e"),
        Pair("c c.", "e. e"): None,
        Pair("b b.", "d. d"): Pair("b b b b b b b", "d d"),
    }
    pairs = list(variations)
    links = [frozenset(each) for each in ({(0, 1), (1, 0)}, {(0, 0)}, {(1, 1)}, {(0, 0), (1, 1)})]
    written, varied, codec = given(pairs, variations, [Bucket(6, 6)], links=links, seed=3)
    _, found = next(varied.iterate(Position(0, 0, 0)))

    def links_of(pair):
        ids, *_ = encode_pairs(codec, [pair])
        (place,) = [i for i, row in enumerate(found.source) if row[row > 0].tolist() == ids[0].tolist()]
        return np.argwhere(found.alignment[place]).tolist()  # of target and source tokens

    kept, longer, *as_written = map(links_of, [*filter(None, list(variations.values())[:2]), *pairs[2:]])
    assert kept == [[0, 1], [1, 0]]
    assert longer == []
    assert as_written == [np.argwhere(each).tolist() for each in written.batch(np.array([2, 3])).alignment[:2]]
    assert all(as_written)
