"""Splits: no sentence occurs in two sets, and only a sentence's group decides its set."""

import hashlib
import unicodedata

import pytest

from nmt_keras.corpus import (
    Pair,
    evaluation_pairs,
    group_names,
    part_sha256,
    repetitions,
    sentence_key,
    shuffle_pairs,
    split,
    split_pairs,
)


def english_spanish(*sentences):
    return [Pair(source=spanish, target=english) for english, spanish in sentences]


@pytest.mark.parametrize(
    ("sentence", "key"),
    [
        ("¿Adónde vas?", "adonde vas"),
        ("  I'm — NOT_here!\n", "i m not here"),
        ("Señor N\u0303 Hà Nội", "senor n ha noi"),
        ("Ωδή Ёлка за\u0301мок n\u0308", "ωδη елка замок n"),
        ("ﬁne № ½", "fine no 1 2"),
        ("İstanbul", "istanbul"),
        ("Straße", "strasse"),
        ("日本、 語", "日本語"),  # a script without spaces
        ("ｶﾞ", unicodedata.normalize("NFD", "ガ")),
        ("हिन्दी, भाषा।", "हिन्दी भाषा"),
        ("नी\u200dल za\u00adpa\ufeff\x01\x7f", "नील zapa"),  # invisible characters
        ("e\u00ad\u0301l", "el"),  # between a letter and its accent
        ("GROẞ Işık IŞIK", "gross isik isik"),
        ("ᾳ ΑΙ ὁδός ΟΔΟΣ", "αι αι οδοσ οδοσ"),
        ("!\u200b\u2060?", "!?"),
        ("I ❤\ufe0f you", "i you"),
        (" ?  ! ", "? !"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\n", ""),
    ],
)
def test_a_key_keeps_letters_their_marks_and_digits_and_signs_if_there_is_nothing_else(sentence, key):
    assert sentence_key(sentence) == key
    assert sentence_key(unicodedata.normalize("NFD", sentence)) == key


@pytest.mark.parametrize(
    "different",
    [
        *("कल कुल", "தமிழ் தமிழி", "বাংলা বাংলি", "ಕನ್ ಕನಿ", "กี กู", "ລາວ ລິວ", "ខ្មែរ ខ្មុរ", "မြန်မာ မြန်မိ", "བོད བུད"),
        *("かいこく がいこく", "ハハ パパ", "كَتَبَ كُتُبْ", "שָׁר שִׁר", "እ ኡ", "... ?!", "😀 😂", "❤ 💔"),
    ],
)
def test_marks_of_other_scripts_and_signs_alone_tell_sentences_apart(different):
    one, other = different.split()
    assert sentence_key(one) != sentence_key(other)
    assert repetitions([Pair(one, "total")], [Pair(other, "tomorrow")]) == []


@pytest.mark.parametrize(
    ("sentences", "target_names", "source_names"),
    [
        (
            [("Go.", "Ve."), ("GO", "Vete"), ("Leave!", "¡Véte!"), ("Stop", "Para")],
            ["go", "go", "go", "stop"],
            ["ve", "ve", "ve", "para"],
        ),
        (  # the fourth pair joins two groups
            [("b", "uno"), ("c", "dos"), ("a", "tres"), ("c", "uno"), ("d", "dos")],
            ["b", "b", "a", "b", "b"],
            ["dos", "dos", "tres", "dos", "dos"],
        ),
        ([("no", "nada"), ("not", "no")], ["no", "not"], ["nada", "no"]),  # the same word in two languages
    ],
)
def test_pairs_that_share_a_sentence_on_either_side_form_one_group(sentences, target_names, source_names):
    pairs = english_spanish(*sentences)
    assert group_names(pairs, key_side="target") == target_names
    assert group_names(pairs, key_side="source") == source_names


def test_the_hash_of_the_group_s_name_chooses_the_part():
    pairs = english_spanish(*((f"Number {number}!", f"Número {number}") for number in range(500)))
    expected = {"train": [], "valid": [], "test": []}
    for pair in pairs:
        name = pair.target.lower().removesuffix("!")
        place = int.from_bytes(hashlib.sha256(name.encode()).digest()) / 2**256
        expected["test" if place < 0.03 else "valid" if place < 0.06 else "train"].append(pair)
    assert min(map(len, expected.values())) > 5
    assert split_pairs(pairs, key_side="target") == expected


def test_a_part_s_digest_is_that_of_its_sorted_lines():
    pairs = english_spanish(("b", "ñ"), ("a", "z"))
    digest = hashlib.sha256("a\tz\nb\tñ\n".encode()).hexdigest()
    assert part_sha256(pairs, key_side="target") == part_sha256(pairs[::-1], key_side="target") == digest


def test_a_large_part_is_evaluated_on_the_pairs_with_the_smallest_hash_in_both_directions(monkeypatch):
    monkeypatch.setattr(split, "MAX_EVALUATION_PAIRS", 2)
    pairs = english_spanish(("b", "ñ"), ("a", "z"), ("c", "x"))
    numbers = {pair: hashlib.sha256(f"{pair.target}\t{pair.source}\n".encode()).digest() for pair in pairs}
    largest = max(pairs, key=numbers.__getitem__)
    expected = [pair for pair in pairs if pair != largest]
    assert evaluation_pairs(pairs, key_side="target") == expected
    assert evaluation_pairs(expected, key_side="target") == expected
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    assert evaluation_pairs(turned, key_side="source") == [Pair(pair.target, pair.source) for pair in expected]


def test_an_empty_corpus_gives_empty_parts():
    assert split_pairs([], key_side="target") == {"train": [], "valid": [], "test": []}


def test_an_unknown_side_is_refused():
    with pytest.raises(ValueError, match=r"^key_side: .*'english'"):
        split_pairs(english_spanish(("a", "b")), key_side="english")


def test_repetitions_are_pairs_of_which_either_side_is_trained_on():
    train = [Pair("uno", "one"), Pair("dos", "two")]
    held = [Pair("¡Uno!", "single"), Pair("tres", "TWO."), Pair("tres", "three")]
    assert repetitions(held, train) == [0, 1]
    assert repetitions(held, []) == []


def test_shuffled_groups_keep_a_target_sentence_on_one_side_and_are_seeded():
    pairs = [Pair(f"fuente {i}", f"target {i // 3}") for i in range(300)]
    parts = shuffle_pairs(pairs, seed=1)
    assert {part: len(found) for part, found in parts.items()} == {"train": 240, "valid": 30, "test": 30}
    assert sum(len({pair.target for pair in found}) for found in parts.values()) == 100
    assert sorted(pair for found in parts.values() for pair in found) == sorted(pairs)
    assert shuffle_pairs(pairs, seed=1) == parts
    turned = shuffle_pairs([Pair(pair.target, pair.source) for pair in pairs], seed=1, key_side="source")
    assert {part: [Pair(*pair[::-1]) for pair in found] for part, found in turned.items()} == parts
    assert shuffle_pairs(pairs, seed=2) != parts
    with pytest.raises(ValueError, match="corpus: expected at least two different sentences, received 1"):
        shuffle_pairs(pairs[:3], seed=1)
