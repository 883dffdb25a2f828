"""Reading corpora: lines, columns, faults and archives."""

import bz2
import csv
import gzip
import io
import json
import lzma

import pytest
from tiny import zipped

from nmt_keras.corpus import Fault, Pair, read_pairs, read_parallel
from nmt_keras.corpus.columns import MAX_COLUMNS, Columns
from nmt_keras.corpus.reading import MAX_CHARACTERS, MAX_LINE_BYTES, collect, stream_files, table_rows
from nmt_keras.io.lines import open_text

TABLE = "Go.\tVe.\nStop!\t¡Para!\n".encode()
PAIRS = [Pair("Ve.", "Go."), Pair("¡Para!", "Stop!")]


@pytest.fixture
def write(tmp_path):
    def write(content: bytes, name: str = "pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def read(path, **options):
    """Reads lines of the form English<TAB>Spanish for translation into English."""
    return read_pairs(path, source_column=1, target_column=0, **options)


# Tables


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (" Go  ON \t¿Adónde? \n", [("¿Adónde? ", " Go  ON ")]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\rg\tuno\u2029dos\n", [("uno\u2029dos", "a\u2028b\u0085c\x0bd\x0ce\x1cf\rg")]),
        ("Go.\tVe.\r\nStop!\tPara\r\r\n", [("Ve.", "Go."), ("Para\r", "Stop!")]),
        ("\ufeffGo.\tVe.\n\ufeffStop!\tPara\n", [("Ve.", "Go."), ("Para", "\ufeffStop!")]),
    ],
    ids=["spaces, case and accents", "other line ends", "carriage returns", "byte order marks"],
)
def test_a_line_feed_ends_a_line_and_sentences_stay_as_they_are(write, text, pairs):
    assert read(write(text.encode())).pairs == pairs


def test_each_fault_is_counted_and_located_and_reading_goes_on(write):
    lines = {
        1: b"Go.\tVe.",
        2: b"no tab here",
        3: b"\tVe.",
        4: b"Go.\t \xc2\xa0",
        5: b"Go.\tV\xe9.",
        6: b"G\0o.\tVe.",
        7: b"x" * (MAX_CHARACTERS + 1) + b"\tVe.",
        8: b"",
        9: b"Stop!\tPara",
        10: "ñ".encode() * MAX_CHARACTERS + b"\tVe.",  # counted in characters
        11: "Run.\t\u00ad \u200b\ufeff\u200e\u200d\ufe0f".encode(),
    }
    path = write(b"\n".join(lines.values()))
    pairs, report = read(path, max_malformed=0.9)
    assert pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!"), Pair("Ve.", "ñ" * MAX_CHARACTERS)]
    assert report.places == [(line, str(path), line) for line in (1, 9, 10)]
    assert report.lines == 11
    assert [(line, fault) for _, line, fault in report.first_faults] == [
        (2, Fault.MISSING_COLUMN),
        (3, Fault.EMPTY_SIDE),
        (4, Fault.EMPTY_SIDE),
        (5, Fault.INVALID_UTF8),
        (6, Fault.NUL),
        (7, Fault.TOO_LONG),
        (8, Fault.EMPTY_LINE),
        (11, Fault.EMPTY_SIDE),
    ]
    assert str(report).startswith("8 of 11 lines malformed: 1 missing column, 3 empty side, 1 invalid UTF-8")
    assert f"{path}:2 missing column" in str(report)


@pytest.mark.parametrize("excess", [0, 1, 3 * 2**20])
def test_a_line_without_end_is_one_fault_and_the_next_line_is_read(write, excess):
    corpus = read(write(b"Go.\tVe.\n" + b"x" * (MAX_LINE_BYTES + excess) + b"\nStop!\tPara\n"), max_malformed=0.5)
    assert corpus.pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!")]
    assert [(line, fault) for _, line, fault in corpus.report.first_faults] == [(2, Fault.TOO_LONG)]


def test_one_malformed_line_in_a_hundred_is_skipped_and_two_are_an_error(write):
    good = [b"Go.\tVe."] * 98
    assert len(read(write(b"\n".join([*good, b"Go.\tVe.", b"bad"]))).pairs) == 99
    path = write(b"\n".join([*good, b"bad", b"Go.\t"]))
    with pytest.raises(ValueError, match=rf"2\.00%.* {path}:99 missing column; {path}:100 .*max_malformed=0\.02"):
        read(path)
    assert len(read(path, max_malformed=0.02).pairs) == 98


@pytest.mark.parametrize(
    ("content", "received"),
    [(b"", "0 lines"), (b"\r\n\n", "0 lines"), ("\ufeff".encode(), "0 lines"), (b"Go.\t\n", "1 empty side"),
     (b"Go.\n", "1 missing column.*source_column")],
)  # fmt: skip
def test_a_file_without_a_valid_pair_is_an_error_even_if_all_lines_may_be_malformed(write, content, received):
    with pytest.raises(ValueError, match=rf"pairs\.tsv, received none \(.*{received}"):
        read(write(content), max_malformed=1)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("source_column", {"source_column": -1}),
        ("target_column", {"target_column": -1}),
        ("target_column", {"source_column": 1, "target_column": 1}),
        ("max_malformed", {"max_malformed": 5}),
    ],
)
def test_arguments_out_of_range_are_refused(write, field, options):
    with pytest.raises(ValueError, match=rf"^{field}\b.*: .*{options[field]}"):
        read_pairs(write(TABLE), **{"source_column": 1, "target_column": 0, **options})


@pytest.mark.parametrize("name", ["none.txt", "."])
def test_a_missing_file_or_a_folder_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=str(tmp_path / name)):
        read(tmp_path / name)


# Archives


def test_notes_and_folders_in_a_zip_do_not_count(write):
    others = {"spa-eng/": b"", "spa-eng/_about.txt": b"CC", "__MACOSX/spa-eng/._spa.txt": b"x", "readme.txt": b"x"}
    assert read(write(zipped({"spa-eng/spa.txt": TABLE, **others}))).pairs == PAIRS


@pytest.mark.parametrize("members", [{}, {"_about.txt": b"CC"}, {"one.txt": TABLE, "two.tsv": TABLE}])
def test_a_zip_holds_exactly_one_text(write, members):
    with pytest.raises(ValueError, match=r"pairs\.zip: expected a zip of one text file"):
        read(write(zipped(members), "pairs.zip"))


# Two files


def test_two_files_are_read_line_by_line(write):
    corpus = read_parallel(write(b"Ve.\nPara\n\n\n", "es"), write(gzip.compress(b"Go.\r\nStop!\tnow"), "en"))
    assert corpus.pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!\tnow")]
    assert corpus.report.lines == 2  # blank lines at the end of one file do not count


def test_the_first_line_without_a_corresponding_line_is_named(write):
    two, five = write(b"a\nb\n", "two"), write(b"a\nb\n\nd\ne\n", "five")
    for files in ((two, five), (five, two)):
        with pytest.raises(ValueError, match=rf"{five}:4 without a corresponding line in {two}"):
            read_parallel(*files)


def test_the_damaged_one_of_two_archives_is_named(write):
    text = "".join(f"{number * 7919 % 1_000_003}\n" for number in range(200_000)).encode()
    damaged, intact = write(gzip.compress(text)[:-9], "damaged"), write(gzip.compress(text), "intact")
    for files in ((damaged, intact), (intact, damaged)):
        with pytest.raises(ValueError, match=f"^{damaged} is a damaged archive"):
            read_parallel(*files)


def test_a_fault_is_located_in_its_own_file(write):
    source, target = write(b"a\n\nc\nd\n", "es"), write(b"e\nf\n\xff\n\n", "en")
    report = read_parallel(source, target, max_malformed=0.8).report
    assert list(map(str, report.first_faults)) == [
        f"{source}:2 empty side",
        f"{target}:3 invalid UTF-8",
        f"{target}:4 empty side",
    ]


# Tables of other formats and with other columns

ROWS = [
    ('¿Qué, "tal"; tío?', "How, are; you?"),
    ("Hola.", "Hello."),
    ("uno\u2028dos", "one\x85two"),
    ("Él vino.", "He came."),
    ("El 2 de mayo", "2 May"),
]


def as_csv(rows, **format):
    file = io.StringIO()
    csv.writer(file, **format).writerows(rows)
    return file.getvalue().encode()


def as_lines(*rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()


def as_json(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def found_in(path, **columns):
    return collect(stream_files([path], Columns(**columns)), str(path), 0.0)


NUMBERED = [(n, "es", s, f"x{n}", t, "CC-BY") for n, (s, t) in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tsv", as_lines(*ROWS), ""),
        ("a.tsv.bz2", bz2.compress(as_lines(*ROWS)), ""),
        ("a.xz", lzma.compress(as_lines(*ROWS)), ""),
        ("a.csv", as_csv(ROWS), ""),
        ("a.CSV.gz", gzip.compress(b"\xef\xbb\xbf" + as_csv(ROWS, delimiter=";")), ""),
        ("a.csv", as_csv(ROWS, delimiter="\t", quoting=csv.QUOTE_ALL), ""),
        ("a.csv", as_csv([("Spanish", "English"), *ROWS]), "source 0 'Spanish', target 1 'English'"),
        ("a.jsonl", as_json([{"es": s, "en": t} for s, t in ROWS]), "source 0 'es', target 1 'en'"),
        ("a.jsonl", as_json([{"id": n, "translation": {"es": s, "en": t}} for n, (s, t) in enumerate(ROWS)]), "'es'"),
        ("a.ndjson", as_json(NUMBERED), "source 2, target 4, not 0 ('1'), not 1 ('es')"),
        ("a.tsv", as_lines(("es-ES", "en-US"), *ROWS), "source 0 'es-ES', target 1 'en-US'"),
        (
            "a.tsv",
            as_lines(("id", "source_text", "target_text"), *((n, *row) for n, row in enumerate(ROWS))),
            "not 0 ('0')",
        ),
        ("a.tsv", as_lines(*NUMBERED), "not 3 ('x1')"),
        ("a.csv", b"sep=;\r\n" + as_csv([("español", "Englisch"), *ROWS], delimiter=";"), "source 0 'español'"),
        ("a.csv", as_csv(ROWS, delimiter="|"), ""),
        ("a.csv", as_csv([("source", "target", "extra"), *ROWS]), "target 1 'target'"),
        ("a.csv", b"\n\n" + as_csv([("source", "target"), ROWS[0]]) + as_csv(ROWS[1:]), "2 lines before the header"),
        ("a.tsv", as_lines(("# Spanish", "English (US)"), *ROWS), "source 0 '# Spanish'"),
        ("a.tsv", as_lines(('"input text"', '"output text"'), *ROWS), "target 1 '\"output text\"'"),
        ("a.tsv", as_lines(("Sentence 1", "Sentence 2"), *ROWS), "source 0 'Sentence 1'"),
        ("a.tsv", as_lines(("el", "he"), *ROWS), "target 1 'he'"),
        ("a.tsv", as_lines(("texto_es", "texto_en"), *ROWS), "source 0 'texto_es'"),
        ("a.tsv", as_lines(("中文", "Tiếng Việt"), *ROWS), "source 0 '中文'"),
        ("a.tsv", as_lines(("spa_Latn", "eng_Latn"), *ROWS), "target 1 'eng_Latn'"),
        ("a.tsv", as_lines(("", "0", "1"), *((n, *row) for n, row in enumerate(ROWS))), "target 2 '1'"),
        ("a.csv", as_csv(ROWS, quoting=csv.QUOTE_ALL).replace(b'","', b'", "'), ""),
        ("a.tsv", as_csv(ROWS, delimiter="\t"), ""),
        ("a.tsv", as_lines(*(("00:01 --> 00:02", s, t) for s, t in ROWS)), "not 0 ("),
        ("a.tsv", as_lines(*(("kxqzv"[n:], s, t) for n, (s, t) in enumerate(ROWS))), "not 0 ("),
        ("talks.csv-export.tsv", as_lines(*ROWS), ""),
        ("corpus.json.tsv", as_lines(*ROWS), ""),
        ("a.lzma", lzma.compress(as_lines(*ROWS), lzma.FORMAT_ALONE), ""),
        ("a.jsonl", as_json([{"es": s, "en": t, "tokens": [s]} for s, t in ROWS]), "'es'"),
        ("a.tsv", as_lines(*((s, s.lower().replace(".", " ."), t) for s, t in ROWS)), "not 1 ("),
        (
            "a.tsv",
            as_lines(*((s, t, f"{n} times, or so.") for n, (s, t) in enumerate(ROWS))),
            "not 2 ('1 times, or so.')",
        ),
        ("pairs.zip", zipped({"pairs.csv": as_csv(ROWS)}), ""),
    ],
)
def test_the_same_content_gives_the_same_pairs_in_each_format_and_the_columns_are_told(write, name, content, told):
    path = write(content, name)
    pairs, report = found_in(path)
    assert pairs == ROWS
    assert told in str(report) if told else "columns" not in str(report)
    assert found_in(path, reverse=True).pairs == [(target, source) for source, target in ROWS]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("Yes, sir.;Sí, señor.", ("Yes, sir.", "Sí, señor.")),
        ("Yes, sir.\tSí, señor.", ("Yes, sir.", "Sí, señor.")),
        ("1,5;2,5", ("1,5", "2,5")),
        ("Yes; sir.,Sí; señor.", ("Yes; sir.", "Sí; señor.")),
        ('"Yes, sir; 1;2","Sí, señor; 1;2"', ("Yes, sir; 1;2", "Sí, señor; 1;2")),
        ("\n\nsource,target\nYes.,Sí.", ("Yes.", "Sí.")),
        ("My corpus\n\nsource,target\nYes.,Sí.", ("Yes.", "Sí.")),
    ],
)
def test_the_separator_of_csv_is_not_punctuation_of_its_sentences_nor_are_blank_lines_counted(write, text, pair):
    assert found_in(write(f"{text}\n".encode(), "a.csv")).pairs == [pair]


EXPORTED = [f"{verb} {thing} hoy." for verb in ("Veo", "Busco", "Compro") for thing in ("el pan", "la llave")]
CODES, TIMES = (
    ("spa", "por", "fra", "deu", "cmn", "yue"),
    ("2010-05-12 18:01:05", "\\N", "0000-00-00 00:00:00", "2011-01-02 03:04:05", "\\N", "\\N"),
)


@pytest.mark.parametrize(
    "rows",
    [
        [(n, "spa", text) for n, text in enumerate(EXPORTED)],
        [(n, code, text) for n, (code, text) in enumerate(zip(CODES, EXPORTED, strict=True))],
        [(n, "spa", text, f"user{n}", at, at) for n, (text, at) in enumerate(zip(EXPORTED, TIMES, strict=True))],
        [(n, code, text, "\\N", at) for n, (code, text, at) in enumerate(zip(CODES, EXPORTED, TIMES, strict=True))],
        [(1001 + n, text) for n, text in enumerate(EXPORTED)],
        list(zip(CODES, EXPORTED, strict=True)),
        [(code, f"{n}我来了。") for n, code in enumerate(CODES)],
        [("es", text) for text in EXPORTED],
        [(text, "positive" if n % 2 else "negative") for n, text in enumerate(EXPORTED)],
        [(text, text.upper(), n) for n, text in enumerate(EXPORTED)],
        [(f"00:0{n}:00 --> 00:01:00", text) for n, text in enumerate(EXPORTED)],
        [(n, 3 * n) for n in range(5)],
    ],
)
@pytest.mark.parametrize(
    ("name", "written"), [("a.tsv", lambda rows: as_lines(*rows)), ("a.csv", as_csv), ("a.jsonl", as_json)]
)
def test_a_table_with_fewer_than_two_columns_of_sentences_is_refused_unless_its_columns_are_named(
    write, rows, name, written
):
    path = write(written(rows), name)
    with pytest.raises(ValueError, match=rf"two columns of sentences in .*{name}, received .*--source-column"):
        found_in(path)
    assert len(found_in(path, source_column=0, target_column=1).pairs) == len(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [(n, s, 50 + n, t) for n, (s, t) in enumerate(ROWS)],
        [(str(n), text) for n, text in enumerate(("cero", "uno", "treinta y dos mil", "doce mil dos"))],
        [("3 May 1979", "1979-05-03"), ("Monday 4 June", "1980-06-04"), ("5 Jul 1981", "1981-07-05")],
        [("dog", "el perro", "noun"), ("house", "la casa", "noun"), ("go", "ir", "verb")],
        [
            ("go", "ve", "CC-BY 2.0 by 1 & 2."),
            ("hi", "hola", "CC-BY 2.0 by 3 & 4."),
            ("run", "corre", "CC-BY 2.0 by 5."),
        ],
    ],
)
def test_words_numbers_and_dates_are_pairs(write, rows):
    assert len(found_in(write(as_lines(*rows))).pairs) == len(rows)


@pytest.mark.parametrize("text", ["ฉันไม่ชอบแมวเลย", "我不喜欢猫", "猫は好きではありません。"])
def test_labels_beside_text_without_spaces_are_skipped(write, text):
    path = write(as_lines(*((["news", "web"][n % 2], text * n, f"I do not like {n} cats.") for n in range(1, 6))))
    assert "source 1, target 2, not 0 ('news')" in str(found_in(path).report)


def test_keys_of_later_json_objects_are_columns_too(write):
    later = [{"es": source, "domain": "talks", "en": target} for source, target in ROWS]
    path = write(as_json([{"es": "Hola.", "domain": "talks"}, *later]), "a.jsonl")
    pairs, report = collect(stream_files([path], Columns(target_column="en")), str(path), 0.5)
    assert pairs == ROWS
    assert report.faults == {Fault.EMPTY_SIDE: 1}


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_only_the_first_thousand_columns_of_a_table_count(write, name):
    others = [[f"{row} {column}" for column in range(3000)] for row in range(len(ROWS))]
    rows = [[*pair, *cells] for pair, cells in zip(ROWS, others, strict=True)]
    objects = as_json(dict(zip(("es", "en", *row[2:]), row, strict=True)) for row in rows)
    path = write(objects if name == "a.jsonl" else as_lines(*rows), name)
    with open_text(path) as stream:
        assert {len(row) for _, row in table_rows(stream, path, [])} == {MAX_COLUMNS}
    assert found_in(path).pairs == ROWS


@pytest.mark.parametrize(
    "columns", [{"source_column": "SPANISH", "target_column": "English"}, {"source_column": "spanish "}]
)
def test_columns_are_chosen_by_their_names_in_the_header(write, columns):
    path = write(as_lines(("n", "English", " Spanish "), *((n, t, s) for n, (s, t) in enumerate(ROWS))))
    assert found_in(path, **columns).pairs == ROWS
    with pytest.raises(
        ValueError, match=r"--source-column\): .*pairs\.tsv: 'n', 'english', 'spanish', received 'german'"
    ):
        found_in(path, source_column="german")
    with pytest.raises(ValueError, match=r"empty\.tsv, which has no header and no valid line, received 'es'"):
        found_in(write(b"", "empty.tsv"), source_column="es")


@pytest.mark.parametrize(
    "first",
    [("él", "he"), ("Sí", "Yes"), ("si", "yes"), ("español", "Spanish"), ("No", "no"), ("Texto", "Text"),
     ("Él vino.", "He came."), ("Ja.", "Da."), ("Inglés!", "English!")],
)  # fmt: skip
def test_a_first_pair_is_not_taken_for_a_header(write, first):
    assert found_in(write(as_lines(first, *ROWS))).pairs == [first, *ROWS]


@pytest.mark.parametrize(
    ("name", "content", "pairs", "faults"),
    [
        ("a.csv", b'a,b\n"c\nd",e\n,g\nh\xff,i\nf\nm\0,n\n\no,p\n', {1: ("a", "b"), 2: ("c d", "e"), 9: ("o", "p")}, {
            4: Fault.EMPTY_SIDE, 5: Fault.INVALID_UTF8, 6: Fault.MISSING_COLUMN, 7: Fault.NUL, 8: Fault.EMPTY_LINE,
        }),
        ("a.csv", b'a,b\n"c, d",e\nf, g,h\ni,j\n"k,l\nm,n\no,p\n', {1: ("a", "b"), 2: ("c, d", "e"), 4: ("i", "j")}, {
            3: Fault.EXTRA_COLUMN, 5: Fault.NOT_CSV, 6: Fault.NOT_CSV, 7: Fault.NOT_CSV,
        }),
        ("a.jsonl", b'["a","b"]\n["c\\nd","e"]\n{\n["\\ud800","x"]\n["\\u0000","x"]\n7\n["\xff","x"]\n \n["o","p"]\n',
         {1: ("a", "b"), 2: ("c d", "e"), 9: ("o", "p")}, {
            3: Fault.NOT_JSON, 4: Fault.INVALID_UTF8, 5: Fault.NUL, 6: Fault.NOT_JSON, 7: Fault.INVALID_UTF8,
            8: Fault.EMPTY_LINE,
        }),
    ],
)  # fmt: skip
def test_malformed_rows_of_csv_and_json_are_counted_and_located(write, name, content, pairs, faults):
    found, report = read_pairs(write(content, name), source_column=0, target_column=1, max_malformed=0.9)
    assert {line: pair for (_, _, line), pair in zip(report.places, found, strict=True)} == pairs
    assert {line: fault for _, line, fault in report.first_faults} == faults
    assert report.lines == len(pairs) + len(faults)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", "niño\tboy\n".encode("cp1252") * 9, "expected UTF-8 in .*iconv -f ENCODING -t UTF-8 .*a.tsv"),
        ("a.json", b'[\n{"es": "a",\n"en": "b"}]\n', r"jq -c '\.\[\]' .*a.json"),
        ("a.json", b'[{"es": "a"}, {"es": "b"}]\n', r"jq -c '\.\[\]' .*a.json"),
        ("a.xlf", b'<?xml version="1.0"?>\n<xliff></xliff>\n', "an XML or HTML file"),
        ("a.tmx", b'<?xml version="1.0"?>\n<TMX version="1.4"></TMX>\n', "a TMX file"),
        ("a.gz", gzip.compress(gzip.compress(b"a\tb\n")), "an archive inside an archive"),
        ("a.pdf", b"%PDF-1.4\n", "a PDF file"),
        ("a.tsv", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull --include .*a.tsv"),
        ("a.csv", b"a\nb\n", "in .csv files by commas"),
        ("a.csv", b'"He said "yes".",a\n' * 9, "double quotes inside a cell"),
        ("a.csv", b"a,b\nc,d\nYes, sir,e\n", "Put quotes around texts with commas"),
        ("a.csv", b"Yes, sir,e\na,b\nc,d\n", "Put quotes around texts with commas"),
        ("a.csv", b'"' + (b"a" * 750 + b",") * 2 + b"\n" + (b"b" * 1500 + b",c\n") * 120, "Close each quote"),
    ],
)
def test_the_cause_of_many_malformed_lines_is_named(write, name, content, words):
    with pytest.raises(ValueError, match=words):
        found_in(write(content, name))


def test_a_carriage_return_in_a_cell_of_csv_is_a_character(write):
    assert found_in(write(b'a\rb,c\r\n"d\re",f\n', "a.csv")).pairs == [("a\rb", "c"), ("d\re", "f")]


@pytest.mark.parametrize(("title", "malformed"), [(b"", 0), (b"My corpus", 0), (b"\xff", 1)])
def test_a_header_may_follow_a_title_which_is_skipped_and_told_or_a_bad_line(write, title, malformed):
    path = write(title + b"\nSpanish\tEnglish\nHola.\tHello.\nUno.\tOne.\n")
    corpus = collect(stream_files([path], Columns()), str(path), 0.5)
    assert corpus.pairs == [("Hola.", "Hello."), ("Uno.", "One.")]
    assert (corpus.report.malformed, corpus.report.lines) == (malformed, 2 + malformed)
    assert ("1 line before the header skipped" in str(corpus.report)) == (not malformed)
    assert corpus.report.places == [(number + malformed, str(path), number + 2) for number in (1, 2)]


def test_a_row_of_several_lines_has_its_first_line_and_one_number(write):
    path = write(b'es,en\n"Hola,\nt\xc3\xado.",Hello.\nUno.,One.\n', "a.csv")
    assert found_in(path).report.places == [(1, str(path), 2), (2, str(path), 4)]


def test_a_table_with_one_column_has_no_pair_even_if_its_column_is_chosen_by_name(write):
    with pytest.raises(ValueError, match="received none"):
        found_in(write(b"es\nHola.\n"), source_column="es")


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ("more.tsv", TABLE * 2, r"two tables: .*es-en\.tsv and .*more\.tsv.* --tables"),
        ("more.es", b"Ve.\nCorre.\n", r"a table: .*es-en\.tsv\. To use"),
    ],
)
def test_a_table_is_not_taken_for_a_source_or_a_target_file(write, name, other, message):
    with pytest.raises(ValueError, match=message):
        read_parallel(write(TABLE, "es-en.tsv"), write(other, name))
