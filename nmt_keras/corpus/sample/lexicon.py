"""Lexicon of the sample grammar: nouns, determiners, adjectives and verbs in English and Spanish.

Records hold dictionary forms. Rules add the endings for number, gender and person; irregular forms are written out.
Tables of verb forms are indexed by person: I, you, he or she, we, they.
"""

from __future__ import annotations

from typing import NamedTuple

ME, YOU, HER, US, THEM = range(5)

PRESENT, PRETERITE, FUTURE = range(3)


def spaced(*words: str) -> str:
    """Joins the words that are not empty by single spaces."""
    return " ".join(word for word in words if word)


def kinds(names: str) -> frozenset[str]:
    """Returns a set of kinds of noun."""
    return frozenset(names.split())


class Words(NamedTuple):
    """The same words in both languages."""

    en: str = ""
    es: str = ""


class Noun(NamedTuple):
    """Noun. Its kind determines which verbs, adjectives and places go with it."""

    en: str
    es: str
    gender: str
    kind: str

    def words(self, plural: bool) -> Words:
        """Returns the singular or plural form."""
        if not plural:
            return Words(self.en, self.es)
        return Words(
            self.en + ("es" if self.en.endswith(("s", "x")) else "s"), self.es + ("s" if self.es[-1] in "aeo" else "es")
        )


class Determiner(NamedTuple):
    """Determiner. Spanish forms agree in gender and number, English forms at most in number."""

    singular: str
    plural: str
    es: tuple[str, str, str, str]
    """Masculine, feminine, masculine plural, feminine plural."""

    def words(self, gender: str, plural: bool) -> Words:
        """Returns the form that agrees with a noun."""
        return Words(self.plural if plural else self.singular, self.es[2 * plural + (gender == "f")])


class Adjective(NamedTuple):
    """Adjective, with the kinds of noun that it suits."""

    en: str
    es: str
    comparative: str
    kinds: frozenset[str]

    def agreeing(self, gender: str, plural: bool) -> str:
        """Returns the Spanish form. -o becomes -a for a feminine noun, and a plural adds -s."""
        stem = self.es[:-1] + "a" if gender == "f" and self.es.endswith("o") else self.es
        return stem + "s" * plural


class Verb(NamedTuple):
    """Verb: English forms, Spanish forms by tense and person, and its objects."""

    en: str
    english_present: tuple[str, ...]
    past: str
    infinitive: str
    spanish: tuple[tuple[str, ...], ...]
    """Forms by [tense][person]. Auxiliaries have only the present."""
    takes: frozenset[str] = frozenset()
    """Kinds of noun that can be its object in the past or future."""
    habitually: frozenset[str] = frozenset()
    """Kinds of noun that can be its object as a habit, in the present."""
    afresh: bool = True
    """``True`` if each time has a new object (we buy newspapers), ``False`` if always the same (we wash the car)."""
    auxiliary: bool = False
    """``True`` if the English verb takes no do-support: `is not`, `can you?`."""

    def shows_tense(self, person: int) -> bool:
        """Returns ``False`` if present and preterite have the same form in one language: compramos, we read."""
        return (
            self.spanish[PRESENT][person] != self.spanish[PRETERITE][person]
            and self.english_present[person] != self.past
        )


FUTURE_ENDINGS = "é ás á emos án"

ENDINGS = {
    "ar": ("o as a amos an", "é aste ó amos aron"),
    "er": ("o es e emos en", "í iste ió imos ieron"),
}


def conjugate(infinitive: str, present: str = "", preterite: str = "") -> tuple[tuple[str, ...], ...]:
    """Returns present, preterite and future of a Spanish verb, five persons each. Irregular tenses are arguments."""
    stem, endings = infinitive[:-2], ENDINGS[infinitive[-2:]]
    regular = [tuple(stem + ending for ending in tense.split()) for tense in endings]
    future = tuple(infinitive + ending for ending in FUTURE_ENDINGS.split())
    return tuple(present.split()) or regular[0], tuple(preterite.split()) or regular[1], future


def verb(
    en: str, past: str, es: str, takes: str = "", habitually: str = "", *,
    afresh: bool = True, present: str = "", preterite: str = "",
) -> Verb:  # fmt: skip
    """Returns a verb from its dictionary forms."""
    english = (en, en, en + ("es" if en.endswith("sh") else "s"), en, en)
    return Verb(en, english, past, es, conjugate(es, present, preterite), kinds(takes), kinds(habitually), afresh)


def present_only(en: str, forms: str, es: str, auxiliary: bool = False) -> Verb:
    """Returns a verb that is used only in the present, from the forms of its five persons."""
    return Verb(en, tuple(forms.split()), "", "", (tuple(es.split()),), auxiliary=auxiliary)


def nouns(kind: str, entries: str) -> tuple[Noun, ...]:
    """Returns nouns of one kind from entries `English Spanish gender`."""
    rows = [entry.split() for entry in entries.split(", ")]
    return tuple(Noun(en, es, gender, kind) for en, es, gender in rows)


def phrases(entries: str) -> tuple[Words, ...]:
    """Returns phrases from entries `English = Spanish`."""
    return tuple(Words(*entry.split(" = ")) for entry in entries.split(", "))


# Nouns

THINGS = (
    *nouns("text", "book libro m, newspaper periódico m"),
    *nouns("mail", "letter carta f"),
    *nouns("wear", "shirt camisa f, dress vestido m, hat sombrero m"),
    *nouns("vehicle", "car coche m, bicycle bicicleta f"),
    *nouns("home", "house casa f"),
    *nouns("furniture", "table mesa f, chair silla f, box caja f"),
    *nouns("fruit", "apple manzana f, orange naranja f, egg huevo m"),
    *nouns("animal", "dog perro m, cat gato m, bird pájaro m"),
    *nouns("food", "bread pan m, soup sopa f, rice arroz m, cheese queso m"),
)

RELATIVES = nouns("person", "sister hermana f, brother hermano m, friend amigo m, neighbor vecino m")

MOTHERS = nouns("person", "mother madre f")

TOWNSPEOPLE = nouns("person", "girl niña f, boy niño m, teacher profesora f, doctor médico m")

OCCUPATIONS = nouns("person", "student estudiante m, artist artista m")

NAMES = (("Ana", "f"), ("Marta", "f"), ("Luis", "m"), ("Pablo", "m"))

# Determiners

BARE = Determiner("", "", ("", "", "", ""))

THE = Determiner("the", "the", ("el", "la", "los", "las"))

THIS = Determiner("this", "these", ("este", "esta", "estos", "estas"))

THAT = Determiner("that", "those", ("ese", "esa", "esos", "esas"))

MY = Determiner("my", "my", ("mi", "mi", "mis", "mis"))

YOUR = Determiner("your", "your", ("tu", "tu", "tus", "tus"))

OUR = Determiner("our", "our", ("nuestro", "nuestra", "nuestros", "nuestras"))

A = Determiner("a", "", ("un", "una", "", ""))

ANOTHER = Determiner("another", "", ("otro", "otra", "", ""))

MANY = Determiner("", "many", ("", "", "muchos", "muchas"))

HOW_MANY = Determiner("", "how many", ("", "", "cuántos", "cuántas"))

NUMBERS = tuple(
    Determiner("", en, ("", "", es, es))
    for en, es in (("two", "dos"), ("three", "tres"), ("four", "cuatro"), ("five", "cinco"), ("ten", "diez"))
)

POSSESSIVES = (MY, YOUR, OUR)

POINTING = (THIS, THAT, *POSSESSIVES)

DEFINITE = (THE, THE, *POINTING)

COUNTING = (*NUMBERS, MANY)

# Adjectives

RED = Adjective("red", "rojo", "", kinds("wear vehicle furniture home"))

WHITE = Adjective("white", "blanco", "", kinds("wear vehicle furniture home animal"))

NEW = Adjective("new", "nuevo", "newer", kinds("text wear vehicle furniture home"))

OLD = Adjective("old", "viejo", "older", kinds("text wear vehicle furniture home animal"))

EXPENSIVE = Adjective("expensive", "caro", "more expensive", kinds("text wear vehicle furniture home"))

BEAUTIFUL = Adjective("beautiful", "bonito", "more beautiful", kinds("wear vehicle furniture home animal"))

SMALL = Adjective("small", "pequeño", "smaller", kinds("vehicle furniture home fruit animal"))

BIG = Adjective("big", "grande", "bigger", kinds("vehicle furniture home fruit animal"))

INTERESTING = Adjective("interesting", "interesante", "more interesting", kinds("text mail"))

DIRTY = Adjective("dirty", "sucio", "", kinds("wear vehicle furniture animal"))

TALL = Adjective("tall", "alto", "taller", kinds("person"))

KIND = Adjective("kind", "amable", "kinder", kinds("person"))

SMART = Adjective("smart", "inteligente", "smarter", kinds("person"))

TIRED = Adjective("tired", "cansado", "", kinds("person"))

SICK = Adjective("sick", "enfermo", "", kinds("person"))

SAD = Adjective("sad", "triste", "", kinds("person"))

COLORS = (RED, WHITE)

QUALITIES = (*COLORS, NEW, OLD, EXPENSIVE, BEAUTIFUL, SMALL, BIG, INTERESTING)

STRIKING = (EXPENSIVE, BEAUTIFUL, SMALL, BIG, INTERESTING)

CHARACTERS, STATES = (TALL, KIND, SMART), (TIRED, SICK, SAD)

# Verbs

BUY = verb("buy", "bought", "comprar", "text wear vehicle furniture home fruit animal food", "text fruit food")

SELL = verb("sell", "sold", "vender", "text wear vehicle furniture home animal", "wear vehicle fruit animal")

WASH = verb("wash", "washed", "lavar", "wear vehicle furniture", "wear vehicle", afresh=False)

READ = verb("read", "read", "leer", "text mail", "text mail", preterite="leí leíste leyó leímos leyeron")

EAT = verb("eat", "ate", "comer", "fruit food", "fruit food")

CALL = verb("call", "called", "llamar")

HELP = verb("help", "helped", "ayudar")

GIVE = verb(
    "give", "gave", "dar", "text wear vehicle furniture fruit animal", "text fruit",
    present="doy das da damos dan", preterite="di diste dio dimos dieron",
)  # fmt: skip

SEND = verb("send", "sent", "mandar", "text mail wear", "text mail")

WORK = verb("work", "worked", "trabajar")

TALK = verb("talk", "talked", "hablar")

LIKE = verb("like", "liked", "gustar")

HANDLING = (BUY, SELL, WASH, READ, EAT)

MEETING = (CALL, HELP)

HANDING = (GIVE, SEND)

MOVING = (WORK, TALK)

VERBS = HANDLING + MEETING + HANDING + MOVING

ENJOYED = (BUY, SELL, READ, EAT, WORK, TALK)

SEQUELS = (
    ("text", BUY, (READ, GIVE, SEND)),
    ("mail", READ, (GIVE, SEND)),
    ("wear", BUY, (WASH, GIVE, SEND)),
    ("wear", WASH, (GIVE, SEND)),
    ("fruit", BUY, (EAT, GIVE)),
    ("vehicle", WASH, (SELL,)),
    ("animal", BUY, (SELL, GIVE)),
)
"""Kind of thing, an action on it, and possible next actions on the same thing."""

MOTIVES = (
    (BUY, True, (OLD, EXPENSIVE, SMALL, BIG)),
    (BUY, False, (NEW, BEAUTIFUL, INTERESTING)),
    (SELL, False, (OLD, SMALL, BIG)),
    (SELL, True, (NEW, BEAUTIFUL)),
    (READ, False, (INTERESTING,)),
    (WASH, False, (DIRTY,)),
)
"""Action on a thing, its negation, and qualities of the thing that explain it."""

TO_BE, TENER = "am are is are are", "tengo tienes tiene tenemos tienen"

SER = present_only("be", TO_BE, "soy eres es somos son", auxiliary=True)

ESTAR = present_only("be", TO_BE, "estoy estás está estamos están", auxiliary=True)

BE_BY_HAVING = present_only("be", TO_BE, TENER, auxiliary=True)

HAVE = present_only("have", "have have has have have", TENER)

WANT = present_only("want", "want want wants want want", "quiero quieres quiere queremos quieren")

CAN = present_only("can", "can can can can can", "puedo puedes puede podemos pueden", auxiliary=True)

NEGATED = {"am": "am not", "can": "can't", "will": "won't"}
"""Negated auxiliaries that are not formed by adding -n't."""

# Pronouns and small words

SPEECH_PRONOUNS = {ME: Words("me", "me"), YOU: Words("you", "te"), US: Words("us", "nos")}

PERSON_PRONOUNS = (Words("him", "lo"), Words("her", "la"), Words("them", "los"))

THING_PRONOUNS = (Words("it", "lo"), Words("them", "los"))

WHAT, WHOM = Words("what", "qué"), Words("who", "a quién")

WHERE, WHEN, WHY = Words("where", "dónde"), Words("when", "cuándo"), Words("why", "por qué")

VERY, BECAUSE = Words("very", "muy"), Words("because", "porque")

OFTEN = phrases("always = siempre, never = nunca")

FEELINGS = (
    *((feeling, Words("very", "mucha")) for feeling in phrases("hungry = hambre, thirsty = sed")),
    *((feeling, Words("very", "mucho")) for feeling in phrases("cold = frío, sleepy = sueño")),
)
"""Feelings that Spanish expresses with tener, each with its form of `very`."""

# Times and places

TIMES = (
    phrases("every day = todos los días, on Sundays = los domingos, on Mondays = los lunes"),
    phrases("yesterday = ayer, last night = anoche, last week = la semana pasada, last Monday = el lunes pasado"),
    phrases("tomorrow = mañana, tonight = esta noche, next week = la próxima semana, next Monday = el próximo lunes"),
)
"""Times by tense."""

AGO = tuple(
    Words(f"{number.plural} {unit.en} ago", f"hace {number.es[2]} {unit.es}")
    for number in NUMBERS
    for unit in phrases("days = días, weeks = semanas")
)

ROOMS = phrases("in the kitchen = en la cocina, in the garden = en el jardín")

FOR_PEOPLE = (
    phrases("at home = en casa, at school = en la escuela, in London = en Londres, in Spain = en España") + ROOMS
)

FOR_SMALL_THINGS = phrases("on the table = en la mesa, on the chair = en la silla, in the box = en la caja")

IN_HOUSE = phrases("in the house = en la casa")

PLACES = {
    "text": FOR_SMALL_THINGS,
    "mail": FOR_SMALL_THINGS,
    "wear": FOR_SMALL_THINGS,
    "fruit": FOR_SMALL_THINGS + ROOMS[:1],
    "food": FOR_SMALL_THINGS[:1] + ROOMS[:1],
    "furniture": ROOMS + IN_HOUSE,
    "animal": ROOMS + IN_HOUSE + FOR_SMALL_THINGS[1:2],
}
"""Possible places of each kind of thing."""
