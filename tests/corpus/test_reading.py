"""Reading says what is wrong with a corpus, line by line; splitting keeps every sentence on one side."""

import gzip
import hashlib
import os
import zipfile
from collections import Counter

import pytest

from nmt_keras.corpus import (
    Fault,
    Pair,
    group_names,
    part_sha256,
    read_pairs,
    read_parallel,
    sentence_key,
    shuffle_pairs,
    split_pairs,
)

TABLE = "Go.\tVe.\nStop!\t¡Para!\n".encode()
PAIRS = [Pair("Ve.", "Go."), Pair("¡Para!", "Stop!")]


@pytest.fixture
def write(tmp_path):
    def write(content: bytes, name: str = "pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def pack(tmp_path):
    def pack(**members: bytes):
        path = tmp_path / "pairs.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return pack


def read(path, **options):
    """Reads English<TAB>Spanish for translation into English."""
    return read_pairs(path, source_column=1, target_column=0, **options)


# --- reading a table


def test_columns_are_chosen_by_index(write):
    path = write(b"1\tGo.\tCC-BY\tVe.\n")
    assert read_pairs(path, source_column=3, target_column=1).pairs == [Pair(source="Ve.", target="Go.")]
    assert read_pairs(path, source_column=1, target_column=3).pairs == [Pair(source="Go.", target="Ve.")]


def test_a_sentence_keeps_its_spaces_case_and_accents(write):
    assert read(write(" Go  ON \t¿Adónde? \n".encode())).pairs == [Pair("¿Adónde? ", " Go  ON ")]


def test_only_a_line_feed_ends_a_line(write):
    english, spanish = "a\u2028b\u0085c\x0bd\x0ce\x1cf\rg", "uno\u2029dos"
    assert read(write(f"{english}\t{spanish}\n".encode())).pairs == [Pair(spanish, english)]


def test_one_carriage_return_goes_with_the_line_feed(write):
    assert read(write(b"Go.\tVe.\r\nStop!\tPara\r\r\n")).pairs == [Pair("Ve.", "Go."), Pair("Para\r", "Stop!")]


def test_a_byte_order_mark_is_dropped_at_the_start_of_the_file_only(write):
    mark = "\ufeff"
    assert read(write(f"{mark}Go.\tVe.\n{mark}Stop!\tPara\n".encode())).pairs == [
        Pair("Ve.", "Go."),
        Pair("Para", f"{mark}Stop!"),
    ]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\r\n"])
def test_the_end_of_the_file_adds_no_line(write, end):
    corpus = read(write(TABLE.removesuffix(b"\n") + end))
    assert corpus.pairs == PAIRS
    assert corpus.report.lines == 2
    assert corpus.report.malformed == 0


def test_each_fault_is_counted_and_located_and_reading_goes_on(write):
    lines = [
        b"Go.\tVe.",
        b"no tab here",
        b"\tVe.",
        b"Go.\t \xc2\xa0",
        b"Go.\tV\xe9.",
        b"G\0o.\tVe.",
        b"x" * 41 + b"\tVe.",
        b"",
        b"Stop!\tPara",
        b"Go.\tVe.",
    ]
    path = write(b"\n".join(lines))
    pairs, report = read(path, max_characters=40, max_malformed=0.9)
    assert pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!"), Pair("Ve.", "Go.")]
    assert report.lines == 10
    assert report.malformed == 7
    assert report.faults == {
        Fault.MISSING_COLUMN: 2,
        Fault.EMPTY_SIDE: 2,
        Fault.INVALID_UTF8: 1,
        Fault.NUL: 1,
        Fault.TOO_LONG: 1,
    }
    assert [(line, fault) for _, line, fault in report.first_faults] == [
        (2, Fault.MISSING_COLUMN),
        (3, Fault.EMPTY_SIDE),
        (4, Fault.EMPTY_SIDE),
        (5, Fault.INVALID_UTF8),
        (6, Fault.NUL),
        (7, Fault.TOO_LONG),
        (8, Fault.MISSING_COLUMN),
    ]
    assert str(report.first_faults[0]) == f"{path}:2 missing column"


def test_the_limit_on_length_counts_characters_not_bytes(write):
    path = write(("ñ" * 5 + "\t" + "ñ" * 5 + "\n").encode())
    assert len(read(path, max_characters=5).pairs) == 1
    with pytest.raises(ValueError, match="1 over-long side"):
        read(path, max_characters=4)


def test_a_line_without_end_is_one_fault_and_the_next_line_is_read(write):
    for excess in (0, 1, 3 * 2**20):  # cut exactly, just and far beyond the room of one line
        endless = b"x" * (2 * 4 * 10 + 2**20 + excess)
        corpus = read(write(b"Go.\tVe.\n" + endless + b"\nStop!\tPara\n"), max_characters=10, max_malformed=0.5)
        assert corpus.pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!")]
        assert [(line, fault) for _, line, fault in corpus.report.first_faults] == [(2, Fault.TOO_LONG)]


def test_one_malformed_line_in_a_hundred_is_left_out_and_two_are_an_error(write):
    good = [b"Go.\tVe."] * 98
    assert len(read(write(b"\n".join([*good, b"Go.\tVe.", b"bad"]))).pairs) == 99
    path = write(b"\n".join([*good, b"bad", b"Go.\t"]))
    with pytest.raises(ValueError, match=r"at most 1\.00% malformed lines in .* received 2\.00%") as caught:
        read(path)
    message = str(caught.value)
    assert "2 of 100 lines malformed: 1 missing column, 1 empty side." in message
    assert f"First: {path}:99 missing column; {path}:100 empty side" in message
    assert message.endswith("leave them out with max_malformed=0.02 (--max-malformed).")
    assert len(read(path, max_malformed=0.02).pairs) == 98


def test_only_the_first_faults_are_listed(write):
    report = read(write(b"Go.\tVe.\n" + b"bad\n" * 30), max_malformed=1).report
    assert report.malformed == 30
    assert [fault.line for fault in report.first_faults] == list(range(2, 12))


def test_a_column_that_the_file_does_not_have_says_so(write):
    with pytest.raises(ValueError, match=r"gives none \(2 of 2 lines malformed: 2 missing column.*Check source_column"):
        read_pairs(write(TABLE), source_column=2, target_column=0)


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n\n", "\ufeff".encode()])
def test_an_empty_file_is_an_error(write, content):
    with pytest.raises(ValueError, match=r"expected sentence pairs, .* is empty"):
        read(write(content))


def test_a_file_without_a_valid_pair_is_an_error_whatever_is_allowed(write):
    with pytest.raises(ValueError, match=r"gives none \(1 of 1 lines malformed: 1 empty side"):
        read(write(b"Go.\t\n"), max_malformed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_column": -1, "target_column": 0}, "source_column: expected a column counted from 0, received -1"),
        ({"source_column": 0, "target_column": -1}, "target_column: expected a column counted from 0, received -1"),
        ({"source_column": 1, "target_column": 1}, "target_column: expected another column than source_column"),
        ({"source_column": 1, "target_column": 0, "max_characters": 0}, "max_characters: expected at least 1"),
        ({"source_column": 1, "target_column": 0, "max_malformed": 5}, "max_malformed: expected a share from 0 to 1"),
    ],
)
def test_arguments_out_of_range_are_refused(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_pairs(write(TABLE), **options)


def test_a_missing_file_says_what_to_pass(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"found nothing at .*none\.txt.*Pass the path of an existing file"):
        read(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"received the folder .*Pass a file in it"):
        read(tmp_path)


# --- reading archives


def test_gzip_and_zip_are_told_by_their_bytes_not_their_names(write, pack):
    assert read(write(gzip.compress(TABLE), "pairs.txt")).pairs == PAIRS
    assert read(write(pack(**{"pairs.txt": TABLE}).read_bytes(), "corpus")).pairs == PAIRS


def test_notes_and_folders_in_a_zip_are_not_taken_for_the_text(pack):
    members = {
        "spa-eng/": b"",
        "spa-eng/spa.txt": TABLE,
        "spa-eng/_about.txt": b"CC",
        "__MACOSX/spa-eng/._spa.txt": b"x",
    }
    assert read(pack(**members, **{"logo.png": b"x"})).pairs == PAIRS


def test_a_zip_with_several_texts_lists_them_and_takes_a_name(pack):
    path = pack(**{"one.txt": b"Go.\tVe.\n", "two.tsv": TABLE})
    with pytest.raises(ValueError, match=r"found 2 among its members \['one.txt', 'two.tsv'\]\. Name one: member="):
        read(path)
    assert read(path, member="two.tsv").pairs == PAIRS
    with pytest.raises(ValueError, match=r"member: expected one of \['one.txt', 'two.tsv'\] .* received 'three'"):
        read(path, member="three")


@pytest.mark.parametrize("members", [{}, {"_about.txt": b"CC"}])
def test_a_zip_without_a_text_is_an_error(pack, members):
    with pytest.raises(ValueError, match=r"expected one \.txt or \.tsv file in .*, found 0"):
        read(pack(**members))


def test_a_member_of_what_is_no_zip_is_an_error(write):
    with pytest.raises(ValueError, match=r"member: .* is no zip archive, received member='a'"):
        read(write(TABLE), member="a")


def test_a_damaged_archive_is_an_error_that_names_it(write, pack):
    table = b"".join(b"Go %d.\tVe %d.\n" % (number, number) for number in range(2000))
    packed = gzip.compress(table)
    whole = pack(**{"pairs.txt": table}).read_bytes()
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    for name, content in [("cut.gz", packed[:-20]), ("cut.zip", whole[:-20]), ("broken.zip", bytes(broken))]:
        with pytest.raises(ValueError, match=rf"{name} is a damaged archive"):
            read(write(content, name))


def test_a_zip_with_a_password_is_an_error(write, pack):
    packed = bytearray(pack(**{"pairs.txt": TABLE}).read_bytes())
    for record, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.index(record) + flags] |= 1
    with pytest.raises(ValueError, match=r"cannot be unpacked \(.*encrypted.*Pack it as a plain zip"):
        read(write(bytes(packed), "locked.zip"))


# --- reading two files


def test_two_files_are_read_line_by_line(write):
    corpus = read_parallel(write(b"Ve.\nPara\n", "es"), write(gzip.compress(b"Go.\r\nStop!\tnow"), "en"))
    assert corpus.pairs == [Pair("Ve.", "Go."), Pair("Para", "Stop!\tnow")]


def test_files_of_unequal_length_are_an_error_that_names_both_counts(write):
    two, four = write(b"a\nb\n", "two"), write(b"a\nb\nc\nd\n", "four")
    with pytest.raises(ValueError, match=r"received 4 lines in .*four and 2 in .*two\. Pass two files"):
        read_parallel(two, four)
    with pytest.raises(ValueError, match=r"received 2 lines in .*two and 4 in .*four\."):
        read_parallel(four, two)


def test_the_first_line_without_a_partner_is_named(write):
    two, five = write(b"a\nb\n", "two"), write(b"a\nb\n\nd\ne\n", "five")
    for files in ((two, five), (five, two)):
        with pytest.raises(ValueError, match=rf"correspond; {five}:4 is the first without a partner\."):
            read_parallel(*files)


def test_blank_lines_at_the_end_of_one_file_make_no_difference(write):
    corpus = read_parallel(write(b"a\nb\n\n\n", "es"), write(b"c\nd", "en"))
    assert corpus.pairs == [Pair("a", "c"), Pair("b", "d")]
    assert corpus.report.lines == 2


def test_a_fault_is_located_in_its_own_file(write):
    source, target = write(b"a\n\nc\nd\n", "es"), write(b"e\nf\n\xff\n\n", "en")
    report = read_parallel(source, target, max_malformed=0.8).report
    assert list(map(str, report.first_faults)) == [
        f"{source}:2 empty side",
        f"{target}:3 invalid UTF-8",
        f"{target}:4 empty side",
    ]


# --- splitting


def fraction(name: str) -> float:
    """The whole sha256 as a fraction of 1; its first 8 hex digits differ from it by less than 2^-32."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()) / 2**256


def english_spanish(*sentences):
    return [Pair(source=spanish, target=english) for english, spanish in sentences]


@pytest.mark.parametrize(
    ("sentence", "key"),
    [
        ("¿Adónde vas?", "adonde vas"),
        ("  I'm — NOT_here!\n", "i m not here"),
        ("Señor N\u0303", "senor n"),
        ("ﬁne № ½", "fine no 1 2"),
        ("İstanbul", "istanbul"),
        ("Straße", "straße"),
        ("日本 語", "日本 語"),
        ("?!", ""),
    ],
)
def test_a_key_keeps_letters_and_digits_only(sentence, key):
    assert sentence_key(sentence) == key


def test_pairs_that_share_a_sentence_on_either_side_form_one_group():
    pairs = english_spanish(("Go.", "Ve."), ("GO", "Vete"), ("Leave!", "¡Véte!"), ("Stop", "Para"))
    assert group_names(pairs, key_side="target") == ["go", "go", "go", "stop"]
    assert group_names(pairs, key_side="source") == ["ve", "ve", "ve", "para"]


def test_a_pair_can_join_two_groups_that_came_before_it():
    pairs = english_spanish(("b", "uno"), ("c", "dos"), ("a", "tres"), ("c", "uno"), ("d", "dos"))
    assert group_names(pairs, key_side="target") == ["b", "b", "a", "b", "b"]


def test_the_same_word_in_both_languages_links_nothing():
    assert group_names(english_spanish(("no", "nada"), ("not", "no")), key_side="target") == ["no", "not"]


def test_the_hash_of_the_group_s_name_chooses_the_part():
    pairs = english_spanish(*((f"Number {number}!", f"Número {number}") for number in range(500)))
    parts = split_pairs(pairs, key_side="target")
    expected = {"train": [], "valid": [], "test": []}
    for pair in pairs:
        place = fraction(pair.target.lower().removesuffix("!"))
        expected["test" if place < 0.03 else "valid" if place < 0.06 else "train"].append(pair)
    assert min(map(len, expected.values())) > 5
    assert parts == expected


def test_the_parts_hold_the_same_sentences_in_both_directions():
    forward = english_spanish(*((f"Number {number}", f"Número {number % 90}") for number in range(300)))
    backward = [Pair(source=pair.target, target=pair.source) for pair in forward]
    there, back = split_pairs(forward, key_side="target"), split_pairs(backward, key_side="source")
    for part in ("train", "valid", "test"):
        assert [(pair.target, pair.source) for pair in back[part]] == there[part]
        assert part_sha256(back[part], key_side="source") == part_sha256(there[part], key_side="target")


def test_a_growing_corpus_moves_no_sentence_whose_group_keeps_its_name():
    pairs = english_spanish(*((f"Number {number}", f"Número {number}") for number in range(300)))
    added = english_spanish(
        *((f"Other {number}", f"Otro {number}") for number in range(300)),
        *((f"Number {number} indeed", f"Número {number}") for number in range(0, 300, 7)),  # larger keys, same groups
    )
    before, after = split_pairs(pairs, key_side="target"), split_pairs(added + pairs, key_side="target")
    for part, kept in before.items():
        assert [pair for pair in after[part] if pair in set(pairs)] == kept


def test_a_part_s_digest_is_that_of_its_sorted_lines():
    pairs = english_spanish(("b", "ñ"), ("a", "z"))
    digest = hashlib.sha256("a\tz\nb\tñ\n".encode()).hexdigest()
    assert part_sha256(pairs, key_side="target") == part_sha256(pairs[::-1], key_side="target") == digest


def test_an_empty_corpus_gives_empty_parts():
    assert split_pairs([], key_side="target") == {"train": [], "valid": [], "test": []}


def test_plain_tuples_and_unknown_sides_are_refused_rather_than_guessed():
    with pytest.raises(ValueError, match=r"key_side: expected one of source, target; received 'english'"):
        split_pairs(english_spanish(("a", "b")), key_side="english")
    with pytest.raises(AttributeError):
        split_pairs([("a", "b")], key_side="target")


# --- the real corpus


@pytest.fixture(scope="module")
def benchmark():
    return read(os.environ["CORPUS"])


@pytest.fixture(scope="module")
def parts(benchmark):
    return split_pairs(benchmark.pairs, key_side="target")


@pytest.mark.corpus
def test_the_corpus_is_read_without_a_fault(benchmark):
    assert benchmark.report.lines == len(benchmark.pairs) == 118_964
    assert benchmark.pairs[0] == Pair(source="Ve.", target="Go.")


@pytest.mark.corpus
def test_the_corpus_has_the_benchmark_s_groups(benchmark):
    sizes = Counter(group_names(benchmark.pairs, key_side="target"))
    assert len(sizes) == 97_427
    assert max(sizes.values()) == 44


@pytest.mark.corpus
def test_the_corpus_splits_into_the_benchmark_s_parts(parts):
    summary = {
        part: (len(pairs), len({pair.source for pair in pairs}), part_sha256(pairs, key_side="target"))
        for part, pairs in parts.items()
    }
    assert summary == {
        "train": (112_047, 106_711, "b9f487d24a67515cd5e2c5aa45fbd046727009bfc5aee4bc35fa56bfe327f09b"),
        "valid": (3_502, 3_358, "fee1a355c901469989df7d25c41ed07e33c6affd78cdb16d7a78382ec03a25d5"),
        "test": (3_415, 3_253, "088063b6dd7ea5fa3a82606424ae51ff5ea3929d0a218e77a6d51a99f412ea61"),
    }


@pytest.mark.corpus
def test_no_sentence_of_the_corpus_stands_in_two_parts(parts):
    for side in (0, 1):
        keys = [{sentence_key(pair[side]) for pair in pairs} for pairs in parts.values()]
        assert sum(map(len, keys)) == len(set.union(*keys))


def test_shuffled_groups_keep_a_target_sentence_on_one_side_and_are_seeded():
    pairs = [Pair(f"fuente {i}", f"target {i // 3}") for i in range(300)]
    parts = shuffle_pairs(pairs, seed=1)
    assert {part: len(found) for part, found in parts.items()} == {"train": 240, "valid": 30, "test": 30}
    targets = {part: {pair.target for pair in found} for part, found in parts.items()}
    assert not targets["train"] & targets["valid"]
    assert not targets["train"] & targets["test"]
    assert not targets["valid"] & targets["test"]
    assert sorted(pair for found in parts.values() for pair in found) == sorted(pairs)
    assert shuffle_pairs(pairs, seed=1) == parts
    assert shuffle_pairs(pairs, seed=2) != parts


def test_too_few_target_sentences_are_not_shuffled():
    with pytest.raises(ValueError, match="at least 3 different target sentences to split, received 2"):
        shuffle_pairs([Pair("a", "b"), Pair("c", "d")], seed=1)
