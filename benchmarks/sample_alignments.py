"""Word alignments of the sample corpus, from the lexicon of its grammar.

Words correspond if they are translations of each other in the lexicon. Determiners and prepositions correspond if the
nouns after them correspond. The rules of docs/results/alignments/README.md decide which links are sure or possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nmt_keras.corpus.alignments import GoldLinks, Link
from nmt_keras.corpus.sample import lexicon
from nmt_keras.corpus.sample.lexicon import Adjective, Determiner, Noun, Verb, Words

SMALL = (
    "who = quién, and = y, than = que, please = por favor, why = por qué, there = hay, is are am = hay, every = todos, "
    "more = más, last = pasado pasada anoche, night = anoche, next = próximo próxima, ago = hace, what = qué, "
    "not = no, i me = me, you = te, we us = nos, he = él, she = ella, they = ellos, . = ., ? = ?, ! = !"
)
"""Words that occur only in phrases of the lexicon or in the rules, and their translations."""
PLACES_AND_TIMES = (
    "home = casa, school = escuela, london = londres, spain = españa, kitchen = cocina, garden = jardín, "
    "week = semana, weeks = semanas, monday mondays = lunes, sundays = domingos, day days = días, tonight = noche"
)
"""Words for places and times, and their translations. Determiners and prepositions may stand before them."""
CLITICS = {"lo": {"it", "him"}, "la": {"it", "her"}, "los": {"them"}, "las": {"them"}}
PREPOSITIONS = {"a", "al", "en", "con", "de", "del", "at", "in", "on", "to", "with"}
AUXILIARIES = {"do", "does", "did", "will"}
PRONOUNS = {"i", "you", "we", "it", "they"}
"""Subjects that Spanish may drop."""


class Vocabulary:
    """The grammar's translations as groups (English words, Spanish words), and its verbs, infinitives and nouns."""

    def __init__(self) -> None:
        self.groups: list[tuple[set[str], set[str]]] = []
        self.determiners: list[tuple[set[str], set[str]]] = [({"an"}, {"un", "una"})]
        self.verbs, self.infinitives = set[str](), set[str]()
        nouns = {name.lower() for name, _ in lexicon.NAMES}
        self.groups += [({name}, {name}) for name in nouns]
        for record in _records(vars(lexicon).values()):
            match record:
                case Noun():
                    forms = [record.words(plural) for plural in (False, True)]
                    self.groups.append(({each.en for each in forms}, {each.es for each in forms}))
                    nouns |= self.groups[-1][0] | self.groups[-1][1]
                case Adjective():
                    agreeing = {record.agreeing(gender, plural) for gender in "mf" for plural in (False, True)}
                    comparative = {record.comparative} if record.comparative.endswith("er") else set()
                    self.groups += [({record.en, *comparative}, agreeing), (comparative, {"más"})]
                case Determiner():
                    english = {*record.singular.split(), *record.plural.split()}
                    self.determiners.append((english, set(record.es) - {""}))
                case Verb():
                    english = {record.en, *record.english_present, record.past} - {""}
                    spanish = {form for tense in record.spanish for form in tense} | {record.infinitive} - {""}
                    self.groups.append((english, spanish))
                    self.verbs |= english | spanish
                    self.infinitives |= {record.infinitive} - {""}
                case Words() if " " not in record.en + record.es and record.en not in CLITIC_OBJECTS:
                    self.groups.append(({record.en}, {record.es}))
        places = _groups(PLACES_AND_TIMES)
        self.groups += _groups(SMALL) + places
        self.groups = list({repr(list(map(sorted, group))): group for group in self.groups}.values())
        self.heads = nouns | {word for group in places for side in group for word in side}
        self.heads |= {"quién", "who", "él", "ella", "ellos", "he", "she", "they", "me", "you", "us"}
        self.heads |= {"it", "them", "him", "her"}


CLITIC_OBJECTS = {word for words in CLITICS.values() for word in words} | {"me", "you", "us"}


def _groups(entries: str) -> list[tuple[set[str], set[str]]]:
    """Returns the groups of entries `English = Spanish`."""
    sides = (entry.split(" = ") for entry in entries.split(", "))
    return [(set(english.split()), set(spanish.split())) for english, spanish in sides]


def _records(values: Iterable[object]) -> Iterator[object]:
    """Yields the records in nested tuples and tables."""
    for value in values:
        if isinstance(value, Noun | Adjective | Determiner | Verb | Words):
            yield value
        elif isinstance(value, tuple | dict):
            yield from _records(value.values() if isinstance(value, dict) else value)


VOCABULARY = Vocabulary()


def grammar_links(spanish: str, english: str) -> GoldLinks:
    """Returns the links of a pair of the sample corpus, given as words separated by spaces."""
    found = _Pair(spanish.lower().split(), english.lower().split())
    found.link()
    return GoldLinks(frozenset(found.sure), frozenset(found.sure | found.possible))


class _Pair:
    """Collects the links of one pair."""

    def __init__(self, spanish: Sequence[str], english: Sequence[str]) -> None:
        self.spanish, self.full = spanish, english
        self.english = [re.sub(r"'s$|n't$", "", word) for word in english]
        self.english = [{"ca": "can", "wo": "will"}.get(word, word) for word in self.english]
        self.sure: set[Link] = set()
        self.possible: set[Link] = set()

    def link(self) -> None:
        """Finds all links."""
        self.lexical()
        self.negation()
        self.clitics()
        self.determiners()
        self.prepositions()
        self.ques()
        self.verbs()

    def lexical(self) -> None:
        """Links the words of each group. If a group has several words in both sentences, they are linked in order."""
        skipped = {i for i, word in enumerate(self.spanish) if word in CLITICS}
        for group, others in VOCABULARY.groups:
            english = [t for t, word in enumerate(self.english) if word in group]
            spanish = [s for s, word in enumerate(self.spanish) if word in others and s not in skipped]
            if group == {"than"}:
                spanish = [s for s in spanish if "más" in self.spanish[:s]]
            if len(english) == len(spanish):
                self.sure |= set(zip(spanish, english, strict=True))
            elif len(english) == 1:
                self.sure |= {(s, english[0]) for s in spanish}
            elif len(spanish) == 1:
                self.sure |= {(spanish[0], t) for t in english}
        for s, word in enumerate(self.spanish):
            if word in ("¿", "¡"):
                self.possible.add((s, len(self.english) - 1))

    def to_english(self, s: int) -> int | None:
        """Returns the English word that is surely linked with a Spanish word, or None."""
        return min((t for each, t in self.sure if each == s), default=None)

    def to_spanish(self, t: int) -> int | None:
        """Returns the Spanish word that is surely linked with an English word, or None."""
        return min((s for s, each in self.sure if each == t), default=None)

    def negation(self) -> None:
        """Links "no" with a contracted "not"."""
        for s in (s for s, word in enumerate(self.spanish) if word == "no"):
            self.sure |= {(s, t) for t, word in enumerate(self.full) if word.endswith("n't")}

    def is_clitic(self, s: int) -> bool:
        """Returns True if "lo", "la", "los" or "las" is a pronoun, that is, if a verb follows it."""
        return self.spanish[s] in CLITICS and self.spanish[s + 1] in VOCABULARY.verbs

    def clitics(self) -> None:
        """Links pronouns before the verb. Links "le" and "les" with the noun that they repeat."""
        for s, word in enumerate(self.spanish):
            if self.is_clitic(s):
                objects = [t for t, each in enumerate(self.english) if each in CLITICS[word]]
                self.sure |= {(s, t) for t in objects[:1]}
            if word in ("le", "les"):
                after = [a for a, each in enumerate(self.spanish) if each in ("a", "al")]
                doubled = [self.to_english(head) for a in after if (head := self.head(self.spanish, a)) is not None]
                self.possible |= {(s, t) for t in doubled if t is not None}

    def head(self, words: Sequence[str], position: int) -> int | None:
        """Returns the position of the next noun, or None."""
        return next((at for at in range(position + 1, len(words)) if words[at] in VOCABULARY.heads), None)

    def determiners(self) -> None:
        """Links determiners whose nouns are linked.

        An article without a counterpart gets a possible link with the noun.
        """
        for s, word in enumerate(self.spanish):
            plain = {"al": "el", "del": "el"}.get(word, word)
            groups = [english for english, spanish in VOCABULARY.determiners if plain in spanish]
            if not groups or self.is_clitic(s):
                continue
            noun = self.head(self.spanish, s)
            other = None if noun is None else self.to_english(noun)
            if noun is None or other is None:
                continue
            if word == "esta" and self.english[other] == "tonight":
                self.sure.add((s, other))
            elif word == "los" and self.spanish[s - 1] == "todos":
                self.possible.add((s, self.english.index("every")))
            else:
                same = [
                    t
                    for t, each in enumerate(self.english)
                    if any(each in group for group in groups) and self.head(self.english, t) == other
                ]
                self.sure |= {(s, t) for t in same}
                if not same:
                    self.possible.add((s, other))
        for t, word in enumerate(self.english):
            if word in ("the", "a", "an") and self.to_spanish(t) is None:
                noun = self.head(self.english, t)
                other = None if noun is None else self.to_spanish(noun)
                if other is not None:
                    self.possible.add((other, t))

    def prepositions(self) -> None:
        """Links prepositions whose nouns are linked.

        A preposition without a counterpart gets a possible link with the noun. "de" is also linked with the "'s" of the
        owner.
        """
        for s, word in enumerate(self.spanish):
            if word not in PREPOSITIONS or (noun := self.head(self.spanish, s)) is None:
                continue
            other = self.to_english(noun)
            if other is None:
                continue
            if word in ("de", "del"):
                self.sure.add((s, other))
                continue
            same = [
                t
                for t, each in enumerate(self.english)
                if each in PREPOSITIONS - {"a"} and self.head(self.english, t) == other and not self.infinitive(t)
            ]
            self.sure |= {(s, t) for t in same[-1:]}
            if not same:
                self.possible.add((s, other))
        for t, word in enumerate(self.english):
            if word not in PREPOSITIONS - {"a"} or self.to_spanish(t) is not None or self.infinitive(t):
                continue
            noun = self.head(self.english, t)
            other = None if noun is None else self.to_spanish(noun)
            if other is not None:
                self.possible.add((other, t))

    def infinitive(self, t: int) -> bool:
        """Returns True if an English word is the "to" of an infinitive."""
        return self.english[t] == "to" and self.english[t + 1] in VOCABULARY.verbs

    def ques(self) -> None:
        """Links "que" with the "to" of an infinitive, or else with "that". Links any other "to" with its infinitive."""
        for s, word in enumerate(self.spanish):
            if word != "que" or self.to_english(s) is not None:
                continue
            if self.spanish[s + 1] in VOCABULARY.infinitives:
                self.sure |= {(s, t) for t in range(len(self.english)) if self.infinitive(t)}
            else:
                free = [t for t, each in enumerate(self.english) if each == "that" and self.to_spanish(t) is None]
                self.sure |= {(s, t) for t in free}
        for t in range(len(self.english)):
            if self.infinitive(t) and self.to_spanish(t) is None:
                verb = self.to_spanish(t + 1)
                self.possible |= {(verb, t)} if verb is not None else set()

    def verbs(self) -> None:
        """Adds possible links of auxiliaries and dropped subjects with the Spanish verb."""
        verbs = [t for t, word in enumerate(self.english) if word in VOCABULARY.verbs]
        for t, word in enumerate(self.english):
            dropped = word in PRONOUNS and self.to_spanish(t) is None
            if not dropped and word not in AUXILIARIES:
                continue
            before, after = t - 1 in verbs, [v for v in verbs if v > t]
            verb = t - 1 if dropped and before else (after or verbs)[0]
            self.possible |= {(s, t) for s, each in self.sure if each == verb and self.spanish[s] in VOCABULARY.verbs}
