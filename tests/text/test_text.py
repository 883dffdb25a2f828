"""Tokenizers: encoding, limits, vocabularies and decoding of sentences with tokens that can be counted by hand."""

import itertools
import re
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tensors import strings
from tiny import contents

from nmt_keras.config import TokenizerConfig
from nmt_keras.io.lines import INVISIBLE
from nmt_keras.text import END, PAD, START, UNK, SubwordTokenizer, WordTokenizer, fit_tokenizer, load_tokenizer
from nmt_keras.text.word import word_keys

FAMILY = "👨‍👩‍👧"  # three emoji and two joiners, U+200D

CORPUS = [
    f"{opening}{subject} {verb} {thing}{closing}"
    for subject, verb, thing, (opening, closing) in itertools.product(
        ("Tom", "María", "el niño", "my sister", "grandma's dog"),
        ("wants", "come", "didn't see", "has bought"),
        ("3.50 apples", "una manzana", "the well-known house", "at 6:30"),
        (("", "."), ("¿", "?"), ("¡", "!"), ('"', '."')),
    )
]
NORMALISED = {
    "": "",
    " ": "",
    " a": "a",
    "a ": "a",
    "a  b": "a b",
    "  ¿¡Qué   tal?! ": "¿¡Qué tal?!",
    f"hola 😀 {FAMILY} 🇪🇸": f"hola 😀 {FAMILY} 🇪🇸",
    "日本語": "日本語",
    "1234567890": "1234567890",
    "<start> </s> <pad> <0x41>": "<start> </s> <pad> <0x41>",
    "a\tb\nc\x00d": "a b cd",
    "x\u00a0y\u2028z\ufeff": "x y z",
    "\ufffd": "\ufffd",
}
"""Awkward sentences, and their normalised text."""
KINDS = {
    "word": TokenizerConfig("word", 100, lowercase=True, strip_accents=True),
    "subword": TokenizerConfig("subword", 400),
    "character": TokenizerConfig("character", 400),
}


@pytest.fixture(scope="module")
def texts():
    return {name: fit_tokenizer(config, CORPUS) for name, config in KINDS.items()}


@pytest.fixture(scope="module", params=KINDS)
def text(request, texts):
    return texts[request.param]


@pytest.fixture(scope="module")
def subword(texts):
    return texts["subword"]


def written(text, sentence):
    """Returns the tokens of a sentence in the user's spelling, without END."""
    return strings(text.encode(tf.constant([sentence])).surface)[0][:-1]


def word_text(words, max_tokens=80, **rules):
    return WordTokenizer(
        ["<pad>", "<unk>", "<start>", "<end>", *words], TokenizerConfig("word", max_tokens=max_tokens, **rules)
    )


# All tokenizers


def test_a_sentence_is_cut_to_max_tokens_with_end_as_the_last():
    text = word_text(["a", "b", "c"], max_tokens=3)
    tokens = text.encode(tf.constant(["a", "a b", "a b c", "a b c a b c"]))
    assert tokens.ids.numpy().tolist() == [[4, END, PAD], [4, 5, END], [4, 5, END], [4, 5, END]]
    assert strings(tokens.surface)[3] == ["a", "b", ""]
    assert tokens.lengths.numpy().tolist() == [2, 3, 3, 3]
    assert tokens.truncated.numpy().tolist() == [False, False, True, True]


def test_pieces_without_room_for_the_end_are_cut_too():
    text = fit_tokenizer(TokenizerConfig("character", 300, max_tokens=3), ["ab"])
    tokens = text.encode(tf.constant(["a", "ab", "abb"]))  # two, three and four pieces: the space before a word is one
    assert tokens.lengths.numpy().tolist() == [3, 3, 3]
    assert tokens.truncated.numpy().tolist() == [False, True, True]


@pytest.mark.parametrize("damaged", [b"\xff\xfe", b"\xed\xa0\x80 Tom", b"a\xf0\x9f\x98"])
def test_invalid_utf8_becomes_replacement_characters(text, damaged):
    tokens = text.encode(tf.constant([damaged]))
    assert "\ufffd" in "".join(strings(tokens.surface)[0])
    assert tokens.ids.numpy()[0, -1] == END


def test_a_scalar_is_refused_before_any_kernel_sees_it(subword):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        subword.encode(tf.constant("Tom"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        tf.function(subword.encode, input_signature=[tf.TensorSpec(None, tf.string)])(tf.constant("Tom"))
    with pytest.raises(ValueError, match="rank"):
        tf.function(subword.encode)(tf.constant("Tom"))


def test_decode_stops_at_the_first_end_and_passes_over_padding_and_start(text):
    ids = text.encode(tf.constant(["Tom wants"])).ids[0].numpy().tolist()[:-1]
    rows = tf.ragged.constant([[START, *ids, END, *ids], [PAD, *ids, PAD, END, *ids], [END, *ids]]).to_tensor(PAD)
    expected = strings(text.decode(tf.constant([ids])))[0]
    assert expected.lower() == "tom wants"
    assert strings(text.decode(rows)) == [expected, expected, ""]


def test_decode_reads_no_more_than_lengths():
    text = word_text(["a", "b"])
    ids = tf.constant([[4, 5, 4], [4, 5, 4], [4, 5, 4]], tf.int64)
    assert strings(text.decode(ids, tf.constant([0, 2, 3]))) == ["", "a b", "a b a"]


@pytest.mark.long
@pytest.mark.parametrize("text", ["word", "subword"], indirect=True)
def test_eager_graph_and_reloaded_saved_model_agree(text, tmp_path):
    sentences = tf.constant([*NORMALISED, *CORPUS])

    class Echo(tf.Module):
        def __init__(self):
            self.text = text

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, sentences):
            tokens = self.text.encode(sentences)
            return {
                **tokens._asdict(),
                "decoded": self.text.decode(tokens.ids, tokens.lengths),
                "shown": self.text.surfaces(tokens.ids),
            }

    echo = Echo()
    tf.saved_model.save(echo, str(tmp_path), signatures=echo.__call__)
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]

    tokens = text.encode(sentences)
    eager = {**tokens._asdict(), "decoded": text.decode(tokens.ids), "shown": text.surfaces(tokens.ids)}
    for name, value in eager.items():
        assert echo(sentences)[name].numpy().tolist() == value.numpy().tolist(), name
        assert served(sentences)[name].numpy().tolist() == value.numpy().tolist(), name
    assert served(tf.constant([], tf.string))["ids"].shape == [0, 0]


def test_a_saved_text_loads_as_the_same_text(text, tmp_path):
    text.save(tmp_path / "source")
    loaded = load_tokenizer(tmp_path / "source")
    assert loaded.config == text.config
    sentences = tf.constant([*NORMALISED, *CORPUS])
    assert loaded.encode(sentences).ids.numpy().tolist() == text.encode(sentences).ids.numpy().tolist()
    assert strings(loaded.decode(text.encode(sentences).ids)) == strings(text.decode(text.encode(sentences).ids))


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_fitting_twice_gives_the_same_files(config, tmp_path):
    for name in ("once", "again"):
        fit_tokenizer(config, (line for line in CORPUS)).save(tmp_path / name)
    assert contents(tmp_path / "once") == contents(tmp_path / "again")


@pytest.mark.parametrize("lines", [[], ["", "  ", "\u00a0"]], ids=["none", "blank"])
@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_lines_without_a_word_are_refused_with_a_reason(config, lines):
    with pytest.raises(ValueError, match=r"lines.*none"):
        fit_tokenizer(config, lines)


def test_a_damaged_vocabulary_is_named_and_not_loaded(text, tmp_path):
    text.save(tmp_path)
    path = next(tmp_path.glob("*.model"), tmp_path / "vocabulary.txt")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=re.escape(path.name)):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"config": {}}',
        b'{"config": {"kind": "char"}, "sha256": {}}',
        b'{"config": {"k": 1}, "sha256": {}}',
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_record_is_named(tmp_path, content):
    (tmp_path / "text.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"text\.json") as caught:
        load_tokenizer(tmp_path)
    assert str(caught.value).count("Restore") == 1


def test_a_text_of_another_kind_is_refused(texts, tmp_path):
    texts["word"].save(tmp_path)
    with pytest.raises(ValueError, match="'word'"):
        SubwordTokenizer.load(tmp_path)


# Words


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Hello, world!", "Hello|,|world|!"),
        ("¿Qué tal?", "¿|Qué|tal|?"),
        ("¡No!", "¡|No|!"),
        ('"Sí", dijo.', '"|Sí|"|,|dijo|.'),
        ("It's 3.50, not 1,000.", "It's|3.50|,|not|1,000|."),
        ("at 6:30pm on 1/2/2018", "at|6:30pm|on|1/2/2018"),
        ("Don’t, o'clock, P'aquí", "Don’t|,|o'clock|,|P'aquí"),
        ("my parents' well-known house", "my|parents|'|well-known|house"),
        ("10:30 a.m. in the U.S. (EE.UU.)", "10:30|a.m.|in|the|U.S.|(|EE.UU.|)"),
        ("the 3rd, 90% of $5", "the|3rd|,|90|%|of|$|5"),
        ("wait... no--yes", "wait|.|.|.|no|-|-|yes"),
        (f"hi😀👍🏽{FAMILY}🇪🇸❤️", f"hi|😀|👍🏽|{FAMILY}|🇪🇸|❤️"),
        ("a\u00a0b\u2028c\td\ne\x00f\u200bg\ufeff\u3000h\x85i", "a|b|c|d|efg|h|i"),
        ("co\u00adoperate می‌خواهم", "cooperate|می‌خواهم"),
        ("e\u0301l", "\u00e9l"),
        ("19:30'da, ١٬٢٥٠٫٥", "19:30'da|,|١٬٢٥٠٫٥"),
        ("בתל־אביב צה״ל ג׳ון", "בתל־אביב|צה״ל|ג׳ון"),
        ("卡尔·马克思，好。", "卡尔·马克思|，|好|。"),
        ("a_b @home #1 <pad>", "a|_|b|@|home|#|1|<|pad|>"),
        (" \u00a0\u200b ", ""),
    ],
)
def test_words_are_cut_as_written(sentence, tokens):
    assert "|".join(written(word_text(["a"]), sentence)) == tokens


def test_nothing_but_white_space_and_invisible_characters_is_dropped():
    text = word_text(["a"], max_tokens=3_000)
    characters = re.sub(INVISIBLE, "", "".join(map(chr, range(0x20, 0x3000))))
    printable = [character for character in characters if character.isprintable() and not character.isspace()]
    sentences = [" ".join(printable[start : start + 1_000]) for start in range(0, len(printable), 1_000)]
    kept = {character for sentence in sentences for token in written(text, sentence) for character in token}
    assert set(unicodedata.normalize("NFC", "".join(printable))) - kept == set()


def test_only_letters_of_cased_scripts_lose_their_accents():
    words = ["Ñandú", "Ёлка", "Ωδή", "Hà", "कुल", "น้ำ", "がく", "דָּנָה", "دُرّ", "❤\ufe0f"]
    keys = word_keys(tf.constant(words), TokenizerConfig("word", strip_accents=True))
    assert strings(keys) == ["Nandu", "Елка", "Ωδη", "Ha", *words[4:9], "❤"]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({}, 5),
        ({"lowercase": True}, 4),
        ({"strip_accents": True}, 7),
        ({"lowercase": True, "strip_accents": True}, 6),
    ],
)
def test_each_rule_of_the_key_stands_alone_and_the_surface_stays(rules, found):
    tokens = word_text(["niño", "Niño", "nino", "Nino"], **rules).encode(tf.constant(["Nin\u0303o"]))
    assert tokens.ids.numpy()[0, 0] == found
    assert strings(tokens.surface) == [["Niño", ""]]


def test_lower_casing_keeps_what_is_not_a_capital():
    # case folding would give "ss" and "no" instead
    text = word_text(["straße", "nº", "οδος", "i", "ışi"], lowercase=True)
    assert text.encode(tf.constant(["STRAßE Nº ΟΔΟΣ İ IŞİ"])).ids.numpy().tolist() == [[4, 5, 6, 7, 8, END]]


def test_an_unknown_word_is_unk_and_its_surface_stays():
    tokens = word_text(["hola"]).encode(tf.constant(["hola Zaragoza 😀"]))
    assert tokens.ids.numpy().tolist() == [[4, UNK, UNK, END]]
    assert strings(tokens.surface) == [["hola", "Zaragoza", "😀", ""]]


def test_the_vocabulary_is_ordered_by_count_then_code_point(tmp_path):
    WordTokenizer.fit(["b a c ñ b", "z ñ b"], TokenizerConfig("word", 8)).save(tmp_path)
    words = (tmp_path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert words == ["<pad>", "<unk>", "<start>", "<end>", "b", "ñ", "a", "c"]


def test_an_accent_alone_is_no_empty_entry_of_the_vocabulary():
    text = WordTokenizer.fit(["a \u0301"], TokenizerConfig("word", strip_accents=True))
    assert text.vocabulary_size == 5
    assert text.encode(tf.constant(["\u0301 a"])).ids.numpy().tolist() == [[UNK, 4, END]]


@pytest.mark.parametrize(
    "sentence",
    [
        "Hello, world!",
        "¿Qué tal? ¡Bien!",
        '"Sí", dijo. "No."',
        "He said: (wait); [no]...",
        "«Ven», dijo “ella”.",
        "my parents' house, o'clock",
        "the words 'small' and 'big'",
        "$5, 90%, 3.50 and/or 1,000 #1",
        "at 10:30 a.m. in the U.S.",
        '"Uno" "dos"',
        '" no',
        "„Ja“ und „Nein“, sagte er: „Gut!“",
        "“Yes” and “no”, he said.",
        "他说：“好！”她说“不”吗？",
        "「はい」と『本』（１）を、見た。",
        "״כן״, אמר ג׳ורג׳.",
        "هل، نعم؛ لا؟ ٩٠٪",
        "यह है। वह है॥",
    ],
)
def test_decoded_words_read_as_written(sentence):
    text = word_text([*dict.fromkeys(written(word_text(["a"]), sentence))])
    assert strings(text.decode(text.encode(tf.constant([sentence])).ids)) == [sentence]


# Pieces


def test_a_character_in_bytes_is_displayed_at_its_first_byte_on_both_sides(subword):
    tokens = subword.encode(tf.constant(["😀ü"]))
    assert strings(tokens.surface) == [["▁", "😀", "", "", "", "ü", "", ""]]
    assert strings(subword.surfaces(tokens.ids)) == strings(tokens.surface)


def test_bytes_that_form_no_character_stay_in_their_sentence(subword):
    smiley = subword.encode(tf.constant(["😀"])).ids.numpy()[0].tolist()  # ▁, four bytes, END
    tom = subword.encode(tf.constant(["Tom"])).ids.numpy()[0].tolist()[:-1]
    rows = [[*tom, smiley[1]], [smiley[2], *tom]]  # the second row begins in the middle of a character
    shown = strings(subword.surfaces(tf.constant(rows)))
    assert shown[0][-1] == "\ufffd"
    assert shown[1][0] == "\ufffd"
    assert strings(subword.decode(tf.constant(rows))) == ["Tom\ufffd", "\ufffd Tom"]


def test_pieces_are_those_of_the_sentencepiece_package(subword, tmp_path):
    subword.save(tmp_path)
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.model"))
    sentences = [*CORPUS, *NORMALISED.values()]
    tokens = subword.encode(tf.constant(sentences))
    rows = [row[: length - 1] for row, length in zip(tokens.ids.numpy().tolist(), tokens.lengths.numpy(), strict=True)]
    assert rows == reference.encode(sentences)
    assert subword.vocabulary_size == reference.get_piece_size()


def test_loading_pieces_prints_no_message(subword, tmp_path, capfd):
    subword.save(tmp_path)
    load_tokenizer(tmp_path).encode(tf.constant(["a"]))
    assert "normaliz" not in capfd.readouterr().err


def test_a_vocabulary_too_small_for_its_characters_is_refused_with_the_least_size():
    lines = ["hello world"]  # h e l o w r d and the space
    with pytest.raises(ValueError, match=r"vocabulary_size.*268.*267"):
        SubwordTokenizer.fit(lines, TokenizerConfig("subword", 267))
    assert SubwordTokenizer.fit(lines, TokenizerConfig("subword", 268)).vocabulary_size == 268


def test_lines_with_the_sign_that_sentencepiece_reserves_are_learnt_without_it():
    config = TokenizerConfig("subword", 290)
    text = SubwordTokenizer.fit(["carga \u2585\u2585 50 %", "\u2585", "la carga\u2585"], config)
    assert written(text, "carga") == ["\u2581carga"]


# Models of SentencePiece that others trained


def foreign_model(folder, kind, **options):
    """Trains a model with SentencePiece's own special entries, without bytes."""
    lines = (line.strip("¿?¡!") for line in CORPUS)
    options = {"vocab_size": 80, "hard_vocab_limit": kind == "bpe", "minloglevel": 2, **options}
    SentencePieceTrainer.train(sentence_iterator=lines, model_prefix=folder / "own", model_type=kind, **options)
    return str(folder / "own.model")


@pytest.mark.parametrize("placeholders", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("unigram", {}),
        ("bpe", {"normalization_rule_name": "identity", "pad_id": 3}),
        ("bpe", {"vocab_size": 400, "byte_fallback": True, "user_defined_symbols": ["<2en>"]}),
    ],
)
def test_a_foreign_model_divides_words_as_before_and_loses_nothing(tmp_path, kind, options, placeholders):
    path = foreign_model(tmp_path, kind, **options)
    theirs = SentencePieceProcessor(model_file=path)
    tokenizer = fit_tokenizer(TokenizerConfig("subword", 700, sentencepiece_model=path), CORPUS, placeholders)
    sentences = ["the well-known house", "Tom didn't come at 6:30"]
    surfaces = tokenizer.encode(tf.constant(sentences)).surface.numpy().tolist()
    assert [[piece.decode() for piece in row if piece] for row in surfaces] == theirs.encode(sentences, out_type=str)
    tokenizer.save(tmp_path / "saved")
    loaded = load_tokenizer(tmp_path / "saved")
    tokens = loaded.encode(tf.constant([*NORMALISED]))
    assert strings(loaded.decode(tokens.ids)) == [*NORMALISED.values()]
    assert not (tokens.ids.numpy() == UNK).any()
    assert (loaded.known_words is not None, loaded.first_placeholder) == (placeholders, 4 * placeholders)


@pytest.mark.parametrize(
    ("options", "size", "words"),
    [
        ({"normalization_rule_name": "nmt_nfkc_cf"}, 700, ["sentencepiece_model", "cased", "nmt_nfkc_cf"]),
        ({"treat_whitespace_as_suffix": True}, 700, ["sentencepiece_model", "space before words"]),
        ({}, 300, ["vocabulary_size", "at least", "300"]),
        (None, 700, ["sentencepiece_model", "a model file of SentencePiece", "own.model"]),
    ],
)
def test_a_foreign_model_that_does_not_fit_is_refused(tmp_path, options, size, words):
    path = foreign_model(tmp_path, "unigram", **options or {})
    if options is None:
        (tmp_path / "own.model").write_text("text", "utf-8")
    with pytest.raises(ValueError, match=".*".join(words)):
        fit_tokenizer(TokenizerConfig("subword", size, sentencepiece_model=path), CORPUS)


def test_only_subword_tokenizers_have_a_model_of_sentencepiece():
    with pytest.raises(ValueError, match=r"sentencepiece_model: expected none for word"):
        TokenizerConfig("word", 100, sentencepiece_model="own.model")
