"""The parts of the training data of the committed model, on tiny inputs."""

import struct

import pytest

from benchmarks.model_data import (
    agreed,
    clauses,
    cleaned,
    date_pairs,
    keys,
    leaves,
    lexicon,
    licence,
    messages,
    name_pairs,
    new_pairs,
)
from nmt_keras.corpus import Pair
from nmt_keras.corpus.alignments import from_pharaoh


def catalogue(*entries):
    """Returns a catalogue in gettext's binary format."""
    texts = [text.encode() for side in zip(*entries, strict=True) for text in side]
    begin, tables = 28 + 8 * len(texts), []
    for text in texts:
        tables += [len(text), begin]
        begin += len(text)
    header = 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0
    return struct.pack(f"<{7 + len(tables)}I", *header, *tables) + b"".join(texts)


def test_messages_lose_contexts_and_accelerators_and_those_with_variables_are_skipped():
    file = catalogue(
        ("", "Language: es\n"),
        ("menu\x04_Open…", "_Abrir..."),
        ("%s file", "Archivo %s"),
        ("Day\0Days", "Día\0Días"),
        ("Internet", "Internet"),
        ("one two three four five six seven", "uno dos tres"),
    )
    assert {*messages(file)} == {Pair("Abrir", "Open"), Pair("Día", "Day"), Pair("Días", "Days")}


@pytest.mark.parametrize(
    "message", ["<b>Bold</b>", "http://a.b", "3 files", "a\nb", "x", "foo_bar_baz", "--help", "a.txt"]
)
def test_messages_that_are_no_plain_text_are_skipped(message):
    assert cleaned(message) == ""


def test_a_message_has_the_translation_that_most_catalogues_have_and_two_at_least():
    close, exit_, other = Pair("Cerrar", "Close"), Pair("cerrar", "Exit"), Pair("Otro", "Other")
    assert agreed([[exit_, other], [close, close], [Pair("CERRAR", "close")]]) == [close]


def test_names_of_cldr_are_paired_by_their_paths_and_plurals_have_numbers():
    spanish, english = (
        dict(leaves({"main": {language: {"unit": names}}}, f"/main/{language}"))
        for language, names in (
            ("es", {"name": "año", "one": "{0} año", "other": "{0}\xa0años", "short": "a."}),
            ("en", {"name": "year", "one": "{0} year", "other": "{0} years"}),
        )
    )
    name, one, other = name_pairs(spanish, english, "/unit/(name|one|other)")
    assert (name, one) == (Pair("año", "year"), Pair("1 año", "1 year"))
    number = other.source.split()[0]
    assert number.isdecimal()
    assert other == Pair(f"{number} años", f"{number} years")


def test_dates_are_written_in_the_formats_of_cldr():
    def calendar(long, month, first):
        months = {str(number): first if number == 1 else f"month {number}" for number in range(1, 13)}
        formats = {"dateFormats": {"long": long}, "dateTimeFormats": {"availableFormats": {"MMMMd": month}}}
        gregorian = {**formats, "months": {"format": {"wide": months}}}
        return dict(leaves({"dates": {"calendars": {"gregorian": gregorian}}}, ""))

    spanish = calendar("d 'de' MMMM 'de' y", "d 'de' MMMM", "enero")
    found = [*date_pairs(spanish, calendar("MMMM d, y", "MMMM d", "January"))]
    assert Pair("2 de enero", "January 2") in found
    assert any(pair.source.startswith("2 de enero de ") and pair.target.startswith("January 2, ") for pair in found)


def test_pairs_of_the_corpus_and_sentences_of_the_held_out_sets_are_not_added():
    pairs = [Pair("Hola", "Hi"), Pair("¡ADIÓS!", "Goodbye"), Pair("Bien", "No."), Pair("No.", "No")]
    held = keys(Pair("Adiós.", "No!"))
    assert new_pairs([*pairs, Pair("No", "Not")], {pairs[0]}, held) == [Pair("No", "Not")]


def linked(line):
    return from_pharaoh(line).possible


def test_clauses_are_taken_from_pairs_whose_clauses_correspond():
    links = {
        Pair("Bueno, me voy.", "Well, I am leaving."): linked("0-0 1-1 2-2 2-3"),
        Pair("No, gracias.", "Thanks, no."): linked("0-1 1-0"),
    }
    assert clauses(links) == {
        Pair("Bueno", "Well"): linked("0-0"),
        Pair("Me voy.", "I am leaving."): linked("0-0 1-1 1-2"),
    }


def test_nouns_have_the_words_that_are_usually_linked_with_them():
    pairs = 4 * [Pair("Tengo una agenda.", "I have a date book.")]
    links = 4 * [(linked("0-0 0-1 1-2 2-3 2-4"), linked("0-1 1-2 2-4"))]
    assert lexicon(pairs, links) == {
        Pair("agenda", "date book"): linked("0-0 0-1"),
        Pair("Agenda.", "Date book."): linked("0-0 0-1"),
    }
    assert lexicon([*pairs, Pair("¡Agenda!", "Your date book!")], [*links, links[0]]) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Files: *\nCopyright: me\nLicense: GPL-2+\n text\n\nFiles: debian/*\nLicense: MIT\n", "GPL-2+"),
        ("On Debian, see /usr/share/common-licenses/GPL-3.\n", "GPL-3"),
    ],
)
def test_the_licence_of_a_package_is_in_its_copyright_file(text, expected):
    assert licence(text) == expected
