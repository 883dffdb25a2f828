"""Splitting text into sentences: the rule, its known limits, and lossless joining."""

import pytest
from servers import ROOT

from nmt_keras.io.sentences import MARKS, Piece, rejoin, split


def sentences(text):
    return [piece.sentence for piece in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hola. Vete.", ["Hola.", "Vete."]),
        ("¿Qué tal? ¡Muy bien!", ["¿Qué tal?", "¡Muy bien!"]),
        ("Espera... Ya… ¿Sí?", ["Espera...", "Ya…", "¿Sí?"]),
        ("¡¿Qué?! Nada.", ["¡¿Qué?!", "Nada."]),
        ("Son tres. 4 no.", ["Son tres.", "4 no."]),
        ("«Ya voy.» Y se fue.", ["«Ya voy.»", "Y se fue."]),
        ("Dijo: “No.” “Sí.”", ["Dijo: “No.”", "“Sí.”"]),
        ("(Es tarde.) Ven.", ["(Es tarde.)", "Ven."]),
        ("Se fue. —¿Quién?", ["Se fue.", "—¿Quién?"]),
        ("Éste no. Ñandúes.", ["Éste no.", "Ñandúes."]),
        ("No. Vete.", ["No.", "Vete."]),
        ("مرحبا. كيف حالك؟ أنا بخير! شكرا", ["مرحبا.", "كيف حالك؟", "أنا بخير!", "شكرا"]),
        ("שלום. מה שלומך? טוב. 3 פעמים.", ["שלום.", "מה שלומך?", "טוב.", "3 פעמים."]),
        ("وہ آیا۔ وہ گیا۔", ["وہ آیا۔", "وہ گیا۔"]),
        ("वह आया। वह गया।", ["वह आया।", "वह गया।"]),
        ("Գնաց։ Եկավ։", ["Գնաց։", "Եկավ։"]),
        ("我来了。你呢？ 好！", ["我来了。", "你呢？", "好！"]),
        ("行く！？「行く。」と言った。終わり", ["行く！？", "「行く。」と言った。", "終わり"]),
        ("Er kam. „Ja!“ Gut.", ["Er kam.", "„Ja!“", "Gut."]),
        ("خبزًا. ذهبتُ. نعم", ["خبزًا.", "ذهبتُ.", "نعم"]),  # marks belong to the letter before them
        ('צה״ל. צה"ל. כן', ["צה״ל.", 'צה"ל.', "כן"]),
        ("¡Hola! 😊 ¿Y tú? 👍🏽\n• Me gusta el 😀 café. ❤️", ["¡Hola!", "¿Y tú?", "Me gusta el 😀 café."]),  # pictures
        ("Uno\rDos", ["Uno", "Dos"]),
        ("نعم؟\u200f لا\u00ad.\u200b\u2060 نعم", ["نعم؟", "لا.", "نعم"]),  # invisible characters
    ],
)
def test_a_sentence_ends_at_its_mark_before_a_letter_that_is_not_small_a_digit_or_an_opening_mark(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Hola",
        "Cuesta 3.50 hoy",
        "Dijo ¡ya! y se fue",
        "etc. y más",
        "www.example.org es suyo",
        "uno.Dos",
        "El Sr. López y la Dra. Ruiz llegan",
        "J. R. R. Tolkien escribe",
        "Vive en los EE. UU. desde 1990",
        "Ven\u0303 con la Dn\u0303a. A\u0301. Ruiz",
        "Está en la pág. 7 del vol. 2",
        "Ask Mr. Smith",
        "قال د. أحمد نعم",
        "3.50 ريال",
        "Am 3. Mai, im 19. Jahrhundert, z. B. Äpfel, z.B. Birnen, i. d. R. Obst, d. h. Obst, vgl. Abb. 3",
        "44 v. Chr. geschah es bzw. Nr. 5 kam",
        "Он живёт в г. Москве, т. е. Москва на ул. Ленина, рис. 3",
        "Ela gosta, p. ex. Maçãs, e a profa. Ana",
        "Il vit, p. ex. Paris, c.-à-d. Paris, et MM. Dupont, févr. 2020",
        "Ad es. Roma, il sig. Rossi e l'avv. Bianchi",
        "Zie bijv. Amsterdam, m.a.w. Nederland, en dhr. Jansen",
        "Mieszka przy ul. Długiej, np. Ola, nr 3",
        "Bkz. Bölüm, 2. Dünya Savaşı ve Doç. Öztürk",
        "TP. Hồ Chí Minh, TS. Nguyễn",
        "डॉ. राम और प्रो. सीता",
        "ดร. สมชาย มา",
        "Vio el No. 6, p. ej. España, dn\u0303a. Ana",
    ],
)
def test_a_stop_inside_a_sentence_an_abbreviation_or_an_ordinal_ends_none(text):
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Es war so. Dann",
        "Das war 44 v. Chr. Danach",
        "Ich bin 19. Danach",
        "Это было в 1999 г. Москва",
        "Хлеб и т. д. Потом",
        "Я помог им. Они",
        "Bu o. Sen",
        "Vâng ạ. Tôi",
        "No sé qué es. Pero",
        "Está no mar. Ele",
        "He is in bed. The",
        "Come sta. Io",
        "Mam sto. Ty",
        "5 mm. Das",
    ],
)
def test_words_and_abbreviations_that_end_sentences_are_not_in_the_table(text):
    assert len(sentences(text)) == 2


def test_a_line_break_ends_a_sentence_without_any_mark():
    assert split("Título\n\n  uno\r\ndos") == [Piece("Título", "\n\n  "), Piece("uno", "\r\n"), Piece("dos", "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Un título.\n\n- uno\n  * dos", ["", "## ", "Un título.", "\n\n- ", "uno", "\n  * ", "dos"]),
        ("1. Abre.\n2) [x] Cierra.", ["", "1. ", "Abre.", "\n2) ", "[x] Cierra."]),
        ("> - [ ] Hola.\n>> Bien.", ["", "> - [ ] ", "Hola.", "\n>> ", "Bien."]),
        ("—Hola —dijo—. ¿Qué tal?", ["", "—", "Hola —dijo—.", " ", "¿Qué tal?"]),
        ("-¿Qué?\n-Nada.", ["", "-", "¿Qué?", "\n-", "Nada."]),
        ("-5 grados, #tag, uno - dos", ["-5 grados, #tag, uno - dos"]),
        ("#\n- ", ["#", "\n", "-", " "]),
    ],
)  # fmt: skip
def test_marks_before_a_line_are_no_part_of_its_sentence(text, expected):
    assert [part for piece in split(text) for part in piece][: len(expected)] == expected
    assert rejoin(split(text), [piece.sentence for piece in split(text) if piece.sentence]) == text


@pytest.mark.parametrize(
    ("text", "translations", "expected"),
    [
        ("  Uno.  Dos.\n\n¿Tres?\n", ["One.", "Two.", "Three?"], "  One.  Two.\n\nThree?\n"),
        ("我来了。你呢？\n好！走。", ["I came.", "You?", "Good!", "Go."], "I came. You?\nGood! Go."),
        ("我来了。你呢？\n好！走。", ["来た。", "君は？", "よし！", "行く。"], "来た。君は？\nよし！行く。"),
    ],
)
def test_translations_stand_where_their_sentences_stood_with_spaces_except_in_chinese(text, translations, expected):
    assert rejoin(split(text), translations) == expected


def test_the_page_knows_every_mark_that_ends_a_sentence():
    service = (ROOT / "serve" / "web" / "service.js").read_text("utf-8")
    pattern = service.partition("const marks = ")[2].partition("\n")[0]
    assert set(MARKS) <= set(pattern)
