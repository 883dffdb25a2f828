"""The corpus of a run: a file, two files, the built-in sample, a download, or a prepared corpus."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from nmt_keras.config import require, require_types
from nmt_keras.corpus.columns import Columns, is_spanish_english, require_share
from nmt_keras.corpus.download import PAIRS_LICENCE
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
    languages: str | None = None
    """Two languages, source first, one of them English, such as deu-eng or en-ja (ISO 639). Their corpus from
    manythings.org/anki is downloaded."""
    tables: bool = False
    """Read all files of --corpus as tables of pairs, which form one corpus."""
    max_malformed: float = 0.01
    """Maximum share of malformed lines, from 0 to 1. Malformed lines are skipped."""
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
        require_types(self)
        if self.languages is not None:
            self._require_pair(self.languages)
        parallel = len(self.corpus or self.valid) > 1 and not self.tables
        self.require_readable((self.corpus or self.valid) if parallel else ())
        super().__post_init__()
        require_share(self.max_malformed)
        require(
            len(self.corpus) <= 2 or self.tables,
            "--corpus",
            "one file, or two: source and target",
            self.corpus,
            "For several tables, pass --tables.",
        )
        for name, files in (("--valid", self.valid), ("--test", self.test)):
            require(len(files) <= 2, name, "one file, or two: source and target", files)
            alike = not (files and self.corpus) or len(files) == (1 if self.tables else len(self.corpus))
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
        if self.languages is not None:
            return "-".join(map(pair_code, self.languages.split("-")))
        return corpus_name(self.corpus[0]) if self.corpus else SPANISH_ENGLISH_NAME

    def _require_pair(self, languages: str) -> None:
        """Raises ValueError if a download of ``languages`` is not possible, or other options contradict it."""
        codes = [pair_code(code) for code in languages.split("-")]
        expected = "two languages, one of them English, such as deu-eng or en-ja"
        require(len(codes) == 2 and codes.count("eng") == 1, "--languages", expected, languages)
        for name, given in (
            ("--corpus", self.corpus),
            ("--prepared", self.prepared),
            ("--source-column", self.source_column is not None),
            ("--target-column", self.target_column is not None),
            ("--reverse", self.reverse),
        ):
            require(not given, name, "none with --languages", given, "--languages names the source first.")

    def downloaded(self) -> Self:
        """Returns the options with the columns of the file that is downloaded for ``languages``: English first."""
        if self.languages is None:
            return self
        source = int(pair_code(self.languages.partition("-")[0]) != "eng")
        return replace(self, languages=None, source_column=source, target_column=1 - source)

    @property
    def licence(self) -> str | None:
        """Licence and source of the pairs of ``languages``; ``None`` if unknown."""
        return None if self.languages is None else PAIRS_LICENCE

    @property
    def language_tags(self) -> tuple[str | None, str | None]:
        """BCP 47 tags of source and target language; ``None`` if unspecified."""
        source, target = self.source_language, self.target_language
        if self.languages is not None:
            one, other = self.languages.split("-")
            source, target = source or one, target or other
        if (source is None or target is None) and self.is_spanish_english:
            spoken = dict(enumerate(("en", "es")))
            first, second, *_ = self.of(english_first=True).find((), self.name)
            source, target = source or spoken.get(first), target or spoken.get(second)
        return source and standard_tag(source), target and standard_tag(target)

    @property
    def is_spanish_english(self) -> bool:
        """``True`` for the sample corpus, the downloaded corpus, and any copy of its text."""
        if self.prepared is not None or len(self.corpus) > 1 or self.languages is not None:
            return False
        return self.corpus in ((), (SAMPLE_NAME,)) or is_spanish_english(self.corpus[0])


def pair_code(language: str) -> str:
    """Returns the code of a language in the names of the files of manythings.org/anki, such as deu for de.

    Raises:
        ValueError: there is no such language.
    """
    from langcodes import Language  # imported here so that `nmt --help` is fast

    code = Language.get(standard_tag(language, "--languages")).to_alpha3()
    return {"zho": "cmn", "nor": "nob", "fas": "pes", "lav": "lvs", "msa": "zsm"}.get(code, code)


def corpus_name(path: str | Path) -> str:
    """Returns the name of a corpus file without suffixes such as .tsv.gz, in characters that are allowed in a URL.

    Other characters are replaced or dropped. The name is "corpus" if none is left.
    """
    name = STDIN if str(path) == STANDARD_INPUT else Path(path).name
    while name.lower().endswith((".gz", ".zip", ".bz2", ".xz", *TEXT_SUFFIXES)):
        name = name[: name.rindex(".")]
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._-") or "corpus"
    return "sample-file" if name == SAMPLE_NAME else name  # the name "sample" is reserved for the built-in corpus
