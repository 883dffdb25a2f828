"""The corpus of a run: a file, two files, the built-in sample, a download, or a prepared corpus."""

import re
from dataclasses import dataclass
from pathlib import Path

from nmt_keras.config import require
from nmt_keras.corpus.columns import Columns, is_spanish_english
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.io.lines import STANDARD_INPUT, STDIN, TEXT_SUFFIXES
from nmt_keras.languages import standard_tag

SPANISH_ENGLISH_NAME = "spa-eng"


@dataclass(frozen=True)
class CorpusOptions(Columns):
    """Location and format of the training corpus. The command line has an option for each field."""

    corpus: tuple[str, ...] = ()
    """A table of pairs (TSV, CSV or JSON lines), or a source and a target file: plain, .gz, .bz2, .xz or .zip. "sample"
    is the built-in sample corpus. Default: the Spanish-English corpus, which is downloaded."""
    tables: bool = False
    """Read all files of --corpus as tables of pairs, which form one corpus."""
    max_malformed: float = 0.01
    """Maximum share of malformed lines, from 0 to 1. Malformed lines are skipped."""
    accept_other_version: bool = False
    """Use the downloaded Spanish-English corpus even if its text has changed. By default, changed text is an error."""
    source_language: str | None = None
    """Code of the source language (BCP 47 or ISO 639), such as es or zh-Hant. In languages without spaces, such as
    Chinese, sentence lengths are counted in characters."""
    target_language: str | None = None
    """Code of the target language, such as en. BLEU has its own tokenizers for Chinese, Japanese, Korean and other
    languages without spaces."""
    bleu_tokenizer: str | None = None
    """Tokenizer of sacreBLEU, such as 13a, intl or char. none: for text that is already tokenised. Default: the one for
    the target language."""

    alignments: str | None = None
    """A file of word alignments for guided alignment, with a line such as 0-0 1-2 (source-target) per line of the
    corpus."""
    prepared: str | None = None
    """A folder written by nmt prepare, instead of --corpus. All of its pairs are training data."""
    valid: tuple[str, ...] = ()
    """Validation pairs: a TSV file, or two files. The whole corpus is then training data. Required with --prepared."""
    test: tuple[str, ...] = ()
    """Test pairs: a TSV file, or two files. Requires --valid."""

    def __post_init__(self) -> None:
        parallel = len(self.corpus or self.valid) > 1 and not self.tables
        self.require_readable((self.corpus or self.valid) if parallel else ())
        super().__post_init__()
        require(
            len(self.corpus) <= 2 or self.tables,
            "--corpus",
            "one file, or two: source and target",
            self.corpus,
            "For several tables, pass --tables.",
        )
        for name, files in (("--valid", self.valid), ("--test", self.test)):
            require(len(files) <= 2, name, "one file, or two: source and target", files)
            alike = self.prepared is not None or not files or len(files) == (1 if self.tables else len(self.corpus))
            require(alike, name, "as many files as --corpus: one table, or source and target", files)
        for name, files in (("--corpus", self.corpus), ("--valid", self.valid), ("--test", self.test)):
            require(len({*files}) == len(files), name, "different files", files)
        require(bool(self.valid) or not self.test, "--test", "to be used with --valid", self.test)
        if self.prepared is not None:
            require(bool(self.valid), "--prepared", "to be used with --valid", self.prepared)
            for name, given, hint in (
                ("--test", self.test, "Evaluate on the test pairs with nmt evaluate --pairs."),
                ("--corpus", self.corpus, ""),
                ("--alignments", self.alignments, ""),
                ("--reverse", self.reverse, "Pass --reverse to nmt prepare."),
            ):
                require(not given, name, "none with --prepared", given, hint)
        for name, code in (("--source-language", self.source_language), ("--target-language", self.target_language)):
            if code is not None:
                standard_tag(code, name)

    @property
    def name(self) -> str:
        """Name of the corpus. Runs and models are named after it."""
        if self.prepared is not None:
            return corpus_name(Path(self.prepared).resolve())
        if self.corpus == (SAMPLE_NAME,):
            return SAMPLE_NAME
        if len(self.corpus) == 2 and not self.tables:
            source, target = map(corpus_name, self.corpus)
            return Path(source).stem if Path(source).stem == Path(target).stem else source
        return corpus_name(self.corpus[0]) if self.corpus else SPANISH_ENGLISH_NAME

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """BCP 47 tags of source and target language; ``None`` if unspecified."""
        source, target = self.source_language, self.target_language
        if (source is None or target is None) and self.is_spanish_english:
            spoken = dict(enumerate(("en", "es")))
            first, second, *_ = self.of(english_first=True).find((), self.name)
            source, target = source or spoken.get(first), target or spoken.get(second)
        return source and standard_tag(source), target and standard_tag(target)

    @property
    def is_spanish_english(self) -> bool:
        """``True`` for the sample corpus, the downloaded corpus, and any copy of its text."""
        if self.prepared is not None or len(self.corpus) > 1:
            return False
        return self.corpus in ((), (SAMPLE_NAME,)) or is_spanish_english(self.corpus[0])


def corpus_name(path: str | Path) -> str:
    """Returns the name of a corpus file without suffixes such as .tsv.gz, in characters that are allowed in a URL.

    Raises:
        ValueError: the name has none of these characters.
    """
    name = STDIN if str(path) == STANDARD_INPUT else Path(path).name
    while name.lower().endswith((".gz", ".zip", ".bz2", ".xz", *TEXT_SUFFIXES)):
        name = name[: name.rindex(".")]
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._-")
    if not name:
        raise ValueError(
            f"corpus: expected a file name with letters or digits, received {path}. Runs and models are named "
            "after the file. Rename the file."
        )
    return "sample-file" if name == SAMPLE_NAME else name  # the name "sample" is reserved for the built-in corpus
