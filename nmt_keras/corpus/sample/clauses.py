"""Clauses of the sample grammar: a subject, a verb in a tense and a complement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt_keras.corpus.sample import lexicon as lexicon
from nmt_keras.corpus.sample.lexicon import (
    FUTURE,
    HER,
    ME,
    PRESENT,
    PRETERITE,
    THEM,
    US,
    YOU,
    Verb,
    Words,
    spaced,
)
from nmt_keras.corpus.sample.phrases import (
    BY_PERSON,
    LISTENER,
    NOTHING,
    Draw,
    Phrase,
    Texts,
    draw_noun,
    draw_person,
    draw_supply,
    draw_thing,
)

# Clauses


class Complement(NamedTuple):
    """Words after the verb, and Spanish pronouns before it."""

    words: Words = NOTHING
    clitics: str = ""
    bare: bool = False


class Clause(NamedTuple):
    """Subject, verb in a tense, and complement."""

    subject: Phrase
    verb: Verb
    tense: int
    complement: Complement = Complement()
    negative: bool = False
    often: Words = NOTHING
    """`always` or `never`, placed before the verb in both languages."""
    infinitive: Words = NOTHING
    """Infinitive after want, can or have to, such as `to buy`. The clause's complement belongs to it."""


def join(*parts: Words) -> Words:
    """Concatenates words in both languages."""
    return Words(spaced(*(part.en for part in parts)), spaced(*(part.es for part in parts)))


def english_verb(clause: Clause, inverted: bool = False) -> tuple[str, str]:
    """Returns auxiliary and verb. `do` is added in negations and questions, unless the verb is `be` or `can`."""
    person, verb = clause.subject.person, clause.verb
    if verb.auxiliary:
        auxiliary, main = verb.english_present[person], ""
    elif clause.tense == FUTURE or clause.negative or inverted:
        auxiliary, main = ("does" if person == HER else "do", "did", "will")[clause.tense], verb.en
    else:
        return "", verb.past if clause.tense == PRETERITE else verb.english_present[person]
    return lexicon.NEGATED.get(auxiliary, f"{auxiliary}n't") if clause.negative else auxiliary, main


def spanish_verb(clause: Clause) -> str:
    """Returns the inflected verb with negation and pronouns before it: no me lo dio."""
    negation = "no" if clause.negative else ""
    return spaced(negation, clause.complement.clitics, clause.verb.spanish[clause.tense][clause.subject.person])


def statement(clause: Clause) -> Words:
    """Returns subject, verb, complement."""
    verb = Words(spaced(*english_verb(clause)), spanish_verb(clause))
    return join(clause.subject.words, clause.often, verb, clause.infinitive, clause.complement.words)


def question(clause: Clause) -> Words:
    """Returns auxiliary, subject, verb in English and verb, subject in Spanish.

    The Spanish subject comes last with `be` and bare nouns: ¿Come pan Ana?
    """
    subject, said = clause.subject, clause.complement.words
    auxiliary, main = english_verb(clause, inverted=True)
    last = clause.verb.en == "be" or clause.complement.bare
    rest = (said.es, subject.es) if last else (subject.es, said.es)
    en = spaced(auxiliary, subject.en, main, clause.infinitive.en, said.en)
    return Words(en, spaced(spanish_verb(clause), clause.infinitive.es, *rest))


def sentence(words: Words, mark: str = ".") -> Texts:
    """Returns the finished pair with capitals, punctuation, and the contractions al (a el) and del (de el)."""
    es = re.sub(r"\b(a|de) el\b", lambda match: match[1] + "l", words.es)
    opening = {"?": "¿", "!": "¡"}.get(mark, "")
    return f"{words.en[0].upper()}{words.en[1:]}{mark}", f"{opening}{es[0].upper()}{es[1:]}{mark}"


def utter(clause: Clause, mark: str, before: Words = NOTHING, after: Words = NOTHING) -> Texts:
    """Returns the clause as a question if ``mark`` is "?", else as a statement, with words before and after it."""
    return sentence(join(before, question(clause) if mark == "?" else statement(clause), after), mark)


# Content of clauses


def receivers(subject: Phrase) -> list[Complement]:
    """Returns `me`, `you` and `us`, except the subject itself."""
    same = {ME: (ME, US), US: (ME, US), YOU: (YOU,)}.get(subject.person, ())
    return [Complement(Words(en), es) for person, (en, es) in lexicon.SPEECH_PRONOUNS.items() if person not in same]


def hand_to(draw: Draw, subject: Phrase, thing: Phrase) -> Complement:
    """Draws `me the book` or `the book to Ana`, for which Spanish adds le."""
    if draw.chance(60):
        receiver = draw(receivers(subject))
        return Complement(join(receiver.words, thing.words), receiver.clitics, thing.bare)
    person = draw_person(draw, besides=subject)
    words = Words(f"{thing.en} to {person.en}", f"{thing.es} a {person.es}")
    return Complement(words, "les" if person.plural else "le")


def hand_over(draw: Draw, subject: Phrase, it: Complement) -> Complement:
    """Draws a complement such as `it to me`, me lo."""
    receiver = draw(receivers(subject))
    return Complement(Words(f"{it.words.en} to {receiver.words.en}"), spaced(receiver.clitics, it.clitics))


def draw_circumstance(draw: Draw, subject: Phrase, verb: Verb) -> Complement:
    """Draws the person whom the subject talks to, works with or works for."""
    if verb is lexicon.WORK and draw.chance(60):
        return Complement(draw(lexicon.FOR_PEOPLE))
    company = draw_person(draw, besides=subject)
    return Complement(Words(f"{'with' if verb is lexicon.WORK else 'to'} {company.en}", f"con {company.es}"))


def draw_complement(draw: Draw, subject: Phrase, verb: Verb, tense: int, negative: bool) -> Complement:
    """Draws an object, receiver, companion or place that suits the verb and its tense."""
    if verb in lexicon.MOVING:
        return draw_circumstance(draw, subject, verb)
    if verb in lexicon.MEETING:
        if draw.chance(50):
            return draw([Complement(Words(en), es) for en, es in lexicon.PERSON_PRONOUNS] + receivers(subject))
        person = draw_person(draw, besides=subject)
        return Complement(Words(person.en, f"a {person.es}"))
    if tense != PRESENT and draw.chance(25):
        it = draw([Complement(Words(en), es) for en, es in lexicon.THING_PRONOUNS])
        return hand_over(draw, subject, it) if verb in lexicon.HANDING else it
    if tense == PRESENT:
        thing = draw_supply(draw, verb)
    else:
        noun = draw_noun(draw, verb.takes)
        thing = draw_thing(draw, noun, subject, definite=negative or draw.chance(60))
    return hand_to(draw, subject, thing) if verb in lexicon.HANDING else Complement(thing.words, bare=thing.bare)


def draw_clause(draw: Draw, subject: Phrase, verbs: Sequence[Verb], tense: int, negative: bool = False) -> Clause:
    """Draws a clause with one of ``verbs``."""
    verb = draw(verbs)
    return Clause(subject, verb, tense, draw_complement(draw, subject, verb, tense, negative), negative)


def draw_time(draw: Draw, clause: Clause, percent: int = 60) -> Words:
    """Draws a time that suits the tense, or nothing.

    The probability of a time is ``percent``, or 1 if the verb does not show its tense.
    """
    if clause.verb.shows_tense(clause.subject.person) and not draw.chance(percent):
        return NOTHING
    ago = clause.tense == PRETERITE and draw.chance(25)
    return draw(lexicon.AGO if ago else lexicon.TIMES[clause.tense])


def draw_asked(draw: Draw) -> Phrase:
    """Draws the subject of a question: you, or a person by name or noun."""
    return LISTENER if draw.chance(35) else draw_person(draw)


def draw_subject(draw: Draw) -> Phrase:
    """Draws the subject of a statement. All grammatical persons are equally likely."""
    return draw(BY_PERSON[draw((ME, YOU, HER, US, THEM))])
