"""The sample corpus reads like Spanish and English, is a function both ways, and cannot be translated word by word."""

import re
from collections import Counter, defaultdict
from itertools import islice

import pytest

from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.sample import SAMPLE_SHA256, draw_pairs, sample_pairs
from nmt_keras.corpus.sample import lexicon as lexicon
from nmt_keras.corpus.sample.clauses import Clause, Complement, question, sentence, statement
from nmt_keras.corpus.sample.constructions import CONSTRUCTIONS
from nmt_keras.corpus.sample.lexicon import FUTURE, HER, ME, PRESENT, PRETERITE, THEM, US, YOU, Words
from nmt_keras.corpus.sample.phrases import Draw, Phrase, noun_phrase
from nmt_keras.corpus.split import group_names, part_sha256, sentence_key, split_pairs

PAIRS = sample_pairs()
ROWS = [Pair(source=spanish, target=english) for english, spanish in PAIRS]
PARTS = split_pairs(ROWS, key_side="target")
NOUNS = {noun.en: noun for noun in lexicon.THINGS}
ANA = Phrase("Ana", "Ana", "f", HER)


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


def tokens(text: str) -> list[str]:
    return re.findall(r"[\w']+|[^\w\s]", text)


# The whole


def test_the_corpus_is_the_committed_one_on_every_machine():
    assert len(PAIRS) == 12_500
    assert part_sha256(ROWS, key_side="target") == SAMPLE_SHA256
    assert sample_pairs() == PAIRS


def test_choices_depend_on_the_name_alone():
    # The sha256 of "act 1", "act 2" and "act 3" end in the hex digits f, 7 and d: choices out of sixteen.
    draw = Draw("act")
    assert [draw("0123456789abcdef") for _ in range(3)] == ["f", "7", "d"]


@pytest.mark.parametrize(
    ("part", "size", "sha256"),
    [
        ("train", 11_728, "95f1d29f09af89410678c51e6dd91353b4344b7fe42a3368f28a34ab95045af5"),
        ("valid", 379, "6abce390ea55863db2a7ea1b73f6bbfd2773721c642512b92f67145c06459e54"),
        ("test", 393, "d8e6c715415b0d8ec3fedfe79cb92fa1708ce72b1390e127ab9ae9422a208c60"),
    ],
)
def test_the_benchmark_split_of_the_corpus_is_fixed(part, size, sha256):
    assert (len(PARTS[part]), part_sha256(PARTS[part], key_side="target")) == (size, sha256)


def test_no_two_pairs_share_a_sentence_so_every_group_of_the_split_is_one_pair():
    assert len(set(group_names(ROWS, key_side="target"))) == len(ROWS)


@pytest.mark.parametrize("side", ["source", "target"])
def test_no_test_sentence_stands_in_train_or_valid(side):
    seen = {sentence_key(getattr(pair, side)) for part in ("train", "valid") for pair in PARTS[part]}
    assert not [pair for pair in PARTS["test"] if sentence_key(getattr(pair, side)) in seen]


def test_the_grammar_itself_is_a_function_in_both_directions():
    # Four times as many draws as the corpus keeps: what it does not hold is unambiguous too.
    english_of, spanish_of = defaultdict(set), defaultdict(set)
    for construct, wanted in CONSTRUCTIONS:
        for english, spanish in islice(draw_pairs(construct), 4 * wanted):
            english_of[spanish].add(english)
            spanish_of[english].add(spanish)
    assert not [(spanish, several) for spanish, several in english_of.items() if len(several) > 1]
    assert not [(english, several) for english, several in spanish_of.items() if len(several) > 1]


# What can be learnt from it


@pytest.mark.parametrize("side", ["source", "target"])
def test_every_token_of_a_test_sentence_occurs_in_train_case_included(side):
    seen = {token for pair in PARTS["train"] for token in tokens(getattr(pair, side))}
    assert not {token for pair in PARTS["test"] for token in tokens(getattr(pair, side))} - seen


@pytest.mark.parametrize(("side", "types"), [("source", 420), ("target", 240)])
def test_words_are_few_and_each_occurs_at_least_15_times_in_train(side, types):
    counts = Counter(word for pair in PARTS["train"] for word in words(getattr(pair, side)))
    assert len(counts) <= types
    assert not {word: count for word, count in counts.items() if count < 15}


def test_sentences_are_short_and_of_many_lengths():
    lengths = Counter(len(words(spanish)) for _, spanish in PAIRS)
    assert min(lengths) >= 2
    assert max(lengths) <= 18
    assert sum(lengths[length] for length in range(3, 13)) > 0.95 * len(PAIRS)
    assert all(lengths[length] > 100 for length in range(3, 12))


def test_any_stretch_holds_all_constructions():
    # The rarest construction has 150 of 12,500 pairs: a stretch of 1000 expects 12 of its kind.
    assert sum(spanish.startswith("¡") for _, spanish in PAIRS[:1000]) > 3


# Grammar


def test_sentences_look_like_sentences():
    for english, spanish in PAIRS:
        mark = english[-1]
        assert spanish[-1] == mark
        assert re.fullmatch(r"[A-Z][A-Za-z' ]*[.?!]", english)
        assert re.fullmatch({".": "", "?": "¿", "!": "¡"}[mark] + r"[A-ZÁÉÓÚ][\w, ]*[.?!]", spanish)
        assert "  " not in english + spanish
        assert not re.search(r"\b(a|de) el\b", spanish)
        assert not re.search(r"\b(an [^aeiou]|a [aeiou])", english)


@pytest.mark.parametrize(
    ("verb", "present", "preterite", "future"),
    [
        (
            lexicon.BUY,
            "compro compras compra compramos compran",
            "compré compraste compró compramos compraron",
            "comprar",
        ),
        (lexicon.SELL, "vendo vendes vende vendemos venden", "vendí vendiste vendió vendimos vendieron", "vender"),
        (lexicon.READ, "leo lees lee leemos leen", "leí leíste leyó leímos leyeron", "leer"),
        (lexicon.GIVE, "doy das da damos dan", "di diste dio dimos dieron", "dar"),
    ],
)
def test_verbs_conjugate(verb, present, preterite, future):
    endings = ("é", "ás", "á", "emos", "án")
    assert verb.spanish == (
        tuple(present.split()),
        tuple(preterite.split()),
        tuple(future + ending for ending in endings),
    )


@pytest.mark.parametrize(
    ("phrase", "english", "spanish"),
    [
        (noun_phrase(NOUNS["house"], lexicon.THE, True, lexicon.RED), "the red houses", "las casas rojas"),
        (noun_phrase(NOUNS["car"], lexicon.OUR, False, lexicon.OLD), "our old car", "nuestro coche viejo"),
        (noun_phrase(NOUNS["house"], lexicon.A, False, lexicon.EXPENSIVE), "an expensive house", "una casa cara"),
        (noun_phrase(NOUNS["bird"], lexicon.THAT, True, lexicon.BIG), "those big birds", "esos pájaros grandes"),
        (noun_phrase(NOUNS["box"], lexicon.THE, owner=ANA), "Ana's box", "la caja de Ana"),
    ],
)
def test_noun_phrases_agree_and_reorder(phrase, english, spanish):
    assert phrase.words == Words(english, spanish)


@pytest.mark.parametrize(
    ("reading", "clause", "english", "spanish"),
    [
        (statement, Clause(ANA, lexicon.BUY, PRESENT), "Ana buys", "Ana compra"),
        (statement, Clause(ANA, lexicon.BUY, PRETERITE, negative=True), "Ana didn't buy", "Ana no compró"),
        (question, Clause(ANA, lexicon.BUY, PRESENT), "does Ana buy", "compra Ana"),
        (question, Clause(Phrase("you", "", "", YOU), lexicon.WASH, FUTURE), "will you wash", "lavarás"),
        (
            statement,
            Clause(
                Phrase("I", "", "", ME), lexicon.GIVE, FUTURE, Complement(Words("it to you"), "te lo"), negative=True
            ),
            "I won't give it to you",
            "no te lo daré",
        ),
        (
            question,
            Clause(Phrase("they", "ellos", "m", THEM), lexicon.ESTAR, PRESENT, Complement(Words("tired", "cansados"))),
            "are they tired",
            "están cansados ellos",
        ),
    ],
)
def test_clauses_negate_and_ask(reading, clause, english, spanish):
    assert reading(clause) == Words(english, spanish)


def test_verbs_know_where_they_hide_their_tense():
    assert not lexicon.BUY.shows_tense(US)  # compramos is both
    assert lexicon.SELL.shows_tense(US)  # vendemos, vendimos
    assert not lexicon.READ.shows_tense(ME)  # I read is both
    assert lexicon.READ.shows_tense(HER)  # she reads, she read


def test_nothing_shows_whether_i_or_you_or_we_are_men_or_women():
    gendered = r"\b(soy|eres|somos|estoy|estás|estamos)( muy| más)? (alt|cansad|enferm)[oa]"
    assert not [spanish for _, spanish in PAIRS if re.search(gendered, spanish.lower())]


def test_a_and_de_contract_with_the_article_but_not_with_the_pronoun():
    assert sentence(Words("x", "a el médico de el niño"))[1] == "Al médico del niño."
    assert sentence(Words("x", "a él"))[1] == "A él."


@pytest.mark.parametrize(
    ("english", "spanish"),
    [
        ("We washed my boxes last Monday.", "Lavamos mis cajas el lunes pasado."),
        ("You didn't wash the dress last night.", "No lavaste el vestido anoche."),
        (
            "Our sisters sent the books to our mother last Monday.",
            "Nuestras hermanas le mandaron los libros a nuestra madre el lunes pasado.",
        ),
        ("He never sends us interesting letters.", "Él nunca nos manda cartas interesantes."),
        ("Will Marta wash the sick girl's hat?", "¿Lavará Marta el sombrero de la niña enferma?"),
        ("Does Marta eat bread every day?", "¿Come pan Marta todos los días?"),
        ("Do the boys have to eat the bread?", "¿Tienen que comer los niños el pan?"),
        ("Do Ana and Luis want to wash them?", "¿Los quieren lavar Ana y Luis?"),
        ("Where will your friends buy the soup?", "¿Dónde comprarán tus amigos la sopa?"),
        ("Who will you help next week?", "¿A quién ayudarás la próxima semana?"),
        ("Who talked to the sick teachers?", "¿Quién habló con las profesoras enfermas?"),
        ("The tall girl wants to wash it tomorrow.", "La niña alta lo quiere lavar mañana."),
        ("Marta doesn't like eggs.", "A Marta no le gustan los huevos."),
        ("Did the tired teacher like those new hats?", "¿Le gustaron esos sombreros nuevos a la profesora cansada?"),
        ("The sick teachers are sleepy.", "Las profesoras enfermas tienen sueño."),
        ("You aren't a student.", "No eres estudiante."),
        ("Is the sick teacher very tired?", "¿Está muy cansada la profesora enferma?"),
        ("The books aren't on the table.", "Los libros no están en la mesa."),
        ("How many expensive books are there on the chair?", "¿Cuántos libros caros hay en la silla?"),
        ("They have another interesting letter.", "Ellos tienen otra carta interesante."),
        ("Our house is bigger than my friend's house.", "Nuestra casa es más grande que la casa de mi amigo."),
        (
            "The teachers will buy those white shirts and give them to me.",
            "Las profesoras comprarán esas camisas blancas y me las darán.",
        ),
        ("She won't sell our car because it is very beautiful.", "Ella no venderá nuestro coche porque es muy bonito."),
        ("The shirt that my neighbor gave you is white.", "La camisa que te dio mi vecino es blanca."),
        ("What an expensive house the tired doctor has!", "¡Qué casa tan cara tiene el médico cansado!"),
        ("Please call the tired boy.", "Llama al niño cansado, por favor."),
    ],
)
def test_the_corpus_holds_these_translations(english, spanish):
    assert (english, spanish) in PAIRS


# Word by word


def align(pairs: list[tuple[list[str], list[str]]], rounds: int = 3) -> dict[str, Counter[tuple[str, ...]]]:
    """For each Spanish word, how often which English words were aligned with it, by IBM model 1 with an empty word."""
    table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        shares: Counter[tuple[str, str]] = Counter()
        totals: Counter[str] = Counter()
        for spanish, english in pairs:
            for word in english:
                scores = [table[origin, word] for origin in spanish]
                total = sum(scores)
                for origin, score in zip(spanish, scores, strict=True):
                    shares[origin, word] += score / total
                    totals[origin] += score / total
        table = {(origin, word): share / totals[origin] for (origin, word), share in shares.items()}
    aligned: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for spanish, english in pairs:
        origins = [max(range(len(spanish)), key=lambda at: table[spanish[at], word]) for word in english]
        for at, origin in enumerate(spanish):
            aligned[origin][tuple(word for word, start in zip(english, origins, strict=True) if start == at)] += 1
    return aligned


@pytest.fixture(scope="module")
def dictionary() -> dict[str, tuple[str, ...]]:
    """What stands most often for a Spanish word: one English word, several, or none."""
    train = [(["", *words(pair.source)], words(pair.target)) for pair in PARTS["train"]]
    return {origin: counts.most_common(1)[0][0] for origin, counts in align(train).items()}


@pytest.mark.parametrize(
    ("spanish", "english"),
    [("perro", "dog"), ("gatos", "cats"), ("rojas", "red"), ("mañana", "tomorrow"), ("siempre", "always")],
)
def test_the_dictionary_learnt_from_train_is_a_good_one(dictionary, spanish, english):
    assert dictionary[spanish] == (english,)


def test_translating_word_by_word_finds_most_words_but_few_sentences(dictionary):
    right = shared = total = 0
    for pair in PARTS["test"]:
        reference = words(pair.target)
        translation = [word for origin in words(pair.source) for word in dictionary[origin]]
        right += translation == reference
        shared += (Counter(translation) & Counter(reference)).total()
        total += len(reference)
    assert shared / total > 0.7
    assert 0.02 < right / len(PARTS["test"]) < 0.30
