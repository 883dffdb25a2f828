"""Training commands: prepared corpora, held-out files, languages, layers of one's own and the lock."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from servers import ROOT
from tiny import TINY_RECIPE, write_pairs

from nmt_keras import cli
from nmt_keras.corpus import Pair
from nmt_keras.io.files import sole_writer
from nmt_keras.io.modules import IMPORTED
from nmt_keras.manifest import exported_recipe
from nmt_keras.recipes import RECIPES
from nmt_keras.runs import Run
from nmt_keras.runs.directory import imports, read_origin, with_languages_of, write_recipe

TRAIN = replace(TINY_RECIPE.train, steps=4, validations=2, max_to_keep=2, log_every=2)
RECIPE = replace(TINY_RECIPE, train=TRAIN)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The recipe ``tiny``, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(RECIPES, "tiny", RECIPE)


@pytest.fixture
def _unscored(monkeypatch):
    """Trainings do not translate the held-out sets at their end."""
    monkeypatch.setattr(Run, "evaluate", lambda *_: SimpleNamespace(cut=[]))


# The list of runs


def test_runs_are_listed_with_their_minutes_and_their_bleu(run_folder, tmp_path, nmt, fails):
    for name in ("new", "group/scored", "group/damaged"):
        shutil.copytree(run_folder, tmp_path / name, ignore=shutil.ignore_patterns("checkpoints"))
    (tmp_path / "new" / "log.jsonl").unlink()
    scores = {"valid": {"bleu": 7.0}, "test": {"bleu": 12.5}}
    (tmp_path / "group" / "scored" / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "group" / "scored" / "log.jsonl").write_text(
        '{"step": 2, "valid_loss": 3.0, "valid_bleu": 9.0, "seconds": 60.0}\n'
        '{"step": 4, "valid_loss": 4.0, "valid_bleu": 8.0, "seconds": 90.0}\n{"step": '
    )
    (tmp_path / "group" / "damaged" / "recipe.json").write_text("{")
    shown = nmt(f"runs {tmp_path}")
    head, scored, new = shown.out.splitlines()
    assert head.split() == ["minutes", "BLEU", "set", "recipe", "run"]
    assert scored.split() == ["1.5", "12.50", "test", "tiny", str(tmp_path / "group" / "scored")]
    assert new.split() == ["-", "-", "-", "tiny", str(tmp_path / "new")]
    assert f"{tmp_path / 'group' / 'damaged'} is skipped: " in shown.err
    (tmp_path / "group" / "scored" / "scores.json").unlink()
    assert nmt(f"runs {tmp_path / 'group'}").out.splitlines()[1].split()[:3] == ["1.5", "9.00", "sample"]
    assert nmt(f"runs {run_folder}").out.splitlines()[1].split()[2:] == ["sample", "tiny", str(run_folder)]
    assert "FOLDER: expected a folder with a run" in fails(f"runs {tmp_path / 'none'}")


# Prepared corpora


@pytest.mark.long
def test_a_prepared_corpus_is_trained_on_resumed_and_evaluated(tiny, pairs, nmt, fails, monkeypatch):
    search = replace(RECIPE.search, replaces_unknown=True)  # without a lexicon, because shards have no text
    few = replace(TRAIN, max_tokens=5, batch_tokens=120)
    monkeypatch.setitem(RECIPES, "tiny", replace(RECIPE, train=few, search=search))
    write_pairs("a.tsv", pairs[:60])
    write_pairs("b.tsv", [*pairs[60:110], Pair("Tom", "Tom")])
    write_pairs("valid.tsv", pairs[110:])
    prepare = "prepare a.tsv b.tsv --to prepared/mine --source.kind word --target.kind word --target.vocabulary-size 90"
    said = nmt(f"{prepare} --shards 2")
    assert said.out == "prepared/mine\n"
    assert re.search("110 pairs prepared.*1 identical", said.err)
    train = "train tiny --prepared prepared/mine --valid valid.tsv --run"
    said = nmt(f"{train} run").err
    assert "mine: 110 pairs to train on, 10 to validate. Run directory: run" in said
    assert f'source -> target: "{pairs[0].source}" -> "{pairs[0].target}"' in said
    assert f'validation: "{pairs[110].source}" -> "{pairs[110].target}"' in said
    assert "source TokenizerConfig(kind='word'" in said
    assert "valid: BLEU" in said
    assert "unknown words are replaced by the source word" in said
    assert Run("run").translator().target_tokenizer.vocabulary_size == 90
    assert "mine: 110 pairs" in nmt("train --run run").err  # the run is finished and determines the corpus
    assert json.loads(nmt("evaluate run --part valid --json").out)["title"] == "mine, valid"
    assert "--part valid" in fails("evaluate run")
    write_pairs("valid.tsv", pairs[100:])
    assert "--corpus: " in fails("evaluate run --part valid")
    assert "expected a new folder, received a prepared corpus" in fails(prepare)
    shutil.copytree("prepared/mine/source", "prepared/mine/target", dirs_exist_ok=True)
    assert "expected the vocabulary with which the shards were encoded" in fails(f"{train} other")


# Held-out files


@pytest.mark.long
def test_a_corpus_with_held_out_files_becomes_a_run_that_is_evaluated_plotted_and_not_trained_twice(
    tiny, pairs, nmt, fails, monkeypatch
):
    """The whole corpus is training data. A sentence of the test set is in it."""
    write_pairs("mine.tsv", pairs[:90])
    write_pairs("dev.tsv", pairs[90:110])
    write_pairs("test.tsv", [*pairs[110:], pairs[0]])
    Path("mine.align").write_text("0-0\n" * 90)
    monkeypatch.setattr("nmt_keras.training.tensorboard.FIRST_PROFILED", 1)
    files = "--valid dev.tsv --test test.tsv --alignments mine.align --run run --tensorboard --profile 1"
    counts = "20 to validate, 11 to test."
    shown, said = nmt(f"train tiny --corpus mine.tsv {files}")
    assert shown == "run\n"
    assert f"mine: 90 pairs to train on, {counts} Run directory: run" in said
    assert re.search(r"--test: [1-9]\d? of 11 pairs share a sentence with the training data", said)
    assert re.findall(r"^(\w+): BLEU", said, re.MULTILINE) == ["valid", "test"]
    assert json.loads(Path("run/corpus.json").read_text())["sha256"].keys() >= {"train", "alignments"}
    assert list(Path("run/tensorboard").glob("events.*"))
    assert list(Path("run/tensorboard").rglob("*.xplane.pb"))

    log = Path("run/log.jsonl").read_bytes()
    assert counts in nmt("train --run run").err  # the run is finished and determines all files
    assert Path("run/log.jsonl").read_bytes() == log
    assert "model.dropout 0.1 -> 0.4" in fails("train --run run --model.dropout 0.4")

    Path("mine.tsv").unlink()  # evaluation reads only the held-out file
    found = json.loads(nmt("evaluate run --to report --json").out)
    scores = json.loads(Path("run/scores.json").read_text())
    assert found["systems"][0]["bleu"]["mean"] == pytest.approx(scores["test"]["bleu"], abs=0.01)
    assert (found["title"], found["sentences"]) == ("mine, test", 11)
    assert Path("report/report.md").read_text("utf-8").startswith("# mine, test: 11 sentences")
    assert nmt("plot curves run --to curves.svg").out == "curves.svg\n"
    for drawn in ("curves.svg", "report/scores.svg", "report/bleu-by-length.svg"):
        assert Path(drawn).read_bytes().startswith(b"<?xml")
    write_pairs("test.tsv", pairs[100:])
    assert "--corpus: " in fails("evaluate run")


@pytest.mark.long
def test_a_run_keeps_the_direction_and_the_languages_of_its_first_training(tiny, pairs, nmt, fails):
    write_pairs("mine.tsv", pairs[:90])
    write_pairs("dev.tsv", pairs[90:110])
    write_pairs("held.tsv", pairs[110:])
    command = "train tiny --corpus mine.tsv --valid dev.tsv --test held.tsv"
    there = f"{command} --reverse"
    run = Path("runs/mine-tiny")
    first = json.dumps(pairs[0].target), json.dumps(pairs[0].source, ensure_ascii=False)
    assert f"en -> es: {first[0]} -> {first[1]}\n" in nmt(f"{there} --source-language en --target-language es").err
    origin = (run / "origin.json").read_bytes()
    record = json.loads(origin)
    assert [record[name] for name in ("reverse", "source_language", "target_language")] == [True, "en", "es"]
    nmt(there)  # the run is finished; the command names no language
    assert (run / "origin.json").read_bytes() == origin
    assert "opposite direction" in fails(command)
    assert (run / "origin.json").read_bytes() == origin
    assert "--corpus: " in fails(f"evaluate {run} --no-reverse")
    assert json.loads(nmt(f"evaluate {run} --source-column 1 --target-column 0 --no-reverse --json").out)
    assert cli.parse(["evaluate", str(run)]).data.reverse
    assert not cli.parse(["evaluate", str(run), "--pairs", "x.tsv"]).data.reverse  # default: source first

    other = Path(shutil.copytree(run, "other"))
    facts = json.loads((run / "corpus.json").read_text())
    (other / "corpus.json").write_text(json.dumps({**facts, "sha256": {**facts["sha256"], "test": "0"}}))
    said = nmt(f"evaluate {run} --ensemble other --json")  # the first run must match, others cause a warning
    assert json.loads(said.out)["systems"][0]["name"] == "mine-tiny+other"
    assert "other may have been trained on " in said.err
    assert "other may have been trained on " in fails(f"evaluate other --ensemble {run}")


@pytest.mark.parametrize(
    ("options", "message"),
    [("--target-language ja --run run", 'pip install "sacrebleu[ja]"'), ("--run mine.tsv/run", "mine.tsv/run: ")],
)
def test_a_missing_tokenizer_and_an_impossible_folder_are_reported_before_training(
    options, message, tiny, pairs, fails, monkeypatch
):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    write_pairs("mine.tsv", pairs)
    assert message in fails(f"train tiny --corpus mine.tsv {options}")
    assert not Path("run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("_unscored")
def test_a_run_is_trained_longer_by_another_version_and_fine_tuned_on_another_corpus(
    tiny, pairs, nmt, fails, tmp_path, monkeypatch
):
    for name, some in (("a.tsv", pairs[:80]), ("b.tsv", pairs[20:100]), ("valid.tsv", pairs[100:])):
        write_pairs(name, some)
    nmt("train tiny --corpus a.tsv --valid valid.tsv --run a --source-language es --target-language en")
    assert "--run: " in fails("train tiny --corpus a.tsv --valid valid.tsv --run none --more-epochs 1")
    monkeypatch.setattr("nmt_keras.io.files.VERSION", "9.9")
    said = nmt("train --run a --more-epochs 1").err
    assert "resuming at step 4 of 9" in said  # an epoch of 80 pairs has 5 batches
    assert "training for 9 steps" in said
    assert json.loads(Path("a/recipe.json").read_text())["nmt_keras"] == "9.9"
    nmt("train --init-from a --corpus b.tsv --valid valid.tsv --run b --train.learning-rate 0.5 --steps 2")
    assert Run("b").recipe == replace(RECIPE, train=replace(TRAIN, learning_rate=0.5, steps=2))
    assert read_origin(Path("b")).language_tags == ("es", "en")
    command = cli.parse(["train", "--init-from", "a", "--run", "b"])  # the recipe is that of --run, not of --init-from
    assert (command.chosen(), command.data.corpus) == (Run("b").recipe, (str(tmp_path / "b.tsv"),))
    assert "--init-from: " in fails("train --init-from none --corpus b.tsv", code=2)
    assert "RECIPE: " in fails("train tiny --init-from a --corpus b.tsv", code=2)


def test_the_recipe_and_the_languages_of_an_exported_version_are_those_of_a_fine_tuned_run(tmp_path, fails):
    version = ROOT / "saved_models" / "spa-eng" / "1"
    command = cli.parse(
        ["train", "--init-from", str(version), "--corpus", "mine.tsv", "--train.learning-rate", "0.001"]
    )
    recipe = exported_recipe(version)
    assert command.chosen() == replace(recipe, train=replace(recipe.train, learning_rate=0.001))
    assert with_languages_of(version, command.data).language_tags == ("es", "en")
    (tmp_path / "saved_model.pb").touch()
    assert "manifest.json: expected format 3" in fails(f"train --init-from {tmp_path} --corpus mine.tsv", code=2)


# Layers of the user's own


@pytest.mark.long
@pytest.mark.usefixtures("_unscored")
def test_a_module_s_layers_are_trained_resumed_and_used_with_import_and_refused_without(
    tiny, own_layers, pairs, nmt, fails, forget_modules
):
    write_pairs("pairs.tsv", pairs)
    train = "train tiny --corpus pairs.tsv --run own"
    assert "received 'own'. A layer of your own" in fails(f"{train} {own_layers}", code=2)
    nmt(f"{train} --import own_layers {own_layers}")
    command = Run("own").facts(Run("own").translator(), (None, None))["command"]
    assert command == f"nmt train tiny --import own_layers {own_layers}"
    for line in (
        "train --run own --more-epochs 1",
        "train own/recipe.json --corpus pairs.tsv",
        "train --init-from own --run tuned --corpus pairs.tsv",
        "translate own Hola.",
        "translate own -- --import=own_layers",
        "evaluate own",
        "score own pairs.tsv",
        "align own pairs.tsv",
        "export own",
        "plot heatmap own Hola.",
        "compare own/recipe.json --to out --updates 2",
    ):
        forget_modules()
        assert "recipe.json: trained with --import own_layers: add --import own_layers." in fails(line, code=None), line
        assert "own_layers" not in sys.modules
    assert "resuming" in nmt("train --run own --import=own_layers --more-epochs 1").err
    forget_modules()
    assert nmt("translate --import own_layers own Hola.").out.count("\n") == 1
    train_again = Run("own")
    IMPORTED.clear()  # in Python, modules are imported without the option
    write_recipe(Path("own"), train_again.recipe)
    assert imports(Path("own")) == ["own_layers"]


@pytest.mark.parametrize("name", ["absent", "own_layers.absent", "./own_layers.py", ""])
def test_a_module_that_does_not_exist_is_refused_but_errors_in_a_module_are_shown(name, own_layers, fails):
    assert f"nmt: --import: expected a Python module, received '{name}'" in fails("recipes --import", name, code=2)
    Path("broken.py").write_text("import absent")
    with pytest.raises(ModuleNotFoundError, match="absent"):
        cli.main(["recipes", "--import", "broken"])


# The lock of a run directory


def test_a_run_that_another_process_trains_is_refused(corpus, tmp_path):
    with sole_writer(tmp_path), pytest.raises(ValueError, match="nother process"):
        Run(tmp_path, RECIPE).train(corpus, lambda _: None, lambda *_: None)
