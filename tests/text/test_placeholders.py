"""Names, numbers and addresses are copied; sentences in capitals are read in lower case."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.typed_text import sentences_to_copy
from nmt_keras.config import TokenizerConfig
from nmt_keras.text import Codec, fit_tokenizer, load_tokenizer
from nmt_keras.text.placeholders import MAX_COPIED_BYTES, PLACEHOLDERS, SIGNS

SOURCES = ["Tom vive en Boston con María.", "Mi amigo vive en casa, y yo no.", "El tren llega a las cinco."] * 3
TARGETS = ["Tom lives in Boston with Mary.", "My friend lives at home, and I do not.", "The train comes at five."] * 3
CONFIG = TokenizerConfig("subword", 340, max_tokens=60)


@pytest.fixture(scope="module")
def codec():
    return Codec(fit_tokenizer(CONFIG, SOURCES, placeholders=True), fit_tokenizer(CONFIG, TARGETS, placeholders=True))


def strings(tensor):
    return [text.decode() for text in tensor.numpy().tolist()]


def copies_of(codec, *sentences):
    """Returns the copied words of each sentence, in brackets if the model may translate them."""
    words, certain = codec.encode_source(tf.constant(sentences)).copies
    return [
        [word if is_certain else f"({word})" for word, is_certain in zip(strings(row), sure, strict=True) if word]
        for row, sure in zip(words, certain.numpy().tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("sentence", "copied"),
    [
        ("Vivo en Guadalajara.", ["(Vivo)", "Guadalajara"]),
        ("Tom vive en Boston.", []),  # known
        ("¿Vive Ximena aquí?", ["Ximena"]),
        ("Ximena vive aquí.", ["(Ximena)"]),  # capitalised because it begins the sentence
        ("Vive aquí. Ximena no.", ["(Ximena)"]),
        ("El amigo de O'Brien y de Jean-Pierre.", ["Brien", "Jean-Pierre"]),
        ("Mis 25 amigos y 3 casas.", ["(Mis)", "25"]),
        ("Cuesta 1.250,50 a las 10:30 el 12/05/2020.", ["(Cuesta)", "1.250,50", "10:30", "12/05/2020"]),
        ("Mi A4 y mi COVID-19.", ["A4", "COVID-19"]),
        ("Mi correo es ana.b@example.com.", ["ana.b@example.com"]),
        ("Lee https://example.com/a?b=1, www.x.es.", ["(Lee)", "https://example.com/a?b=1", "www.x.es"]),
        ("Y example.org.", ["example.org"]),
        ("Yo soy @ana_99 (no @).", ["@ana_99"]),
        ("y mi_archivo.txt, #nmt2024, ejemplo.es/ruta.", ["mi_archivo.txt", "#nmt2024", "ejemplo.es/ruta"]),
        ("el 3rd y las 5pm, él/ella, 5 %, -no", []),
        ("de 1 000 000 y 20€ y $5 a -5, +34 600 123 456.", ["1 000 000", "20€", "$5", "-5", "+34 600 123 456"]),
        ("y (https://example.org/España_(país)), #MadridRío.", ["https://example.org/España_(país)", "#MadridRío"]),
        ("de a1b2-c3 a 2001:db8::1, o.py, /etc/x, C:\\x.", ["a1b2-c3", "2001:db8::1", "o.py", "/etc/x", "C:\\x"]),
        ("el macOS de {name}, con %s y %1$d.", ["macOS", "{name}", "%s", "%1$d"]),
        ("", []),
        ("¡!", []),
    ],
)  # fmt: skip
def test_names_numbers_and_addresses_are_found(codec, sentence, copied):
    assert copies_of(codec, sentence) == [copied]


def test_a_sentence_of_copied_words_alone_has_no_words(codec):
    sentences = ["ana.b@example.com, 10:30.", "A4", "¿7?", "Ximena", "Es 10:30.", "Ω", ""]
    found = codec.encode_source(tf.constant(sentences)).has_words.numpy().tolist()
    assert found == [False, False, False, True, True, True, False]


def test_all_names_numbers_and_addresses_of_the_benchmark_are_found(codec):
    sentences = list(sentences_to_copy())
    assert len({text for text, _ in sentences}) == 200
    for (_, words), copied in zip(sentences, copies_of(codec, *(text for text, _ in sentences)), strict=True):
        assert all(part in " ".join(copied) for word in words for part in word.split())


def test_capitals_do_not_mark_names_in_a_language_that_capitalises_nouns():
    german = ["Der Mann sieht das Haus mit dem Garten.", "Die Frau liest der Tochter ein Buch vor."] * 3
    tokenizer = fit_tokenizer(CONFIG, german, placeholders=True)
    assert not tokenizer.known_words.capitals_mark_names
    assert copies_of(Codec(tokenizer, tokenizer), "Er sieht die Straßenbahn um 10:30.") == [["10:30"]]


def test_a_copied_word_is_written_as_in_the_source(codec):
    source = codec.encode_source(tf.constant(["Tom vive en Guadalajara, Ximena.", "Tom."]))
    target = codec.encode_target(tf.constant(["Tom lives in Guadalajara, Ximena.", "Tom in Guadalajara."]), source)
    first = codec.target_tokenizer.first_placeholder
    assert set(range(first, first + 2)) <= set(target.ids[0].numpy().tolist())
    texts, surfaces = codec.decode(target.ids[:, tf.newaxis], target.lengths[:, tf.newaxis], source)
    assert strings(texts[:, 0]) == ["Tom lives in Guadalajara, Ximena.", "Tom in Guadalajara."]
    assert "Guadalajara" in strings(surfaces[0, 0])
    assert "Guadalajara" in strings(source.tokens.surface[0])
    assert "".join(strings(target.surface[0])).replace("▁", " ").strip() == "Tom lives in Guadalajara, Ximena."


def test_only_words_of_both_sides_are_copied_in_training(codec):
    pairs = ("Vive en Londres y Lima.", "Ximena vive."), ("Lives in London and Lima.", "Shimena lives.")
    tokens = codec.encode_pairs(*map(tf.constant, pairs))
    first = codec.target_tokenizer.first_placeholder
    assert first == codec.source_tokenizer.first_placeholder
    copied = [
        [each for each in row if first <= each < first + PLACEHOLDERS] for side in tokens for row in side.ids.numpy()
    ]
    assert [len(each) for each in copied] == [1, 1, 1, 0]  # "Ximena" has a placeholder, which the target does not use
    assert copied[0] == copied[2]


def test_a_gpu_encodes_no_training_pairs(codec):
    text = tf.TensorSpec([None], tf.string)
    encode = tf.function(codec.encode_pairs, autograph=False).get_concrete_function(text, text)
    computed = [op for op in encode.graph.get_operations() if op.inputs and not op.type.startswith("Identity")]
    assert {op.device for op in computed} == {"/device:CPU:0"}


def test_training_sees_all_placeholders(codec):
    pairs = [f"Vive en Ciudad{chr(97 + i // 26)}{chr(97 + i % 26)}." for i in range(200)]
    source, target = codec.encode_pairs(tf.constant(pairs), tf.constant(pairs))
    for tokens, tokenizer in ((source, codec.source_tokenizer), (target, codec.target_tokenizer)):
        numbers = tokens.ids.numpy() - tokenizer.first_placeholder
        assert set(range(PLACEHOLDERS)) <= set(numbers.ravel().tolist())


def test_a_word_that_is_too_long_is_not_copied(codec):
    long = "9" * (MAX_COPIED_BYTES + 1)
    assert copies_of(codec, f"la {long} y {long[1:]}.") == [[long[1:]]]


def test_private_characters_of_a_user_are_no_placeholders(codec):
    tokens = codec.encode_source(tf.constant([f"Tom {SIGNS[0]}."])).tokens
    assert codec.source_tokenizer.first_placeholder not in tokens.ids.numpy()
    assert strings(tokens.text) == [f"Tom {SIGNS[0]}."]


def test_saved_tokenizers_copy_the_same_words(codec, tmp_path):
    codec.source_tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.known_words == codec.source_tokenizer.known_words
    assert loaded.first_placeholder == codec.source_tokenizer.first_placeholder


@pytest.mark.parametrize("kind", ["word", "subword"])
def test_a_sentence_in_capitals_is_read_in_lower_case_and_translated_in_capitals(kind):
    config = TokenizerConfig(kind, 340)
    codec = Codec(fit_tokenizer(config, SOURCES), fit_tokenizer(config, TARGETS))
    given = ["TOM VIVE EN CASA, Y YO NO.", "tom vive en casa, y yo no.", "Tom vive en casa, Y YO NO.", "Y", "ΕΛΛΆΔΑ"]
    source = codec.encode_source(tf.constant(given))
    ids = source.tokens.ids.numpy().tolist()
    assert ids[0] == ids[1] != ids[2]
    assert source.capitals.numpy().tolist() == [True, False, False, False, True]
    assert strings(source.tokens.text) == given
    assert "".join(strings(source.tokens.surface[0])).replace("▁", "").startswith("TOM")
    target = codec.encode_target(tf.constant(["MY FRIEND LIVES.", "my friend lives.", "My friend.", "Y", "no"]), source)
    texts, surfaces = codec.decode(target.ids[:, tf.newaxis], target.lengths[:, tf.newaxis], source)
    assert strings(texts[:2, 0])[0].upper() == strings(texts[:2, 0])[0]
    assert strings(surfaces[0, 0])[0].upper() == strings(surfaces[0, 0])[0]
    assert target.ids.numpy()[0].tolist() == target.ids.numpy()[1].tolist()


def test_a_target_keeps_its_case_unless_it_and_its_source_are_in_capitals(codec):
    pairs = [*map(tf.constant, (("Vivo en la TV.", "VIVO.", "VIVO EN LA TV."), ("OK.", "OK.", "Ok now.")))]
    _, tokens = codec.encode_pairs(*pairs)
    as_read = codec.target_tokenizer.encode(tf.constant(["OK.", "ok.", "Ok now."]))
    np.testing.assert_array_equal(tokens.ids, as_read.ids)
    surfaces = ["".join(row).replace("▁", "").replace(" ", "") for row in map(strings, tokens.surface)]
    assert surfaces == ["OK.", "OK.", "Oknow."]
