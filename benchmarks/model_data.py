"""Builds the training data of the committed model: the Spanish-English corpus, short pairs, catalogues and clauses.

    python3 -m venv .venv-eflomal && .venv-eflomal/bin/pip install eflomal
    python -m benchmarks.model_data --corpus spa-eng.zip --to model-data --aligner .venv-eflomal/bin/eflomal-align

Catalogues are downloaded with npm and apt-get, so this needs Debian. Writes into the folder ``--to``:

    train.tsv      English<TAB>Spanish: the training set of the corpus, its short pairs twice more, and added pairs
    train.align    word alignments of train.tsv, source-target
    valid.tsv      the validation set of the corpus
    test.tsv       the test set of the corpus
    sources.json   name, version, licence and number of pairs of each source, for the model card
    packages/      what was downloaded; later calls read it

No added pair has a side whose key occurs in the validation or test set.
"""

import io
import json
import re
import struct
import subprocess
import tarfile
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import tyro

from benchmarks.machine import output_of
from nmt_keras.config import require
from nmt_keras.corpus import Pair, part_sha256, read_pairs, split_pairs
from nmt_keras.corpus.alignments import Link, from_pharaoh, split_words
from nmt_keras.corpus.split import sentence_key
from nmt_keras.manifest import read_manifest

MODEL = Path(__file__).parents[1] / "saved_models" / "spa-eng" / "1"
"""The committed model. Its manifest has the checksums of the sets."""
SHORT, REPEATED = 3, 2
"""Pairs of the corpus with at most ``SHORT`` Spanish words are repeated ``REPEATED`` times."""
MAX_WORDS = 6  # per side of a message
MAX_CLAUSE_WORDS = 8  # per side of a clause
MIN_COUNT, MIN_SHARE = 4, 0.4  # of a word's translation among its links; half of it of words of ``BEFORE_NOUNS``
BEFORE_NOUNS = {
    *("el", "la", "los", "las", "un", "una", "unos", "unas"),
    *("mi", "mis", "tu", "tus", "su", "sus"),
    *("este", "esta", "ese", "esa"),
    *("muy", "más", "tan"),
}

CLDR_VERSION = "48.2.0"
CLDR = {
    "cldr-annotations-full": {"annotations/{}/annotations.json": r"/tts/0"},
    "cldr-dates-full": {
        "main/{}/ca-gregorian.json": r"/(months/format/wide|days/format/wide|dayPeriods/stand-alone/wide)/\w+",
        "main/{}/dateFields.json": r"/fields/\w+/(displayName|relative.*)",
        "main/{}/timeZoneNames.json": r"/exemplarCity",
    },
    "cldr-localenames-full": {
        "main/{}/languages.json": r"/languages/\w\w",
        "main/{}/territories.json": r"/territories/\w+",
    },
    "cldr-numbers-full": {"main/{}/currencies.json": r"/displayName(-count-(one|other))?"},
    "cldr-units-full": {"main/{}/units.json": r"/long/[\w-]+/(displayName|unitPattern-count-(one|other))"},
}
"""Packages of npm: files, and the paths of the names that are taken, from their end."""
CALENDAR = "/dates/calendars/gregorian"
DATE_FORMATS = "dateFormats/long", "dateTimeFormats/availableFormats/MMMMd"

MESSAGES = """
    aisleriot atril-common audacity-data brasero-common caja-common cheese-common claws-mail-i18n deja-dup dolphin
    engrampa-common eog eom-common epiphany-browser-data evince-common evolution-common file-roller
    filezilla-common gajim gdm3 geany-common gedit-common gimp-data gnome-calculator gnome-calendar
    gnome-characters gnome-clocks gnome-contacts gnome-control-center-data gnome-disk-utility gnome-logs
    gnome-maps gnome-music gnome-photos gnome-shell-common gnome-software-common gnome-sound-recorder
    gnome-system-monitor gnome-terminal-data gnome-tweaks gnome-weather gnote gnucash-common gnumeric-common
    gramps gthumb-data homebank-data kgeography-data libgtk-3-common libgweather-4-common libreoffice-l10n-es
    liferea-data mate-control-center-common mate-panel-common mate-terminal-common mate-utils-common mousepad
    nautilus-data network-manager-gnome orca parole pidgin-data pluma-common remmina-common rhythmbox-data
    ristretto seahorse shotwell-common simple-scan sylpheed-i18n synaptic thunar-data totem-common vlc-l10n xfburn
    xfce4-panel xfce4-session xfce4-settings xfce4-terminal xfdesktop4-data yelp"""
"""Packages of Debian with Spanish message catalogues."""

_ACCELERATOR = re.compile(r"[_&~](?=\w)")
_UNFIT = re.compile(r"[^\w\s.,;!?¿¡'’-]|[\d_]|\n|--|\w\.\w")
_WANTED = re.compile(r"/es/LC_MESSAGES/.*\.mo$|/(en|es)/[\w-]+\.json$|/package\.json$|/copyright$")
_MARKS = re.compile(r"^\W+|\W+$")


Links = frozenset[Link]


def main(corpus: Path, to: Path, aligner: Path = Path("eflomal-align")) -> None:
    """Writes the files and prints the number of pairs of each source.

    Args:
        corpus: The corpus: spa-eng.zip or spa.txt.
        to: Folder of the result.
        aligner: The program eflomal-align. Install eflomal from PyPI into a virtual environment of its own.
    """
    sets = split_pairs(read_pairs(corpus, source_column=1, target_column=0).pairs, key_side="target")
    sums = {part: part_sha256(pairs, key_side="target") for part, pairs in sets.items()}
    require(
        {part: sums[part] for part in ("valid", "test")}.items() <= read_manifest(MODEL)["corpus"]["sha256"].items(),
        "--corpus",
        f"the corpus of {MODEL}",
        sums,
    )
    held = set[tuple[int, str]]().union(*map(keys, [*sets["valid"], *sets["test"]]))
    train = sets["train"]
    short = [pair for pair in train if len(pair.source.split()) <= SHORT]
    sources, catalogued = catalogues(to / "packages")
    aligned = [*train, *(pair for pairs in catalogued.values() for pair in pairs)]
    directions = align(aligned, aligner)
    links = {pair: forward & reverse for pair, (forward, reverse) in zip(aligned, directions, strict=True)}
    added: dict[str, Mapping[Pair, Links]] = {
        **{name: {pair: links[pair] for pair in pairs} for name, pairs in catalogued.items()},
        "clauses of the corpus": clauses({pair: links[pair] for pair in train}),
        "words of the corpus": lexicon(train, directions),
    }
    lines = {"corpus": train, "short pairs of the corpus, again": REPEATED * short}
    seen = {*train}
    for name, found in added.items():
        lines[name] = new_pairs(found, seen, held)
        seen.update(lines[name])
        links |= {pair: found[pair] for pair in lines[name]}
    merged = [pair for pairs in lines.values() for pair in pairs]
    for part, pairs in {**sets, "train": merged}.items():
        (to / f"{part}.tsv").write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in pairs), encoding="utf-8")
    alignments = (" ".join(f"{s}-{t}" for s, t in sorted(links[pair])) + "\n" for pair in merged)
    (to / "train.align").write_text("".join(alignments), encoding="utf-8")
    record = {"pairs": {name: len(pairs) for name, pairs in lines.items()}, "sha256": sums, "packages": sources}
    (to / "sources.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record["pairs"], indent=2))


def keys(pair: Pair) -> set[tuple[int, str]]:
    """Returns the keys of source and target, by which the split compares sentences, with the number of the side."""
    return {*enumerate(map(sentence_key, pair))}


def new_pairs(pairs: Iterable[Pair], seen: Set[Pair], held: Set[tuple[int, str]]) -> list[Pair]:
    """Returns the pairs that are not in ``seen`` and have no sentence with a key in ``held``."""
    return [pair for pair in pairs if pair not in seen and held.isdisjoint(keys(pair))]


# Catalogues


def catalogues(folder: Path) -> tuple[list[dict[str, str]], dict[str, list[Pair]]]:
    """Downloads the catalogues. Returns their names, versions and licences, and their pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    sources, names, entries = list[dict[str, str]](), list[Pair](), list[list[Pair]]()
    for package, files in CLDR.items():
        archive = folder / f"{package}-{CLDR_VERSION}.tgz"
        if not archive.exists():
            output_of(["npm", "pack", "--silent", f"{package}@{CLDR_VERSION}"], cwd=folder)
        packed = contents(archive.read_bytes())
        facts = json.loads(packed["package/package.json"])
        sources.append({name: facts[name] for name in ("name", "version", "license")})
        for file, wanted in files.items():
            spanish, english = (
                dict(leaves(json.loads(packed[f"package/{file.format(language)}"]), f"/main/{language}"))
                for language in ("es", "en")
            )
            names += name_pairs(spanish, english, wanted)
            if "ca-gregorian" in file:
                names += date_pairs(spanish, english)
    for package in MESSAGES.split():
        if not [*folder.glob(f"{package}_*.deb")]:
            output_of(["apt-get", "download", package], cwd=folder)
        (archive,) = folder.glob(f"{package}_*.deb")
        packed = contents(subprocess.check_output(["dpkg-deb", "--fsys-tarfile", str(archive)]))
        terms = licence(packed[f"./usr/share/doc/{package}/copyright"].decode(errors="replace"))
        version = output_of(["dpkg-deb", "--field", str(archive), "Version"]).strip()
        sources.append({"name": package, "version": version, "license": terms})
        entries.append([pair for name, file in packed.items() if name.endswith(".mo") for pair in messages(file)])
    return sources, {"names of CLDR": names, "messages of programs": agreed(entries)}


def contents(archive: bytes) -> dict[str, bytes]:
    """Returns the files of a tar archive that have names, messages, versions or licences."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        wanted = (member for member in packed if member.isfile() and _WANTED.search(member.name))
        files = ((member.name, packed.extractfile(member)) for member in wanted)
        return {name: file.read() for name, file in files if file}


def licence(text: str) -> str:
    """Returns the licence in a copyright file of Debian: that of most files, else all that it names."""
    if found := re.search(r"^Files: \*(?=\s)(?:.*\n)+?License: *(.+)", text, re.M):
        return found[1]
    return ", ".join(sorted({*re.findall(r"common-licenses/([\w.-]*\w)", text)}))


def leaves(value: Any, skipped: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields the strings of nested lists and mappings with their paths, without a beginning ``skipped``."""
    if isinstance(value, str):
        yield path.removeprefix(skipped), " ".join(value.split())  # without U+00A0
    elif isinstance(value, Mapping | list):
        for name, each in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from leaves(each, skipped, f"{path}/{name}")


def name_pairs(spanish: Mapping[str, str], english: Mapping[str, str], wanted: str) -> Iterator[Pair]:
    """Yields the names in two files of CLDR, as returned by ``leaves``, whose paths end with the pattern ``wanted``.

    In "{0} años", {0} becomes a number. A plural without {0}, such as the name of a currency, is also preceded by one.
    """
    for path in filter(re.compile(f"{wanted}$").search, spanish):
        # an English city without a name of its own has that of its zone
        zone = path.split("/")[-2].replace("_", " ") if path.endswith("City") else ""
        pair = Pair(spanish[path], english.get(path, zone))
        if not all(cleaned(side.replace("{0}", " ")) for side in pair):
            continue
        number = "1" if path.endswith("one") else str(zlib.crc32(path.encode()) % 1998 + 2)
        if "{0}" in pair.source:
            yield Pair(*(side.replace("{0}", number) for side in pair))
            continue
        yield pair
        if path.endswith("other"):
            yield Pair(*(f"{number} {side}" for side in pair))


def date_pairs(spanish: Mapping[str, str], english: Mapping[str, str]) -> Iterator[Pair]:
    """Yields the days of a year in the formats of CLDR, such as "3 de mayo de 2024" and "May 3, 2024"."""
    for form, month, day in product(DATE_FORMATS, range(1, 13), range(1, 29)):
        year = 1900 + zlib.crc32(f"{form} {month} {day}".encode()) % 150
        sides = []
        for side in (spanish, english):
            values = {"d": str(day), "y": str(year), "MMMM": side[f"{CALENDAR}/months/format/wide/{month}"]}
            parts = re.split(r"('\w+'|\W+)", side[f"{CALENDAR}/{form}"])
            sides.append("".join(values.get(part, part.strip("'")) for part in parts))
        yield Pair(*sides)


def entries(catalogue: bytes) -> Iterator[list[list[str]]]:
    """Yields the forms of each message, without its context, and of its translation, from gettext's format (.mo)."""
    order = "<" if catalogue[:4] == b"\xde\x12\x04\x95" else ">"
    count, *tables = struct.unpack_from(f"{order}3I", catalogue, 8)
    for number in range(count):
        yield [
            catalogue[begin : begin + length].decode().rpartition("\x04")[2].split("\0")
            for length, begin in (struct.unpack_from(f"{order}2I", catalogue, table + 8 * number) for table in tables)
        ]


def messages(catalogue: bytes) -> Iterator[Pair]:
    """Yields the usable messages of a catalogue."""
    for english, spanish in entries(catalogue):
        for form in {0, -1}:  # singular and plural
            pair = Pair(cleaned(spanish[form]), cleaned(english[form]))
            if all(0 < len(side.split()) <= MAX_WORDS for side in pair) and pair.source.lower() != pair.target.lower():
                yield pair


def cleaned(message: str) -> str:
    """Returns a message without accelerator mark and final colon or ellipsis, or "" if it is no plain text."""
    text = _ACCELERATOR.sub("", message, count=1).replace("...", "…").strip().rstrip(" :…")
    return "" if _UNFIT.search(text) or not re.search(r"\w\w", text) else text


def agreed(catalogues: Iterable[Iterable[Pair]]) -> list[Pair]:
    """Returns each message with the translation that most catalogues have, if at least two have it."""
    votes, written = defaultdict[str, Counter[Pair]](Counter), dict[Pair, Pair]()
    for pairs in catalogues:
        for lowered, pair in {Pair(*map(str.lower, pair)): pair for pair in pairs}.items():
            votes[lowered.source][lowered] += 1
            written.setdefault(lowered, pair)
    winners = (counts.most_common(1)[0] for counts in votes.values())
    return [written[pair] for pair, count in winners if count > 1]


# Clauses and words of aligned pairs


def align(pairs: Sequence[Pair], aligner: Path) -> list[tuple[Links, Links]]:
    """Returns eflomal's links of each pair in both directions. Words are compared without case and outer marks."""
    with tempfile.TemporaryDirectory() as folder:
        text, *found = (Path(folder) / name for name in ("pairs", "forward", "reverse"))
        sides = (
            (
                " ".join(re.sub(r"\s", "_", _MARKS.sub("", word.lower()) or word) for word in split_words(side))
                for side in pair
            )
            for pair in pairs
        )
        text.write_text("".join(f"{source} ||| {target}\n" for source, target in sides), encoding="utf-8")
        output_of([str(aligner), "-m", "3", "-i", str(text), "-f", str(found[0]), "-r", str(found[1])])
        lines = zip(*(file.read_text("utf-8").splitlines() for file in found), strict=True)
        return [(from_pharaoh(forward).possible, from_pharaoh(reverse).possible) for forward, reverse in lines]


def clauses(links: Mapping[Pair, Links]) -> dict[Pair, Links]:
    """Returns the clauses between commas and other marks, with their links, of pairs whose clauses correspond.

    Source and target have the same number of clauses, and no link leaves its clause. Of each two words of a clause, one
    has a link.
    """
    found = dict[Pair, Links]()
    for pair, linked in links.items():
        words = [split_words(side) for side in pair]
        ends = [[0, *(i for i, word in enumerate(side, 1) if word[-1] in ",;:.!?")] for side in words]
        if len(ends[0]) != len(ends[1]) or '"' in "".join(pair):
            continue
        spans = [*zip(*map(pairwise, ends), strict=True)]
        inside = [frozenset((s - a, t - c) for s, t in linked if a <= s < b and c <= t < d) for (a, b), (c, d) in spans]
        if len(inside) < 2 or not all(inside) or sum(map(len, inside)) < len(linked):
            continue
        for here, ((a, b), (c, d)) in zip(inside, spans, strict=True):
            sides = [" ".join(words[0][a:b]).rstrip(",;:"), " ".join(words[1][c:d]).rstrip(",;:")]
            is_whole = all(sides[0].count(opening) == sides[0].count(closing) for opening, closing in ("¿?", "¡!"))
            if is_whole and max(b - a, d - c) <= min(MAX_CLAUSE_WORDS, 2 * len(here)):
                found[Pair(*(re.sub(r"\w", lambda first: first[0].upper(), side, count=1) for side in sides))] = here
    return found


def lexicon(pairs: Sequence[Pair], directions: Sequence[tuple[Links, Links]]) -> dict[Pair, Links]:
    """Returns nouns and adjectives of the pairs with their usual translations, in the forms of ``forms``.

    These are words that often follow one of ``BEFORE_NOUNS``. The translations of verbs would lack pronouns. Words that
    are sentences of the corpus are skipped. A translation may have several words, side by side.
    """
    counts, nouns = defaultdict[str, Counter[str]](Counter), Counter[str]()
    alone = {sentence_key(pair.source) for pair in pairs if len(pair.source.split()) == 1}
    for pair, (forward, reverse) in zip(pairs, directions, strict=False):
        source, target = map(inner_words, pair)
        for s, word in enumerate(source):
            span = sorted(t for i, t in forward if i == s)
            is_linked = bool(span) and span[-1] - span[0] < len(span) and any((s, t) in reverse for t in span)
            counts[word][" ".join(target[t] for t in span) if is_linked else ""] += 1
            nouns[word] += s > 0 and source[s - 1] in BEFORE_NOUNS
    found = dict[Pair, Links]()
    for word, translations in counts.items():
        best, count = translations.most_common(1)[0]
        share = min(count, 2 * nouns[word]) / translations.total()
        if (
            count >= MIN_COUNT
            and share >= MIN_SHARE
            and all(map(cleaned, (word, best)))
            and sentence_key(word) not in alone
        ):
            for form in forms(Pair(word, best)):
                found[form] = frozenset((0, t) for t in range(len(best.split())))
    return found


def inner_words(sentence: str) -> list[str]:
    """Returns the words of a sentence without outer marks, and the first one without a capital, except for "I"."""
    first, *others = [_MARKS.sub("", word) for word in split_words(sentence)]
    return [first if re.match(r"I\b", first) else first[:1].lower() + first[1:], *others]


def forms(pair: Pair) -> list[Pair]:
    """Returns a pair and, if it is in lower case, also the pair as sentences: "perro" and "Perro."."""
    is_lower = pair == Pair(*map(str.lower, pair))
    return [pair, *([Pair(*(f"{side[0].upper()}{side[1:]}." for side in pair))] * is_lower)]


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
