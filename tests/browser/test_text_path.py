"""The text path in JavaScript gives what the graph gives: tokens, copied words, sentences and translations."""

import base64
import json
import random
import re
import unicodedata
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ten_languages import PAIRS, decorated
from tiny import TINY_MODEL, randomise

from nmt_keras.browser.rules import javascript, text_rules
from nmt_keras.browser.weights import as_read, by_outputs, in_float16, to_safetensors
from nmt_keras.browser.writing import tokenizer_facts
from nmt_keras.config import SearchConfig, TokenizerConfig
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.export.rebuilding import Parts
from nmt_keras.export.signatures import signatures
from nmt_keras.io.sentences import MAX_SENTENCES, split
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import Codec, fit_tokenizer
from nmt_keras.text.placeholders import PLACEHOLDERS, SIGNS
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Decoded
from nmt_keras.translation.whole_texts import decode_texts

TEXTS = [
    *("", " ", "¡!", "🙂 👍🏽 🇪🇸 👨‍👩‍👧", "▁ ⁇ <pad> <0x41> \ufffd", f"a {SIGNS[0]} {SIGNS[7]} \U000f0008"),
    *("\ud800 x\udc00", "a\u00adb\u200bc\ufeff\x01\u202ed", "a\u200db \u0915\u094d\u200d\u0937 \ufe0fx"),
    *("a\u00a0\u3000\x85\u2028\tb\n", "e\u0301" + "\u0323\u0301" * 20, "x" + "\u0301" * 40, "ᄀ가가", "가각 ﬁ ½ ﷺ"),
    *("é" * 3000, "a" * 1279 + "é", "x " * 30, "漢" * 700, "1 " * 40, "http://" + "a(" * 300, "A" * 900 + "b"),
    *("HOLA TOM", "ISPARTA'DA İŞ", "İstanbul'da Işık", "GROẞE STRASSE", "STRAẞE ß", "ΟΔΥΣ ΣΑΣ.", "ꟀꝊ ꟗ", "ꟀꝊ", "5ª"),
    *("Tom vive en Boston, Ximena.", "Ximena vive. Vive Ximena.", "O'Brien y Jean-Pierre", "A4 y COVID-19, 5, 25"),
    *("1.250,50 a las 10:30 del 12/05/2020, 1 000 000", "+34 600 123 456, $5, -5, 20€, 3rd", "Vale 7.500. Vale 9.50"),
    *("ana.b@example.com https://x.es/(a)?b=1, www.x.es", "@ana_99 #nmt mi_a.txt a1b2-c3 C:\\x /etc/x x.es/ruta"),
    *("%s %d %1$s %5.2f %@ %(a)s %{b} %<c> %d% 5 %", "${x} #{x} {x} {0} {} {{ x }} {% if x %}", "%s {} %d {}%s{a}%d"),
    *('<a href="x y">Tom</a>&nbsp;y<br/>no &#160;', "**Tom** vive `x = 1`, ~~no~~ [no](https://x.es) ![x]"),
    *("<b>**x**</b>", "Привет, «世界» y ง o casa手机", "Привет!", "شقق ٧:٣٠ १२३", "de Madrid y Madrid", "en madrid"),
    *("%s %s %s y %s", "𝒜𝒷 Ⓐⓐ ⅷ ǅ ŉ", " ".join(f"Zx{number}" for number in range(12))),
]
"""Strings that reach every rule of a sentence."""

WHOLE_TEXTS = [
    *("", " ", "Hola.", "Hola. ¿Qué tal?", "Sr. Gómez, J. R. R. T. vive. Adiós", "z. B. so. Am 3. Mai. Und am 4. Ich."),
    *("# Título\n- uno\n- [x] dos\n1. tres\n> cita\n— ¿Sí?\n\n—No.", "你好！再见。「好。」他说。", "🙂 Hola. 🙂\n🙂"),
    *("  a\n\nb \r\n", "«Hola.» Dijo él... y se fue. Etc. Luego", "A. " * 40, "Uno dos. " * (MAX_SENTENCES + 3), "a.B"),
    *("د. أحمد. مرحبا؟ نعم", "x" * 70_000, "É. " * 30_000, "• uno • dos\u2028tres", "\x01a\x02. \x03B\x04. C"),
    *("p. 5, núm. 7. No. 8 S. 9 T.e. так", "Te quiero ❤️", "😀 Hola", "- Hola.", "# Título", "1. Abre la puerta."),
]
SCRIPTS = [
    *((0x20, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0x980), (0xE00, 0xE80), (0xF00, 0x1000), (0x10A0, 0x1100)),
    *((0x2010, 0x2070), (0x3040, 0x3100), (0x4E00, 0x5000), (0xAC00, 0xAD00), (0x1F300, 0x1F650)),
]
LATIN = [sentence for pair in sample_pairs()[:200] for sentence in pair] + TEXTS[-40:]
ALL = [sentence for pairs in PAIRS.values() for pair in pairs for sentence in pair]
KINDS = {
    "subword": (TokenizerConfig("subword", 700, max_tokens=20), LATIN, True),
    "character": (TokenizerConfig("character", 1000, max_tokens=80), ALL * 3, True),
    "subword without placeholders": (TokenizerConfig("subword", 700, max_tokens=40), LATIN, False),
}
pytestmark = pytest.mark.browser


def random_texts(count: int) -> list[str]:
    """Returns texts that have characters of several scripts, and parts of ``TEXTS``."""
    generator, texts = random.Random(69), []
    words = " ".join(TEXTS).split(" ")
    for _ in range(count):
        parts = generator.choices(words, k=generator.randrange(6))
        parts += [chr(generator.randrange(*generator.choice(SCRIPTS))) for _ in range(generator.randrange(12))]
        generator.shuffle(parts)
        text = generator.choice((" ", "", " ")).join(part for part in parts if len(part) < 50)
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cn")
        texts.append(text.upper() if generator.random() < 0.2 else text)
    return texts


def scalars(text: str) -> str:
    """Returns a text with U+FFFD in place of lone surrogates, which UTF-8 cannot have."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@cache
def codec(kind: str) -> Codec:
    config, lines, placeholders = KINDS[kind]
    found = Codec(*(fit_tokenizer(config, map(scalars, lines), placeholders) for _ in range(2)))
    prices = [(f"Vale {number}.500 en Madrid.", f"It is {number},500 in the city.") for number in range(1, 7)]
    found.learn_copying(prices)
    return found


def by_graph(codec: Codec, texts: list[str], ids: list[list[int]]) -> list[dict[str, Any]]:
    """Returns the tokens of each text, and the written ``ids``."""
    batch = tf.constant([*map(scalars, texts)])
    source = codec.encode_source(batch)
    shape = (len(texts), 1, len(ids[0]))
    written = codec.decode(tf.reshape(tf.constant(ids, tf.int32), shape), tf.fill(shape[:2], shape[2]), source)

    def tokens_of(tokens: Any) -> list[dict[str, Any]]:
        fields = zip(tokens.ids, tokens.surface, tokens.lengths, tokens.truncated, tokens.text, strict=True)
        names = ("ids", "surfaces", "truncated", "text")
        return [dict(zip(names, (row[:n], surface[:n], *others), strict=True)) for row, surface, n, *others in fields]

    def copies_of(words: list[str], texts: list[str], certain: list[bool]) -> list[dict[str, Any]]:
        found = zip(words, texts, certain, strict=True)
        return [{"word": word, "written": text, "certain": sure} for word, text, sure in found if word]

    source, written = tf.nest.map_structure(plain, (source, written))
    copies = source.copies and [copies_of(*row) for row in zip(*source.copies, strict=True)]
    return [
        {
            "source": {**tokens, "copies": found, "capitals": capitals, "hasWords": has_words},
            "decoded": {"text": text, "surfaces": surfaces},
        }
        for tokens, found, capitals, has_words, [text], [surfaces] in zip(
            tokens_of(source.tokens),
            copies or [None] * len(texts),
            source.capitals,
            source.has_words,
            *written,
            strict=True,
        )
    ]


def plain(tensor: tf.Tensor | None) -> list[Any] | None:
    """Returns the values of a tensor as lists, with strings decoded."""
    if tensor is None:
        return None
    array = tensor.numpy()
    return (np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object else array).tolist()


BY_ENGINE = """async ([{ rules, source, target }, texts, ids]) => {
  const { Rules } = await import("/text/rules.js");
  const { Codec } = await import("/text/codec.js");
  const codec = new Codec(new Rules(rules), source, target);
  return texts.map((text, row) => {
    const encoded = codec.encodeSource(text);
    return { source: encoded, decoded: codec.decode(ids[row], encoded) };
  });
}"""


def facts_of(codec: Codec) -> dict[str, Any]:
    """Returns what the engine gets of a codec."""
    facts = {"rules": text_rules(codec.source_tokenizer.known_words)}
    sides = {"source": codec.source_tokenizer, "target": codec.target_tokenizer}
    return json.loads(json.dumps(facts | {side: tokenizer_facts(each) for side, each in sides.items()}))


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_are_read_and_written_as_by_the_graph(engine, kind):
    texts = [*TEXTS, *ALL, *map(decorated, ALL), *map(str.upper, ALL), *random_texts(500)]
    generator, first = random.Random(7), codec(kind).target_tokenizer.first_placeholder
    choices = [(14, 268), (0, 4), (270, 400), (first, first + PLACEHOLDERS)][: 4 if first else 3]  # no byte 0
    ids = [[generator.randrange(*generator.choice(choices)) for _ in range(9)] for _ in texts]
    found = engine.evaluate(BY_ENGINE, [facts_of(codec(kind)), texts, ids])
    expected = by_graph(codec(kind), texts, ids)
    different = [each for each in zip(texts, expected, found, strict=True) if each[1] != each[2]]
    assert different == []


BY_SPLITTER = """async ([rules, texts]) => {
  const { Rules } = await import("/text/rules.js");
  const { translateSentences } = await import("/text/sentences.js");
  const translate = (text) => ({ text: text + (text.includes("你") ? "." : ""), truncated: text.includes("q") });
  return texts.map((text) => translateSentences(new Rules(rules), text, translate));
}"""


def test_texts_are_split_and_joined_as_by_the_graph(engine):
    def translate(text: tf.Tensor) -> Decoded:
        shown = tf.strings.regex_replace(text, "(?s)^.*你.*$", r"\0.")
        truncated = tf.strings.regex_full_match(text, "(?s).*q.*")
        return Decoded(shown, *[tf.zeros(tf.shape(text))] * 2, truncated, *[tf.zeros(tf.shape(text))] * 5)

    texts = [*WHOLE_TEXTS, *(" ".join(ALL[begin : begin + 9]) for begin in range(0, len(ALL), 9)), *random_texts(200)]
    texts += [". ".join(random_texts(200)[begin : begin + 5]) for begin in range(0, 200, 5)]
    found = engine.evaluate(BY_SPLITTER, [json.loads(json.dumps(text_rules(None))), texts])
    answers = zip(
        *(field.numpy().tolist() for field in decode_texts(translate, tf.constant([*map(scalars, texts)])).values()),
        strict=True,
    )
    for text, (translation, truncated, sentences), each in zip(texts, answers, found, strict=True):
        expected = {"text": translation.decode(), "truncated": truncated, "sentences": sentences}
        if sentences > 1:
            assert each == expected, text
        else:
            shown = each["sentence"] + "." * ("你" in each["sentence"])
            assert (each["sentences"], each["before"] + shown + each["after"]) == (sentences, translation.decode())
            written = [piece.sentence for piece in split(scalars(text)) if piece.sentence] or [each["sentence"]]
            assert written[0].startswith(each["sentence"])  # a text of too many bytes is cut


BY_TRANSLATOR = """async ([facts, weights, sentences, texts]) => {
  const { Translator } = await import("/translator.js");
  const translator = new Translator(facts, Uint8Array.from(atob(weights), (byte) => byte.charCodeAt(0)).buffer);
  return {
    align: sentences.map((sentence) => translator.translate("align", sentence)),
    beam: sentences.map((sentence) => translator.translate("beam", sentence)),
    text: texts.map((text) => translator.translateText(text)),
  };
}"""


def test_translations_are_those_of_the_signatures(engine):
    tokenizers = codec("subword").source_tokenizer, codec("subword").target_tokenizer
    model = build_model(TINY_MODEL, *(each.vocabulary_size for each in tokenizers))
    randomise(model, 7)
    search = SearchConfig(beam_size=3, length_normalisation="gnmt", coverage_beta=0.2, max_tokens=9)
    parts = Parts.of(ModelTranslator(*tokenizers, model), TINY_MODEL)
    rows = in_float16(by_outputs(parts.weights))
    served = signatures(parts._replace(weights=as_read(rows)).translator(search))
    sentences, texts = [text for text in TEXTS if len(text) < 300], [text for text in WHOLE_TEXTS if len(text) < 300]
    facts = {**facts_of(codec("subword")), "recipe": {"model": asdict(TINY_MODEL)}, "search": asdict(search)}
    weights = base64.b64encode(to_safetensors(rows)).decode()
    found = engine.evaluate(BY_TRANSLATOR, [facts, weights, sentences, texts])

    def outputs(name: str, inputs: list[str]) -> dict[str, Any]:
        return {key: plain(value) for key, value in served[name](tf.constant([*map(scalars, inputs)])).items()}

    one, many, whole = outputs("align", sentences), outputs("beam", sentences), outputs("text", texts)
    for row, (greedy, beam) in enumerate(zip(found["align"], found["beam"], strict=True)):
        length, width = one["target_lengths"][row], one["source_lengths"][row]
        hypothesis = {
            "text": one["translation"][row],
            "score": pytest.approx(one["score"][row], abs=1e-4),
            "logProb": pytest.approx(one["log_prob"][row], abs=1e-4),
            "tokens": one["target_tokens"][row][:length],
            "weights": [pytest.approx(line[:width], abs=1e-4) for line in one["alignment"][row][:length]],
        }
        tokens, truncated = one["source_tokens"][row][:width], one["truncated"][row]
        assert greedy == {"sourceTokens": tokens, "truncated": truncated, "hypotheses": [hypothesis]}
        ranked = zip(many["translations"][row][::-1], many["scores"][row][::-1], strict=True)  # the first of equals
        scores = {text: score for text, score in ranked if score > -1e30}
        assert {each["text"]: each["score"] for each in beam["hypotheses"]} == pytest.approx(scores, abs=1e-4)
        assert beam["hypotheses"][0]["text"] == many["translations"][row][0]
    answers = zip(*(whole[name] for name in ("translation", "truncated", "sentences")), strict=True)
    for (text, truncated, count), each in zip(answers, found["text"], strict=True):
        assert each["sentences"] == count
        assert count < 2 or each == {"text": text, "truncated": truncated, "sentences": count}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\p{Lu}\p{Han}\p{Yi}", r"[\p{Lu}][\p{Script=Han}][\p{Script=Yi}]"),
        (r"(?i:ßk)k", "(?:[ßẞ][Kk\u212a])k"),
        (r"[^\s\-a-c\x{1F1E6}]+", r"[^\t\n\f\r \u{2d}a-c🇦]+"),
        (r"a.{2,}\.{x}$", r"a[^\n]{2,}[\u{2e}][\u{7b}]x[\u{7d}]$"),
        (r"\b(?:\d|\x1f)*", r"\b(?:[\d]|[\u{1f}])*"),
    ],
)
def test_a_pattern_is_rewritten_for_another_engine(pattern, expected):
    assert javascript(pattern) == expected


@pytest.mark.parametrize("pattern", [r"\S", r"(?s).", r"\pL", r"[\p{L}-z]", r"(?P<a>x)", r"\z", r"(?=x)"])
def test_a_pattern_that_could_mean_something_else_is_refused(pattern):
    with pytest.raises(ValueError, match="known to mean the same"):
        javascript(pattern)
