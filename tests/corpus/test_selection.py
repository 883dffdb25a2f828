"""Data selection: the language model against its formula, and selections from corpora of two domains."""

import gzip
import random

import numpy as np
import pytest

from nmt_keras.corpus import read_pairs
from nmt_keras.corpus.reading import Fault
from nmt_keras.corpus.selection import EDGE, UNKNOWN, BigramModel, select, split_words

VOCABULARY = {"a", "b", "c"}
MODEL = BigramModel([["a", "b", "a"], ["a", "c"], ["b", "rare"]], VOCABULARY)


def test_bigrams_are_smoothed_by_witten_bell():
    # the model predicts 10 words: 3 a, 2 b, c, the unknown word, and 3 ends. Its vocabulary has 5 words.
    unigram = {"a": 4 / 15, "b": 3 / 15, "c": 2 / 15, UNKNOWN: 2 / 15, EDGE: 4 / 15}
    assert {word: MODEL.probability(word, "c") for word in ("a", EDGE)} == pytest.approx(
        {"a": unigram["a"] / 2, EDGE: (1 + unigram[EDGE]) / 2}  # c occurs once, before an end
    )
    # a is followed by b, c and an end, once each
    assert MODEL.probability("b", "a") == pytest.approx((1 + 3 * unigram["b"]) / (3 + 3))
    assert MODEL.probability(UNKNOWN, "a") == pytest.approx(3 * unigram[UNKNOWN] / (3 + 3))


@pytest.mark.parametrize("before", ["a", "b", "c", UNKNOWN, EDGE])
def test_the_probabilities_of_the_next_word_sum_to_1(before):
    assert sum(MODEL.probability(word, before) for word in (*VOCABULARY, UNKNOWN, EDGE)) == pytest.approx(1.0)


def test_the_cross_entropy_is_a_mean_over_the_words_and_the_end():
    steps = [(EDGE, "b"), ("b", UNKNOWN), (UNKNOWN, EDGE)]
    wanted = -np.mean([np.log(MODEL.probability(word, before)) for before, word in steps])
    assert MODEL.cross_entropy(["b", "never seen"]) == pytest.approx(wanted)


def test_words_are_lower_case_and_signs_stand_alone():
    assert split_words("L’ONU, «ici»: 3,5 %.") == ["l", "’", "onu", ",", "«", "ici", "»", ":", "3", ",", "5", "%", "."]
    assert split_words("我爱iPhone 15，ก็ดี") == ["我", "爱", "iphone", "15", "，", "ก็", "ดี"]
    assert split_words("मैं हिन्दी सीखता हूँ।") == ["मैं", "हिन्दी", "सीखता", "हूँ", "।"]


def test_sentences_of_scripts_without_spaces_are_told_apart_by_their_letters(tmp_path):
    news, law = ([f"{opening}{n}号" for n in range(40)] for opening in ("部长说今天", "根据本条第"))
    corpus = [write(tmp_path, "mixed", [[*news, *law]] * 2)]
    domain = [write(tmp_path, "dev", [["部长昨天说", "总统今天说", "部长说", "他昨天说"] * 3] * 2)]
    to = tmp_path / "selected.tsv.gz"
    assert select(corpus, domain, to, words=70) == 10
    assert {pair.source for pair in read_pairs(to, source_column=0, target_column=1).pairs} < set(news)


NEWS = ["the minister said", "the president said", "the match ended", "the police said", "voters said"]
LAW = ["annex to article", "pursuant to paragraph", "recalling resolution", "decides to remain seized", "annex iv of"]


def draw(openings, count, seed):
    """Returns lines of two languages. The second language spells the words backwards."""
    random_ = random.Random(seed)
    ends = ["on monday", "in the north", "of the year", "for the report"]
    lines = [f"{random_.choice(openings)} {random_.choice(ends)} {n % 7} ." for n in range(count)]
    return lines, [" ".join(word[::-1] for word in line.split()) for line in lines]


def write(folder, name, sides):
    paths = folder / f"{name}.en", folder / f"{name}.fr"
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return paths


@pytest.fixture
def files(tmp_path):
    """A general corpus of two files, a quarter of which are news, and a domain of other news."""
    mixed = [[*news, *law] for news, law in zip(draw(NEWS, 40, 1), draw(LAW, 60, 2), strict=True)]
    corpus = [write(tmp_path, "mixed", mixed), write(tmp_path, "law", draw(LAW, 60, 3))]
    return corpus, [write(tmp_path, "dev", draw(NEWS, 30, 4))]


def test_the_pairs_that_resemble_the_domain_are_selected_up_to_the_number_of_words(files, tmp_path):
    to = tmp_path / "new" / "selected.tsv.gz"
    count = select(*files, to, words=200)
    pairs = read_pairs(to, source_column=0, target_column=1).pairs
    assert count == len(pairs)
    lengths = [len(pair.target.split()) for pair in pairs]
    assert 200 - max(lengths) <= sum(lengths) <= 200
    news, translations = draw(NEWS, 40, 1)
    assert all(pair.source in news and pair.target in translations for pair in pairs)
    order = [news.index(pair.source) for pair in pairs if news.count(pair.source) == 1]
    assert order == sorted(order)


def test_a_corpus_of_fewer_words_is_kept_whole_and_tabs_become_spaces(files, tmp_path):
    corpus, domain = files
    corpus = [write(tmp_path, "tabs", [["one\ttwo"], ["deux\tun"]]), *corpus]
    select(corpus, domain, tmp_path / "all.gz", words=10**9)
    lines = gzip.decompress((tmp_path / "all.gz").read_bytes()).decode().splitlines()
    assert len(lines) == 1 + 100 + 60
    assert lines[0] == "one two\tdeux un"


def test_malformed_lines_are_skipped_and_reported_and_a_missing_line_is_an_error(files, tmp_path):
    corpus, domain = files
    holes, said = [*corpus, write(tmp_path, "holes", [["one", "", "three"], ["un", "deux", "trois"]])], []
    select(holes, domain, tmp_path / "a.gz", 10**9, max_malformed=0.34, report=said.append)
    assert len(gzip.decompress((tmp_path / "a.gz").read_bytes()).splitlines()) == 100 + 60 + 2
    assert [f"holes.en:2 {Fault.EMPTY_SIDE}" in line for line in said].count(True) == 1
    short = [write(tmp_path, "short", [["one", "two"], ["un"]])]
    for general, to, words, error, message in (
        (holes, "b.gz", 10**9, ValueError, r"--max-malformed"),
        (short, "b.gz", 10**9, ValueError, r"short\.en"),
        (holes, "a.gz/b.gz", 10**9, OSError, "expected a folder that can be written"),  # before the files are read
        (corpus, "b.gz", 1, ValueError, "words"),
        (corpus, "b.gz", 0, ValueError, "words: expected 1 or more, received 0"),
    ):
        with pytest.raises(error, match=message):
            select(general, domain, tmp_path / to, words)
    assert not (tmp_path / "b.gz").exists()
