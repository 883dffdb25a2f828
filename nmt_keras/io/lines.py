"""Reads and writes lines of text. Every file and stream of a user follows these rules, in all commands:

- Text is UTF-8. A byte order mark at the start is dropped. Text in UTF-16 or UTF-32 is an error.
- A line ends in LF or CR LF. Other separators, such as U+2028, U+0085 or a CR inside a line, belong to the line. Text
  with CR but without LF is an error.
- gzip, bzip2, xz and zip are unpacked while they are read. The first bytes determine the format, not the name.
- In text to be translated, U+FFFD replaces invalid bytes and NUL, and lines are cut after 1 MiB. Changed lines are
  counted and reported once.
- An error about a file of another kind names this kind and a command that converts it.

    open_text       a file, a pipe or standard input as a stream of bytes
    byte_blocks     lines of a stream as they arrive
    text_blocks     the same, decoded, for input to be translated
    read_lines      lines of a file that must be valid and not too large
    require_files   refuses pipes, for commands that read a file several times
    one_line        text without line ends, for output
    print_utf8      makes the output UTF-8, without control characters on a terminal
    message_stream  a stream of messages, which never stops work
    message         an error as one visible line
    read_within     a body of limited size
"""

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import shlex
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from nmt_keras.io.errors import remedy

STANDARD_INPUT, STDIN = "-", "standard input"  # as a path, and in messages
READ_AT_ONCE = 1 << 18  # bytes: about 7,000 sentences, enough to translate sentences of similar length together
LONGEST_LINE = 1 << 20  # bytes; longer lines to be translated are cut to this length, which bounds memory
MAX_FILE_BYTES = 1 << 24  # bytes of text in a file that is kept in memory: 50,000 pairs with gold links, for example
LONGEST_MESSAGE = 2000  # characters; an error of a server or of TensorFlow can be a megabyte
LINE_ENDS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
INVISIBLE = (
    r"[\x00-\x08\x0E-\x1F\x7F-\x84\x86-\x9F\xAD"
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001]+"
)
"""Pattern, for Python and RE2, of invisible characters without meaning: controls that are not white space, direction
marks, soft hyphens, zero-width spaces, fillers. ``JOINERS`` have a meaning in some scripts."""
# joiners, variation selectors and tags, for a class of a pattern
JOINERS = "\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f"

TEXT_SUFFIXES = (".txt", ".tsv", ".csv", ".jsonl")
NO_TEXT = r"(?is)__MACOSX/|.*/$|(?:.*/)?(?:[_.][^/]*|(?:readme|license)(?:\.[^./]*)?)$"  # folders and notes in a zip

OFFICE = "libreoffice --convert-to 'csv:Text - txt - csv (StarCalc):44,34,76' FILE"
TMX = (
    "xmlstarlet sel -T -t -m //tu -v 'normalize-space(tuv[1]/seg)' -o $'\\t' -v 'normalize-space(tuv[2]/seg)' -n TEXT "
    "> NEW.tsv"
)

MARKUP = {
    rb"dataset\b": (
        "a test set of WMT in XML",
        "xmlstarlet sel -T -t -m //src//seg -v . -n TEXT > NEW.src (for the references: //ref//seg)",
    ),
    rb"(?:srcset|refset|tstset|mteval)\b|.*<seg\b": (
        "a test set of WMT or IWSLT with tags",
        "python3 -X utf8 -c 'import html, re, sys; [print(*html.unescape(text).split()) for text in "
        're.findall("(?is)<seg[^>]*>(.*?)</seg>", sys.stdin.read())]\' < TEXT > NEW',
    ),
    rb"(?:url|keywords|talkid|speaker|chapter|doc|hl)\b[^\n]*>\s*\n": (
        "text between tags, as of IWSLT",
        "grep -v '^ *<' TEXT > NEW",
    ),
}
"""Formats by the first tags of a file, without "<" and in lower case: name, and a command for ``with_file``."""


OF_ENCODING = (
    "iconv -f ENCODING -t UTF-8 TEXT > NEW, where ENCODING is for example WINDOWS-1252 (Western Europe), "
    "WINDOWS-1251 (Cyrillic), WINDOWS-1255 (Hebrew), WINDOWS-1256 (Arabic), TIS-620 (Thai), SHIFT_JIS (Japanese) or "
    "GB18030 (Chinese)"
)
"""Command for text in an encoding that its first bytes do not tell."""


def _wide(encoding: str) -> tuple[str, str]:
    return f"text in {encoding}", f"iconv -f {encoding} -t UTF-8 TEXT > NEW"


FOREIGN = {
    codecs.BOM_UTF32_LE: _wide("UTF-32"),  # begins like the mark of UTF-16
    codecs.BOM_UTF32_BE: _wide("UTF-32"),
    codecs.BOM_UTF16_LE: _wide("UTF-16"),
    codecs.BOM_UTF16_BE: _wide("UTF-16"),
    b"\x28\xb5\x2f\xfd": ("a Zstandard archive", "zstd -d FILE"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x FILE"),
    b"Rar!\x1a\x07": ("a RAR archive", "unrar x FILE"),
    b"\xd0\xcf\x11\xe0": ("an old Excel or Word file", OFFICE),
    b"\x1f\x9d": ("an archive of compress", "uncompress FILE"),
    b"\x04\x22\x4d\x18": ("an LZ4 archive", "lz4 -d FILE NEW"),
    b"%PDF-": ("a PDF file", "pdftotext -layout FILE NEW"),
    b"{\\rtf": ("an RTF file", OFFICE),
    b"SQLite format 3": ("a database", "sqlite3 -tabs FILE 'SELECT SOURCE, TARGET FROM TABLE' > NEW.tsv"),
    b"version https://git-lfs": ("a pointer of Git LFS", "git lfs pull --include FILE"),
    b"PAR1": (
        "a Parquet file",
        "python -c \"import pandas, sys; pandas.read_parquet(sys.argv[1]).to_json('NEW.jsonl', orient='records', "
        'lines=True)" FILE',
    ),
}
"""Formats by their first bytes: name, and a command for ``with_file``."""

NULS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "UTF-16LE",
    (True, False, True, False): "UTF-16BE",
    (False, True, True, True): "UTF-32LE",
    (False, False, True, True): "UTF-32LE",
    (True, True, True, False): "UTF-32BE",
    (True, True, False, False): "UTF-32BE",
}
"""Encodings without a mark, by the bytes of each group of four that are often NUL."""


ARCHIVES: dict[bytes, tuple[Callable[..., Any] | None, str]] = {
    b"\x1f\x8b": (gzip.open, "gzip -dc"),
    b"BZh": (bz2.open, "bzip2 -dc"),
    b"\xfd7zXZ\0": (lzma.open, "xz -dc"),
    b"]\0\0": (lzma.open, "xz -dc"),
    b"PK\x03\x04": (None, "unzip -p"),  # opened by ``_zipped``
}
"""Archives by their first bytes: the function that opens them, and the command that writes their text."""

DAMAGE = (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)

CUT = "text beyond the model's length limit was cut"
"""Change that commands report if a translation is ``truncated``."""
REPLACED = "U+FFFD replaces invalid UTF-8 or NUL"

Place = str | PathLike[str]


def tell_lines(report: Callable[[str], None], change: str, lines: Sequence[int], name: str, unit: str = "line") -> None:
    """Reports the change, the number of changed lines and the first of them. Reports nothing if there are none.

    If the numbers count something else than lines, ``unit`` names it.
    """
    if lines:
        count = f"{len(lines):,} {unit}{'s' * (len(lines) > 1)}"
        report(f"Warning: {change} in {count} of {name}; the first is {unit} {lines[0]:,}.")


@contextmanager
def open_text(path: Place) -> Iterator[io.BufferedReader]:
    """Opens a file, a pipe or standard input as a stream of bytes. Archives are unpacked while they are read.

    Args:
        path: Path of the file; "-" is standard input. A zip file must hold one file, or one of ``TEXT_SUFFIXES``. Names
            that begin with "_" or "." (such as _about.txt) do not count.

    Raises:
        FileNotFoundError: there is no file at ``path``.
        OSError: the system cannot read the file. The message names it.
        ValueError: the archive is damaged or cannot be unpacked, or the file is not UTF-8 text.
    """
    is_input = str(path) == STANDARD_INPUT
    if not is_input and (not os.path.exists(path) or os.path.isdir(path)):
        found = "a folder" if os.path.isdir(path) else "a broken link" if os.path.islink(path) else "no file"
        raise FileNotFoundError(
            f"{path}: expected a text file (plain or packed), found {found}. Check the path and its permissions."
        )
    with standard_input() if is_input else open(path, "rb") as raw, unpacked(raw, STDIN if is_input else path) as text:
        yield text


def standard_input() -> io.BufferedReader:
    """Returns standard input as a stream. If it is a terminal, prints how to end the input.

    Raises:
        ValueError: standard input is closed.
    """
    if sys.stdin is None:
        raise ValueError(f"{STDIN} is closed. Pass a file, or redirect {STDIN}.")
    if sys.stdin.isatty():
        print("Reading standard input. Press Ctrl-D to end it.", file=sys.stderr)
    return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))


@contextmanager
def unpacked(raw: io.BufferedReader, name: Place) -> Iterator[io.BufferedReader]:
    """Unpacks an opened file; see ``open_text``.

    Args:
        raw: The file, positioned at its first byte.
        name: Name of the file in errors.
    """
    try:
        head, text = raw.peek(8), raw
        with ExitStack() as stack:
            for magic, (unpack, _) in ARCHIVES.items():
                if unpack and head.startswith(magic):
                    text = io.BufferedReader(stack.enter_context(unpack(raw)))
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the second is an empty zip
                text = io.BufferedReader(stack.enter_context(_zipped(raw, name)))
            _require_text(text.peek(4096), name)
            yield text
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the system, which names no file
            raise OSError(f"{name}: cannot be read; {error.strerror}. {remedy(error.strerror or '')}.") from error
        if not isinstance(error, DAMAGE) and error.args != ("Invalid data stream",):  # of bzip2
            raise
        raise ValueError(f"{name} is a damaged archive ({error}). Download or create it again.") from error


def _zipped(raw: io.BufferedReader, name: Place) -> Any:
    """Opens the text in a zip file."""
    found = ["its text"]
    try:
        archive = zipfile.ZipFile(raw if raw.seekable() else io.BytesIO(raw.read()))
        names = [each for each in archive.namelist() if not re.match(NO_TEXT, each)]
        found = [each for each in names if each.lower().endswith(TEXT_SUFFIXES)] or names
        text = archive.open(found[0]) if len(found) == 1 else None
    except (RuntimeError, ValueError, OSError) as error:  # another method, a password, or damage that zipfile accepts
        raise ValueError(
            f"{name}: expected a zip that Python can unpack; {error}. Unpack it with unzip {name}, and pass "
            f"{found[0]}, or pack it again with gzip."
        ) from error
    if not {"[Content_Types].xml", "mimetype"}.isdisjoint(names):
        raise _foreign(name, "an Excel workbook or another office document", OFFICE)
    if text is None:
        raise ValueError(
            f"{name}: expected a zip of one text file, received {len(found)}: {', '.join(found[:8]) or 'no text'}. "
            f"Unpack it with unzip {name}, and pass one file of pairs, or the source and the target file."
        )
    return text


def _require_text(head: bytes, name: Place) -> None:
    """Raises ValueError if the first bytes of a file are not those of UTF-8 text."""
    found = next((each for magic, each in FOREIGN.items() if head.startswith(magic)), None)
    counts = [head[k::4].count(0) for k in range(4)]
    if encoding := NULS.get(tuple(count > max(max(counts) / 10, len(head) / 130) for count in counts)):
        found = found or _wide(encoding)
    if head[257:262] == b"ustar":
        found = "a tar archive", "tar -xf FILE"
    if head.startswith(tuple(ARCHIVES)):
        found = "an archive inside an archive", "cat TEXT > NEW"
    start = head.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    found = found or next(
        (MARKUP[tags] for tags in MARKUP if re.match(rb"(?s)(?:<[?!][^>]*>\s*)*<(?:%b)" % tags, start)), None
    )
    if start.startswith((b"<?xml", b"<!doctype", b"<tmx", b"<html")):
        xml = "an XML or HTML file", "xmlstarlet sel -T -t -m //ELEMENT -v . -n TEXT > NEW"
        found = ("a TMX file", TMX) if b"<tmx" in start else found or xml
    if found is not None:
        raise _foreign(name, *found)


def with_file(command: str, name: Place) -> str:
    """Returns a shell command with the file ``name`` in place of FILE, and its unpacked text in place of TEXT."""
    text = file = "FILE" if name == STDIN else shlex.quote(str(name))
    if os.path.isfile(name):
        with open(name, "rb") as raw:
            head = raw.read(8)
        text = next((f"<({unpack} {file})" for magic, (_, unpack) in ARCHIVES.items() if head.startswith(magic)), file)
    return re.sub(r"\b(?:FILE|TEXT)\b", lambda found: file if found[0] == "FILE" else text, command)


def _foreign(name: Place, kind: str, command: str) -> ValueError:
    return ValueError(
        f"{name}: expected text in UTF-8 whose lines end in LF, received {kind}. Convert it: {with_file(command, name)}"
    )


def byte_blocks(stream: io.BufferedIOBase, name: Place, longest: int = sys.maxsize) -> Iterator[list[bytes]]:
    """Yields the lines of a stream without their ends, in blocks. A block holds the lines that have arrived.

    Args:
        stream: The stream.
        name: Its name in errors.
        longest: Number of bytes to which longer lines are cut.

    Raises:
        ValueError: the text has CR but no LF.
    """
    rest, mark, ended = bytearray(), codecs.BOM_UTF8, False
    while data := stream.read1(READ_AT_ONCE):
        first, *others = data.split(b"\n")
        rest += first
        del rest[longest + len(mark) :]
        if others:
            lines = [bytes(rest).removeprefix(mark), *others[:-1]]
            rest, mark, ended = bytearray(others[-1]), b"", True
            yield [line.removesuffix(b"\r")[:longest] for line in lines]
    if last := bytes(rest).removeprefix(mark):
        if not ended and b"\r" in last:
            raise _foreign(name, "text with old line ends (CR only)", "tr '\\r' '\\n' < TEXT > NEW")
        yield [last.removesuffix(b"\r")[:longest]]


def text_blocks(stream: io.BufferedIOBase, name: str, report: Callable[[str], None]) -> Iterator[list[str]]:
    """Yields the lines of a stream as ``byte_blocks`` does, decoded. U+FFFD replaces invalid bytes and NUL.

    Lines are cut after ``LONGEST_LINE`` bytes.

    Args:
        stream: The stream.
        name: Its name in errors and warnings.
        report: Receives the warnings about replaced bytes and cut lines, after the last line.
    """
    yield from _decoded(byte_blocks(stream, name, LONGEST_LINE + 1), name, report)


def sentence_blocks(sentences: Sequence[str], report: Callable[[str], None]) -> Iterator[list[str]]:
    """Yields the sentences of a command line as one block. Without sentences, or with "-", yields standard input."""
    if tuple(sentences) in ((), (STANDARD_INPUT,)):
        with open_text(STANDARD_INPUT) as stream:
            yield from text_blocks(stream, STDIN, report)
    else:  # surrogates stand for bytes of an argument that are not valid in the locale
        given = [sentence.encode("utf-8", "surrogateescape") for sentence in sentences]
        yield from _decoded([given], "the arguments", report)


def _decoded(blocks: Iterable[list[bytes]], name: str, report: Callable[[str], None]) -> Iterator[list[str]]:
    replaced: list[int] = []
    long: list[int] = []
    begin = 1
    for lines in blocks:
        block = [line[:LONGEST_LINE].decode("utf-8", "replace").replace("\0", "\ufffd") for line in lines]
        for number, (text, line) in enumerate(zip(block, lines, strict=True), start=begin):
            if len(line) > LONGEST_LINE:
                long.append(number)
            elif "\ufffd" in text and text.encode() != line:
                replaced.append(number)
        begin += len(lines)
        yield block
    tell_lines(report, f"text beyond {LONGEST_LINE:,} bytes was cut", long, name)
    tell_lines(report, REPLACED, replaced, name)


def read_lines(path: Place, max_bytes: int = MAX_FILE_BYTES) -> Iterator[str]:
    """Yields the lines of a file.

    Args:
        path: The file.
        max_bytes: Number of bytes that the file may have after unpacking. It bounds the memory of a caller that keeps
            the lines.

    Raises:
        FileNotFoundError, ValueError: as in ``open_text`` and ``byte_blocks``; a line is not valid UTF-8 or has more
            than ``LONGEST_LINE`` bytes; or the file is larger than ``max_bytes``.
    """
    size = 0
    with open_text(path) as stream:
        for number, line in enumerate(chain.from_iterable(byte_blocks(stream, path, LONGEST_LINE + 1)), start=1):
            size += len(line) + 1
            if size > max_bytes or len(line) > LONGEST_LINE:
                limit = f"a file of at most {max_bytes:,}" if size > max_bytes else f"lines of at most {LONGEST_LINE:,}"
                raise ValueError(
                    f"{path}:{number}: expected {limit} bytes of text, received more. Check that this is the right "
                    "file, or divide it."
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: expected UTF-8, received the byte {line[error.start]:#04x} at position "
                    f"{error.start + 1}. Convert the file from its encoding: {with_file(OF_ENCODING, path)}."
                ) from error
            yield text


def require_files(paths: Iterable[Place]) -> None:
    """Raises ValueError if a path is a pipe or standard input, which cannot be read several times."""
    for path in paths:
        if str(path) == STANDARD_INPUT or Path(path).is_fifo():
            raise ValueError(
                f"{path}: expected a regular file, received a pipe. The file is read more than once. Write the text "
                "into a file first."
            )


def one_line(text: str) -> str:
    """Returns the text with a space in place of each line end and separator, so that each translation is one line."""
    return text.translate(LINE_ENDS)


def scalars(text: str) -> str:
    """Returns the text with U+FFFD in place of lone surrogates, which UTF-8 cannot have."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def visible(text: str) -> str:
    r"""Returns the text with ``\x1b`` in place of ESC, and so on for every control character a terminal would obey.

    Line feeds and tabs remain, and a carriage return at the start, with which a progress bar begins.
    """
    return re.sub(r"(?!\A)\r|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def message(text: object, longest: int = LONGEST_MESSAGE) -> str:
    """Returns the text of an error as one visible line of at most ``longest`` characters."""
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= longest else f"{line[: longest - 4]} ..."


def read_within(chunks: Iterable[bytes], most: int) -> bytes:
    """Returns the body of an answer, which arrives in chunks. Raises ValueError if it has more than ``most`` bytes."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise ValueError(f"the answer has more than {most >> 20} MiB")
    return bytes(body)


class _VisibleEncoder(codecs.IncrementalEncoder):
    def encode(self, text: str, final: bool = False) -> bytes:
        return visible(text).encode("utf-8", self.errors)


UTF8 = codecs.lookup("utf-8")
VISIBLE = codecs.CodecInfo(
    name="utf-8-visible",
    encode=lambda text, errors="strict": (visible(text).encode("utf-8", errors), len(text)),
    decode=UTF8.decode,
    incrementalencoder=_VisibleEncoder,
    incrementaldecoder=UTF8.incrementaldecoder,
)
"""UTF-8 of ``visible`` text: an encoding, so that it holds for all that Python writes to a stream, also tracebacks."""
codecs.register(lambda name: VISIBLE if name == "utf_8_visible" else None)


class _Messages(io.FileIO):
    """A file whose text is lost if it cannot be written, because the reader has ended, the disk is full, or the like.

    A message never stops work.
    """

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)  # None from a full pipe that does not block
        except OSError:
            return len(data)


def message_stream(descriptor: int, *, closefd: bool = True) -> io.TextIOWrapper:
    """Returns a stream of messages, such as standard error, whose ``write`` never fails."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Messages(descriptor, "w", closefd=closefd)), "utf-8", "backslashreplace", line_buffering=True
    )


def print_utf8(*, colors: bool = False) -> None:
    """Makes standard output and standard error UTF-8, whatever the locale. If one is closed, discards its text.

    Standard error becomes a ``message_stream``.

    Control characters are made visible on standard error, and on standard output if it is a terminal: text of a server,
    a corpus or a model could write the clipboard or change what the screen shows. Files and pipes get the exact text.

    Args:
        colors: If ``True``, control characters remain, for a help text in colors.
    """
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if getattr(sys.stderr, "name", None) == "<stderr>":
        sys.stderr = message_stream(2, closefd=False)
    os.environ["PYTHON_COLORS"] = "0"  # for tracebacks, from Python 3.13 on
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            if colors or (stream is sys.stdout and not stream.isatty()):
                stream.reconfigure(encoding="utf-8", errors=errors)
            else:
                stream.reconfigure(encoding=VISIBLE.name, errors="backslashreplace")
