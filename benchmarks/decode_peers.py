#!/usr/bin/env python3
"""Measures how fast whole processes translate the test set, compared with OpenNMT-py and CTranslate2.

    benchmarks/peers/setup_peers.sh PEERS                                             installs the peers
    PEERS/bin/python benchmarks/peers/peers.py prepare --corpus spa.txt --work WORK   writes their corpus
    PEERS/bin/python benchmarks/peers/peers.py quality --venv PEERS --work WORK       trains OpenNMT-py: m_step_N.pt
    python -m benchmarks.decode_peers --run runs/wide --work WORK --venv PEERS --opennmt WORK/quality/m_step_N.pt
    ... --transformer WORK/transformer/m_step_N.pt                                    CTranslate2 too, from ct2.py

The tools take turns to translate a file of sentences with beam 5, ``repeats`` times. Whole processes are measured on
the test set and on ten copies of the test set. The speed after start-up is computed from the ten copies, without the
time of a process that translates a single sentence. BLEU is sacreBLEU on raw text. CTranslate2 is measured only after
start-up. Prints JSON with every repetition and the ratios of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks.machine import machine

TIMES = 10
QUICK = "ours, quick"


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    run: Path
    """Run directory of this package."""
    work: Path
    """Folder written by ``peers.py prepare``."""
    venv: Path
    """Environment created by ``setup_peers.sh``."""
    opennmt: Path
    """Checkpoint of OpenNMT-py, trained on the pieces in ``work``."""
    transformer: Path | None = None
    """Checkpoint of a transformer, which ct2.py converts to CTranslate2 and measures. None skips this measurement."""
    beam: int = 5
    shortlist: int = 20
    """Shortlist size of the quick search, which is measured in addition to the default search."""
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Precision of the quick search."""
    repeats: int = 3


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before = machine()
    references = (settings.work / "test.en").read_text(encoding="utf-8").splitlines()
    count = len(references)
    quick = ["--search.shortlist", str(settings.shortlist), "--search.precision", settings.precision]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        tools = {
            "ours": (settings.work / "test.es", lambda source, out: our_process(settings, source, out)),
            QUICK: (settings.work / "test.es", lambda source, out: our_process(settings, source, out, quick)),
            "opennmt": (settings.work / "test.sp.es", lambda source, out: opennmt_process(settings, source, out)),
        }
        for _ in range(settings.repeats):
            for name, (test, translate) in tools.items():
                measured = found.setdefault(name, {"one": [], "test": [], "tenfold": []})
                for size, seconds in whole_processes(test, translate, Path(scratch) / name).items():
                    measured[size].append(round(seconds, 2))
                print(name, measured, file=sys.stderr, flush=True)
        for name in tools:
            found[name] |= rates(found[name], count)
            found[name]["bleu"] = quality(Path(scratch) / name / "test.out", settings, references)
    if settings.transformer:
        found["ctranslate2"] = ctranslate2(settings, settings.transformer)
    ratios = {
        f"{name} / opennmt": {
            rate: round(found[name][rate] / found["opennmt"][rate], 2) for rate in rates(found[name], count)
        }
        for name in tools
        if name != "opennmt"
    }
    command = " ".join(["python -m benchmarks.decode_peers", *sys.argv[1:]])
    print(json.dumps({**before, "command": command, **ratios, "quick": " ".join(quick), "tools": found}, indent=2))


def whole_processes(test: Path, translate: Callable[[Path, Path], None], folder: Path) -> dict[str, float]:
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
        carried_out([*command, *beam, *options], stdin=read, stdout=written)


def opennmt_process(settings: Settings, source: Path, out: Path) -> None:
    """Runs ``onmt_translate`` on pieces."""
    options = {"model": settings.opennmt, "src": source, "output": out, "beam_size": settings.beam}
    given = [part for key, value in options.items() for part in (f"-{key}", str(value))]
    carried_out([str(settings.venv / "bin" / "onmt_translate"), *given, "-batch_size", "64", "-max_length", "80"])


def carried_out(command: Sequence[str], stdin: Any = None, stdout: Any = subprocess.PIPE) -> bytes:
    """Runs a command and returns its output.

    Raises:
        SystemExit: The command failed.
    """
    # OpenNMT-py's own checkpoints predate PyTorch's weights_only default
    environment = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"decode_peers: {' '.join(command)} failed:\n{done.stderr.decode()[-4000:]}")
    return done.stdout or b""


def quality(out: Path, settings: Settings, references: Sequence[str]) -> float:
    """Returns the BLEU of a tool's translations. Pieces are joined to text first."""
    import sentencepiece

    from nmt_keras.evaluation.metrics import bleu

    lines = out.read_text(encoding="utf-8").splitlines()
    if out.parent.name == "opennmt":
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(settings.work / "spm.en.model"))
        lines = [pieces.decode(line.split()) for line in lines]
    return round(bleu(lines, references).value, 2)


def ctranslate2(settings: Settings, model: Path) -> dict[str, Any]:
    """Returns the result of ct2.py for a transformer."""
    script = Path(__file__).parent / "peers" / "ct2.py"
    python = str(settings.venv / "bin" / "python")
    printed = carried_out([python, str(script), "--work", str(settings.work), "--model", str(model)])
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
