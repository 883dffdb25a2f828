#!/usr/bin/env python3
"""Measures the latency of single sentences, compared with CTranslate2.

    benchmarks/peers/setup_peers.sh PEERS && PEERS/bin/pip install ctranslate2==4.8.5
    PEERS/bin/python benchmarks/peers/peers.py prepare --corpus spa.txt --work WORK
    python -m benchmarks.single_sentence --work WORK --venv PEERS

This package translates in a session of an exported model, as TensorFlow Serving does: strings in, strings out. The
model has one layer of 256 units in the encoder and the decoder. CTranslate2 translates tokens to tokens with a
transformer of 3 + 3 layers of 256 units, in float32 with two threads. Both have 8,000 tokens, no shortlist and
untrained weights. Counting END, each translation has one token more than its source, so both make equally many steps.

Each tool translates every tenth sentence of the test set, with greedy search and with beam 5, in its own process. The
two take turns, ``repeats`` times. Prints JSON with the median milliseconds of each process, and the ratios of the
medians of all processes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from benchmarks import decode_speed
from benchmarks.decode_peers import carried_out
from benchmarks.decode_speed import untrained
from benchmarks.machine import ProcessorTime, machine, stolen_percent

EVERY = 10
"""Distance between two translated sentences of the test set."""
BEAMS = {"greedy": 1, "beam 5": 5}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder written by ``peers.py prepare``."""
    venv: Path
    """Environment created by ``setup_peers.sh``, with CTranslate2."""
    repeats: int = 3


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before, began = machine(), ProcessorTime.now()
    sentences = (settings.work / "test.es").read_text(encoding="utf-8").splitlines()[::EVERY]
    with tempfile.TemporaryDirectory() as folder:
        versions, tokens = exported(sentences, Path(folder)), Path(folder, "tokens")
        found: dict[str, dict[str, list[float]]] = {name: {"ours": [], "ctranslate2": []} for name in BEAMS}
        for _ in range(settings.repeats):
            for name, beam in BEAMS.items():
                found[name]["ours"].append(ours(versions[name], sentences))
                found[name]["ctranslate2"].append(ctranslate2(settings, tokens, beam))
            print(found, file=sys.stderr, flush=True)
    medians = {name: {tool: statistics.median(each) for tool, each in tools.items()} for name, tools in found.items()}
    ratios = {name: round(tools["ctranslate2"] / tools["ours"], 2) for name, tools in medians.items()}
    facts = {**before, "stolen_percent": stolen_percent(began), "sentences": len(sentences)}
    command = " ".join(["python -m benchmarks.single_sentence", *sys.argv[1:]])
    print(json.dumps({**facts, "command": command, "median_ms": found, "ratios": ratios}, indent=2))


def exported(sentences: Sequence[str], folder: Path) -> dict[str, Path]:
    """Exports the untrained model of ``decode_speed`` for each search, and writes the sentences' tokens to a file.

    Returns:
        The versions by search. The file is ``folder``/tokens.
    """
    from nmt_keras.export import export

    translator = untrained(decode_speed.Settings(), sentences)
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


def ours(version: Path, sentences: Sequence[str]) -> float:
    """Returns the median milliseconds of a sentence in an exported model, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.decode_speed", "--version", str(version), "--repeats", "1"]
    done = subprocess.run(command, input=json.dumps(sentences), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"single_sentence: {' '.join(command)} failed:\n{done.stderr[-4000:]}")
    (milliseconds,) = json.loads(done.stdout)
    return round(statistics.median(milliseconds), 2)


def ctranslate2(settings: Settings, tokens: Path, beam: int) -> float:
    """Returns the median milliseconds of a sentence with CTranslate2, measured in a process of its own."""
    script = Path(__file__).parent / "peers" / "ct2.py"
    options: dict[str, Any] = {"work": settings.work, "venv": settings.venv, "alone": tokens, "beam": beam}
    given = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    printed = carried_out([str(settings.venv / "bin" / "python"), str(script), *given])
    return float(json.loads(printed.splitlines()[-1])["median_ms"])


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
