"""Noun phrases of the sample grammar, drawn in both languages at once."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from hashlib import sha256
from itertools import combinations
from typing import NamedTuple, TypeVar

from nmt_keras.corpus.sample import lexicon as lexicon
from nmt_keras.corpus.sample.lexicon import (
    HER,
    ME,
    THEM,
    US,
    YOU,
    Adjective,
    Determiner,
    Noun,
    Verb,
    Words,
    spaced,
)

Texts = tuple[str, str]  # English, Spanish

Choice = TypeVar("Choice")


class Draw:
    """Stream of choices that depends only on a name. Choice n is computed from sha256("name n")."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def __call__(self, options: Sequence[Choice]) -> Choice:
        """Returns the next choice."""
        self.count += 1
        return options[int(sha256(f"{self.name} {self.count}".encode()).hexdigest(), 16) % len(options)]

    def chance(self, percent: int) -> bool:
        """Returns ``True`` with a probability of ``percent``."""
        return self(range(100)) < percent


NOTHING = Words()

# Noun phrases


class Phrase(NamedTuple):
    """Noun phrase in both languages, with its grammar for agreement."""

    en: str
    es: str
    gender: str
    """m or f; empty for I, you and we, which take only adjectives without gender."""
    person: int
    about: frozenset[str] = frozenset()
    """Nouns of the phrase, so that subject and object differ."""
    bare: bool = False
    """``True`` for a noun without determiner, which Spanish keeps next to its verb."""

    @property
    def words(self) -> Words:
        """Phrase without its grammar."""
        return Words(self.en, self.es)

    @property
    def plural(self) -> bool:
        """``True`` if verbs and adjectives are plural."""
        return self.person in (US, THEM)


def noun_phrase(
    noun: Noun,
    determiner: Determiner,
    plural: bool = False,
    quality: Adjective | None = None,
    owner: Phrase | None = None,
) -> Phrase:
    """Returns determiner, noun, adjective and owner in agreement: `Ana's red house`, la casa roja de Ana."""
    determined, named = determiner.words(noun.gender, plural), noun.words(plural)
    en = spaced(f"{owner.en}'s" if owner else determined.en, quality.en if quality else "", named.en)
    es = spaced(determined.es, named.es, quality.agreeing(noun.gender, plural) if quality else "")
    en, es = re.sub(r"^a (?=[aeio])", "an ", en), spaced(es, f"de {owner.es}" if owner else "")
    return Phrase(en, es, noun.gender, THEM if plural else HER, frozenset([noun.en]), determiner is lexicon.BARE)


SPEAKER, LISTENER, SPEAKERS = Phrase("I", "", "", ME), Phrase("you", "", "", YOU), Phrase("we", "", "", US)

HE_SHE = (Phrase("he", "él", "m", HER), Phrase("she", "ella", "f", HER))

THEY = Phrase("they", "ellos", "m", THEM)

WHO, NOBODY = Phrase("who", "quién", "", HER), Phrase("", "", "", HER)

NAMED = tuple(Phrase(name, name, gender, HER, frozenset([name])) for name, gender in lexicon.NAMES)


def townspeople(plural: bool) -> tuple[Phrase, ...]:
    """Returns phrases such as `the girl`, `the sick doctors`."""
    described = (None, lexicon.TALL, lexicon.TIRED, lexicon.SICK)
    return tuple(noun_phrase(noun, lexicon.THE, plural, how) for noun in lexicon.TOWNSPEOPLE for how in described)


def both(a: Phrase, b: Phrase) -> Phrase:
    """Returns a phrase such as `Ana and Luis`, masculine unless both are women."""
    return Phrase(f"{a.en} and {b.en}", f"{a.es} y {b.es}", max(a.gender, b.gender), THEM, a.about | b.about)


SINGLES = (
    *NAMED * 3,
    *(noun_phrase(noun, whose) for noun in lexicon.RELATIVES + lexicon.MOTHERS for whose in lexicon.POSSESSIVES),
    *townspeople(plural=False),
)

GROUPS = (
    *(both(*pair) for pair in combinations(NAMED, 2)),
    *(noun_phrase(noun, whose, plural=True) for noun in lexicon.RELATIVES for whose in lexicon.POSSESSIVES),
    *townspeople(plural=True),
)

BY_PERSON = {ME: (SPEAKER,), YOU: (LISTENER,), HER: HE_SHE * 4 + SINGLES, US: (SPEAKERS,), THEM: (THEY,) * 8 + GROUPS}


def others(people: Sequence[Phrase], besides: Phrase) -> list[Phrase]:
    """Returns the people who are not in ``besides``."""
    return [person for person in people if not person.about & besides.about]


def draw_person(draw: Draw, besides: Phrase = NOBODY) -> Phrase:
    """Draws a person by name or noun who is not in ``besides``."""
    return draw(others(SINGLES if draw.chance(65) else GROUPS, besides))


def draw_noun(draw: Draw, among: Set[str]) -> Noun:
    """Draws a thing of one of the kinds ``among``."""
    return draw([noun for noun in lexicon.THINGS if noun.kind in among])


def draw_quality(draw: Draw, noun: Noun, percent: int) -> Adjective | None:
    """Draws an adjective that suits the noun, or ``None``."""
    suitable = [quality for quality in lexicon.QUALITIES if noun.kind in quality.kinds]
    return draw(suitable) if suitable and draw.chance(percent) else None


def draw_definite(draw: Draw, noun: Noun, besides: Phrase = NOBODY, percent: int = 0) -> Phrase:
    """Draws a definite phrase: `that chair`, `our chairs`, `Ana's chair` (unless Ana is in ``besides``)."""
    if noun.kind == "food":
        return noun_phrase(noun, lexicon.THE)
    quality = draw_quality(draw, noun, percent)
    if draw.chance(20):
        return noun_phrase(noun, lexicon.THE, False, quality, owner=draw(others(SINGLES, besides)))
    return noun_phrase(noun, draw(lexicon.DEFINITE), draw.chance(35), quality)


def draw_indefinite(draw: Draw, noun: Noun) -> Phrase:
    """Draws a phrase with `a`, `another`, `many` or a number; food has no determiner."""
    if noun.kind == "food":
        return noun_phrase(noun, lexicon.BARE)
    plural = draw.chance(50)
    determiner = draw(lexicon.COUNTING if plural else (lexicon.A, lexicon.A, lexicon.ANOTHER))
    return noun_phrase(noun, determiner, plural, draw_quality(draw, noun, 50))


def draw_thing(draw: Draw, noun: Noun, subject: Phrase, definite: bool) -> Phrase:
    """Draws a definite or indefinite phrase, in half of the cases with an adjective."""
    return draw_definite(draw, noun, subject, 50) if definite else draw_indefinite(draw, noun)


def draw_supply(draw: Draw, verb: Verb) -> Phrase:
    """Draws the object of a habit: a new object each time (`red apples`, `bread`), or always the same (`my car`)."""
    noun = draw_noun(draw, verb.habitually)
    if not verb.afresh:
        return noun_phrase(noun, draw((lexicon.THE, *lexicon.POSSESSIVES)), draw.chance(30))
    return noun_phrase(noun, lexicon.BARE, noun.kind != "food", draw_quality(draw, noun, 40))
