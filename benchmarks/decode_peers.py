"""Measures how fast the test set is translated, compared with OpenNMT-py.

    benchmarks/peers/setup_peers.sh PEERS                                             installs the peers
    PEERS/bin/python benchmarks/peers/peers.py prepare --corpus spa.txt --work WORK   writes their corpus
    PEERS/bin/python benchmarks/peers/peers.py quality --venv PEERS --work WORK       trains OpenNMT-py: m_step_N.pt
    python -m benchmarks.decode_peers --run runs/wide --work WORK --venv PEERS --opennmt WORK/quality/m_step_N.pt

This package and OpenNMT-py take turns to translate a file of sentences with beam 5, ``repeats`` times. Whole processes
are measured on the test set and on ten copies of it. The speed after start-up is computed from the ten copies, without
the time of a process that translates a single sentence. BLEU is sacreBLEU on raw text. Prints JSON with every
repetition and the ratios of the medians.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks.machine import machine, output_of, print_result

TIMES = 10
"""Number of copies of the test set."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder written by ``peers.py prepare``."""
    venv: Path
    """Environment created by ``setup_peers.sh``."""
    run: Path
    """Run directory of this package."""
    opennmt: Path
    """Checkpoint of OpenNMT-py, trained on the pieces in ``work``."""
    beam: int = 5
    """Beam size."""
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Precision of the quick search, which is measured in addition to the default search."""
    repeats: int = 3


def main(settings: Settings) -> None:
    """Measures and prints the result."""
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


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
