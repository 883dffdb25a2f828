"""The reader and writer of text that all commands share: lines, encodings, archives, pipes, output."""

import bz2
import gzip
import io
import lzma
import os
import shlex
import struct
import subprocess
import sys
import threading
import tracemalloc
from itertools import chain

import pytest
from servers import ROOT
from tiny import zipped

from nmt_keras.io.lines import (
    LONGEST_LINE,
    MAX_FILE_BYTES,
    message,
    one_line,
    read_lines,
    sentence_blocks,
    text_blocks,
    unpacked,
    visible,
)

TEXT = "Hola.\u2028Sí.\nNo.\n".encode()
LINES = ["Hola.\u2028Sí.", "No."]


def marked(archive: bytes, local: int, central: int, value: int) -> bytes:
    """Returns a zip file of one member with a changed field of its headers."""
    raw = bytearray(archive)
    struct.pack_into("<H", raw, raw.find(b"PK\3\4") + local, value)
    struct.pack_into("<H", raw, raw.find(b"PK\1\2") + central, value)
    return bytes(raw)


def decoded(content: bytes, report=lambda _: None) -> list[str]:
    return list(chain.from_iterable(text_blocks(io.BytesIO(content), "standard input", report)))


def test_lines_come_in_blocks_of_those_that_have_arrived():
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as keyboard:
        found = text_blocks(stream, "keyboard", pytest.fail)
        keyboard.write(b"uno\ndos\r\ntr\xc3")
        assert next(found) == ["uno", "dos"]
        keyboard.write(b"\xa9s\n")
        assert next(found) == ["trés"]
        keyboard.write(b"cuatro")
        keyboard.close()
        assert list(found) == [["cuatro"]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("\ufeffuno\r\ndos\n\n", ["uno", "dos", ""]),
        ("a\u2028b\u2029c\x85d\ve\ff\x1cg\rh\ni", ["a\u2028b\u2029c\x85d\ve\ff\x1cg\rh", "i"]),
        ("a\r\r\n\ufeffb", ["a\r", "\ufeffb"]),
        ("\ufeff", []),
        ("", []),
    ],
)
def test_only_lf_and_cr_lf_end_a_line_and_only_a_mark_at_the_start_is_dropped(content, expected):
    assert decoded(content.encode()) == expected


def test_replaced_bytes_are_reported_once_with_their_number_and_the_first_line():
    said = []
    assert decoded(b"ok \xef\xbf\xbd\n\xff\n\nN\0\n\xc3", said.append) == [
        "ok \ufffd",
        "\ufffd",
        "",
        "N\ufffd",
        "\ufffd",
    ]
    (warning,) = said
    assert "in 3 lines of standard input; the first is line 2." in warning
    given = []
    assert list(sentence_blocks(["caf\udce9", "caf\udcc3\udca9", "café"], given.append)) == [
        ["caf\ufffd", "café", "café"]
    ]
    assert "in 1 line of the arguments; the first is line 1." in given[0]


def test_long_lines_are_cut_and_reported():
    said, longest = [], "a" * LONGEST_LINE
    assert decoded(f"\ufeff{longest}b\n{longest}\n{longest}ñ".encode(), said.append) == [longest] * 3
    assert decoded(f"\ufeff{longest}b".encode(), said.append) == [longest]
    assert [warning.partition(" was cut in ")[2] for warning in said] == [
        "2 lines of standard input; the first is line 1.",
        "1 line of standard input; the first is line 1.",
    ]


@pytest.mark.parametrize(
    "pack",
    [
        *(bytes, gzip.compress, bz2.compress, lzma.compress),
        lambda text: zipped({"es.txt": text}),
        lambda text: zipped({"es.txt": text, "README": b"x"}),
        lambda text: zipped({"es.txt": text}).replace(b"es.txt", b"\0s.txt"),  # the name "" for Python
        lambda text: bz2.compress(text[:40]) + bz2.compress(text[40:]),
        lambda text: lzma.compress(text[:40]) + bytes(8) + lzma.compress(text[40:]),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_text_is_unpacked_by_its_first_bytes_also_from_a_pipe(tmp_path, pack, piped):
    file = tmp_path / "text"
    if piped:
        os.mkfifo(file)
        threading.Thread(target=file.write_bytes, args=[pack(TEXT)]).start()
    else:
        file.write_bytes(pack(TEXT))
    assert list(read_lines(file)) == LINES


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (marked(zipped({"es.txt": TEXT}), 8, 10, 9), ["compression", "unzip FILE", "es.txt"]),
        (marked(zipped({"es.txt": TEXT}), 6, 8, 1), ["password", "unzip FILE"]),
        (marked(zipped({"es.txt": TEXT}), 4, 6, 255), ["version 25.5", "unzip FILE"]),
        (zipped({"ñ.txt": TEXT}).replace("ñ".encode(), b"\xff\xff"), ["0xff", "unzip FILE"]),
        (zipped({"es.txt": TEXT, "en.txt": TEXT}), ["es.txt, en.txt", "unzip FILE", "source and the target"]),
        (zipped({"es.txt": TEXT, "[Content_Types].xml": b"x"}), ["Excel", "libreoffice", "FILE"]),
        (b"\xd0\xcf\x11\xe0" + b"x" * 600, ["Excel", "libreoffice"]),
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<tmx version="1.4">', ["TMX", "xmlstarlet", "FILE >"]),
        (gzip.compress(b'<?xml version="1.0"?>\n<tmx version="1.4">'), ["TMX"]),
        (b'<?xml version="1.0"?>\n<dataset id="x"><doc><src><p><seg id="1">a</seg>', ["WMT", "//ref//seg"]),
        (b"\x28\xb5\x2f\xfdxx", ["Zstandard", "zstd -d FILE"]),
        (gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 300), ["tar archive", "tar -xf FILE"]),
        (bz2.compress(TEXT * 9000)[:-9], ["damaged archive"]),
        (gzip.compress(TEXT * 9000)[:-9], ["damaged archive"]),
        (zipped({"es.txt": TEXT * 9000})[:-9], ["damaged archive"]),
        (marked(zipped({"es.txt": TEXT * 9000}), 14, 16, 0xBAD), ["damaged archive"]),  # another checksum
        (b"BZh9" + b"x" * 99, ["damaged archive"]),
        (lzma.compress(TEXT * 9000)[:-9], ["damaged archive"]),
        *(
            ((text * 50).encode(name), [f"text in {name}. ", f"iconv -f {name} -t UTF-8 FILE > NEW"])
            for text in ("el niño\tthe boy\n", "мама мыла раму\tmum washed it\n", "大学\tuniversity\n")
            for name in ("UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-32LE", "UTF-32BE")
        ),
        *(
            (content, ["CR only", "tr '\\r' '\\n' < FILE"])
            for content in (b"uno\rdos\r", b"uno\r", b"\xef\xbb\xbfuno\rdos")
        ),
        (b"caf\xe9\nno\n", ["FILE:1: ", "0xe9 at position 4", "iconv -f ENCODING -t UTF-8 FILE", "WINDOWS-1255"]),
        (gzip.compress(b"caf\xe9\n"), ["iconv -f ENCODING -t UTF-8 <(gzip -dc FILE) > NEW"]),
        (bz2.compress(TEXT.decode().encode("UTF-16")), ["iconv -f UTF-16 -t UTF-8 <(bzip2 -dc FILE) > NEW"]),
        (lzma.compress(b"uno\rdos"), ["tr '\\r' '\\n' < <(xz -dc FILE) > NEW"]),
        (zipped({"es.txt": gzip.compress(TEXT)}), ["archive inside an archive", "cat <(unzip -p FILE) > NEW"]),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_to_do(tmp_path, content, words):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=str(file)) as caught:
        list(read_lines(file))
    assert [word for word in words if word.replace("FILE", str(file)) not in str(caught.value)] == []


def test_a_damaged_zip_in_memory_is_named():
    raw = bytearray(zipped({"es.txt": TEXT}))
    struct.pack_into("<I", raw, raw.rfind(b"PK\5\6") + 16, len(raw))  # the place of the directory
    with pytest.raises(ValueError, match=r"^es\.zip\b"), unpacked(io.BufferedReader(io.BytesIO(raw)), "es.zip"):
        pass


@pytest.mark.parametrize(
    ("line", "max_bytes", "expected"),
    [
        (b"a\tb\n", 1 << 16, "16385: expected a file of at most 65,536 bytes"),
        (b"\n", 1 << 16, "65537: expected a file of at most 65,536 bytes"),
        (b"a" * (LONGEST_LINE - 1) + b"\n", MAX_FILE_BYTES, "17: expected a file of at most 16,777,216 bytes"),
        (b"a" * (LONGEST_LINE + 1) + b"\n", 1 << 30, "1: expected lines of at most 1,048,576 bytes"),
        (b"a" * LONGEST_LINE, 1 << 30, "1: expected lines of at most 1,048,576 bytes"),
    ],
)
def test_a_file_that_does_not_fit_into_memory_is_refused_before_all_of_it_is_unpacked(
    tmp_path, line, max_bytes, expected
):
    file = tmp_path / "file.gz"
    file.write_bytes(gzip.compress(line * (1 << 26 >> len(line).bit_length()), 1))
    tracemalloc.start()
    with pytest.raises(ValueError, match=rf"file\.gz:{expected}"):
        list(read_lines(file, max_bytes))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 25


SEGMENTS = '<seg id="1"> Él &amp; yo. </seg>\n<SEG id="2">Sí,\n&#191;no?</SEG>\n'
SGML = f'<{{0}} setid="n" srclang="any">\n<doc docid="d">\n<p>\n{SEGMENTS}'
TALKS = "<url>http://x.org/</url>\n<speaker>A</speaker>\n<title>T</title>\n Él & yo.\nSí, ¿no?\n<reviewer></reviewer>\n"


@pytest.mark.parametrize(
    "content",
    [
        *(SGML.format(tag) for tag in ("srcset", "refset", "TSTSET")),
        '<!DOCTYPE srcset SYSTEM "ftp://x.dtd">\n' + SGML.format("srcset"),
        '<?xml version="1.0"?>\n<mteval>\n' + SGML.format("refset"),
        SGML.format("doc"),
        TALKS,
        TALKS.replace("<url>", "<CHAPTER ID=1>\n<url>"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_of_the_field_between_tags_is_refused_with_the_command_that_extracts_its_sentences(
    tmp_path, content, pack
):
    file = tmp_path / "test set.sgm"
    file.write_bytes(pack(content.encode()))
    with pytest.raises(ValueError, match=r"test set.*, received .* tags") as caught:
        list(read_lines(file))
    command = str(caught.value).rpartition("Convert it: ")[2].replace("NEW", shlex.quote(f"{file}.new"))
    subprocess.run(["bash", "-c", command], check=True)
    assert [line.strip() for line in read_lines(f"{file}.new")] == ["Él & yo.", "Sí, ¿no?"]


@pytest.mark.parametrize(
    "text", ["<en> Hola.", "<b>Guardar</b>", "<p>Uno</p>", "<doc> se abre", "<3 <url", "a <seg>b</seg>"]
)
def test_sentences_with_tags_are_text(tmp_path, text):
    file = tmp_path / "file"
    file.write_text(f"{text}\nDos.\n", encoding="utf-8")
    assert list(read_lines(file)) == [text, "Dos."]


TALK = """
import sys
from tqdm import tqdm
from nmt_keras.io.lines import print_utf8
from nmt_keras.io.startup import native_messages_hidden
print_utf8()
for context in (native_messages_hidden(), tqdm(disable=None)):
    with context:
        print("x" * 10**5, file=sys.stderr)
        tqdm.write("x", file=sys.stderr)
print("done")
raise SystemExit("an error")
"""


@pytest.mark.parametrize("reader", ["ended", "full disk", "slow"])
def test_messages_that_cannot_be_written_do_not_stop_a_program(reader):
    reading, writing = os.pipe()
    os.set_blocking(writing, reader != "slow")
    with open(reading) as pipe, open("/dev/full" if reader == "full disk" else writing, "w") as told:
        if reader == "ended":
            pipe.close()
        done = subprocess.run([sys.executable, "-c", TALK], cwd=ROOT, stdout=subprocess.PIPE, stderr=told, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"done\n")


CONTROLS = "a\tb\x1b]52;c;eA==\x07\x9b2J\rc\x7f"
SHOWN = r"b\x1b]52;c;eA==\x07\x9b2J\x0dc\x7f"


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(False, f"{CONTROLS}ñ\udcff"), (True, f"a\t{SHOWN}ñ\\udcff")], ids=["file", "terminal"]
)
def test_output_is_utf_8_in_any_locale_and_control_characters_are_visible_except_in_files(is_terminal, shown):
    text = f"{CONTROLS}ñ\udcff"
    program = (
        f"from nmt_keras.io.lines import print_utf8; print_utf8(); print(text := {text!a}); raise SystemExit(text)"
    )
    terminal, output = os.openpty() if is_terminal else os.pipe()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.PIPE)
    os.close(output)
    assert os.read(terminal, 100).decode("utf-8", "surrogateescape").rstrip("\r\n") == shown
    os.close(terminal)
    assert done.stderr.decode() == f"a\t{SHOWN}ñ\\udcff\n"


def test_a_translation_or_a_message_is_one_line_and_a_message_is_visible_and_of_limited_length():
    assert one_line("a\r\nb\x85c\u2028d\u2029e\vf") == "a  b c d e f"
    assert message(CONTROLS) == f"a {SHOWN}".replace(r"\x0d", " ")
    assert len(message("a\n" * 10**6)) == 2000
    assert message("日" * 88, 80) == f"{'日' * 76} ..."
    assert visible("\r 50 %\n") == "\r 50 %\n"  # a progress bar


def test_a_file_that_the_system_cannot_read_is_named():
    with pytest.raises(OSError, match=r"^/proc/self/mem: cannot be read; Input/output error\. Check"):
        list(read_lines("/proc/self/mem"))
