"""Which corpus a run is trained and evaluated on: a file, two files, the built-in sample, or a download."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_keras.config import CorpusConfig, record_from, require
from nmt_keras.corpus.sample import SAMPLE_NAME, sample_pairs
from nmt_keras.files import make_run_folder, write_whole

if TYPE_CHECKING:  # what reads and downloads is imported where that is done: --help need not wait for it
    from nmt_keras.corpus import Corpus, Pair, SplitCorpus
    from nmt_keras.corpus.split import Side

SPANISH_ENGLISH_NAME = "spa-eng"
WHOLE = CorpusConfig()
ORIGIN = "origin.json"
"""Where a run keeps the options its corpus was read with."""


@dataclass(frozen=True)
class CorpusOptions:
    """Which corpus, and how its file is read."""

    corpus: tuple[str, ...] = ()
    """TSV, or two files whose lines correspond, source and target; each plain, .gz or .zip. "sample" is the built-in
    corpus; Spanish-English is downloaded by default."""
    source_column: int = 1
    """Of a TSV: the column to translate from, counted from 0; by default as in the Spanish-English file."""
    target_column: int = 0
    """Of a TSV: the column to translate to, counted from 0."""
    max_malformed: float = 0.01
    """The share of malformed lines, which are left out, that is allowed."""
    source_language: str | None = None
    """Code of the language to translate from, such as es; kept with the run. Length is counted in words or characters
    by it."""
    target_language: str | None = None
    """Code of the language to translate to; Chinese, Japanese and Korean (zh, ja, ko) are scored by tokenizers of their
    own."""

    alignments: str | None = None
    """A file of word alignments, one line such as 0-0 1-2 (source-target) for each line of the corpus: attention learns
    from them, too."""
    prepared: str | None = None
    """Instead of a corpus: the folder that nmt prepare made, which is trained on whole."""
    valid: tuple[str, ...] = ()
    """A TSV, or two files, to validate on: the corpus is then trained on whole. A prepared one needs it."""
    test: tuple[str, ...] = ()
    """A TSV, or two files, to test on, where there are some to validate on."""

    def __post_init__(self) -> None:
        require(len(self.corpus) <= 2, "--corpus", "one file, or two: source and target", self.corpus)
        require(len(self.valid) <= 2, "--valid", "one file, or two: source and target", self.valid)
        require(len(self.test) <= 2, "--test", "one file, or two: source and target", self.test)
        require(
            bool(self.valid) or self.prepared is None,
            "--prepared, --valid",
            "both of them, a folder and a file of pairs",
            (self.prepared, self.valid),
        )
        require(
            bool(self.valid) or not self.test, "--test", "--valid beside it, or none: a part is held out", self.test
        )
        require(
            not self.valid or self.prepared is not None or bool(self.corpus),
            "--valid",
            "--corpus beside it, or --prepared",
            self.valid,
        )
        for name, files in (("--valid", self.valid), ("--test", self.test)):
            alike = not files or self.prepared is not None or len(files) == len(self.corpus)
            require(alike, name, "a TSV, or two files, as --corpus is", files)
        require(
            self.prepared is None or not self.test,
            "--test",
            "none with --prepared: nmt evaluate RUN --pairs FILE tests such a run",
            self.test,
        )
        require(
            self.prepared is None or not self.corpus,
            "--corpus",
            "none with --prepared, which is the corpus",
            self.corpus,
        )
        require(
            self.prepared is None or self.alignments is None,
            "--alignments",
            "none with --prepared, whose shards hold none",
            self.alignments,
        )
        for name, code in (("--source-language", self.source_language), ("--target-language", self.target_language)):
            ok = code is None or re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]+)*", code) is not None
            require(ok, name, "a language code such as es or zh-TW", code)

    @property
    def name(self) -> str:
        """What the corpus's runs and models are called."""
        if self.prepared is not None:
            return corpus_name(Path(self.prepared).resolve())
        if self.corpus == (SAMPLE_NAME,):
            return SAMPLE_NAME
        if len(self.corpus) == 2:
            source, target = map(corpus_name, self.corpus)
            return Path(source).stem if Path(source).stem == Path(target).stem else source
        return corpus_name(self.corpus[0]) if self.corpus else SPANISH_ENGLISH_NAME

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The codes of source and target language; None where nobody said."""
        known = (
            self.prepared is None
            and self.name in (SAMPLE_NAME, SPANISH_ENGLISH_NAME)
            and (self.source_column, self.target_column) == (1, 0)
        )
        spanish, english = ("es", "en") if known else (None, None)
        return self.source_language or spanish, self.target_language or english

    def load(
        self, config: CorpusConfig, folder: Path, say: Callable[[str], None], aligned: bool = False
    ) -> SplitCorpus:
        """Reads and splits the corpus.

        Args:
            config: what of it is taken, and how it is split.
            folder: where a download is kept.
            say: told what happens.
            aligned: whether to read the alignments, if there are any.

        Raises:
            CorpusUnavailable: nothing could be downloaded.
            FileNotFoundError, ValueError: a file cannot be read.
        """
        require(
            self.prepared is None, "--prepared", "a corpus file here: nmt train reads prepared corpora", self.prepared
        )
        from nmt_keras.corpus import SPANISH_ENGLISH_SHA256, SPANISH_ENGLISH_URL, fetch_corpus, text_sha256

        if self.corpus == (SAMPLE_NAME,):
            read = sample()
            return self._with_alignments(self._parted(SAMPLE_NAME, read.pairs, config, say), read, aligned)
        files = self.corpus or (str(fetch_corpus(SPANISH_ENGLISH_URL, folder, SPANISH_ENGLISH_SHA256)),)
        read = self._read(files)
        say(_told(files, read))
        if (
            self.name == SPANISH_ENGLISH_NAME
            and len(self.corpus) == 1
            and text_sha256(*files) != SPANISH_ENGLISH_SHA256
        ):
            say(f"{files[0]} is another version of the Spanish-English corpus: scores may not compare with others'.")
        return self._with_alignments(self._parted(self.name, read.pairs, config, say), read, aligned)

    def _parted(
        self, name: str, pairs: Sequence[Pair], config: CorpusConfig, say: Callable[[str], None]
    ) -> SplitCorpus:
        """The parts of a corpus: split, or whole beside the files that are to validate and test on.

        Raises:
            FileNotFoundError, ValueError: such a file cannot be read.
        """
        if not self.valid:
            return _split(name, pairs, config, self.key_side)
        from nmt_keras.corpus import SplitCorpus, repetitions

        corpus = SplitCorpus(name, pairs[: config.first], self.read(self.valid, say), [], self.key_side)
        if self.test:
            corpus = corpus._replace(test=self.read(self.test, say))
        for option, held in (("--valid", corpus.valid), ("--test", corpus.test)):
            if held and (seen := repetitions(held, corpus.train)):
                say(
                    f"{option}: {seen:,} of {len(held):,} pairs share a sentence with the corpus that is trained on: "
                    "their scores flatter."
                )
        return corpus

    def _with_alignments(self, corpus: SplitCorpus, read: Corpus, wanted: bool) -> SplitCorpus:
        """``corpus`` with the alignments of the pairs to train on, if there are any and they are wanted.

        Args:
            corpus: a split of the pairs of ``read``, the very objects.
            read: what was read.
            wanted: whether they are.

        Raises:
            FileNotFoundError, ValueError: they cannot be read, or are not those of the corpus's lines.
        """
        if self.alignments is None or not wanted:
            return corpus
        from nmt_keras.corpus import open_text
        from nmt_keras.corpus.alignments import parse_links

        with open_text(self.alignments) as file:
            lines = file.read().decode("utf-8", "replace").removesuffix("\n").split("\n")
        if len(lines) < read.report.lines or any(line.strip() for line in lines[read.report.lines :]):
            raise ValueError(
                f"--alignments: expected a line for each of the {read.report.lines:,} lines of the corpus, received "
                f"{len(lines):,} in {self.alignments}."
            )
        for number, line in enumerate(lines, start=1):
            parse_links(line, f"{self.alignments}:{number}")
        line_of = {id(pair): lines[number - 1] for pair, number in zip(read.pairs, read.report.numbers, strict=True)}
        return corpus._replace(alignments=[line_of[id(pair)] for pair in corpus.train])

    @property
    def key_side(self) -> Side:
        """The side that names the groups of a split: a TSV's first column, so that both directions split it alike."""
        if self.prepared is not None or self.corpus == (SAMPLE_NAME,):
            return "target"
        return "source" if self.source_column < self.target_column and len(self.corpus) < 2 else "target"

    def read(self, files: Sequence[str], say: Callable[[str], None]) -> list[Pair]:
        """All pairs of one TSV, or of two files whose lines correspond.

        Raises:
            FileNotFoundError, ValueError: a file cannot be read.
        """
        read = self._read(files)
        say(_told(files, read))
        return read.pairs

    def _read(self, files: Sequence[str]) -> Corpus:
        from nmt_keras.corpus import read_pairs, read_parallel

        if len(files) == 2:
            return read_parallel(files[0], files[1], max_malformed=self.max_malformed)
        return read_pairs(
            files[0],
            source_column=self.source_column,
            target_column=self.target_column,
            max_malformed=self.max_malformed,
        )

    def with_languages_of(self, run: Path) -> CorpusOptions:
        """These options; where they name no language, with the one that was named when the run was begun.

        Raises:
            ValueError: what the run keeps cannot be read.
        """
        # Path.exists would raise PermissionError below a folder that may not be searched
        if not all(os.path.exists(run / name) for name in (ORIGIN, "recipe.json")):
            return self
        begun = corpus_of(run)
        return replace(
            self,
            source_language=self.source_language or begun.source_language,
            target_language=self.target_language or begun.target_language,
        )

    def keep(self, run: Path) -> None:
        """Writes these options beside a run, whole or not at all: what evaluates it later finds its corpus by them.

        Raises:
            OSError: the run directory cannot be made or written.
        """
        make_run_folder(run)
        found = {
            "alignments": None if self.alignments is None else str(Path(self.alignments).resolve()),
            "corpus": [each if each == SAMPLE_NAME else str(Path(each).resolve()) for each in self.corpus],
            "prepared": None if self.prepared is None else str(Path(self.prepared).resolve()),
            "valid": [str(Path(each).resolve()) for each in self.valid],
            "test": [str(Path(each).resolve()) for each in self.test],
        }
        write_whole(run / ORIGIN, json.dumps({**asdict(self), **found}, indent=2) + "\n")


def corpus_of(run: Path) -> CorpusOptions:
    """The options that a run's corpus was read with.

    A run that was not trained by ``nmt train`` has none: its corpus's name, if it has one, says whether it is one of
    the two that need no file.

    Raises:
        ValueError: the file cannot be read.
    """
    origin = run / ORIGIN
    if origin.exists():
        try:
            fields = json.loads(origin.read_text(encoding="utf-8"))
            several = {name: tuple(fields[name]) for name in ("corpus", "valid", "test") if name in fields}
            return record_from(CorpusOptions, {**fields, **several})
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{origin}: expected the options of a corpus; {error!r}. Remove it.") from error
    recorded = run / "corpus.json"
    known = recorded.exists() and json.loads(recorded.read_text(encoding="utf-8"))["name"] == SAMPLE_NAME
    return CorpusOptions((SAMPLE_NAME,)) if known else CorpusOptions()


def corpus_name(path: str | PathLike[str]) -> str:
    """What a corpus file's runs and models are called: its name without .tsv, .txt, .gz and .zip, fit for a URL.

    Raises:
        ValueError: nothing is left of the name.
    """
    name = Path(path).name
    while name.lower().endswith((".gz", ".zip", ".tsv", ".txt")):
        name = name[: name.rindex(".")]
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._-")
    if not name:
        raise ValueError(f"corpus: expected a file with a name for its run and model, received {path}. Rename it.")
    return "sample-file" if name == SAMPLE_NAME else name  # the built-in sample's name is its own


def sample() -> Corpus:
    """The built-in sample, Spanish to English, as if it had been read from a file."""
    from nmt_keras.corpus import Corpus, Pair, ReadReport

    pairs = [Pair(source=spanish, target=english) for english, spanish in sample_pairs()]
    return Corpus(pairs, ReadReport(len(pairs), {}, (), range(1, len(pairs) + 1)))


def built_in_sample(config: CorpusConfig = WHOLE) -> SplitCorpus:
    """The built-in sample in its parts."""
    return _split(SAMPLE_NAME, sample().pairs, config)


def _told(files: Sequence[str], read: Corpus) -> str:
    return f"{' and '.join(files)}: {len(read.pairs):,} pairs; {read.report}"


def _split(name: str, pairs: Sequence[Pair], config: CorpusConfig, key_side: Side = "target") -> SplitCorpus:
    from nmt_keras.corpus import SplitCorpus, shuffle_pairs, split_pairs

    taken = pairs[: config.first]
    by_hash = config.split == "hashed-groups"
    parts = split_pairs(taken, key_side=key_side) if by_hash else shuffle_pairs(taken, seed=config.seed)
    for part in ("train", "valid", "test"):
        if not parts[part]:
            raise ValueError(
                f"{name}: expected pairs for every part, the split of {len(taken):,} gives none for {part}, which gets "
                "about three in a hundred groups. Use a larger corpus."
            )
    return SplitCorpus(name, parts["train"], parts["valid"], parts["test"], key_side)
