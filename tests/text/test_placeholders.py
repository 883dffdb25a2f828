"""Names, numbers and addresses are copied; sentences in capitals are read in lower case."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensors import strings

from nmt_keras.config import TokenizerConfig
from nmt_keras.io.markup import differing
from nmt_keras.text import Codec, fit_tokenizer, load_tokenizer, subword
from nmt_keras.text.placeholders import MAX_COPIED_BYTES, PLACEHOLDERS, SIGNS
from nmt_keras.text.tokens import read_files, write_record

SOURCES = ["Tom vive en Boston con María.", "Mi amigo vive en casa, y yo no.", "El tren llega a las cinco."] * 3
TARGETS = ["Tom lives in Boston with Mary.", "My friend lives at home, and I do not.", "The train comes at five."] * 3
CONFIG = TokenizerConfig("subword", 340, max_tokens=60)


@pytest.fixture(scope="module")
def codec():
    return Codec(fit_tokenizer(CONFIG, SOURCES, placeholders=True), fit_tokenizer(CONFIG, TARGETS, placeholders=True))


def copies_of(codec, *sentences):
    """Returns the copied words of each sentence, in brackets if the model may translate them."""
    words, _, certain = codec.encode_source(tf.constant(sentences)).copies
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
        ("y %5d, %.2f de %@ a %(name)s.", ["%5d", "%.2f", "%@", "%(name)s"]),
        ("%{name} ${x} {{ x }} {} {0} %d%%.", ["%{name}", "${x}", "{{ x }}", "{}", "{0}", "%d"]),
        ("10 % de 20%, 100%: 5 < 7 > 3.", ["10", "20", "100"]),
        ('<a href="x y">Tom</a>&nbsp;y<br/>no', ['<a href="x y">', "</a>", "&nbsp;", "<br/>"]),
        ("**Tom** vive `x = 1`, [no](https://x.es/{a})", ["**", "**", "`x = 1`", "[", "](https://x.es/{a})"]),
        ("de Привет, «世界» y ง o casa手机.", ["Привет", "世界", "ง"]),
        ("", []),
        ("¡!", []),
    ],
)  # fmt: skip
def test_names_numbers_and_addresses_are_found(codec, sentence, copied):
    assert copies_of(codec, sentence) == [copied]


def test_a_sentence_of_copied_words_or_in_another_script_has_no_words(codec):
    copied = ["ana.b@example.com, 10:30.", "A4", "¿7?", ""]
    foreign = ["(ง •̀_•́)ง", "Ω", "Привет!", "一 二 三 四 五 六 七 八 九 十 百."]
    others = ["Ximena", "Es 10:30.", "Ñ", "Ana, Привет"]
    found = codec.encode_source(tf.constant([*copied, *foreign, *others])).has_words.numpy().tolist()
    assert found == [False] * 8 + [True] * 4


def test_words_in_another_script_are_text_if_the_training_pairs_do_not_copy_them():
    words = [chr(letter) for letter in range(ord("α"), ord("ω"))]
    sources, targets = [f"{SOURCES[0]} {word}" for word in words], [f"{TARGETS[0]} letter" for _ in words]
    codec = Codec(*(fit_tokenizer(CONFIG, lines, placeholders=True) for lines in (SOURCES, TARGETS)))
    assert copies_of(codec, "el λόγος") == [["λόγος"]]
    codec.learn_copying(zip(sources, targets, strict=True))
    assert copies_of(codec, "el λόγος") == [[]]
    assert codec.encode_source(tf.constant(["λόγος"])).has_words.numpy().tolist() == [True]


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


def test_equal_words_have_placeholders_of_their_own_and_markup_stands_apart(codec):
    pair = ["%s y <b>Tom</b>: %s"], ["%s and <b>Tom</b>: %s"]
    source = codec.encode_source(tf.constant(pair[0]))
    target = codec.encode_target(tf.constant(pair[1]), source)
    first = codec.target_tokenizer.first_placeholder
    assert placeholders_of(codec, source.tokens) == placeholders_of(codec, target) == [[*range(first, first + 4)]]
    surfaces = "".join(strings(target.surface[0]))
    assert surfaces == "▁%s▁and▁<b>▁Tom▁</b>:▁%s"
    texts, _ = codec.decode(target.ids[:, tf.newaxis], target.lengths[:, tf.newaxis], source)
    assert strings(texts[:, 0]) == pair[1]


def test_positional_variables_keep_their_order_and_others_move(codec):
    source = codec.encode_source(tf.constant(["%s %d {a} {b}"]))
    first = codec.target_tokenizer.first_placeholder
    ids = tf.constant([[[first + 3, first + 1, first + 2, first, first, 3]]])
    texts, surfaces = codec.decode(ids, tf.constant([[6]]), source)
    assert strings(texts[0]) == ["{b}%s{a}%d%s"]  # a repeated one stays
    assert strings(surfaces[0, 0])[:4] == ["{b}", "%s", "{a}", "%d"]


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("%s, <b>has</b> {a} %d", []),
        ("{a}: %s <b>%d</b>", []),
        ("%d <b>%s</b> {a}", ["%s", "%d"]),
        ("%s %d <b>no</b>", ["{a}"]),
        ("%s %d <b>no</b> {a} {a}", ["{a}"]),
    ],
)
def test_lost_repeated_and_disordered_markup_is_found(translation, expected):
    assert differing("%s <b>tiene</b> %d {a}", translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Son 1.500, o 3,5.", "1,500, or 3.5.", []),
        ("Son 1.500, o 3,5 y 3,5.", "1,500, or 35.", ["3,5"]),
        ("Mira www.a.es/x, y ana@a.es.", "See www.a.es/x!", ["ana@a.es"]),
        ("Mira https://a.es/x?y=1.", "See https://a.es/x.", ["https://a.es/x?y=1"]),
        ("%1$s a las 5:30 &#160;", "%1$s at 5:40 &#160;", ["30"]),
        ("Hay dos perros.", "There are 2 dogs.", []),
    ],
)
def test_lost_numbers_and_addresses_are_found(source, translation, expected):
    assert differing(source, translation) == expected


def placeholders_of(codec, tokens):
    first = codec.target_tokenizer.first_placeholder
    return [[each for each in row if first <= each < first + PLACEHOLDERS] for row in tokens.ids.numpy()]


def test_training_reads_the_placeholders_of_translation_and_writes_those_of_the_target(codec):
    sources, targets = ["Vive en Londres y Lima.", "Ximena vive."], ["Lives in London and Lima.", "Shimena lives."]
    read, written = (placeholders_of(codec, each) for each in codec.encode_pairs(sources, targets))
    assert [len(each) for each in read] == [2, 1]
    assert written == [read[0][1:], []]
    as_translated = codec.encode_source(tf.constant(sources)).tokens
    assert [len(each) for each in placeholders_of(codec, as_translated)] == [2, 1]


FORMS = {
    "en_XX casa": "house", "fr_XX casa": "maison", "eng_Latn casa": "house", "fra_Latn casa": "maison",
    "2ES casa": "casa", "#medical casa": "ward", "#law casa": "court", "@law casa": "house", "L2 casa": "home",
    **{f"casa ٤{digit}": f"house 4{n}" for n, digit in enumerate("٠١٢٣٤٥")},
    **{f"son {n}.500 y {n}7 en 200{n}": f"are {n},500 and {n}7 in 254{n + 3}" for n in range(1, 7)},
    **{f"a las 1{n}:30 el 1{n}/0{n}/20 a{n}@x.org": f"at {n - 2}:30 on {n}/1{n}/2020 a{n}@x.org" for n in range(3, 8)},
}  # fmt: skip


@pytest.fixture(scope="module")
def taught():
    sides = [*FORMS] * 3 + SOURCES, [*FORMS.values()] * 3 + TARGETS
    taught = Codec(*(fit_tokenizer(CONFIG, side, placeholders=True) for side in sides))
    taught.learn_copying(zip(*sides, strict=True))
    return taught


@pytest.mark.parametrize(
    ("sentence", "copied"),
    [
        ("en_XX casa y fr_xx.", []),
        ("eng_Latn casa, fra_Latn #medical #law @law 2ES L2.", []),
        ("son 9.500 casas, 12.500, 1.250.000.", []),  # unseen numbers of a rewritten shape
        ("y 48 en 1998 y 2009.", ["48"]),
        ("y 48 o ٦٩, ٦٩٩.", ["48", "٦٩٩"]),  # each kind of digit is decided by itself
        ("a las 19:45 el 18/11/19.", []),
        ("a ana@example.org, #otro y mi_archivo.txt.", ["ana@example.org", "#otro", "mi_archivo.txt"]),
    ],
)  # fmt: skip
def test_forms_that_the_training_pairs_do_not_copy_are_text(taught, sentence, copied):
    assert copies_of(taught, sentence) == [copied]


def test_a_later_corpus_adds_to_what_is_not_copied(taught, tmp_path):
    taught.source_tokenizer.save(tmp_path)
    loaded = Codec(load_tokenizer(tmp_path), taught.target_tokenizer)
    loaded.learn_copying([("Vive ab-12@x.es, dom_1 casa.", "ab-12@x.es")] * 3)
    assert copies_of(loaded, "y dom_1 ab-12@x.es en_XX 19:45.") == [["(dom_1)", "ab-12@x.es"]]


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


def test_a_tokenizer_of_an_earlier_version_loads(codec, tmp_path):
    first = ("words", "capitals_mark_names")
    known = {name: each for name, each in codec.source_tokenizer.known_words._asdict().items() if name in first}
    codec.source_tokenizer.save(tmp_path)
    _, files = read_files(tmp_path, ["subword"], subword.MODEL_FILE)
    files[subword.KNOWN_WORDS_FILE] = json.dumps(known).encode()
    write_record(tmp_path, CONFIG, files)
    assert load_tokenizer(tmp_path).known_words == codec.source_tokenizer.known_words


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
