"""Language of lines, from frequent words, from scripts, and from the words of the other lines."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer

from nmt_keras.check.association import Floats, word_matrix, words_of

Flags = NDArray[np.bool_]

FREQUENT = {
    code: words.split()
    for code, words in {
        "ar": "في من على أن إلى هذا لا ما التي هو كان أو مع",
        "bg": "и на да се за от не са във това че със",
        "ca": "de la i el que en els les per amb una és dels del al no com",
        "cs": "a v se na je že z o do si nebo pro jako není který být",
        "da": "og i at det er en til på af for med den ikke jeg har kan",
        "de": "der die und in den von zu das mit sich des auf für ist dem nicht ein eine kann wird ich",
        "el": "και το να του η της με την για δεν είναι από τα ο",
        "en": "the of and to in is that it for you on with this be are not was have i he an or",
        "eo": "la kaj de en estas ne al mi vi por kun oni",
        "es": "de la que el en y los se del las por con una su para es al como no un más lo me a le mi te qué está yo",
        "et": "ja on ei et see ta kui ka oma või ning mis",
        "fa": "و در به از که این را با است برای آن",
        "fi": "ja on ei että oli se hän mutta ovat kun tai ole",
        "fr": "de la le et les des en un du une que est pour dans qui par sur pas au plus je vous ne il",
        "gl": "de a que o e do da en un para con unha non os no se na por máis",
        "he": "של את על לא הוא זה אני עם כי יש או",
        "hi": "के है में की और का से को नहीं यह हैं पर",
        "hr": "i je u se na da za ne su od koji nije kao ili",
        "hu": "a az és hogy nem egy is ez van meg azt vagy",
        "id": "yang dan di untuk dengan ini dari tidak dalam itu pada adalah atau",
        "it": "di e il la che in a per un è del non una sono con si da le dei mi ho",
        "lt": "ir į kad yra ne iš su tai kaip ar nėra",
        "lv": "un ir ar no uz ka nav lai kas par vai",
        "nl": "de van het een en in is dat op te zijn met voor niet aan er ik of",
        "no": "og i det er på som en av for med til har ikke jeg kan den",
        "pl": "i w na z się nie to że do jest o jak lub dla można",
        "pt": "de a o que e do da em um para com não uma os no se na por mais as é eu",
        "ro": "și de în la a cu nu pe din care să este un pentru sau",
        "ru": "и в не на что с по как это из для он я или",
        "sk": "a v sa na je že z o do nie alebo pre ako ktorý",
        "sl": "in je v se na da za ne so od ki ni ali kot",
        "sr": "и је у да се на за не су од или није",
        "sv": "och i att det som på är av för med den till en ett inte jag kan",
        "tr": "ve bir bu için da de ile değil olarak bu veya çok ne",
        "uk": "і в не на що з до як це та для у або",
        "vi": "của và là không có được cho trong một này để các",
    }.items()
}
"""Frequent words of languages with spaces."""

_ORDER = [*FREQUENT]
_VOCABULARY = sorted({word for words in FREQUENT.values() for word in words})


ROUNDS, SURE = 3, 2.0
SEEDS = 0.004  # share of lines with frequent words of a third language from which on other lines are compared with them

HALF = 0.35  # share of swapped pairs from which on the most frequent order does not tell which pairs are swapped


def frequent_words(lines: Sequence[str]) -> NDArray[np.int64]:
    """Returns the number of different frequent words of each language in each line, [N, languages]."""
    counter = CountVectorizer(analyzer=words_of, binary=True, vocabulary=_VOCABULARY)
    languages = np.array([[word in FREQUENT[code] for code in _ORDER] for word in _VOCABULARY], np.int64)
    return np.asarray(counter.transform(lines) @ languages)


def main_language(counts: NDArray[np.int64]) -> str | None:
    """Returns the language of a text from the counts of its lines; ``None`` if few lines have its frequent words."""
    best = int(counts.sum(axis=0).argmax())
    return _ORDER[best] if (counts[:, best] > 0).mean() > 0.2 else None


def foreign(lines: Sequence[str], counts: NDArray[np.int64]) -> tuple[str, Flags]:
    """Returns the most frequent third language or script of a text, and its lines.

    Args:
        lines: The lines.
        counts: Their frequent words; see ``frequent_words``.
    """
    main = main_language(counts)
    own = counts[:, _ORDER.index(main)] if main else np.zeros(len(lines), np.int64)
    best, most = counts.argmax(axis=1), counts.max(axis=1)
    other = (most >= 2) & (most >= 3 * own) & (best != (_ORDER.index(main) if main else -1))
    found = {_ORDER[code]: other & (best == code) for code in np.unique(best[other])}
    scripts = np.array([script_of(line) for line in lines])
    usual = Counter(filter(None, scripts)).most_common(1)[0][0] if any(scripts) else ""
    found |= {f"script {name}": scripts == name for name in {*scripts} - {"", "LATIN", usual}}
    name = max(found, key=lambda each: int(found[each].sum()), default="")
    flags = found.get(name, np.zeros(len(lines), bool))
    return name, _extended(lines, flags) if flags.sum() > max(4, SEEDS * len(lines)) else flags


def _extended(lines: Sequence[str], flags: Flags) -> Flags:
    """Returns the lines whose letters look like those of the flagged lines. Short lines have no frequent words."""
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(1, 3), max_features=20_000, binary=True, dtype=float)
    letters = csr_array(counter.fit_transform(lines))
    alike = flags
    for _ in range(ROUNDS):
        ratio = log_ratio(letters.T @ alike.astype(float), letters.T @ (~alike).astype(float))
        alike = letters @ ratio > 5 * SURE
    return alike if alike.sum() < 10 * flags.sum() else flags


def log_ratio(here: Floats, there: Floats) -> Floats:
    """Returns log(share of the occurrences here / there) of each word, [V]; 0 for words that occur rarely."""
    size = here.sum() / max(1.0, there.sum())
    return np.clip(np.log((here + 0.5) / (there + 0.5) / max(size, 1e-9)), -3, 3) * (here + there >= 5)


@cache
def _script(character: str) -> str:
    name = unicodedata.name(character, "").partition(" ")[0]
    return "KANA" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name


def script_of(line: str) -> str:
    """Returns the script of a line of ten letters or more, by the first word of their Unicode names, else ""."""
    if line.isascii():
        return "LATIN" if sum(map(str.isalpha, line)) >= 10 else ""
    scripts = Counter(map(_script, islice(filter(str.isalpha, line), 40)))
    if scripts.total() < 10:
        return ""
    return "KANA" if scripts["KANA"] else scripts.most_common(1)[0][0]


def unexpected(source: Sequence[str], target: Sequence[str]) -> tuple[Flags, Flags]:
    """Returns the pairs whose sides are swapped, [N], and those with both sides in one language, [N].

    The words of each side tell its language: SUM over words of log(occurrences on the source side / on the target
    side). Pairs that are found to be swapped count as such in the next round.
    """
    words = word_matrix([*source, *target], 50_000)
    first, second = words[: len(source)], words[len(source) :]
    axis = TruncatedSVD(1, random_state=1).fit_transform(first - second)[:, 0]  # from one language to the other
    fewer = axis < 0 if (axis < 0).mean() < 0.5 else axis > 0
    swapped = fewer & (fewer.mean() > HALF)
    for _ in range(ROUNDS):
        kept, turned = (~swapped).astype(float), swapped.astype(float)
        here, there = first.T @ kept + second.T @ turned, first.T @ turned + second.T @ kept
        weight = log_ratio(here, there)
        left, right = first @ weight, second @ weight
        swapped = (left < -SURE) & (right > SURE)
    return swapped, ((left < -SURE) & (right < -SURE)) | ((left > SURE) & (right > SURE))
