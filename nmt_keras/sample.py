"""The built-in sample corpus: Spanish-English sentence pairs from a small phrase grammar of our own; needs no network.

A sentence grows from phrases that are built in both languages at once. A noun phrase agrees in number and gender
(`the red houses`, `las casas rojas`); a clause joins a subject, a verb in a tense and a complement, and is read out as
a statement or a question: English with do-support, Spanish with its pronouns before the verb (`She didn't give it to
me`, `Ella no me lo dio`). Around the clause stand the constructions where word for word fails: gustar, ser and estar,
tener hambre, the personal a, owners after what they own, comparisons, relative clauses and reasons.

Words are drawn by hash, so the corpus is the same on every machine and every Python. Both directions are functions:
who `you`, `it` or a dropped subject is can always be told from the sentence. For this, Spanish drops only I, you and
we; `it` and `them` are masculine unless the sentence names what they stand for; plain statements about `you` are
negated and questions not, or they would differ in punctuation alone; a time is named where a verb hides its tense.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from hashlib import sha256
from itertools import combinations, count
from typing import NamedTuple, TypeVar

from nmt_keras import sample_lexicon as lexicon
from nmt_keras.sample_lexicon import (
    FUTURE,
    HER,
    ME,
    PRESENT,
    PRETERITE,
    THEM,
    US,
    YOU,
    Adjective,
    Determiner,
    Noun,
    Verb,
    Words,
    kinds,
    spaced,
)

SAMPLE_NAME = "sample"
"""What the corpus is called on a command line, in run directories and as a served model."""

SAMPLE_SHA256 = "c330491bd228149e03effb0fd1be35ffcd264cd208e2516c303e991fe56c40eb"
"""Of the sorted lines `English<TAB>Spanish`, joined and ended by a newline, UTF-8."""

Pair = tuple[str, str]
"""English, Spanish."""
Choice = TypeVar("Choice")


class Draw:
    """A stream of choices that depend on a name alone: choice n is read off sha256("name n")."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def __call__(self, options: Sequence[Choice]) -> Choice:
        """The next choice."""
        self.count += 1
        return options[int(sha256(f"{self.name} {self.count}".encode()).hexdigest(), 16) % len(options)]

    def chance(self, percent: int) -> bool:
        """True in this many cases of a hundred."""
        return self(range(100)) < percent


NOTHING = Words()

# Noun phrases


class Phrase(NamedTuple):
    """A noun phrase: both languages, and what the rest of the sentence agrees with."""

    en: str
    es: str
    gender: str
    """m or f; empty for I, you and we, of whom only adjectives are said that show no gender."""
    person: int
    about: frozenset[str] = frozenset()
    """Its nouns, so that nobody visits herself."""
    bare: bool = False
    """Whether it is a noun without determiner, which Spanish does not part from its verb."""

    @property
    def words(self) -> Words:
        """The phrase without its grammar."""
        return Words(self.en, self.es)

    @property
    def plural(self) -> bool:
        """Whether what is said of it is plural."""
        return self.person in (US, THEM)


def noun_phrase(
    noun: Noun,
    determiner: Determiner,
    plural: bool = False,
    quality: Adjective | None = None,
    owner: Phrase | None = None,
) -> Phrase:
    """Determiner, noun, adjective and owner, agreeing: `Ana's red house`, la casa roja de Ana."""
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
    """`the girl`, `the sick doctors`."""
    described = (None, lexicon.TALL, lexicon.TIRED, lexicon.SICK)
    return tuple(noun_phrase(noun, lexicon.THE, plural, how) for noun in lexicon.TOWNSPEOPLE for how in described)


def both(a: Phrase, b: Phrase) -> Phrase:
    """`Ana and Luis`, masculine unless both are women."""
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
    """Those of the people who are not in ``besides``."""
    return [person for person in people if not person.about & besides.about]


def draw_person(draw: Draw, besides: Phrase = NOBODY) -> Phrase:
    """Somebody else by name or noun."""
    return draw(others(SINGLES if draw.chance(65) else GROUPS, besides))


def draw_noun(draw: Draw, among: Set[str]) -> Noun:
    """A thing of one of these kinds."""
    return draw([noun for noun in lexicon.THINGS if noun.kind in among])


def draw_quality(draw: Draw, noun: Noun, percent: int) -> Adjective | None:
    """An adjective that suits the noun, or none."""
    suitable = [quality for quality in lexicon.QUALITIES if noun.kind in quality.kinds]
    return draw(suitable) if suitable and draw.chance(percent) else None


def draw_definite(draw: Draw, noun: Noun, besides: Phrase = NOBODY, percent: int = 0) -> Phrase:
    """This very thing: `that chair`, `our chairs`, `Ana's chair` (unless Ana is meant by ``besides``)."""
    if noun.kind == "food":
        return noun_phrase(noun, lexicon.THE)
    quality = draw_quality(draw, noun, percent)
    if draw.chance(20):
        return noun_phrase(noun, lexicon.THE, False, quality, owner=draw(others(SINGLES, besides)))
    return noun_phrase(noun, draw(lexicon.DEFINITE), draw.chance(35), quality)


def draw_indefinite(draw: Draw, noun: Noun) -> Phrase:
    """`a`, `another`, `many` or a number of them; simply `bread` of what is not counted."""
    if noun.kind == "food":
        return noun_phrase(noun, lexicon.BARE)
    plural = draw.chance(50)
    determiner = draw(lexicon.COUNTING if plural else (lexicon.A, lexicon.A, lexicon.ANOTHER))
    return noun_phrase(noun, determiner, plural, draw_quality(draw, noun, 50))


def draw_thing(draw: Draw, noun: Noun, subject: Phrase, definite: bool) -> Phrase:
    """This very thing, or some, every other time with an adjective."""
    return draw_definite(draw, noun, subject, 50) if definite else draw_indefinite(draw, noun)


def draw_supply(draw: Draw, verb: Verb) -> Phrase:
    """The object of a habit: new ones each time (`red apples`, `bread`) or always the same (`my car`)."""
    noun = draw_noun(draw, verb.habitually)
    if not verb.afresh:
        return noun_phrase(noun, draw((lexicon.THE, *lexicon.POSSESSIVES)), draw.chance(30))
    return noun_phrase(noun, lexicon.BARE, noun.kind != "food", draw_quality(draw, noun, 40))


# Clauses


class Complement(NamedTuple):
    """What follows the verb; Spanish pronouns among it stand before the verb."""

    words: Words = NOTHING
    clitics: str = ""
    bare: bool = False


class Clause(NamedTuple):
    """A subject, a verb in a tense, and the rest."""

    subject: Phrase
    verb: Verb
    tense: int
    complement: Complement = Complement()
    negative: bool = False
    often: Words = NOTHING
    """`always` or `never`, before the verb in both languages."""
    infinitive: Words = NOTHING
    """What one wants, can or has to do: `to buy`; its complement is the clause's."""


def join(*parts: Words) -> Words:
    """Concatenates in both languages."""
    return Words(spaced(*(part.en for part in parts)), spaced(*(part.es for part in parts)))


def english_verb(clause: Clause, inverted: bool = False) -> tuple[str, str]:
    """(auxiliary, verb): `do` comes in for negation and questions, unless the verb is `be` or `can`."""
    person, verb = clause.subject.person, clause.verb
    if verb.auxiliary:
        auxiliary, main = verb.english_present[person], ""
    elif clause.tense == FUTURE or clause.negative or inverted:
        auxiliary, main = ("does" if person == HER else "do", "did", "will")[clause.tense], verb.en
    else:
        return "", verb.past if clause.tense == PRETERITE else verb.english_present[person]
    return lexicon.NEGATED.get(auxiliary, f"{auxiliary}n't") if clause.negative else auxiliary, main


def spanish_verb(clause: Clause) -> str:
    """The inflected verb with what must stand before it: no me lo dio."""
    negation = "no" if clause.negative else ""
    return spaced(negation, clause.complement.clitics, clause.verb.spanish[clause.tense][clause.subject.person])


def statement(clause: Clause) -> Words:
    """Subject, verb, complement."""
    verb = Words(spaced(*english_verb(clause)), spanish_verb(clause))
    return join(clause.subject.words, clause.often, verb, clause.infinitive, clause.complement.words)


def question(clause: Clause) -> Words:
    """Auxiliary, subject, verb in English; verb, subject in Spanish; last after `be` and bare nouns: ¿Come pan Ana?"""
    subject, said = clause.subject, clause.complement.words
    auxiliary, main = english_verb(clause, inverted=True)
    last = clause.verb.en == "be" or clause.complement.bare
    rest = (said.es, subject.es) if last else (subject.es, said.es)
    en = spaced(auxiliary, subject.en, main, clause.infinitive.en, said.en)
    return Words(en, spaced(spanish_verb(clause), clause.infinitive.es, *rest))


def sentence(words: Words, mark: str = ".") -> Pair:
    """The finished pair: capitals, punctuation, and al, del for a el, de el."""
    es = re.sub(r"\b(a|de) el\b", lambda match: match[1] + "l", words.es)
    opening = {"?": "¿", "!": "¡"}.get(mark, "")
    return f"{words.en[0].upper()}{words.en[1:]}{mark}", f"{opening}{es[0].upper()}{es[1:]}{mark}"


def utter(clause: Clause, mark: str, before: Words = NOTHING, after: Words = NOTHING) -> Pair:
    """The clause as the question or statement that ``mark`` says, with a time or question word around it."""
    return sentence(join(before, question(clause) if mark == "?" else statement(clause), after), mark)


# What clauses are about


def receivers(subject: Phrase) -> list[Complement]:
    """`me`, `you`, `us`, without those that would be the subject itself."""
    same = {ME: (ME, US), US: (ME, US), YOU: (YOU,)}.get(subject.person, ())
    return [Complement(Words(en), es) for person, (en, es) in lexicon.SPEECH_PRONOUNS.items() if person not in same]


def hand_to(draw: Draw, subject: Phrase, thing: Phrase) -> Complement:
    """`me the book`; or `the book to Ana`, whom Spanish announces by le."""
    if draw.chance(60):
        receiver = draw(receivers(subject))
        return Complement(join(receiver.words, thing.words), receiver.clitics, thing.bare)
    person = draw_person(draw, besides=subject)
    words = Words(f"{thing.en} to {person.en}", f"{thing.es} a {person.es}")
    return Complement(words, "les" if person.plural else "le")


def hand_over(draw: Draw, subject: Phrase, it: Complement) -> Complement:
    """`it to me`, me lo."""
    receiver = draw(receivers(subject))
    return Complement(Words(f"{it.words.en} to {receiver.words.en}"), spaced(receiver.clitics, it.clitics))


def draw_circumstance(draw: Draw, subject: Phrase, verb: Verb) -> Complement:
    """To whom somebody talks; where, or with whom, somebody works."""
    if verb is lexicon.WORK and draw.chance(60):
        return Complement(draw(lexicon.FOR_PEOPLE))
    company = draw_person(draw, besides=subject)
    return Complement(Words(f"{'with' if verb is lexicon.WORK else 'to'} {company.en}", f"con {company.es}"))


def draw_complement(draw: Draw, subject: Phrase, verb: Verb, tense: int, negative: bool) -> Complement:
    """An object, receiver, companion or place that suits the verb and its tense."""
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
    """A clause about one of these verbs."""
    verb = draw(verbs)
    return Clause(subject, verb, tense, draw_complement(draw, subject, verb, tense, negative), negative)


def draw_time(draw: Draw, clause: Clause, percent: int = 60) -> Words:
    """A time that suits the tense in ``percent`` of the cases, or always if the verb hides its tense; else nothing."""
    if clause.verb.shows_tense(clause.subject.person) and not draw.chance(percent):
        return NOTHING
    ago = clause.tense == PRETERITE and draw.chance(25)
    return draw(lexicon.AGO if ago else lexicon.TIMES[clause.tense])


def draw_asked(draw: Draw) -> Phrase:
    """The subject of a question: you, or somebody by name or noun."""
    return LISTENER if draw.chance(35) else draw_person(draw)


def draw_subject(draw: Draw) -> Phrase:
    """The subject of a statement, each person about as often as the others."""
    return draw(BY_PERSON[draw((ME, YOU, HER, US, THEM))])


class Mood(NamedTuple):
    """Of whom something is said or asked, and whether it is denied."""

    subject: Phrase
    negative: bool
    mark: str


def draw_mood(draw: Draw) -> Mood:
    """A question; or a statement, which is negative about `you`."""
    if draw.chance(30):
        return Mood(draw_asked(draw), False, "?")
    subject = draw_subject(draw)
    return Mood(subject, subject.person == YOU or draw.chance(30), ".")


def qualify(draw: Draw, subject: Phrase, quality: Adjective) -> Complement:
    """The adjective said of the subject, perhaps with `very`."""
    agreeing = Words(quality.en, quality.agreeing(subject.gender, subject.plural))
    return Complement(join(lexicon.VERY, agreeing) if draw.chance(40) and quality not in lexicon.COLORS else agreeing)


def sayable(subject: Phrase, qualities: Sequence[Adjective]) -> list[Adjective]:
    """Those that the subject's own name does not say already, and that do not show a gender that I, you, we hide."""
    hidden = subject.gender == ""
    return [how for how in qualities if how.en not in subject.en and not (hidden and how.es.endswith("o"))]


# Constructions: each draws one pair


def act(draw: Draw) -> Pair:
    """`Yesterday Ana bought a red car.`"""
    subject = draw_subject(draw)
    tense, negative = draw((PRESENT, PRETERITE, FUTURE)), subject.person == YOU or draw.chance(30)
    clause = draw_clause(draw, subject, lexicon.VERBS, tense, negative)
    time = draw_time(draw, clause)
    if draw.chance(30) and not (negative and tense == PRESENT):
        return utter(clause, ".", before=time)
    return utter(clause, ".", after=time)


def act_often(draw: Draw) -> Pair:
    """`My brother never calls us.`"""
    clause = draw_clause(draw, draw_subject(draw), lexicon.VERBS, PRESENT)
    return utter(clause._replace(often=draw(lexicon.OFTEN)), ".")


def ask(draw: Draw) -> Pair:
    """`Will you help me tomorrow?`"""
    clause = draw_clause(draw, draw_asked(draw), lexicon.VERBS, draw((PRESENT, PRETERITE, FUTURE)))
    return utter(clause, "?", after=draw_time(draw, clause))


def ask_circumstances(draw: Draw) -> Pair:
    """`Where did Ana buy that hat?`"""
    asking = draw((lexicon.WHERE, lexicon.WHEN, lexicon.WHY))
    verbs = (lexicon.BUY, lexicon.SELL, lexicon.WASH, lexicon.EAT) if asking is lexicon.WHERE else lexicon.VERBS
    clause = draw_clause(draw, draw_asked(draw), verbs, draw((PRETERITE, FUTURE)))
    time = NOTHING if asking is lexicon.WHEN else draw_time(draw, clause, 40)
    return utter(clause, "?", before=asking, after=time)


def ask_object(draw: Draw) -> Pair:
    """`What did Ana give you?`, `Who did Luis call?`"""
    subject, verb = draw_asked(draw), draw(lexicon.HANDLING + lexicon.MEETING + lexicon.HANDING)
    complement = draw(receivers(subject)) if verb in lexicon.HANDING else Complement()
    clause = Clause(subject, verb, draw((PRETERITE, FUTURE)), complement)
    asking = lexicon.WHOM if verb in lexicon.MEETING else lexicon.WHAT
    return utter(clause, "?", before=asking, after=draw_time(draw, clause))


def ask_subject(draw: Draw) -> Pair:
    """`Who sold the white horse?`"""
    clause = draw_clause(draw, WHO, lexicon.VERBS, draw((PRETERITE, FUTURE)))
    return sentence(join(statement(clause), draw_time(draw, clause)), "?")


def modal(draw: Draw) -> Pair:
    """`I want to help him tomorrow.`, `Can you call me?`: the infinitive's pronoun stands before quiero and puedo."""
    subject, negative, mark = draw_mood(draw)
    auxiliary, link = draw(((lexicon.WANT, Words("to")), (lexicon.CAN, NOTHING), (lexicon.HAVE, Words("to", "que"))))
    deed = draw_clause(draw, subject, lexicon.VERBS, FUTURE, negative)
    infinitive = join(link, Words(deed.verb.en, deed.verb.infinitive))
    clause = Clause(subject, auxiliary, PRESENT, deed.complement, negative, infinitive=infinitive)
    return utter(clause, mark, after=draw_time(draw, deed, 40))


def draw_liked(draw: Draw, subject: Phrase, tense: int) -> Phrase:
    """What pleases: this very thing; or, in the present, a kind of thing or doing something."""
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


def like(draw: Draw) -> Pair:
    """`Ana likes dogs.`, A Ana le gustan los perros: in Spanish what is liked is the subject."""
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


def describe_person(draw: Draw) -> Pair:
    """`She is very tired.`, `Are you hungry?`, `My friend is an artist.`: estar, tener and ser."""
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


def describe_thing(draw: Draw) -> Pair:
    """`Is your sister's car very old?`"""
    quality = draw((*lexicon.QUALITIES, lexicon.DIRTY, lexicon.DIRTY))
    subject, mark = draw_definite(draw, draw_noun(draw, quality.kinds)), draw((".", ".", "?"))
    verb = lexicon.ESTAR if quality is lexicon.DIRTY else lexicon.SER
    return utter(Clause(subject, verb, PRESENT, qualify(draw, subject, quality), mark == "." and draw.chance(30)), mark)


def locate(draw: Draw) -> Pair:
    """`The apples aren't on the table.`, `Where is Ana?`"""
    subject, negative, mark = draw_mood(draw)
    company = draw_person(draw, besides=subject)
    place = draw((*lexicon.FOR_PEOPLE, Words(f"with {company.en}", f"con {company.es}")))
    if draw.chance(55):
        noun = draw_noun(draw, lexicon.PLACES.keys())
        subject, place = draw_definite(draw, noun), draw(lexicon.PLACES[noun.kind])
    if mark == "?" and draw.chance(60):
        return utter(Clause(subject, lexicon.ESTAR, PRESENT), mark, before=lexicon.WHERE)
    return utter(Clause(subject, lexicon.ESTAR, PRESENT, Complement(place), negative), mark)


def exist(draw: Draw) -> Pair:
    """`There are two cats in the garden.`, `How many eggs are there on the table?`: hay is both is and are."""
    noun = draw_noun(draw, kinds("text mail wear fruit furniture animal"))
    determiner, place = draw((lexicon.A, lexicon.HOW_MANY, *lexicon.COUNTING)), draw(lexicon.PLACES[noun.kind])
    some = noun_phrase(noun, determiner, determiner is not lexicon.A, draw_quality(draw, noun, 40)).words
    if determiner is lexicon.HOW_MANY:
        return sentence(join(some, Words("are there", "hay"), place), "?")
    return sentence(join(Words("there is" if determiner is lexicon.A else "there are", "hay"), some, place))


def own(draw: Draw) -> Pair:
    """`Our neighbors have three white horses.`"""
    subject, negative, mark = draw_mood(draw)
    noun = draw_noun(draw, kinds("text mail wear vehicle furniture home fruit animal"))
    thing = draw_thing(draw, noun, subject, definite=negative)
    return utter(Clause(subject, lexicon.HAVE, PRESENT, Complement(thing.words), negative), mark)


def compare(draw: Draw) -> Pair:
    """`Ana is taller than Luis.`, más alta que Luis."""
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


def act_twice(draw: Draw) -> Pair:
    """`Luis bought an apple and ate it.`: the pronoun has the gender of what it stands for."""
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


def explain_deed(draw: Draw) -> Pair:
    """`I didn't buy the house because it is very old.`"""
    subject, (verb, negative, qualities) = draw_subject(draw), draw(lexicon.MOTIVES)
    quality = draw(qualities)
    thing = draw_definite(draw, draw_noun(draw, quality.kinds & verb.takes), subject)
    tense = draw((PRETERITE, FUTURE)) if verb.shows_tense(subject.person) else FUTURE
    it = Phrase("they" if thing.plural else "it", "", thing.gender, thing.person)
    be = lexicon.ESTAR if quality is lexicon.DIRTY else lexicon.SER
    reason = statement(Clause(it, be, PRESENT, qualify(draw, it, quality)))
    deed = Clause(subject, verb, tense, Complement(thing.words), negative)
    return utter(deed, ".", after=join(lexicon.BECAUSE, reason))


def relate(draw: Draw) -> Pair:
    """`The shirt that Ana bought is white.`, que compró Ana: the Spanish subject follows."""
    verb = draw((lexicon.BUY, lexicon.SELL, lexicon.READ, *lexicon.HANDING))
    quality = draw([quality for quality in lexicon.QUALITIES if quality.kinds & verb.takes])
    thing = noun_phrase(draw_noun(draw, quality.kinds & verb.takes), lexicon.THE, draw.chance(35))
    subject = draw_subject(draw)
    complement = draw(receivers(subject)) if verb in lexicon.HANDING else Complement()
    clause = Clause(subject, verb, PRETERITE, complement)
    en, es = f"{thing.en} that {statement(clause).en}", spaced(thing.es, "que", spanish_verb(clause), subject.es)
    return utter(Clause(thing._replace(en=en, es=es), lexicon.SER, PRESENT, qualify(draw, thing, quality)), ".")


def exclaim(draw: Draw) -> Pair:
    """`What a beautiful house you have!`"""
    quality = draw(lexicon.STRIKING)
    noun, plural = draw_noun(draw, quality.kinds), draw.chance(40)
    thing = noun_phrase(noun, lexicon.BARE if plural else lexicon.A, plural, quality)
    exclaimed = Words(f"what {thing.en}", f"qué {noun.words(plural).es} tan {quality.agreeing(noun.gender, plural)}")
    if draw.chance(20):
        return sentence(exclaimed, "!")
    clause = Clause(draw_asked(draw), lexicon.HAVE, PRESENT)
    having = Words(statement(clause).en, spaced(spanish_verb(clause), clause.subject.es))
    return sentence(join(exclaimed, having), "!")


def command(draw: Draw) -> Pair:
    """`Please wash the car.`; the Spanish form is that of `she washes`."""
    verb = draw(lexicon.HANDLING + lexicon.MEETING)
    if verb in lexicon.MEETING:
        person = draw_person(draw)
        thing = Words(person.en, f"a {person.es}")
    else:
        thing = draw_definite(draw, draw_noun(draw, verb.takes), percent=50).words
    return sentence(Words(f"please {verb.en} {thing.en}", f"{verb.spanish[PRESENT][HER]} {thing.es}, por favor"))


CONSTRUCTIONS: tuple[tuple[Callable[[Draw], Pair], int], ...] = (
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
"""Each construction and how many different pairs of it the corpus holds."""


def draw_pairs(construct: Callable[[Draw], Pair]) -> Iterator[Pair]:
    """A construction's pairs without end, repetitions among them."""
    return (construct(Draw(f"{construct.__name__} {attempt}")) for attempt in count())


def sample_pairs() -> list[tuple[str, str]]:
    """The sample corpus as (English, Spanish), no pair twice.

    The order is a fixed shuffle, by sha256 of the English sentence, so that any stretch of it is a fair sample.
    """
    pairs: set[Pair] = set()
    for construct, wanted in CONSTRUCTIONS:
        size = len(pairs) + wanted
        for pair in draw_pairs(construct):
            pairs.add(pair)
            if len(pairs) == size:
                break
    return sorted(pairs, key=lambda pair: sha256(pair[0].encode()).digest())
