#!/usr/bin/env python3
"""Measures how fast the test set is translated, compared with OpenNMT-py and CTranslate2.

    benchmarks/peers/setup_peers.sh PEERS                                             installs the peers
    PEERS/bin/python benchmarks/peers/peers.py prepare --corpus spa.txt --work WORK   writes their corpus
    PEERS/bin/python benchmarks/peers/peers.py quality --venv PEERS --work WORK       trains OpenNMT-py: m_step_N.pt
    python -m benchmarks.decode_peers --run runs/wide --work WORK --venv PEERS --opennmt WORK/quality/m_step_N.pt
    python -m benchmarks.decode_peers --work WORK --venv PEERS                        single sentences, CTranslate2

With ``--run``, this package and OpenNMT-py take turns to translate a file of sentences with beam 5, ``repeats`` times.
Whole processes are measured on the test set and on ten copies of the test set. The speed after start-up is computed
from the ten copies, without the time of a process that translates a single sentence. BLEU is sacreBLEU on raw text.

Without ``--run``, this package and CTranslate2 (``PEERS/bin/pip install ctranslate2==4.8.5``) take turns to translate
every tenth sentence of the test set one by one, with greedy search and with beam 5. This package translates in a
session of an exported model, as TensorFlow Serving does: strings in, strings out. The model has one layer of 256 units
in the encoder and the decoder. CTranslate2 translates tokens to tokens with a transformer of 3 + 3 layers of 256 units,
in float32 with two threads. Both have 8,000 tokens and untrained weights. Counting END, each translation
has one token more than its source, so both make equally many steps.

Prints JSON with every repetition and the ratios of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks import decode_speed
from benchmarks.machine import ProcessorTime, machine, output_of, print_result, stolen_percent

TIMES = 10
"""Number of copies of the test set, and distance between two sentences that are translated alone."""
BEAMS = {"greedy": 1, "beam 5": 5}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder written by ``peers.py prepare``."""
    venv: Path
    """Environment created by ``setup_peers.sh``."""
    run: Path | None = None
    """Run directory of this package, to measure whole processes. None measures single sentences."""
    opennmt: Path | None = None
    """Checkpoint of OpenNMT-py, trained on the pieces in ``work``. Required with ``run``."""
    beam: int = 5
    """Beam size of the whole processes."""
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Precision of the quick search, which is measured in addition to the default search."""
    repeats: int = 3


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    if (settings.run is None) != (settings.opennmt is None):
        raise SystemExit("decode_peers: --run and --opennmt belong together. Received one of them. Pass both or none.")
    (whole_processes if settings.run else single_sentences)(settings)


def whole_processes(settings: Settings) -> None:
    """Measures whole processes and prints the result."""
    before = machine()
    references = (settings.work / "test.en").read_text(encoding="utf-8").splitlines()
    quick = ["--search.precision", settings.precision]
    tools: dict[str, tuple[Path, Callable[[Path, Path], None]]] = {
        "ours": (settings.work / "test.es", lambda source, out: our_process(settings, source, out)),
        "ours, quick": (settings.work / "test.es", lambda source, out: our_process(settings, source, out, quick)),
        "opennmt": (settings.work / "test.sp.es", lambda source, out: opennmt_process(settings, source, out)),
    }
    found: dict[str, dict[str, Any]] = {name: {"one": [], "test": [], "tenfold": []} for name in tools}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(settings.repeats):
            for name, (test, translate) in tools.items():
                for size, seconds in seconds_by_size(test, translate, Path(scratch) / name).items():
                    found[name][size].append(round(seconds, 2))
        for name, one in found.items():
            one |= rates(one, len(references))
            one["bleu"] = quality(Path(scratch) / name / "test.out", settings, references)
    speeds = ("whole_process_per_s", "after_start_up_per_s")
    ratios = {
        f"{name} / opennmt": {speed: round(found[name][speed] / found["opennmt"][speed], 2) for speed in speeds}
        for name in ("ours", "ours, quick")
    }
    titles = {"ours": "nmt_keras", "ours, quick": f"nmt_keras, `{' '.join(quick)}`", "opennmt": "OpenNMT-py 3.5.1"}
    rows = []
    for name, one in found.items():
        both = ratios.get(f"{name} / opennmt", dict.fromkeys(speeds))
        rows.append(
            {
                "": titles[name],
                "BLEU": one["bleu"],
                "test set, whole process, s": [round(seconds, 1) for seconds in one["test"]],
                "sentences/s": one[speeds[0]],
                "ratio": both[speeds[0]],
                "sentences/s after start-up": one[speeds[1]],
                "ratio after start-up": both[speeds[1]],
            }
        )
    print_result(before, {**ratios, "quick": " ".join(quick), "tools": found}, rows)


def seconds_by_size(test: Path, translate: Callable[[Path, Path], None], folder: Path) -> dict[str, float]:
    """Returns the seconds of a process for one sentence, for the test set and for ten copies of the test set."""
    folder.mkdir(exist_ok=True)
    lines = test.read_text(encoding="utf-8").splitlines(keepends=True)
    found = {}
    for size, taken in {"one": lines[:1], "test": lines, "tenfold": lines * TIMES}.items():
        source = folder / f"{size}.in"
        source.write_text("".join(taken), encoding="utf-8")
        began = time.perf_counter()
        translate(source, folder / f"{size}.out")
        found[size] = time.perf_counter() - began
    return found


def rates(seconds: dict[str, list[float]], count: int) -> dict[str, float]:
    """Returns sentences per second of whole processes and after start-up, from medians."""
    one, test, tenfold = (statistics.median(seconds[size]) for size in ("one", "test", "tenfold"))
    return {
        "whole_process_per_s": round(count / test, 1),
        "after_start_up_per_s": round((TIMES * count - 1) / (tenfold - one), 1),
    }


def our_process(settings: Settings, source: Path, out: Path, options: Sequence[str] = ()) -> None:
    """Runs ``nmt translate`` with each line as one sentence."""
    command = [sys.executable, "-m", "nmt_keras", "translate", str(settings.run), "--no-split"]
    beam = ["--search.beam-size", str(settings.beam)]
    with source.open("rb") as read, out.open("wb") as written:
        output_of([*command, *beam, *options], stdin=read, stdout=written)


def opennmt_process(settings: Settings, source: Path, out: Path) -> None:
    """Runs ``onmt_translate`` on pieces."""
    options = {"model": settings.opennmt, "src": source, "output": out, "beam_size": settings.beam}
    given = [part for key, value in options.items() for part in (f"-{key}", str(value))]
    command = [str(settings.venv / "bin" / "onmt_translate"), *given, "-batch_size", "64", "-max_length", "80"]
    # OpenNMT-py's own checkpoints predate PyTorch's weights_only default
    output_of(command, env={**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})


def quality(out: Path, settings: Settings, references: Sequence[str]) -> float:
    """Returns the BLEU of a tool's translations. Pieces are joined to text first."""
    import sentencepiece

    from nmt_keras.evaluation.metrics import bleu

    lines = out.read_text(encoding="utf-8").splitlines()
    if out.parent.name == "opennmt":
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(settings.work / "spm.en.model"))
        lines = [pieces.decode(line.split()) for line in lines]
    return round(bleu(lines, references).value, 2)


def single_sentences(settings: Settings) -> None:
    """Measures single sentences and prints the result."""
    before, began = machine(), ProcessorTime.now()
    sentences = (settings.work / "test.es").read_text(encoding="utf-8").splitlines()[::TIMES]
    found: dict[str, dict[str, list[float]]] = {name: {"ours": [], "ctranslate2": []} for name in BEAMS}
    with tempfile.TemporaryDirectory() as folder:
        versions, tokens = exported(sentences, Path(folder)), Path(folder, "tokens")
        for _ in range(settings.repeats):
            for name, beam in BEAMS.items():
                found[name]["ours"].append(our_sentence(versions[name], sentences))
                found[name]["ctranslate2"].append(ctranslate2_sentence(settings, tokens, beam))
    rows = []
    for name, tools in found.items():
        ours, other = (statistics.median(each) for each in tools.values())
        each = {"nmt_keras, ms": tools["ours"], "CTranslate2 4.8.5, ms": tools["ctranslate2"]}
        rows.append({"search": name, **each, "ratio": round(other / ours, 2)})
    facts = {"stolen_percent": stolen_percent(began), "sentences": len(sentences), "median_ms": found}
    print_result(before, facts, rows, f"{len(sentences)} sentences; the median of each process.")


def exported(sentences: Sequence[str], folder: Path) -> dict[str, Path]:
    """Exports the untrained model of ``decode_speed`` for each search, and writes the sentences' tokens to a file.

    Returns:
        The versions by search. The file is ``folder``/tokens.
    """
    from nmt_keras.export import export

    translator = decode_speed.untrained(decode_speed.Settings(), sentences)
    tokens = translator.source_tokenizer.encode(sentences)
    rows = zip(tokens.surface.numpy(), tokens.lengths.numpy(), strict=True)
    lines = (b" ".join(row[: length - 1].tolist()).decode() for row, length in rows)  # without END
    Path(folder, "tokens").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {
        name: export(
            translator.with_search(replace(translator.search, beam_size=beam)), folder / name.replace(" ", "-")
        )
        for name, beam in BEAMS.items()
    }


def our_sentence(version: Path, sentences: Sequence[str]) -> float:
    """Returns the median milliseconds of a sentence in an exported model, measured in a process of its own."""
    (milliseconds,) = decode_speed.in_own_process(version, sentences, repeats=1)
    return round(statistics.median(milliseconds), 2)


def ctranslate2_sentence(settings: Settings, tokens: Path, beam: int) -> float:
    """Returns the median milliseconds of a sentence with CTranslate2, measured in a process of its own."""
    script = Path(__file__).parent / "peers" / "ct2.py"
    options: dict[str, Any] = {"work": settings.work, "venv": settings.venv, "sentences": tokens, "beam": beam}
    given = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    printed = output_of([str(settings.venv / "bin" / "python"), str(script), *given])
    return float(json.loads(printed.splitlines()[-1])["median_ms"])


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
