"""The command line and the demo: what a newcomer types first."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY_RECIPE

from nmt_keras import cli, demo
from nmt_keras.config import CorpusConfig
from nmt_keras.corpus import CorpusUnavailable, Pair, SplitCorpus

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("data/spa-eng.zip", "spa-eng"),
        ("my.data.tsv.gz", "my.data"),
        ("sample.tsv", "sample-file"),
        ("a:b c.txt", "a_b_c"),
        (".hidden.tsv", "hidden"),
    ],
)
def test_a_corpus_is_called_after_its_file_and_never_like_the_sample(file, name):
    assert cli.corpus_name(file) == name


def test_a_corpus_file_without_a_name_is_refused():
    with pytest.raises(ValueError, match=r"corpus: expected a file with a name .* received \.tsv\."):
        cli.corpus_name(".tsv")


def test_columns_can_be_in_either_order(tmp_path):
    pairs = cli.built_in_sample()
    lines = [f"{pair.source}\t{pair.target}" for pair in (*pairs.train[:300], *pairs.valid[:30], *pairs.test[:30])]
    (tmp_path / "es-en.tsv").write_text("\n".join(lines), encoding="utf-8")
    options = cli.CorpusOptions(str(tmp_path / "es-en.tsv"), source_column=0, target_column=1)
    corpus = options.load(cli.WHOLE, tmp_path, lambda _: None)
    assert corpus.train[0] == pairs.train[0]
    assert len(corpus.test) == 30


def test_another_version_of_the_spanish_english_corpus_is_told(tmp_path):
    pairs = cli.built_in_sample()
    lines = [f"{pair.target}\t{pair.source}" for pair in (*pairs.train[:300], *pairs.valid[:30], *pairs.test[:30])]
    (tmp_path / "spa-eng.tsv").write_text("\n".join(lines), encoding="utf-8")
    told: list[str] = []
    cli.CorpusOptions(str(tmp_path / "spa-eng.tsv")).load(cli.WHOLE, tmp_path, told.append)
    assert any("another version" in sentence for sentence in told)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty folder to work in, without a network."""

    def unavailable(*_):
        raise CorpusUnavailable("http://127.0.0.1/none.zip", "the server cannot be reached")

    monkeypatch.setattr(cli, "fetch_corpus", unavailable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_training_without_a_network_stops_rather_than_train_on_the_sample(offline):
    with pytest.raises(SystemExit, match=r"nmt: The corpus could not be fetched"):
        cli.main(["train", "--run", "runs/spa-eng"])
    assert list(offline.iterdir()) == []


def test_an_unknown_recipe_names_the_nearest(offline):
    with pytest.raises(SystemExit, match="Did you mean 'rnnsearch-small'"):
        cli.main(["train", "--corpus", "sample", "--recipe", "rnnserch-small"])


def test_an_interruption_before_the_first_checkpoint_has_its_own_words(offline, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.CorpusOptions, "load", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train"])
    assert stop.value.code == 130
    assert "nmt: interrupted. The same command goes on" in capsys.readouterr().err


@pytest.mark.server
def test_the_demo_without_a_network_does_its_whole_job_on_the_sample_and_then_reuses_it(offline, monkeypatch, capfd):
    small = built_in_beginning(160)
    monkeypatch.setattr(cli, "built_in_sample", lambda *_: small)
    monkeypatch.setattr(cli, "SAMPLE", replace(TINY_RECIPE, name="sample"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cli.main(["demo"])
    told = capfd.readouterr().err
    assert "Going on with the built-in sample" in told
    assert re.findall(r"^\[(\d)/6\]", told, flags=re.MULTILINE) == list("123456")
    answer = json.loads(told[told.index("{\n") : told.index("\nDone in")])
    assert set(answer["predictions"][0]) == {"translation", "score", "truncated"}
    assert Path("runs/sample/alignment.png").stat().st_size > 1000
    assert set(json.loads(Path("runs/sample/scores.json").read_text())) == {"valid", "test"}
    assert [version.name for version in Path("saved_models/sample").iterdir()] == ["1"]
    log = Path("runs/sample/log.jsonl").read_bytes()
    cli.main(["demo"])
    assert Path("runs/sample/log.jsonl").read_bytes() == log
    assert [version.name for version in Path("saved_models/sample").iterdir()] == ["1"]
    with pytest.raises(SystemExit, match=r"train.minutes None -> 7.0.*remove runs/sample"):
        cli.main(["demo", "--minutes", "7"])


def built_in_beginning(pairs: int) -> SplitCorpus:
    """The sample's first pairs of each part."""
    whole = cli.built_in_sample()
    parts: list[list[Pair]] = [list(part[:pairs]) for part in whole[1:]]
    return SplitCorpus(whole.name, parts[0], parts[1][:20], parts[2][:20])


def test_the_readme_shows_the_very_request_that_the_demo_sends():
    request = json.dumps({"instances": [demo.QUESTIONS["spa-eng"][0]]}, ensure_ascii=False)
    assert f"curl -d '{request}' http://127.0.0.1:8501/v1/models/spa-eng:predict" in (ROOT / "README.md").read_text()


def test_a_recipe_says_what_it_takes_of_the_corpus(tmp_path):
    pairs = cli.built_in_sample()
    lines = [f"{pair.target}\t{pair.source}" for pair in pairs.train[:400]]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    wanted = CorpusConfig(first=200, split="shuffled-groups")
    corpus = cli.CorpusOptions(str(tmp_path / "pairs.tsv")).load(wanted, tmp_path, lambda _: None)
    parts = (corpus.train, corpus.valid, corpus.test)
    assert sum(len(part) for part in parts) == 200
    assert {pair for part in parts for pair in part} == set(pairs.train[:200])
    assert cli.named_corpus("tutorial") == CorpusConfig(first=30_000, split="shuffled-groups")
    assert cli.named_corpus(None) == cli.WHOLE


def test_a_width_scales_the_recipe_and_minutes_replace_its_epochs():
    recipe = cli.choose_recipe("luong-base", "pairs", minutes=5.0, width=0.1)
    assert (recipe.name, recipe.model.decoder.units) == ("luong-base-x0.1", 100)
    assert (recipe.train.minutes, recipe.train.epochs, recipe.train.steps) == (5.0, None, None)
