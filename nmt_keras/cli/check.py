"""``nmt check``: names the causes of a bad model in a corpus, in translations or in a run."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from nmt_keras.check.findings import Finding
from nmt_keras.cli.command import RARE, SIDE_BY_SIDE, Command, Console, Flag, named_corpus, named_run, values_of
from nmt_keras.cli.startup import import_tensorflow
from nmt_keras.config import TrainConfig, require
from nmt_keras.corpus import CorpusOptions
from nmt_keras.io.files import make_writable_folder, read_rows, write_whole
from nmt_keras.io.lines import read_lines
from nmt_keras.languages import is_language, standard_tag
from nmt_keras.recipes import options_of, train_command
from nmt_keras.runs.directory import LOG, RECIPE, imports, is_run, read_recipe, require_corpus

FOUND = 3  # exit code if there are findings
MAX_OUTPUT = 1 << 28  # maximum number of bytes of each file of translations


@dataclass(frozen=True)
class Check(Command):
    """Name the causes of a bad model, with evidence and the next command: nmt check CORPUS ..., or nmt check RUN.

    Translations of any system are checked by --source, --reference and --output. The exit code is 3 if there are
    findings.
    """

    computes: ClassVar[bool] = False  # only checks of runs import TensorFlow
    rare: ClassVar[Collection[str]] = [name for name in RARE if name not in ("source", "target")]

    paths: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS | RUN")] = ()
    """A table of pairs, a source and a target file, or a run directory."""
    source: str | None = None
    """Source sentences of translations to check, one per line."""
    reference: str | None = None
    """References of the translations."""
    output: str | None = None
    """The translations."""
    json: Flag = False
    """Print JSON."""
    to: Path | None = None
    """Folder for report.md and pictures."""
    repaired: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Output file (TSV) for the repaired pairs of a corpus. Pairs that cannot be repaired are dropped."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command with the corpus of the run in ``arguments``."""
        return tyro.MISSING_NONPROP if named_run(arguments) is None else cls(data=named_corpus(arguments))

    def check(self) -> None:
        """Raises ValueError unless the options name exactly one corpus, run or set of translations."""
        files, corpus = (
            (self.source, self.reference, self.output),
            self.paths or self.data.corpus or self.data.languages,
        )
        wanted = "a corpus, a run, or --source, --reference and --output"
        require(bool(corpus) != any(files) and any(files) == all(files), "CORPUS", wanted, (*self.paths, *files))
        is_text = bool(corpus) and self.data.prepared is None
        require(self.repaired is None or is_text, "--repaired", "a corpus of text", str(self.repaired))
        for option, given, hint in (
            ("--prepared", self.data.prepared, "Check the files that it was prepared from."),
            ("--corpus", self.paths and self.data.corpus, "Pass the files once."),
            ("--max-malformed", values_of("--max-malformed", self.typed), "Malformed lines are a finding."),
        ):
            require(self._run is not None or not given, option, "a run with this option", given, hint)
        require(not (self.repaired and self.repaired.is_dir()), "--repaired", "a file", str(self.repaired))
        if self.paths and self._run is None:
            replace(self.data, corpus=self.paths)  # raises ValueError

    @property
    def _run(self) -> Path | None:
        return Path(self.paths[0]) if len(self.paths) == 1 and is_run(Path(self.paths[0])) else None

    def __call__(self, console: Console) -> None:
        """Prints the findings."""
        from nmt_keras.check.findings import to_json, to_text, write_report
        from nmt_keras.evaluation.metrics import require_tokenizer

        for folder in filter(None, (self.to, self.repaired and self.repaired.parent)):
            make_writable_folder(folder)
        if self.source and self.reference and self.output:
            from nmt_keras.check.outputs import check_outputs

            require_tokenizer(self.data.target_language, self.data.bleu_tokenizer)
            source, reference, output = (
                [*read_lines(path, MAX_OUTPUT)] for path in (self.source, self.reference, self.output)
            )
            command = f"nmt translate RUN < {shlex.quote(self.source)} > {shlex.quote(self.output)}"
            found = check_outputs(
                source, reference, output, self.data.target_language, command, self.data.bleu_tokenizer
            )
        elif self._run is not None:
            require_tokenizer(self.data.language_tags[1], self.data.bleu_tokenizer)
            found = self._check_run(console, self._run)
        else:
            found = self._check_corpus(console, replace(self.data, corpus=self.paths or self.data.corpus))
        print(to_json(found) if self.json else to_text(found), end="")
        if self.to is not None:
            written = write_report(" ".join(self.paths) or str(self.output), found, self.to)
            console.say(f"report written to {written}")
        if found:
            raise SystemExit(FOUND)

    def _check_corpus(
        self, console: Console, data: CorpusOptions, max_tokens: int = TrainConfig.max_tokens
    ) -> list[Finding]:
        from nmt_keras.check.corpus import check_corpus
        from nmt_keras.corpus.loading import read_corpus, read_files

        uneven: list[str] = []
        lenient = replace(data, max_malformed=1.0)
        read = read_corpus(lenient, Path("data"), console.say, uneven.append)
        held = {
            option: read_files(lenient, files, False, console.say, uneven.append)
            for option, files in (("--valid", data.valid), ("--test", data.test))
            if files
        }
        suffixes = [Path(path).suffix[1:] for path in data.corpus] if len(data.corpus) == 2 else [""]
        named = [standard_tag(suffixes[at]) for at in data.order] if all(map(is_language, suffixes)) else [None, None]
        source, target = data.language_tags
        languages = source or named[0], target or named[1]
        new = CorpusOptions(
            corpus=("NEW.tsv",),
            source_column=0,
            target_column=1,
            source_language=source,
            target_language=target,
            bleu_tokenizer=data.bleu_tokenizer,
        )
        given = [*(self.paths or data.corpus), *options_of(data, CorpusOptions(corpus=data.corpus))]
        train = shlex.join(["nmt", "train", *options_of(new, CorpusOptions())])
        again = f"nmt check {shlex.join(given)} --repaired NEW.tsv, then {train}"
        found, pairs = check_corpus(read, held, languages, again, uneven, max_tokens)
        if self.repaired is not None:
            lines = ("\t".join(side.replace("\t", " ") for side in pair) + "\n" for pair in pairs)
            write_whole(self.repaired, "".join(lines))
            console.say(f"{len(pairs):,} pairs written to {self.repaired}")
        return found

    def _check_run(self, console: Console, run: Path) -> list[Finding]:
        from nmt_keras.check.findings import worst_first
        from nmt_keras.check.run import as_cause, check_log, check_model
        from nmt_keras.corpus.loading import load_corpus, load_pairs

        recipe, data = read_recipe(run), self.data
        require_corpus(run, data)
        command = train_command(recipe, imports(run)) or f"nmt train {shlex.quote(str(run / RECIPE))}"
        corpus = shlex.join(options_of(data, CorpusOptions()))
        found = check_log(read_rows(run / LOG)[0], recipe, f"{command}{corpus and ' '}{corpus} --run NEW")
        if data.prepared is None:
            found += [as_cause(each) for each in self._check_corpus(console, data, recipe.train.max_tokens)]
            held_out = load_corpus(data, recipe.corpus, Path("data"), lambda _: None, filters=recipe.filters).valid
        else:
            held_out = load_pairs(data, data.valid, console.say)
        import_tensorflow(SIDE_BY_SIDE)
        from nmt_keras.runs import Run

        console.say("testing the model on validation pairs")
        try:
            found += check_model(Run(run).translator(), held_out, run, data.language_tags[1], data.bleu_tokenizer)
        except FileNotFoundError as error:  # no checkpoint yet
            console.say(f"the model is not tested: {error}")
        return worst_first(found)
