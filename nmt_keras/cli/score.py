"""``nmt score``: log-probabilities of given translations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from nmt_keras.cli.command import Flag, RunCommand
from nmt_keras.cli.console import Console
from nmt_keras.cli.lines import PairFiles


@dataclass(frozen=True)
class Score(RunCommand):
    """Print the log-probability of each given pair in nats, END included: paste es.txt en.txt | nmt score RUN."""

    pairs: Annotated[PairFiles, tyro.conf.arg(name="")] = field(default_factory=PairFiles)
    json: Flag = False
    """Print one JSON object per pair, with the log-probability of each token."""

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        import nmt_keras

        translator = nmt_keras.load(self.path, *self.ensemble)
        for pairs in console.count(self.pairs.blocks()):
            scores = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
            for pair, score in zip(pairs, scores, strict=True):
                if self.json:
                    print(json.dumps({**pair._asdict(), **score._asdict()}, ensure_ascii=False))
                else:
                    print(f"{score.log_prob:.4f}")
