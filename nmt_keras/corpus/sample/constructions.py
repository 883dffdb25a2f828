"""Constructions of the sample grammar. Each draws one kind of sentence pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nmt_keras.corpus.sample import lexicon as lexicon
from nmt_keras.corpus.sample.clauses import (
    Clause,
    Complement,
    draw_asked,
    draw_clause,
    draw_subject,
    draw_time,
    english_verb,
    hand_over,
    join,
    question,
    receivers,
    sentence,
    spanish_verb,
    statement,
    utter,
)
from nmt_keras.corpus.sample.lexicon import (
    FUTURE,
    HER,
    PRESENT,
    PRETERITE,
    YOU,
    Adjective,
    Words,
    kinds,
    spaced,
)
from nmt_keras.corpus.sample.phrases import (
    NOTHING,
    SINGLES,
    WHO,
    Draw,
    Phrase,
    Texts,
    draw_definite,
    draw_noun,
    draw_person,
    draw_quality,
    draw_thing,
    noun_phrase,
)


class Mood(NamedTuple):
    """Subject, negation and punctuation of a sentence."""

    subject: Phrase
    negative: bool
    mark: str


def draw_mood(draw: Draw) -> Mood:
    """Draws a question or a statement. Statements about `you` are negative."""
    if draw.chance(30):
        return Mood(draw_asked(draw), False, "?")
    subject = draw_subject(draw)
    return Mood(subject, subject.person == YOU or draw.chance(30), ".")


def qualify(draw: Draw, subject: Phrase, quality: Adjective) -> Complement:
    """Returns the adjective in agreement with the subject, sometimes with `very`."""
    agreeing = Words(quality.en, quality.agreeing(subject.gender, subject.plural))
    return Complement(join(lexicon.VERY, agreeing) if draw.chance(40) and quality not in lexicon.COLORS else agreeing)


def sayable(subject: Phrase, qualities: Sequence[Adjective]) -> list[Adjective]:
    """Returns the qualities that the subject phrase does not already contain.

    For I, you and we, adjectives that show gender are excluded.
    """
    hidden = subject.gender == ""
    return [how for how in qualities if how.en not in subject.en and not (hidden and how.es.endswith("o"))]


# Constructions: each draws one pair


def act(draw: Draw) -> Texts:
    """Draws sentences such as `Yesterday Ana bought a red car.`"""
    subject = draw_subject(draw)
    tense, negative = draw((PRESENT, PRETERITE, FUTURE)), subject.person == YOU or draw.chance(30)
    clause = draw_clause(draw, subject, lexicon.VERBS, tense, negative)
    time = draw_time(draw, clause)
    if draw.chance(30) and not (negative and tense == PRESENT):
        return utter(clause, ".", before=time)
    return utter(clause, ".", after=time)


def act_often(draw: Draw) -> Texts:
    """Draws sentences such as `My brother never calls us.`"""
    clause = draw_clause(draw, draw_subject(draw), lexicon.VERBS, PRESENT)
    return utter(clause._replace(often=draw(lexicon.OFTEN)), ".")


def ask(draw: Draw) -> Texts:
    """Draws sentences such as `Will you help me tomorrow?`"""
    clause = draw_clause(draw, draw_asked(draw), lexicon.VERBS, draw((PRESENT, PRETERITE, FUTURE)))
    return utter(clause, "?", after=draw_time(draw, clause))


def ask_circumstances(draw: Draw) -> Texts:
    """Draws sentences such as `Where did Ana buy that hat?`"""
    asking = draw((lexicon.WHERE, lexicon.WHEN, lexicon.WHY))
    verbs = (lexicon.BUY, lexicon.SELL, lexicon.WASH, lexicon.EAT) if asking is lexicon.WHERE else lexicon.VERBS
    clause = draw_clause(draw, draw_asked(draw), verbs, draw((PRETERITE, FUTURE)))
    time = NOTHING if asking is lexicon.WHEN else draw_time(draw, clause, 40)
    return utter(clause, "?", before=asking, after=time)


def ask_object(draw: Draw) -> Texts:
    """Draws sentences such as `What did Ana give you?`, `Who did Luis call?`"""
    subject, verb = draw_asked(draw), draw(lexicon.HANDLING + lexicon.MEETING + lexicon.HANDING)
    complement = draw(receivers(subject)) if verb in lexicon.HANDING else Complement()
    clause = Clause(subject, verb, draw((PRETERITE, FUTURE)), complement)
    asking = lexicon.WHOM if verb in lexicon.MEETING else lexicon.WHAT
    return utter(clause, "?", before=asking, after=draw_time(draw, clause))


def ask_subject(draw: Draw) -> Texts:
    """Draws sentences such as `Who sold the white horse?`"""
    clause = draw_clause(draw, WHO, lexicon.VERBS, draw((PRETERITE, FUTURE)))
    return sentence(join(statement(clause), draw_time(draw, clause)), "?")


def modal(draw: Draw) -> Texts:
    """Draws sentences such as `I want to help him tomorrow.`, `Can you call me?`

    In Spanish the infinitive's pronoun comes before quiero and puedo.
    """
    subject, negative, mark = draw_mood(draw)
    auxiliary, link = draw(((lexicon.WANT, Words("to")), (lexicon.CAN, NOTHING), (lexicon.HAVE, Words("to", "que"))))
    deed = draw_clause(draw, subject, lexicon.VERBS, FUTURE, negative)
    infinitive = join(link, Words(deed.verb.en, deed.verb.infinitive))
    clause = Clause(subject, auxiliary, PRESENT, deed.complement, negative, infinitive=infinitive)
    return utter(clause, mark, after=draw_time(draw, deed, 40))


def draw_liked(draw: Draw, subject: Phrase, tense: int) -> Phrase:
    """Draws the thing that is liked: a definite thing or, in the present, a kind of thing or an activity."""
    if tense == PRETERITE or draw.chance(30):
        noun = draw_noun(draw, kinds("text wear vehicle furniture home"))
        return noun_phrase(noun, draw(lexicon.POINTING), draw.chance(35), draw_quality(draw, noun, 30))
    if draw.chance(30):
        deed = draw_clause(draw, subject, lexicon.ENJOYED, PRESENT)
        en, es = join(Words(f"to {deed.verb.en}", deed.verb.infinitive), deed.complement.words)
        return Phrase(en, es, "m", HER)
    noun = draw_noun(draw, kinds("text mail wear fruit animal food"))
    plural, quality = noun.kind != "food", draw_quality(draw, noun, 30)
    generic = noun_phrase(noun, lexicon.BARE, plural, quality)
    return noun_phrase(noun, lexicon.THE, plural, quality)._replace(en=generic.en)


def like(draw: Draw) -> Texts:
    """Draws sentences such as `Ana likes dogs.`, A Ana le gustan los perros. The Spanish subject is the thing liked."""
    subject, negative, mark = draw_mood(draw)
    tense = draw((PRESENT, PRESENT, PRETERITE))
    liked = draw_liked(draw, subject, tense)
    english = Clause(subject, lexicon.LIKE, tense, Complement(Words(liked.en)), negative)
    whom = f"a {subject.es}" if subject.es else ""
    clitic = ("les" if subject.plural else "le") if whom else lexicon.SPEECH_PRONOUNS[subject.person].es
    pleases = spaced("no" if negative else "", clitic, lexicon.LIKE.spanish[tense][liked.person])
    if mark == "?":
        return sentence(Words(question(english).en, spaced(pleases, liked.es, whom)), mark)
    return sentence(Words(statement(english).en, spaced(whom, pleases, liked.es)), mark)


def describe_person(draw: Draw) -> Texts:
    """Draws sentences such as `She is very tired.` (estar), `Are you hungry?` (tener), `I am an artist.` (ser)."""
    subject, negative, mark = draw_mood(draw)
    topic = draw(("character", "state", "feeling", "occupation"))
    if topic == "feeling":
        feeling, very = draw(lexicon.FEELINGS)
        verb, predicate = lexicon.BE_BY_HAVING, Complement(join(very, feeling) if draw.chance(40) else feeling)
    elif topic == "occupation":
        noun = draw(lexicon.OCCUPATIONS)
        english = noun_phrase(noun, lexicon.BARE if subject.plural else lexicon.A, subject.plural).en
        verb, predicate = lexicon.SER, Complement(Words(english, noun.words(subject.plural).es))
    else:
        verb, qualities = (lexicon.SER, lexicon.CHARACTERS) if topic == "character" else (lexicon.ESTAR, lexicon.STATES)
        predicate = qualify(draw, subject, draw(sayable(subject, qualities)))
    return utter(Clause(subject, verb, PRESENT, predicate, negative), mark)


def describe_thing(draw: Draw) -> Texts:
    """Draws sentences such as `Is your sister's car very old?`"""
    quality = draw((*lexicon.QUALITIES, lexicon.DIRTY, lexicon.DIRTY))
    subject, mark = draw_definite(draw, draw_noun(draw, quality.kinds)), draw((".", ".", "?"))
    verb = lexicon.ESTAR if quality is lexicon.DIRTY else lexicon.SER
    return utter(Clause(subject, verb, PRESENT, qualify(draw, subject, quality), mark == "." and draw.chance(30)), mark)


def locate(draw: Draw) -> Texts:
    """Draws sentences such as `The apples aren't on the table.`, `Where is Ana?`"""
    subject, negative, mark = draw_mood(draw)
    company = draw_person(draw, besides=subject)
    place = draw((*lexicon.FOR_PEOPLE, Words(f"with {company.en}", f"con {company.es}")))
    if draw.chance(55):
        noun = draw_noun(draw, lexicon.PLACES.keys())
        subject, place = draw_definite(draw, noun), draw(lexicon.PLACES[noun.kind])
    if mark == "?" and draw.chance(60):
        return utter(Clause(subject, lexicon.ESTAR, PRESENT), mark, before=lexicon.WHERE)
    return utter(Clause(subject, lexicon.ESTAR, PRESENT, Complement(place), negative), mark)


def exist(draw: Draw) -> Texts:
    """Draws sentences such as `There are two cats in the garden.`, `How many eggs are there?` (hay)."""
    noun = draw_noun(draw, kinds("text mail wear fruit furniture animal"))
    determiner, place = draw((lexicon.A, lexicon.HOW_MANY, *lexicon.COUNTING)), draw(lexicon.PLACES[noun.kind])
    some = noun_phrase(noun, determiner, determiner is not lexicon.A, draw_quality(draw, noun, 40)).words
    if determiner is lexicon.HOW_MANY:
        return sentence(join(some, Words("are there", "hay"), place), "?")
    return sentence(join(Words("there is" if determiner is lexicon.A else "there are", "hay"), some, place))


def own(draw: Draw) -> Texts:
    """Draws sentences such as `Our neighbors have three white horses.`"""
    subject, negative, mark = draw_mood(draw)
    noun = draw_noun(draw, kinds("text mail wear vehicle furniture home fruit animal"))
    thing = draw_thing(draw, noun, subject, definite=negative)
    return utter(Clause(subject, lexicon.HAVE, PRESENT, Complement(thing.words), negative), mark)


def compare(draw: Draw) -> Texts:
    """Draws sentences such as `Ana is taller than Luis.`, más alta que Luis."""
    if draw.chance(50):
        subject = draw_subject(draw)
        quality, other = draw(sayable(subject, lexicon.CHARACTERS)), draw_person(draw, besides=subject)
    else:
        quality = draw([quality for quality in lexicon.QUALITIES if quality.comparative])
        noun = draw_noun(draw, quality.kinds)
        subject = noun_phrase(noun, draw((lexicon.THIS, *lexicon.POSSESSIVES)), draw.chance(35))
        other = noun_phrase(draw_noun(draw, {noun.kind}), lexicon.THE, owner=draw(SINGLES))
    spanish = f"más {quality.agreeing(subject.gender, subject.plural)} que {other.es}"
    more = Complement(Words(f"{quality.comparative} than {other.en}", spanish))
    return utter(Clause(subject, lexicon.SER, PRESENT, more, subject.person == YOU or draw.chance(20)), ".")


def act_twice(draw: Draw) -> Texts:
    """Draws sentences such as `Luis bought an apple and ate it.` The pronoun has the gender of its noun."""
    subject, tense = draw_subject(draw), draw((PRETERITE, FUTURE))
    kind, first, sequels = draw(lexicon.SEQUELS)
    thing = draw_thing(draw, draw_noun(draw, kinds(kind)), subject, definite=draw.chance(50))
    clitic = ("la" if thing.gender == "f" else "lo") + "s" * thing.plural
    it = Complement(Words("them" if thing.plural else "it"), clitic)
    opening, second = Clause(subject, first, tense, Complement(thing.words)), draw(sequels)
    rest = hand_over(draw, subject, it) if second in lexicon.HANDING else it
    sequel = Clause(subject, second, tense, rest)
    also = Words(f"and {english_verb(sequel)[1]}", f"y {spanish_verb(sequel)}")
    return utter(opening, ".", after=join(also, rest.words, draw_time(draw, opening, 30)))


def explain_deed(draw: Draw) -> Texts:
    """Draws sentences such as `I didn't buy the house because it is very old.`"""
    subject, (verb, negative, qualities) = draw_subject(draw), draw(lexicon.MOTIVES)
    quality = draw(qualities)
    thing = draw_definite(draw, draw_noun(draw, quality.kinds & verb.takes), subject)
    tense = draw((PRETERITE, FUTURE)) if verb.shows_tense(subject.person) else FUTURE
    it = Phrase("they" if thing.plural else "it", "", thing.gender, thing.person)
    be = lexicon.ESTAR if quality is lexicon.DIRTY else lexicon.SER
    reason = statement(Clause(it, be, PRESENT, qualify(draw, it, quality)))
    deed = Clause(subject, verb, tense, Complement(thing.words), negative)
    return utter(deed, ".", after=join(lexicon.BECAUSE, reason))


def relate(draw: Draw) -> Texts:
    """Draws sentences such as `The shirt that Ana bought is white.` The Spanish subject is last: que compró Ana."""
    verb = draw((lexicon.BUY, lexicon.SELL, lexicon.READ, *lexicon.HANDING))
    quality = draw([quality for quality in lexicon.QUALITIES if quality.kinds & verb.takes])
    thing = noun_phrase(draw_noun(draw, quality.kinds & verb.takes), lexicon.THE, draw.chance(35))
    subject = draw_subject(draw)
    complement = draw(receivers(subject)) if verb in lexicon.HANDING else Complement()
    clause = Clause(subject, verb, PRETERITE, complement)
    en, es = f"{thing.en} that {statement(clause).en}", spaced(thing.es, "que", spanish_verb(clause), subject.es)
    return utter(Clause(thing._replace(en=en, es=es), lexicon.SER, PRESENT, qualify(draw, thing, quality)), ".")


def exclaim(draw: Draw) -> Texts:
    """Draws sentences such as `What a beautiful house you have!`"""
    quality = draw(lexicon.STRIKING)
    noun, plural = draw_noun(draw, quality.kinds), draw.chance(40)
    thing = noun_phrase(noun, lexicon.BARE if plural else lexicon.A, plural, quality)
    exclaimed = Words(f"what {thing.en}", f"qué {noun.words(plural).es} tan {quality.agreeing(noun.gender, plural)}")
    if draw.chance(20):
        return sentence(exclaimed, "!")
    clause = Clause(draw_asked(draw), lexicon.HAVE, PRESENT)
    having = Words(statement(clause).en, spaced(spanish_verb(clause), clause.subject.es))
    return sentence(join(exclaimed, having), "!")


def command(draw: Draw) -> Texts:
    """Draws sentences such as `Please wash the car.` The Spanish form is that of `she washes`."""
    verb = draw(lexicon.HANDLING + lexicon.MEETING)
    if verb in lexicon.MEETING:
        person = draw_person(draw)
        thing = Words(person.en, f"a {person.es}")
    else:
        thing = draw_definite(draw, draw_noun(draw, verb.takes), percent=50).words
    return sentence(Words(f"please {verb.en} {thing.en}", f"{verb.spanish[PRESENT][HER]} {thing.es}, por favor"))


CONSTRUCTIONS: tuple[tuple[Callable[[Draw], Texts], int], ...] = (
    (act, 4050),
    (act_often, 500),
    (ask, 900),
    (ask_circumstances, 450),
    (ask_object, 300),
    (ask_subject, 250),
    (modal, 800),
    (like, 750),
    (describe_person, 1100),
    (describe_thing, 450),
    (locate, 450),
    (exist, 250),
    (own, 350),
    (compare, 400),
    (act_twice, 500),
    (explain_deed, 350),
    (relate, 300),
    (exclaim, 150),
    (command, 200),
)
"""Constructions, with the number of different pairs of each in the corpus."""
