"""The guide to WMT'14: its commands, run on small generated files with the names and forms of the published ones."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nmt_keras import cli
from nmt_keras.corpus import read_pairs
from nmt_keras.corpus.sample import sample_pairs

GUIDE = Path(__file__).parents[2] / "docs/guides/wmt14.md"
NEWS = [(pair.target, pair.source) for pair in sample_pairs()[:420]]  # Spanish in place of French and German
LAW = [
    (f"Annex {n} to article {n % 9} of the resolution .", f"Annexe {n} de la directive {n % 9} .") for n in range(300)
]
CORPORA = {
    "fr-en": {
        "europarl-v7.fr-en": LAW[:150],
        "news-commentary-v9.fr-en": NEWS[:150],
        "undoc.2000.fr-en": LAW[150:],
        "commoncrawl.fr-en": [*NEWS[150:200], *[(text, text) for text, _ in NEWS[200:210]]],
        "giga-fren.release2.fixed": [*NEWS[210:250], *NEWS[210:220], ("word " * 60, "mot " * 60)],
    },
    "de-en": {
        "europarl-v7.de-en": LAW[:150],
        "news-commentary-v9.de-en": NEWS[:150],
        "commoncrawl.de-en": NEWS[150:250],
    },
}
SMALL = " --width 0.02 --steps 2 --train.batch-size 8 --train.length-buckets 1 --train.validations 1 --train.xla False"


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def write_segments(path, lines):
    """Writes a test set as SGML."""
    head = '<refset trglang="fr" setid="newstest2014" srclang="any">\n<doc sysid="ref" docid="1" origlang="en">\n<p>\n'
    body = "".join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(lines, start=1))
    path.write_text(f"{head}{body}</p>\n</doc>\n</refset>\n", "utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder ``wmt14`` with all files that the guide names, in the working directory."""
    files = tmp_path / "wmt14"
    files.mkdir()
    for direction, corpora in CORPORA.items():
        held_out = {"newstest2012": NEWS[250:310], "newstest2013": NEWS[310:370]}
        for name, pairs in {**corpora, **held_out}.items():
            for language, lines in zip(("en", direction[:2]), zip(*pairs, strict=True), strict=True):
                write_lines(files / f"{name}.{language}", lines)
    english, foreign = zip(*NEWS[370:400], strict=True)
    write_segments(files / "newstest2014-fren-src.en.sgm", english)
    write_segments(files / "newstest2014-fren-ref.fr.sgm", foreign)
    write_segments(files / "newstest2014-deen-src.en.sgm", english)
    write_segments(files / "newstest2014-deen-ref.de.sgm", foreign)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_guide_select_prepare_train_and_evaluate(folder, capsys):
    ran = []
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if not block.startswith("nmt "):
            subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True)
            continue
        for line in block.replace("\\\n", "").splitlines():
            small = SMALL if line.startswith("nmt train") else ""
            arguments = shlex.split(line.replace("348000000", "1500") + small)[1:]
            cli.main(arguments)
            ran.append(arguments[0])
    assert ran == ["select", "prepare", "train", "evaluate", "evaluate", "prepare", "train", "evaluate"]

    wmt14 = folder / "wmt14"
    for name in ("newstest2014.fr", "newstest2014.de-en.de"):
        assert (wmt14 / name).read_text("utf-8").splitlines() == [foreign for _, foreign in NEWS[370:400]]
    assert len((wmt14 / "valid.en").read_text("utf-8").splitlines()) == 120
    selected = read_pairs(wmt14 / "selected.en-fr.tsv.gz", source_column=0, target_column=1).pairs
    assert 0 < sum(len(pair.target.split()) for pair in selected) <= 1500
    assert not {tuple(pair) for pair in selected} & set(LAW)  # the selection resembles the news
    prepared = json.loads((folder / "prepared/en-fr/prepared.json").read_text("utf-8"))
    assert 0 < prepared["pairs"] <= len(set(selected))
    assert (folder / "runs/en-fr/checkpoints").is_dir()
    assert len(re.findall(r"^# .*: 30 sentences$", capsys.readouterr().out, re.MULTILINE)) == 3
