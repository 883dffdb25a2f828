"""Corpus options: names, languages, and the corpus that they load, split and aligned."""

import hashlib
import os
import re
from pathlib import Path

import pytest
from tiny import write_pairs, write_sides, zipped

from nmt_keras.config import CorpusConfig, PairFilters
from nmt_keras.corpus import Pair, columns, part_sha256
from nmt_keras.corpus.columns import Columns
from nmt_keras.corpus.loading import load_corpus
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import sample_pairs


def loaded(options, config=None, **how):
    """Returns the corpus that ``options`` describe. Downloads nothing."""
    return load_corpus(options, config or CorpusConfig(), Path("unused"), lambda _: None, **how)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (("data/spa-eng.zip",), "spa-eng"),
        (("my.data.tsv.gz",), "my.data"),
        (("sample.tsv",), "sample-file"),
        (("a:b c.txt",), "a_b_c"),
        ((".hidden.tsv",), "hidden"),
        (("data/europarl.es", "data/europarl.en"), "europarl"),
        (("train.es.gz", "train.en.gz"), "train"),
        (("spanish.txt", "english.txt"), "spanish"),
        (("-",), "standard_input"),
        (("קורפוס.tsv.gz",), "corpus"),
    ],
)
def test_a_corpus_is_called_after_its_file_or_what_two_share_and_never_like_the_sample(files, name):
    assert CorpusOptions(files).name == name


@pytest.mark.parametrize("split", ["hashed-groups", "shuffled-groups"])
@pytest.mark.parametrize("files", [("es-en.tsv",), ("both.es", "both.en"), ("sample",)], ids=len)
def test_both_directions_share_the_parts_and_their_key(files, split, pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs("es-en.tsv", pairs)
    write_sides("both", pairs)
    wanted = CorpusConfig(split=split)
    there, back = (loaded(CorpusOptions(files, reverse=reverse), wanted) for reverse in (False, True))
    for part in ("train", "valid", "test"):
        turned = [Pair(pair.target, pair.source) for pair in getattr(back, part)]
        assert turned == list(getattr(there, part))
    key_is_source = files == ("es-en.tsv",)
    assert (there.key_side, back.key_side) == (("source", "target") if key_is_source else ("target", "source"))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder of files whose text counts as the Spanish-English corpus. The expected sha256 is replaced."""
    text = "".join(f"{pair.target}\t{pair.source}\n" for pair in sample_pairs()[:1000]).encode()
    monkeypatch.setattr(columns, "SPANISH_ENGLISH_SHA256", hashlib.sha256(text).hexdigest())
    (tmp_path / "mine.txt").write_bytes(text)
    (tmp_path / "mine.zip").write_bytes(zipped({"spa.txt": text}))
    (tmp_path / "spa-eng.txt").write_bytes(text + b"And\tmore\n")
    return tmp_path


def test_the_spanish_english_file_is_known_by_its_text_and_not_by_its_name(published):
    def first(file, **options):
        options = CorpusOptions((str(published / file),), **options)
        return loaded(options).train[0], options.language_tags

    english, spanish = Columns(source_column=0), Columns(source_column=1, target_column=0)
    pair = loaded(CorpusOptions(("sample",))).train[0]
    back = Pair(pair.target, pair.source)
    for file in ("mine.txt", "mine.zip"):
        assert first(file) == first(file, **vars(spanish)) == (pair, ("es", "en"))
        assert first(file, reverse=True) == first(file, **vars(english)) == (back, ("en", "es"))
        assert Columns().of(str(published / file)) == Columns(source_column=1, target_column=0)
    assert first("spa-eng.txt") == (back, (None, None))
    assert first("spa-eng.txt", reverse=True) == (pair, (None, None))


def test_validation_files_have_columns_of_their_own(published, pairs):
    """The corpus is the Spanish-English file, target first; the validation file is source first."""
    write_pairs(published / "valid.tsv", pairs[:20])
    corpus = loaded(CorpusOptions((str(published / "mine.txt"),), valid=(str(published / "valid.tsv"),)))
    assert corpus.train[0] == sample_pairs()[0]
    assert list(corpus.valid) == pairs[:20]


def test_several_tables_form_one_corpus_if_they_are_named_tables(pairs, tmp_path):
    files = tuple(str(tmp_path / name) for name in ("a.tsv", "b.tsv", "c.tsv", "dev.tsv"))
    for begin, file in enumerate(files):
        write_pairs(file, pairs[30 * begin : 30 * (begin + 1)])
    for options in (
        CorpusOptions(files[:2], valid=files[3:], tables=True, source_column=0),
        CorpusOptions(files[:3], tables=True),
    ):
        corpus = loaded(options)
        assert (
            {*corpus.train, *corpus.valid, *corpus.test} == {*pairs[:60], *pairs[90:]}
            if options.valid
            else {*pairs[:90]}
        )
        assert (corpus.name, corpus.key_side) == ("a", "source")


@pytest.mark.corpus
def test_both_directions_of_the_published_corpus_have_the_published_parts():
    published = {
        "train": "b9f487d24a67515cd5e2c5aa45fbd046727009bfc5aee4bc35fa56bfe327f09b",
        "valid": "fee1a355c901469989df7d25c41ed07e33c6affd78cdb16d7a78382ec03a25d5",
        "test": "088063b6dd7ea5fa3a82606424ae51ff5ea3929d0a218e77a6d51a99f412ea61",
    }
    for reverse, languages in ((False, ("es", "en")), (True, ("en", "es"))):
        options = CorpusOptions((os.environ["CORPUS"],), reverse=reverse)
        corpus = loaded(options)
        parts = {part: part_sha256(getattr(corpus, part), key_side=corpus.key_side) for part in published}
        assert (parts, options.language_tags) == (published, languages)


def test_filters_apply_to_generated_sets_and_are_counted_for_sets_of_ones_own(tmp_path, pairs):
    same, unlike = (
        [Pair(f"Nr {n}", f"Nr {n}") for n in range(90)],
        [Pair(f"{n}", f"a b c d e f g {n}") for n in range(95)],
    )
    noisy = [*pairs, *pairs[:80], *same, *unlike]
    write_pairs(tmp_path / "a.tsv", noisy)
    filters, said = PairFilters(max_ratio=3.0, drop_identical=True, drop_duplicates=True), []
    own = (str(tmp_path / "a.tsv"),)
    corpus = load_corpus(CorpusOptions(own), CorpusConfig(), tmp_path, said.append, filters=filters)
    held = [*corpus.valid, *corpus.test]
    assert len(held) == len({*held}) > 0
    assert all(pair.source != pair.target for pair in held)
    assert not any(pair.target.startswith("a b c d") for pair in held)
    assert sum("set skipped: " in each for each in said) == 6
    said.clear()
    kept = load_corpus(CorpusOptions(own, valid=own), CorpusConfig(), tmp_path, said.append, filters=filters)
    assert list(kept.valid) == noisy
    counts = [each.split()[1] for each in said if each.startswith("--valid") and "filters" in each]
    assert sorted(counts) == ["80", "90", "95"]


@pytest.mark.parametrize("split", ["hashed-groups", "shuffled-groups"])
def test_a_group_of_a_fifth_of_a_corpus_is_named(tmp_path, pairs, split):
    def told(repeated):
        said = []
        write_pairs(tmp_path / "a.tsv", [*pairs, *repeated])
        load_corpus(CorpusOptions((str(tmp_path / "a.tsv"),)), CorpusConfig(split=split), tmp_path, said.append)
        return [each for each in said if "Warning" in each]

    assert told([]) == []
    (group,) = told([Pair("Claro.", "Sure.")] * (len(pairs) // 2))
    assert re.search(r"one group.*'(Claro|Sure)\.'.* in the (training|validation|test) set", group)


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        ({}, ("es", "en")),
        ({"corpus": ("sample",)}, ("es", "en")),
        ({"corpus": ("a.tsv",), "target_language": "zh-TW"}, (None, "zh-TW")),
        ({"corpus": ("a.tsv",), "source_language": "per", "target_language": "zho"}, ("fa", "zh")),
    ],
)
def test_languages_are_codes_and_known_where_the_corpus_is(options, tags):
    assert CorpusOptions(**options).language_tags == tags


def test_parts_of_ones_own_leave_the_corpus_as_it_is_but_for_what_the_recipe_takes_of_it(pairs, tmp_path):
    mine, dev, aligned = (str(tmp_path / name) for name in ("mine.tsv", "dev.tsv", "mine.align"))
    write_pairs(mine, pairs[:90])
    write_pairs(dev, pairs[90:])
    Path(aligned).write_text("".join(f"{'0-0 ' * number}\n" for number in range(90)), "utf-8")
    options = CorpusOptions((mine,), valid=(dev,), alignments=aligned)
    found = loaded(options, CorpusConfig(first=50), with_alignments=True)
    assert (list(found.train), list(found.valid), list(found.test)) == (pairs[:50], pairs[90:], [])
    assert found.alignments == ["0-0 " * number for number in range(50)]


def test_alignments_follow_the_pairs_of_their_lines_into_the_training_part(pairs, tmp_path):
    """Every tenth line is malformed. Each alignment repeats a link as often as the number of its line."""
    file, links = tmp_path / "pairs.tsv", tmp_path / "pairs.align"
    rows = [f"{pair.source}\t{pair.target}" if number % 10 else "no tab" for number, pair in enumerate(pairs)]
    file.write_text("\n".join(rows) + "\n", "utf-8")
    links.write_text("".join("0-0 " * number + "\n" for number in range(len(rows))), "utf-8")
    options = CorpusOptions((str(file),), alignments=str(links), max_malformed=0.2)
    found = loaded(options, with_alignments=True)
    taken = dict(zip(found.train, found.alignments, strict=True))
    assert len(taken) > 80
    assert taken.items() <= {pair: "0-0 " * number for number, pair in enumerate(pairs) if number % 10}.items()
    links.unlink()
    assert loaded(options).train == found.train  # evaluation does not read alignments


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("0-0\n" * 7, "received .7 lines"),
        ("0-0\n" * 121, "received .121 lines"),
        ("0-0\n" * 99 + "0:0\n" + "0-0\n" * 20, "pairs.align:100: .*received '0:0'"),
        ("0-0\n" * 99 + "0-0 0p40\n" + "0-0\n" * 20, r"pairs.align:100: .* counted from 0, received 0p40\. .*from 1"),
        (
            "0-0\n" * 99 + "0-0 " * 250_000 + "\n" + ("0-0 " * 250_000 + "\n") * 20,
            r"pairs.align:117: expected a file of at most",
        ),
        ("0-0\n" * 99 + "0-" + "9" * 5000 + "\n" + "0-0\n" * 20, "pairs.align:100: expected links such as 0-0"),
    ],
    ids=["too few", "too many", "no links", "beyond the words", "too large", "no number"],
)
def test_alignments_of_other_lines_are_refused(pairs, tmp_path, text, received):
    (tmp_path / "pairs.align").write_text(text.replace("\n", "\r\n"), "utf-8-sig", newline="")
    files = str(write_pairs(tmp_path / "pairs.tsv", pairs)), str(tmp_path / "pairs.align")
    with pytest.raises(ValueError, match=received):
        loaded(CorpusOptions(files[:1], alignments=files[1]), with_alignments=True)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"corpus": ("a.tsv", "b.tsv", "c.tsv")}, r"--corpus: .*--tables"),
        ({"test": ("t.tsv",), "corpus": ("c.tsv",)}, r"--test: .*--valid"),
        ({"corpus": ("c.tsv",), "valid": ("a", "b", "c")}, r"--valid: .*'a', 'b', 'c'"),
        ({"corpus": ("a.es", "a.en"), "valid": ("v.tsv",)}, r"--valid: .*--corpus.*v\.tsv"),
        ({"corpus": ("a.es", "a.en"), "valid": ("v.es", "v.en"), "test": ("t.tsv",)}, r"--test: .*t\.tsv"),
        ({"prepared": "p"}, "--prepared: .*--valid.*'p'"),
        ({"prepared": "p", "valid": ("v.tsv",), "test": ("t.tsv",)}, r"--test: expected none.*t\.tsv"),
        ({"prepared": "p", "valid": ("v.tsv",), "corpus": ("c.tsv",)}, r"--corpus: expected none.*c\.tsv"),
        ({"prepared": "p", "valid": ("v.tsv",), "alignments": "a"}, r"--alignments: expected none.*'a'"),
        ({"prepared": "p", "valid": ("v.tsv",), "reverse": True}, r"--reverse: .*nmt prepare"),
        ({"corpus": ("a.es", "a.en"), "source_column": 1}, r"--source-column.*two files"),
        ({"source_column": -1}, r"--source-column\): .*-1"),
        ({"source_column": 1000}, r"--source-column\): expected a column from 0 to 999, received 1000"),
        ({"target_column": 0}, r"--target-column\): .*0"),
        ({"languages": "deu-eng", "corpus": ("a.tsv",)}, "--corpus: expected none with --languages"),
        ({"languages": "deu-eng", "reverse": True}, "--reverse: expected none with --languages"),
        ({"languages": "deu-eng", "source_column": 1}, "--source-column: expected none with --languages"),
        *(
            ({"languages": languages}, "--languages: expected")
            for languages in ("deu", "deu-fra", "en-eng", "deu-eng-fra", "xx-eng", "-eng", "")
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, wrong):
    with pytest.raises(ValueError, match=wrong):
        CorpusOptions(**options)
