"""Runs made of more than a corpus file: of prepared corpora, of averaged checkpoints; and their lock."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import portalocker
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE

from nmt_keras import cli
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.recipes import RECIPES
from nmt_keras.runs import Run
from nmt_keras.runs.origin import write_origin
from nmt_keras.training.lock import sole_trainer

TRAIN = replace(TINY_RECIPE.train, steps=4, validations=2, max_to_keep=2, log_every=2)


def fails(arguments, capsys):
    """Runs a command that must fail; answers what was said on standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code in (1, 2)
    return capsys.readouterr().err


def write(path, pairs):
    path.write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in pairs), "utf-8")
    return str(path)


# Averaging


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory):
    """A run with the two checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("averaging") / "run"
    parts = SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])
    Run(folder, replace(TINY_RECIPE, train=TRAIN)).train(parts, lambda _: None, lambda *_: None)
    write_origin(folder, CorpusOptions((SAMPLE_NAME,)))
    return folder


def test_the_mean_of_checkpoints_becomes_a_run_like_any_other(run, tmp_path, capsys):
    cli.main(["average", str(run), "--to", str(tmp_path / "mean")])
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "mean")]
    mean = Run(tmp_path / "mean").translator().model
    kept = [tf.train.load_checkpoint(str(run / "checkpoints" / "last" / f"ckpt-{step}")) for step in (2, 4)]
    for number, variable in enumerate(mean.variables):
        one, other = (each.get_tensor(f"weights/all/{number}/.ATTRIBUTES/VARIABLE_VALUE") for each in kept)
        np.testing.assert_allclose(variable, (one + other) / 2, rtol=1e-5, atol=1e-7)
    assert any(
        np.any(variable != kept[1].get_tensor(f"weights/all/{number}/.ATTRIBUTES/VARIABLE_VALUE"))
        for number, variable in enumerate(mean.variables)
    )
    cli.main(["translate", str(tmp_path / "mean"), "Estoy en la cocina."])
    assert capsys.readouterr().out.endswith("\n")
    for name in ("corpus.json", "origin.json"):
        assert (tmp_path / "mean" / name).read_bytes() == (run / name).read_bytes()


def test_an_averaged_run_is_not_trained_on(run, pairs, tmp_path):
    Run(run).average(2, tmp_path / "mean")
    parts = SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])
    reports = []
    Run(tmp_path / "mean").train(parts, reports.append, lambda *_: pytest.fail("an update was made"))
    assert reports == []


def test_more_checkpoints_than_are_kept_and_a_folder_in_use_are_refused(run, tmp_path, capsys):
    said = fails(["average", str(run), "--checkpoints", "3", "--to", str(tmp_path / "mean")], capsys)
    assert "count: expected 1 to 2" in said
    assert not (tmp_path / "mean" / "recipe.json").exists()
    assert "expected a new run directory" in fails(["average", str(run), "--to", str(run)], capsys)


# Shortlists


@pytest.mark.long
def test_the_tables_of_a_shortlist_are_learnt_on_request(tiny, pairs, capsys):
    write(Path("mine.tsv"), pairs[:90])
    cli.main(["train", "tiny", "--corpus", "mine.tsv", "--valid", write(Path("dev.tsv"), pairs[90:]), "--run", "run"])
    asked = ["translate", "run", "Estoy en la cocina.", "--search.shortlist", "5"]
    assert "received 5. Learn one with `nmt shortlist RUN`" in fails(asked, capsys)
    cli.main(["shortlist", "run"])
    assert capsys.readouterr().out == "run/shortlist.npz\n"
    cli.main(asked)
    write(Path("mine.tsv"), pairs[:89])
    assert "run: expected the training pairs with sha256" in fails(["shortlist", "run"], capsys)


# Prepared corpora


@pytest.mark.long
def test_a_corpus_is_prepared_trained_on_gone_on_with_and_evaluated(pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(RECIPES, "tiny", replace(TINY_RECIPE, train=replace(TRAIN, max_tokens=5)))
    files = [write(tmp_path / "a.tsv", pairs[:60]), write(tmp_path / "b.tsv", [*pairs[60:110], Pair("Tom", "Tom")])]
    texts = ["--source.kind", "word", "--target.kind", "word", "--target.vocabulary-size", "90"]
    cli.main(["prepare", *files, "--to", "prepared/mine", "--shards", "2", *texts])
    said = capsys.readouterr()
    assert said.out.splitlines() == ["prepared/mine"]
    assert "110 pairs prepared; left out: 1 identical" in said.err
    valid = write(tmp_path / "valid.tsv", pairs[110:])
    cli.main(["train", "tiny", "--prepared", "prepared/mine", "--valid", valid, "--run", "run"])
    said = capsys.readouterr().err
    assert "mine: 110 pairs to train on, 10 to validate. Run directory: run" in said
    assert "as the corpus was prepared: source TokenizerConfig(kind='word'" in said
    assert "valid: BLEU" in said
    assert Run("run").translator().target_tokenizer.vocabulary_size == 90
    cli.main(["train", "--run", "run"])  # finished; the corpus is known from the run
    assert "mine: 110 pairs" in capsys.readouterr().err
    cli.main(["evaluate", "run", "--part", "valid", "--json"])
    assert json.loads(capsys.readouterr().out)["title"] == "mine, valid"
    assert "has no test part" in fails(["evaluate", "run"], capsys)
    write(tmp_path / "valid.tsv", pairs[100:])
    assert "is not the one that run was trained without" in fails(["evaluate", "run", "--part", "valid"], capsys)
    again = ["prepare", *files, "--to", "prepared/mine", *texts]
    assert "expected a new folder, received a prepared corpus" in fails(again, capsys)
    shutil.copytree("prepared/mine/source", "prepared/mine/target", dirs_exist_ok=True)
    other = ["train", "tiny", "--prepared", "prepared/mine", "--valid", valid, "--run", "other"]
    assert "expected the vocabulary that the shards were encoded with" in fails(other, capsys)


def test_a_folder_that_holds_no_prepared_corpus_is_refused(tmp_path, capsys):
    wrong = ["train", "--prepared", str(tmp_path), "--valid", str(tmp_path / "v.tsv")]
    assert "expected a prepared corpus, found none" in fails(wrong, capsys)
    demo = ["demo", "--prepared", str(tmp_path), "--valid", "v.tsv"]
    assert "--prepared: expected a corpus file" in fails(demo, capsys)


def test_source_and_target_files_are_prepared(pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in (("one", pairs[:50]), ("two", pairs[50:80])):
        Path(f"{name}.es").write_text("".join(f"{pair.source}\n" for pair in part), "utf-8")
        Path(f"{name}.en").write_text("".join(f"{pair.target}\n" for pair in part), "utf-8")
    texts = ["--source.kind", "word", "--target.kind", "word"]
    corpora = ["--corpus", "one.es", "one.en", "--corpus", "two.es", "two.en"]
    cli.main(["prepare", write(Path("a.tsv"), pairs[80:]), *corpora, "--to", "both", *texts])
    cli.main(["prepare", write(Path("all.tsv"), pairs), "--to", "all", *texts])
    assert "120 pairs prepared" in capsys.readouterr().err
    assert Path("both/prepared.json").read_bytes() == Path("all/prepared.json").read_bytes()


# Parts of one's own


@pytest.mark.long
def test_a_corpus_beside_files_to_validate_and_test_on_is_trained_on_whole(tiny, pairs, capsys):
    write(Path("mine.tsv"), pairs[:90])
    valid, test = write(Path("dev.tsv"), pairs[90:110]), write(Path("held.tsv"), [*pairs[110:], pairs[0]])
    cli.main(["train", "tiny", "--corpus", "mine.tsv", "--valid", valid, "--test", test, "--run", "run"])
    said = capsys.readouterr().err
    assert "mine: 90 pairs to train on, 20 to validate, 11 to test." in said
    assert re.search(r"--test: [1-9]\d? of 11 pairs share a sentence with the training data", said)
    assert "test: BLEU" in said
    cli.main(["train", "--run", "run"])  # finished; all three files are known from the run
    assert "mine: 90 pairs to train on, 20 to validate, 11 to test." in capsys.readouterr().err
    Path("mine.tsv").unlink()  # evaluation wants the held-out file alone
    cli.main(["evaluate", "run", "--json"])
    assert json.loads(capsys.readouterr().out)["sentences"] == 11
    write(Path("held.tsv"), pairs[100:])
    assert "is not the one that run was trained without" in fails(["evaluate", "run"], capsys)


@pytest.mark.long
def test_a_run_without_a_test_part_is_evaluated_on_its_validation_part(tiny, pairs, capsys):
    write(Path("mine.tsv"), pairs[:90])
    columns = ["--source-column", "0", "--target-column", "1"]
    valid = write(Path("dev.tsv"), [*pairs[90:110], pairs[0]])
    cli.main(["train", "tiny", "--corpus", "mine.tsv", "--valid", valid, "--run", "run", *columns])
    said = capsys.readouterr().err
    assert "90 pairs to train on, 21 to validate. Run" in said
    assert re.search(r"--valid: [1-9]\d? of 21 pairs share a sentence", said)
    assert "valid: BLEU" in said
    assert "test: BLEU" not in said
    assert "has no test part" in fails(["evaluate", "run"], capsys)
    cli.main(["evaluate", "run", "--part", "valid", "--json"])
    assert json.loads(capsys.readouterr().out)["sentences"] == 21


@pytest.mark.long
def test_a_run_s_direction_and_languages_are_those_that_it_was_begun_with(tiny, pairs, capsys):
    write(Path("mine.tsv"), pairs[:90])
    valid, test = write(Path("dev.tsv"), pairs[90:110]), write(Path("held.tsv"), pairs[110:])
    command = ["train", "tiny", "--corpus", "mine.tsv", "--valid", valid, "--test", test]
    there, back = (["--source-column", source, "--target-column", target] for source, target in ("01", "10"))
    run = Path("runs/mine-tiny")
    cli.main([*command, *there, "--source-language", "en", "--target-language", "es"])
    begun = (run / "origin.json").read_bytes()
    assert json.loads(begun)["source_column"] == 0

    cli.main([*command, *there])  # finished; names no language
    assert (run / "origin.json").read_bytes() == begun
    assert [json.loads(begun)[f"{side}_language"] for side in ("source", "target")] == ["en", "es"]
    capsys.readouterr()

    said = fails(command, capsys)
    assert f"{run / 'corpus.json'}: the run was trained on" in said
    assert "columns swapped" in said
    assert (run / "origin.json").read_bytes() == begun
    assert "and which its columns, or evaluate --pairs of your own" in fails(["evaluate", str(run), *back], capsys)

    other = shutil.copytree(run, "other")
    facts = json.loads((run / "corpus.json").read_text())
    (Path(other) / "corpus.json").write_text(json.dumps({**facts, "sha256": {**facts["sha256"], "test": "0"}}))
    cli.main(["evaluate", str(run), "--ensemble", other, "--json"])  # told of every member, refused for the first
    said = capsys.readouterr()
    assert json.loads(said.out)["systems"][0]["name"] == "mine-tiny+other"
    assert f"is not the one that {other} was trained without: its scores may be those of sentences" in said.err
    assert f"is not the one that {other} was trained" in fails(["evaluate", other, "--ensemble", str(run)], capsys)


def test_a_missing_tokenizer_is_said_before_training(tiny, pairs, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    file = write(Path("mine.tsv"), pairs)
    said = fails(["train", "tiny", "--corpus", file, "--target-language", "ja", "--run", "run"], capsys)
    assert 'pip install "sacrebleu[ja]"' in said
    assert not Path("run").exists()


# Run directories


def test_a_run_directory_that_cannot_be_made_is_told_before_training(tiny, pairs, capsys):
    file = write(Path("mine.tsv"), pairs)
    said = fails(["train", "tiny", "--corpus", file, "--run", "mine.tsv/run"], capsys)
    assert "mine.tsv/run: expected a run directory" in said


def test_a_run_directory_that_is_somebody_elses_now_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match=r"expected a run directory that can be written"), sole_trainer(tmp_path):
        pytest.fail("trained")


# One trainer


def test_a_run_that_another_process_trains_is_refused_and_free_when_that_has_died(pairs, tmp_path):
    code = (
        "import sys; from pathlib import Path; from nmt_keras.training.lock import sole_trainer\n"
        "with sole_trainer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    parts = SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])
    run = Run(tmp_path, replace(TINY_RECIPE, train=replace(TRAIN, steps=1)))
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process is training it"):
            run.train(parts, lambda _: None, lambda *_: None)
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]  # what the other one makes of it is not touched
        other.kill()
    with sole_trainer(tmp_path):
        pass
    run.train(parts, lambda _: None, lambda *_: None)
    assert run.step() == 1


def test_a_file_system_that_knows_no_locks_is_trained_on_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise portalocker.LockException("Function not implemented")

    monkeypatch.setattr(portalocker, "lock", refuse)
    with sole_trainer(tmp_path):
        pass


def test_a_run_that_another_process_has_begun_meanwhile_with_another_recipe_is_refused(pairs, tmp_path):
    parts = SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])
    late = Run(tmp_path, replace(TINY_RECIPE, train=replace(TRAIN, learning_rate=0.5)))
    Run(tmp_path, replace(TINY_RECIPE, train=TRAIN)).train(parts, lambda _: None, lambda *_: None)
    with pytest.raises(ValueError, match=r"the run has another recipe: train\.learning_rate"):
        late.train(parts, lambda _: None, lambda *_: None)


# Alignments


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The recipe ``tiny``, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(RECIPES, "tiny", replace(TINY_RECIPE, train=TRAIN))


@pytest.mark.long
def test_alignments_follow_the_pairs_of_their_lines_into_the_training_part(tiny, pairs, capsys, monkeypatch):
    """Every tenth line is malformed; each alignment names its line."""
    rows = [f"{pair.target}\t{pair.source}" if number % 10 else "no tab" for number, pair in enumerate(pairs)]
    Path("pairs.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    Path("pairs.align").write_text("".join(f"0-0 {number}-{number}\n" for number in range(len(rows))), "utf-8")
    taken = {}
    original = Run.train

    def note(self, corpus, *rest):
        taken.update(zip(corpus.train, corpus.alignments, strict=True))
        original(self, corpus, *rest)

    monkeypatch.setattr(Run, "train", note)
    command = ["train", "tiny", "--corpus", "pairs.tsv", "--max-malformed", "0.2"]
    cli.main([*command, "--run", "run", "--alignments", "pairs.align"])
    expected = {pair: f"0-0 {number}-{number}" for number, pair in enumerate(pairs) if number % 10}
    assert len(taken) > 80
    assert taken.items() <= expected.items()
    assert "alignments" in json.loads(Path("run/corpus.json").read_text())["sha256"]
    cli.main(["train", "--run", "run"])  # finished; the run knows its alignments
    Path("pairs.align").unlink()
    cli.main(["evaluate", "run", "--json"])  # needs none
    capsys.readouterr()


# What training says


@pytest.mark.long
def test_training_says_all_that_a_row_of_the_log_holds(tiny, capsys):
    cli.main(["train", "tiny", "--corpus", "sample", "--run", "run"])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step 4 of 4")]
    assert re.fullmatch(
        r"step 4 of 4: loss \d\.\d+ nats/token, perplexity [\d,.]+, [\d,]+ target tokens/s, \d+% padding, "
        r"rate \d\.\d+e-\d+, 0\.0 min left",
        said[0],
    )
