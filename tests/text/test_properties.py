"""Properties of readers, normalisation, tokenizers, keys of sentences and sentence splitting, on generated text."""

import csv
import io
import json
import re
import unicodedata
from functools import cache
from itertools import chain

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ten_languages import PAIRS, decorated
from tensors import strings

from nmt_keras.config import TokenizerConfig
from nmt_keras.corpus import Pair, sentence_key
from nmt_keras.corpus.columns import Columns
from nmt_keras.corpus.reading import ReadReport, parse_table
from nmt_keras.io.lines import INVISIBLE, text_blocks
from nmt_keras.io.sentences import rejoin, split
from nmt_keras.text import Codec, WordTokenizer, fit_tokenizer
from nmt_keras.text.normalisation import BYTES_PER_TOKEN, normalise, normalise_lines
from nmt_keras.text.placeholders import SIGNS

quick = settings(derandomize=True, deadline=None, max_examples=60, database=None)
SENTENCES = [sentence for pairs in PAIRS.values() for pair in pairs for sentence in pair]
PLACEHOLDER = re.compile(f"[{SIGNS[0]}-{SIGNS[-1]}]")
AWKWARD = (
    "\ufeff\u200b\u00ad\u200d\ufe0f\u0301\u0338\u0e33\u093c\u05bc \t\u3000\u2028\x85\x1c\0\ufffd"
    "▁İıßẞΣςﬁ가각ᄀ𝒜🇪👍🏽\"'“”„.,;:!?。！؟।|"
)
characters = st.one_of(
    st.sampled_from(AWKWARD), st.sampled_from("".join(SENTENCES)), st.characters(exclude_categories=["Cs", "Cn"])
)
texts = st.one_of(
    st.text(characters, max_size=30),
    st.sampled_from(SENTENCES),
    st.builds(
        lambda sentence, noise, at: sentence[:at] + noise + sentence[at:],
        st.sampled_from(SENTENCES),
        st.text(characters, max_size=3),
        st.integers(0, 40),
    ),
)
lines = texts.map(lambda text: re.sub("[\r\n]", "", text))


def clean(text):
    return next(normalise_lines([text]))


def bare(text):
    """Returns the characters of a text that are neither spaces nor format characters."""
    return "".join(sign for sign in text.replace("▁", "") if unicodedata.category(sign) not in ("Cf", "Zs"))


class Trickle(io.BytesIO):
    """A stream whose reads return few bytes at a time."""

    def __init__(self, content, size):
        super().__init__(content)
        self.size = size

    def read1(self, size=-1):
        return super().read1(self.size)


# Readers


@quick
@given(st.lists(lines), st.sampled_from(["\n", "\r\n"]), st.integers(1, 9), st.booleans())
def test_lines_are_read_as_they_were_written_however_they_arrive(written, end, size, marked):
    content = "".join(f"{line}{end}" for line in written)
    assume(marked or not content.startswith("\ufeff"))
    stream = Trickle(("\ufeff" * marked + content).encode(), size)
    said = []
    found = [*chain.from_iterable(text_blocks(stream, "stream", said.append))]
    assert found == [line.replace("\0", "\ufffd") for line in written]
    assert bool(said) == ("\0" in content)


def table(rows, form):
    """Returns pairs as the bytes of a table."""
    text = io.StringIO(newline="")
    if form == "pairs.csv":
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)  # a row such as a;b,c has two readings
    else:
        text.write("".join(json.dumps(row) + "\n" if form == "pairs.jsonl" else "\t".join(row) + "\n" for row in rows))
    return text.getvalue().encode()


@pytest.mark.parametrize("form", ["pairs.tsv", "pairs.csv", "pairs.jsonl"])
@quick
@given(rows=st.lists(st.tuples(lines, lines), min_size=1))
def test_pairs_are_read_as_they_were_written(form, rows):
    rows = [row for row in rows if all(re.sub(INVISIBLE, "", side).strip() and "\t" not in side for side in row)]
    rows = [row for row in rows if "\0" not in "".join(row)]
    assume(not table(rows, form).startswith("\ufeff".encode()))
    report = ReadReport()
    found = parse_table(io.BytesIO(table(rows, form)), form, Columns(source_column=0, target_column=1))
    assert [row.pair for row in report.count(found)] == [Pair(*row) for row in rows]
    assert report.malformed == 0


# Normalisation, keys and sentences


@quick
@given(texts)
def test_normalised_text_is_stable_and_decoration_does_not_change_it(text):
    once = clean(text)
    assert clean(once) == once == unicodedata.normalize("NFC", once)
    assert not re.search(INVISIBLE, once)
    assert "  " not in once
    assert once == once.strip()
    assert clean(decorated(text)) == once
    assert sentence_key(once) == sentence_key(text) == sentence_key(decorated(text))


@quick
@given(texts, st.integers(1, 9))
def test_normalised_text_within_a_limit_is_valid_and_short(text, max_tokens):
    found = normalise(tf.constant([text * 9]), max_tokens)
    assert len(strings(found.text)[0].encode()) <= BYTES_PER_TOKEN * max_tokens
    assert found.cut.numpy()[0] or strings(found.text) == [clean(text * 9)]


@quick
@given(texts)
def test_a_key_has_no_case(text):
    for change in (str.upper, str.lower, str.title, str.swapcase, str.casefold):
        assert sentence_key(change(text)) == sentence_key(text)


@quick
@given(texts)
def test_sentences_and_gaps_are_the_text(text):
    pieces = split(text)
    sentences = [piece.sentence for piece in pieces if piece.sentence]
    assert "".join(piece.sentence + piece.gap for piece in pieces) == re.sub(INVISIBLE, "", text)
    assert bare(rejoin(pieces, sentences)) == bare(re.sub(INVISIBLE, "", text))
    decorated_sentences = [piece.sentence for piece in split(decorated(text)) if piece.sentence]
    assert list(normalise_lines(decorated_sentences)) == list(normalise_lines(sentences))


# Tokenizers


@cache
def codec(kind):
    config = TokenizerConfig(kind, 1200)
    return Codec(*(fit_tokenizer(config, SENTENCES, placeholders=True) for _ in range(2)))


@cache
def encode(kind):
    """Returns ``encode_source`` as a graph, which is faster than its operations one by one."""
    return tf.function(codec(kind).encode_source, [tf.TensorSpec([None], tf.string)], autograph=False)


@pytest.mark.parametrize("kind", ["subword", "character"])
@quick
@given(batch=st.lists(texts, min_size=1, max_size=3))
def test_pieces_give_back_any_text_and_do_not_depend_on_the_batch(kind, batch):
    tokenizer = codec(kind).source_tokenizer
    tokens, alone = tokenizer.encode(tf.constant(batch)), tokenizer.encode(tf.constant(batch[:1]))
    assert tokens.ids[0, : int(alone.lengths[0])].numpy().tolist() == alone.ids[0].numpy().tolist()
    for found, text, truncated in zip(strings(tokenizer.decode(tokens.ids)), batch, tokens.truncated, strict=True):
        assert truncated or found == PLACEHOLDER.sub("", clean(text)).replace("▁", " ")


@pytest.mark.parametrize("kind", ["subword", "word"])
@quick
@given(text=texts)
def test_surfaces_are_any_text_as_written(kind, text):
    tokens = encode(kind)(tf.constant([text, text.upper()])).tokens
    for written, surface, truncated in zip((text, text.upper()), tokens.surface, tokens.truncated, strict=True):
        expected = clean(written) if kind == "word" else PLACEHOLDER.sub("\ufffd", clean(written))
        assert truncated or bare("".join(strings(surface))) == bare(expected)


@quick
@given(texts)
def test_known_words_give_back_any_text_but_for_spaces(text):
    assume(bare(clean(text)))
    tokenizer = WordTokenizer.fit([text], TokenizerConfig("word", 1000, max_tokens=200))
    assert bare(strings(tokenizer.decode(tokenizer.encode(tf.constant([text])).ids))[0]) == bare(clean(text))
