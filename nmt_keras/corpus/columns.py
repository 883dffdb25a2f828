"""Columns of source and target in a table. Without options, they are the first two columns of text.

The Spanish-English file, whose source is the second column, is recognised by a checksum of its text.
"""

import hashlib
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from nmt_keras.config import require
from nmt_keras.corpus.download import SPANISH_ENGLISH_BYTES, SPANISH_ENGLISH_SHA256
from nmt_keras.io.lines import open_text
from nmt_keras.io.sentences import MARKS
from nmt_keras.languages import is_language, spaced

OPTIONS = "source_column (--source-column)", "target_column (--target-column)"
SAMPLE_ROWS = 100
"""Number of rows at the beginning of a table that determine its columns."""
SAMPLE_CHARACTERS = 2000
"""Number of characters at the beginning of a cell that determine its column."""
MAX_COLUMNS = 1000
"""Number of columns of a table that are read. The others are ignored."""

ROLES = frozenset(
    re.findall(
        r"\w+",
        """source target src tgt trg input output original reference translation translated text texts sentence
        sentences phrase phrases segment word words lang language us gb br mx cn tw latn cyrl arab deva hans hant
        jpan hang origen destino quelle ziel tiếng""",
    )
)
"""Words that a header has above sentences, beside names of languages: roles, countries and scripts."""

LANGUAGES = {
    name: names.split()[0]
    for names in """\
        ar ara العربية arabic árabe arabe arabisch
        bg bul bulgarian
        bn bengali
        ca cat catalan catalán
        cs ces czech
        cy welsh
        da dan danish
        de deu ger german deutsch alemán aleman allemand tedesco alemão
        ell greek
        en eng english inglés ingles anglais englisch inglese inglês
        eo esperanto
        es spa spanish español espanol castellano espagnol spanisch spagnolo espanhol
        et estonian
        eu eus basque
        fas persian farsi
        fi fin finnish
        fr fra french francés frances français francais französisch francese francês
        ga irish
        gl glg galician
        heb hebrew עברית
        hi hin hindi
        hu hun hungarian
        id ind indonesian
        it ita italian italiano italien italienisch
        ja jpn 日本語 japanese japonés japonais japanisch
        ko kor korean 한국어
        lat latin
        lt lit lithuanian
        lv lav latvian
        ms malay
        nl nld dutch
        nor norwegian
        pl pol polish
        pt por portuguese português portugués portugais portugiesisch
        ro ron romanian
        ru rus russian ruso russe russisch русский
        sk slk slovak
        sl slv slovenian
        sr srp serbian
        sv swe swedish
        sw swa swahili
        ta tamil
        th tha thai ไทย ภาษาไทย
        tr tur turkish türkçe
        uk ukr ukrainian
        ur urd urdu
        vi vie vietnamese việt
        yo yor yoruba
        zh zho cmn 中文 汉语 漢語 chinese chino chinois chinesisch mandarin""".splitlines()
    for name in names.split()
}
"""Languages by names and codes. Codes that are common words, such as he and is, are missing."""

CODE = re.compile(r"(?P<language>[a-z]{2}|[a-z]{3})(?:[-_][a-z]{2,4})?")
ID = re.compile(r"[^\s\d]*+\d\S*+|[\W\d_]*+")
"""A cell with a digit and without spaces, or a cell without letters."""
SENTENCE = re.compile(r"\S+\s+\S+\s.*[^\w\s]", re.DOTALL)  # three words or more, and a mark at the end
TERM = re.compile(r"[!-~]*[A-Za-z0-9_]")
"""A cell without spaces and without a mark at the end, such as train or news.txt."""


def require_share(max_malformed: float) -> None:
    """Raises ValueError unless the maximum share of malformed lines is from 0 to 1."""
    require(0 <= max_malformed <= 1, "max_malformed (--max-malformed)", "a share from 0 to 1", max_malformed)


class Layout(NamedTuple):
    """Columns of source and target in a table, counted from 0."""

    source: int
    target: int
    header: tuple[str, ...] = ()  # names of the columns; empty without a header
    skipped: tuple[str, ...] = ()  # recognised columns without sentences, with their first cell
    title_lines: int = 0  # lines of one cell before the header; they are skipped, too
    others: tuple[str, ...] = ()  # later columns of sentences, such as a second reference, with their first cell

    def __str__(self) -> str:
        sides = zip(("source", "target"), (self.source, self.target), strict=True)
        named = [f"{side} {at}{f' {self.header[at]!r}' if at < len(self.header) else ''}" for side, at in sides]
        columns = ", ".join([*named, *(f"not {each}" for each in self.skipped + self.others)])
        count = self.title_lines
        titles = f", {count} line{'s' * (count > 1)} before the header skipped" if count else ""
        return f"columns: {columns}{titles}" if self.header or self.skipped or self.others else ""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of the source and target in a corpus file. The command line has an option for each field."""

    source_column: int | str | None = None
    """Source column of a table: its number, counted from 0, or its name in the header. Default: the first column of
    sentences, or 1 for the Spanish-English file."""
    target_column: int | str | None = None
    """Target column of a table. Default: the second column of sentences, or 0 for the Spanish-English file."""
    reverse: bool = False
    """Swap source and target."""

    def __post_init__(self) -> None:
        given = self.source_column, self.target_column
        expected = f"a column from 0 to {MAX_COLUMNS - 1}"
        for name, column in zip(OPTIONS, given, strict=True):
            require(not isinstance(column, int) or 0 <= column < MAX_COLUMNS, name, expected, column)
        first, second = (default if column is None else column for column, default in zip(given, (0, 1), strict=True))
        require(first != second, OPTIONS[1], f"another column than {OPTIONS[0]}", second)

    @property
    def names_columns(self) -> bool:
        """``True`` if at least one column is given."""
        return (self.source_column, self.target_column) != (None, None)

    @property
    def has_names(self) -> bool:
        """``True`` if a column is given by its name in the header."""
        return isinstance(self.source_column, str) or isinstance(self.target_column, str)

    @property
    def order(self) -> tuple[int, int]:
        """Indices of the source and the target file in a pair of files."""
        return (1, 0) if self.reverse else (0, 1)

    def require_readable(self, files: Sequence[str]) -> None:
        """Raises ValueError if columns are given for two files."""
        require(
            len(files) < 2 or not self.names_columns,
            "--source-column, --target-column",
            "a single table, because two files have no columns",
            tuple(files),
            "Remove the options, or pass --reverse to swap source and target.",
        )

    def of(self, table: str | None = None, *, english_first: bool = False) -> Self:
        """Returns the columns with those of the Spanish-English file if ``table`` has its text and none are given.

        Args:
            table: Path of a table, or ``None`` for one that is already known.
            english_first: If ``True``, the table has the columns of the Spanish-English file.
        """
        if self.names_columns or not (english_first or (table is not None and is_spanish_english(table))):
            return self
        return replace(self, source_column=1, target_column=0)

    def find(self, rows: Sequence[Sequence[str]], name: str, keys: Sequence[str] = ()) -> Layout:
        """Finds the columns in a table.

        A header is recognised if columns are chosen by name, or by ``is_header``. Columns of ids, numbers or terms,
        columns with the same text in each row, and copies of another column are not chosen by default. Rows of one cell
        before a header, such as a title, are skipped.

        Args:
            rows: The first rows of the table, at most ``SAMPLE_ROWS``. A header is the first row of several cells.
            name: Name of the table in errors.
            keys: Names of the columns in a table without a header; empty for other tables.

        Raises:
            ValueError: a name is not in the header, or no column is given and fewer than two columns hold sentences.
        """
        given: list[int | str | None] = [self.source_column, self.target_column]
        title_lines = next((at for at, row in enumerate(rows) if len(row) > 1), 0)  # a title, or blank lines
        rows = [[cell[:SAMPLE_CHARACTERS] for cell in row] for row in rows[title_lines:]]
        body = rows if keys or len(rows) == 1 else rows[1:]
        names = [column_name(cell) for cell in keys or (rows[0] if rows else ())]
        for at, column in enumerate(given):
            if isinstance(column, str):
                listed = f": {', '.join(map(repr, names[:12]))}" if names else ", which has no header and no valid line"
                require(column_name(column) in names, OPTIONS[at], f"a column of {name}{listed}", column)
                given[at] = names.index(column_name(column))

        def cells(at: int) -> list[str]:
            return [row[at] for row in body if at < len(row)]

        found = _text_columns(body)
        texts = found[:2] if len(found) > 1 else [0, 1]
        skipped: list[int] = []
        if not self.names_columns:
            given = [*texts]
            skipped = [at for at in range(texts[1]) if at not in texts]
            require(
                len(found) > 1 and not _is_labelled([cells(at) for at in texts]),
                "path",
                f"two columns of sentences in {name}",
                "\t".join(next(iter(body), ())[:4])[:80],
                "Pass a table of pairs, or the columns with --source-column and --target-column.",
            )
        free = [at for at in texts if at not in given]
        indices = [(at if at in free else free[0]) if column is None else column for at, column in enumerate(given)]
        source, target = map(int, indices)
        require(source != target, OPTIONS[1], f"another column than {OPTIONS[0]}", self.target_column)
        is_named = self.has_names or (
            max(source, target) < len(names) and is_header(names[source], names[target], [cells(source), cells(target)])
        )
        header = keys or (map(str.strip, rows[0]) if is_named else ())
        if self.reverse:
            source, target = target, source
        described, others = (tuple(f"{at} ({cells(at)[0]!r:.20})" for at in each) for each in (skipped, found[2:]))
        return Layout(source, target, tuple(header), described, title_lines if is_named and not keys else 0, others)


def column_name(cell: str) -> str:
    """Returns the name of a column by its cell in the header: in lower case, without spaces, quotes and # around it."""
    return unicodedata.normalize("NFC", cell[:SAMPLE_CHARACTERS].strip(' "#')).casefold()


def is_header(source: str, target: str, columns: Sequence[Sequence[str]]) -> bool:
    """Returns ``True`` if the first cells of two columns name two languages, or two roles such as source and target.

    Names that differ only in the language (texto_es, texto_en) and numbers of columns (0, 1) count, too. A cell with a
    mark at the end, such as ``Ja.``, is a sentence.

    Args:
        source, target: The cells in lower case.
        columns: The other cells. Codes of rare languages, which can also be words, count if all of these are longer.
    """
    words = [re.findall(r"[^\W\d_]+|\d+|[^\w\s()/-]", cell) for cell in (source, target)]
    first, second = ([LANGUAGES.get(word, word) for word in side] for side in words)
    if first != second and all(ROLES.union(LANGUAGES).intersection(side) and side[-1] not in MARKS for side in words):
        others = [[word for word in side if word not in LANGUAGES] for side in words]
        return others[0] == others[1] or all(word.isdigit() or word in ROLES for side in others for word in side)
    if source != target and source.isdigit() and target.isdigit():
        return True
    codes = [found["language"] for found in map(CODE.fullmatch, (source, target)) if found]
    if len(codes) < 2 or codes[0] == codes[1] or len(codes[0]) != len(codes[1]):
        return False
    is_short = any(0 < len(re.findall(r"\w", cell)) <= 3 for cells in columns for cell in cells)
    return not is_short and all(map(is_language, codes))


def _text_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Returns the first two columns of text, and later columns of sentences.

    In one or two rows, only ids and numbers are recognised. A table of two columns or fewer has no other columns.
    """
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    columns = list(zip(*(row for row in rows if len(row) == width), strict=True)) if width > 2 else []
    words = [
        sum(2 * bool(re.search(r"\w[^\w\s]*\s\W*\w", spaced(cell))) for cell in cells) > len(cells) for cells in columns
    ]
    has_sentences = sum(words) > 1
    texts: list[int] = []
    for at, cells in enumerate(columns):
        stripped = [cell.strip().replace("\\N", "") for cell in cells]  # \N: no value, in exports of databases
        copies = any(2 * sum(map(_alike, cells, columns[other])) > len(cells) for other in texts)
        has_terms = has_sentences and all(map(TERM.fullmatch, stripped))
        is_label = len(cells) > 2 and (len({*cells}) == 1 or copies or has_terms)
        if not is_label and not all(map(ID.fullmatch, stripped)):
            begins = {" ".join(cell.split()[:2]) for cell in stripped}  # a column of sources or licences has one
            if len(texts) < 2 or (_are_sentences(stripped) and len(begins) > 1):
                texts.append(at)
    return texts if width > 2 else [0, 1]


def _are_sentences(cells: Sequence[str]) -> bool:
    return 2 * sum(bool(SENTENCE.fullmatch(spaced(cell.strip()))) for cell in cells) > len(cells)


def _is_labelled(sides: Sequence[Sequence[str]]) -> bool:
    """Returns ``True`` if one column holds sentences and the other labels or ids, or if both hold whole numbers."""
    labels = [
        len({*cells}) == 1 or all(TERM.fullmatch(cell.strip()) or ID.fullmatch(cell.strip()) for cell in cells)
        for cells in sides
    ]
    are_sentences = any(label and _are_sentences(other) for label, other in zip(labels, reversed(sides), strict=True))
    return len(sides[0]) > 2 and (are_sentences or all(cell.isdecimal() for cells in sides for cell in cells))


def _alike(one: str, other: str) -> bool:
    return re.findall(r"\w", one.casefold()) == re.findall(r"\w", other.casefold())


def is_spanish_english(path: str) -> bool:
    """Returns ``True`` if a file holds the Spanish-English corpus. Reads at most one byte more than the corpus has.

    Returns ``False`` for a file that cannot be read, and for a pipe, because a pipe can be read only once.
    """
    if not Path(path).is_file():
        return False
    try:
        with open_text(path) as text:
            return is_spanish_english_text(text)
    except (OSError, ValueError):  # the error is raised later, when the corpus is read
        return False


def is_spanish_english_text(text: io.BufferedIOBase) -> bool:
    """Returns ``True`` if a stream holds the text of the Spanish-English corpus.

    Reads at most one byte more than the corpus has.
    """
    content = text.read(SPANISH_ENGLISH_BYTES + 1)
    return hashlib.sha256(content).hexdigest() == SPANISH_ENGLISH_SHA256
