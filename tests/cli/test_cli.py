"""The commands on a tiny run: options, standard input and output, results, errors and signals."""

import csv
import functools
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import keras
import matplotlib
import numpy as np
import pytest
import tensorflow as tf
from nmt_keras_serve.limits import Limits
from nmt_keras_serve.options import Options
from servers import ROOT
from tiny import TINY_RECIPE, save_little, write_pairs

import nmt_keras
from nmt_keras import cli
from nmt_keras.cli.train import Train
from nmt_keras.config import SearchConfig
from nmt_keras.corpus import CorpusOptions, CorpusUnavailable, Pair, split_corpus
from nmt_keras.corpus.alignments import to_pharaoh
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.export import read_manifest
from nmt_keras.io import lines
from nmt_keras.recipes import CONDITIONAL_GRU, RECIPES, train_command
from nmt_keras.runs.directory import read_recipe, write_origin, write_recipe
from nmt_keras.translation.word_alignment import align_words, links, written_words

SENTENCES = ["Estoy en la cocina.", "¿Te gusta leer libros?"]


@pytest.fixture(scope="module", autouse=True)
def _loaded_once():
    """Commands share one translator per run, so that it is traced once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmt_keras, "load", functools.cache(nmt_keras.load))
        yield


@pytest.fixture
def answers(nmt):
    """Runs a command and returns the lines of its standard output."""
    return lambda *arguments: nmt(*arguments).out.splitlines()


@pytest.fixture
def rows(answers):
    """Runs a command and returns the JSON objects of its output lines."""
    return lambda *arguments: [json.loads(line) for line in answers(*arguments, "--json")]


@pytest.fixture
def report(answers):
    """Runs ``nmt evaluate`` and returns its report."""
    return lambda *arguments: json.loads("\n".join(answers("evaluate", *arguments, "--json")))


@pytest.fixture
def type_in(monkeypatch, tmp_path):
    """Puts text on standard input."""
    with (tmp_path / "standard-input").open("w+b") as file:

        def put(content):
            file.write(content.encode())
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file, encoding="utf-8"))

        yield put


# Options


def test_options_change_single_fields_the_width_and_the_time_of_a_recipe(tmp_path):
    fields = "--model.dropout 0.3 --train.learning-rate 0.5 --minutes 5"
    base, changed = RECIPES["luong-base"], cli.parse(["train", "luong-base", *fields.split()]).chosen()
    assert (changed.model.dropout, changed.train.learning_rate) == (0.3, 0.5)
    assert (changed.train.minutes, changed.train.epochs, changed.train.steps) == (5.0, None, None)
    assert (changed.name, changed.model.encoder) == ("luong-base", base.model.encoder)
    narrow = cli.parse(["train", "luong-base", "--width", "0.1"]).chosen()
    assert (narrow.name, narrow.model.decoder.units) == ("luong-base-x0.1", 100)
    write_recipe(tmp_path, narrow)
    assert cli.parse(["train", "--width", "0.1", "--run", str(tmp_path)]).chosen() == narrow  # the same command again
    again = cli.parse(["train", str(tmp_path / "recipe.json"), "--width", "0.1"])
    assert again.chosen().model.decoder.units == 10


@pytest.mark.parametrize(
    "options",
    [
        "--model.dropout 0.3 --epochs 2.5",
        "--source.lowercase --train.clip-norm None --search.beam-size 7 --corpus.first 100 --train.xla False",
        "--model.decoder.no-input-feeding",
        "--source.kind subword --source.sentencepiece-model 'of mine.model'",
    ],
)
def test_the_command_of_a_recipe_trains_this_recipe(options):
    recipe = cli.parse(["train", "luong-feed", *shlex.split(options)]).chosen()
    _, *arguments = shlex.split(train_command(recipe))
    assert cli.parse(arguments).chosen() == recipe
    assert train_command(RECIPES["luong-feed"]) == "nmt train luong-feed"
    assert train_command(replace(recipe, name="mine")) is None


@pytest.mark.parametrize(
    ("corpus", "recipe"),
    [(["--corpus", "sample"], "sample"), (["--corpus=sample"], "sample"), (["--corpus", "my.tsv"], "conditional-gru")],
)
def test_the_corpus_determines_the_default_recipe(corpus, recipe):
    assert cli.parse(["train", *corpus]).chosen() == RECIPES[recipe]


@pytest.mark.parametrize("command", [["translate"], ["plot", "heatmap"]])
def test_a_long_sentence_is_not_taken_for_a_path(command, tmp_path):
    long = "palabra " * 40
    parsed = cli.parse([*command, str(tmp_path), long])
    assert getattr(parsed, "picture", parsed).sentences == (long,)


def test_the_run_gives_the_defaults_of_options_and_the_runs_of_an_ensemble_do_not(tmp_path):
    for name, beam in (("run", 7), ("other", 3)):
        (tmp_path / name).mkdir()
        write_recipe(tmp_path / name, replace(TINY_RECIPE, search=SearchConfig(beam_size=beam)))
    run, other, exported = (str(tmp_path / name) for name in ("run", "other", "exported"))
    for line in (
        ["translate", run],
        ["translate", "--json", run],
        ["export", "--ensemble", other, "--to", exported, run],
        ["evaluate", exported, run],
        ["evaluate", "--ensemble", other, "--json", run],
    ):
        assert cli.parse(line).search.beam_size == 7, line
    assert cli.parse(["evaluate", exported, "--ensemble", run]).search.beam_size == 1
    write_recipe(tmp_path / "run", TINY_RECIPE)
    assert cli.parse(["export", run]).search.beam_size == 5
    assert cli.parse(["export", run, "--search.beam-size", "1"]).search.beam_size == 1
    with pytest.raises(ValueError, match="--to: expected another folder than a run"):
        cli.parse(["export", run, "--to", other])


def test_an_exported_version_gives_the_languages_of_pairs(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "saved_model.pb").touch()
    manifest = {"format": 3, "languages": {"source": "en", "target": "ja"}, "search": {}}
    (tmp_path / "assets.extra" / "manifest.json").write_text(json.dumps(manifest))
    assert cli.parse(["evaluate", str(tmp_path), "--pairs", "a.tsv"]).data.language_tags == ("en", "ja")


# Results


def test_standard_input_is_translated_line_by_line(run_folder, type_in, answers):
    expected = [found.text for found in nmt_keras.load(run_folder).translate(SENTENCES)]
    type_in("\n\n".join(SENTENCES))
    assert answers("translate", run_folder) == [expected[0], "", expected[1]]
    type_in(SENTENCES[0])
    assert answers("translate", run_folder, "-")[0] == expected[0]


def test_a_line_is_translated_sentence_by_sentence_unless_splitting_is_off(run_folder, answers, rows):
    translator, text = nmt_keras.load(run_folder), " ".join(SENTENCES)
    expected = translator.translate(SENTENCES)
    whole = " ".join(found.text for found in expected)
    assert answers("translate", run_folder, text) == [whole]
    (row,) = rows("translate", run_folder, text)
    assert (row["source"], row["translation"]) == (text, whole)
    assert [part["source"] for part in row["sentences"]] == SENTENCES
    for part, found in zip(row["sentences"], expected, strict=True):
        assert part.keys() == {"source", "translation", *found._fields} - {"text"}
        assert (part["translation"], part["tokens"], part["score"]) == (found.text, found.tokens, found.score)
        assert np.array(part["alignment"]) == pytest.approx(found.alignment, abs=1e-4)
    (unsplit,) = translator.translate([text])
    assert answers("translate", run_folder, text, "--no-split") == [unsplit.text]
    assert answers("translate", run_folder, "  ", "--no-split") == answers("translate", run_folder, "  ")


def test_n_best_lists_are_those_of_the_translator(run_folder, type_in, answers, rows, monkeypatch):
    """The numbering continues across lines that are read at different times."""
    translator = nmt_keras.load(run_folder)
    expected = translator.with_search(replace(translator.search, beam_size=2, n_best=2)).translate_nbest(SENTENCES)
    found = rows("translate", run_folder, *SENTENCES, "--n-best", 2)
    assert [row["source"] for row in found] == SENTENCES
    for row, best in zip(found, expected, strict=True):
        assert [(each["translation"], each["tokens"]) for each in row["translations"]] == [
            (translation.text, translation.tokens) for translation in best
        ]
        assert [each["score"] for each in row["translations"]] == pytest.approx([each.score for each in best], abs=1e-5)
    monkeypatch.setattr(lines, "READ_AT_ONCE", 10)
    type_in("\n".join(SENTENCES))
    assert answers("translate", run_folder, "--n-best", 2) == [
        f"{number} ||| {each.text} ||| {each.score:.4f}" for number, best in enumerate(expected) for each in best
    ]


def test_given_pairs_are_aligned_in_the_pharaoh_format_or_as_json(run_folder, pairs, tmp_path, answers, rows):
    given = pairs[:5]
    aligned = nmt_keras.load(run_folder).align(*zip(*given, strict=True))
    expected = [written_words(align_words(*one), *pair) for one, pair in zip(aligned, given, strict=True)]
    file = write_pairs(tmp_path / "pairs.tsv", given)
    assert answers("align", run_folder, file) == [to_pharaoh(links(aligned)) for aligned in expected]
    for row, pair, aligned in zip(rows("align", run_folder, file), given, expected, strict=True):
        assert (row["source"], row["target"]) == pair
        assert (row["source_words"], row["target_words"]) == (aligned.source, aligned.target)
        assert [tuple(link) for link in row["links"]] == links(aligned)
        assert np.array(row["weights"]) == pytest.approx(aligned.alignment, abs=1e-3)


def test_translations_are_aligned_and_a_blank_line_stays_blank(run_folder, type_in, answers):
    type_in("\n" + "\n".join(SENTENCES) + "\n")
    blank, *found = answers("align", run_folder, "--translations")
    assert blank == "\t"
    for line, source, each in zip(found, SENTENCES, nmt_keras.load(run_folder).translate(SENTENCES), strict=True):
        words = written_words(align_words(each.source_tokens, each.tokens, each.alignment), source, each.text)
        assert line == f"{each.text}\t{to_pharaoh(links(words))}"


@pytest.mark.parametrize(("separator", "column", "first"), [(",", "text", "id,text,n\n"), ("\t", "1", "")])
def test_a_column_of_a_table_is_translated(separator, column, first, run_folder, tmp_path, answers):
    (tmp_path / "cells.csv").write_text(first + separator.join(["7", '"{} {}"', "a\n"]).format(*SENTENCES) + "8\n")
    command = ["translate", run_folder, tmp_path / "cells.csv", "--column", column]
    answers(*command, "--to", tmp_path / "out.csv")
    (whole,) = answers("translate", run_folder, " ".join(SENTENCES))
    with (tmp_path / "out.csv").open(newline="") as file:
        found = list(csv.reader(file, delimiter=separator))
    assert found == [*([["id", "text", "n"]] if first else []), ["7", whole, "a"], ["8"]]
    assert answers(*command) == (tmp_path / "out.csv").read_text().splitlines()


def test_a_warning_about_a_table_from_standard_input_names_the_line_of_the_row(run_folder, type_in, nmt):
    type_in('id,text\n1,"No.\nNo."\n2,El {perro}.\n')
    said = nmt("translate", run_folder, "-", "--column", "text")
    assert said.out.startswith("id,text\n1,")
    assert "in 1 line of standard input; the first is line 4." in said.err


@pytest.mark.parametrize(
    "command",
    [
        "translate x a.csv --column 0 --to a.csv/b",
        "evaluate x --to a.csv",
        "plot curves x --to a.csv/b.svg",
        "export x --to a.csv/b.html",
    ],
)
def test_the_output_is_checked_before_the_run_is_loaded(command, tmp_path, fails, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").touch()
    assert "a.csv: expected a folder that can be written" in fails(command)


def test_lines_that_lose_markup_are_counted_and_the_first_is_named(run_folder, type_in, nmt):
    type_in("No.\nEl {perro}, %s.\n")
    said = nmt("translate", run_folder, "--json")
    assert [json.loads(line)["differing"] for line in said.out.splitlines()] == [[], ["{perro}", "%s"]]
    assert re.search(r"in 1 line of standard input; the first is line 2\.", said.err)


PAIRS = "No.\tNo.\n{}\tNo.\n\t\nNo.\t{}\n"


@pytest.mark.parametrize(("command", "text"), [("translate", "No.\n{}\n\n{}\n"), ("score", PAIRS), ("align", PAIRS)])
def test_lines_that_were_cut_or_repaired_are_counted_and_the_first_is_named(
    command, text, run_folder, type_in, nmt, monkeypatch
):
    monkeypatch.setattr(lines, "READ_AT_ONCE", 2000)  # several blocks
    type_in("\ufeff" + text.format("la casa\0 " * 300, "el perro " * 300))
    said = nmt(command, run_folder, *["--no-split"] * (command == "translate"))
    assert said.out.count("\n") == 4
    assert re.search(r"limit was cut in 2 (line|pair)s of [\w ]+; the first is \1 2\.", said.err)
    assert re.search(r"replaces .* in 1 line of standard input; the first is line 2\.", said.err)


def test_recipes_are_listed_and_printed_and_a_printed_one_can_be_trained(answers, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert [line.split()[0] for line in answers("recipes")] == list(RECIPES)
    Path("mine.yaml").write_text("\n".join(answers("recipes", "tutorial")).replace("tutorial", "mine"), "utf-8-sig")
    assert cli.parse(["train", "mine.yaml", "--minutes", "3"]).chosen().name == "mine"


def test_the_options_of_serve_are_those_of_the_embedded_server(monkeypatch):
    given = []
    monkeypatch.setattr("nmt_keras_serve.server.serve", given.append)
    monkeypatch.setattr(cli, "import_tensorflow", lambda *_: pytest.fail("the server imports it once its port is open"))
    cli.main(["serve", "--port", "0", "--enable-monitoring", "--max-batch-rows", "3"])
    cli.main(["serve", "--model-dir", "elsewhere"])
    cli.main(["serve", "--model-config-file", "models.config"])
    assert given == [
        Options(port=0, enable_monitoring=True, limits=Limits(max_batch_rows=3)),
        Options(Path("elsewhere")),
        Options(model_config_file=Path("models.config")),
    ]


STARTED = """
import os, resource
from nmt_keras.cli.startup import import_tensorflow
import_tensorflow()
import keras
import tensorflow as tf
tf.keras.layers.Layer
print(keras.backend.backend(), keras.config.floatx())
for repetition in range(6):
    if repetition == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tf.fill([2**24], float(repetition))  # 64 MiB
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * os.sysconf("SC_PAGE_SIZE"))
"""


def test_commands_use_freed_memory_again_and_no_settings_of_keras_for_other_projects(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "jax", "floatx": "float16", "epsilon": 1}')
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPU_ALLOCATOR_USE_BFC"}
    environment |= {"KERAS_BACKEND": "torch", "TF_USE_LEGACY_KERAS": "1", "KERAS_HOME": str(tmp_path)}
    environment["TF_ENABLE_ONEDNN_OPTS"] = "0"  # as on a processor without instructions for neural networks
    command = [sys.executable, "-c", STARTED]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    settings, new_memory = run.stdout.splitlines()
    assert settings == "tensorflow float32"
    assert int(new_memory) < 2**26 / 4  # a quarter of the memory of one operation


def test_the_package_names_the_variable_if_keras_runs_on_another_backend(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="KERAS_BACKEND: expected 'tensorflow', received 'jax'"):
        _ = nmt_keras.Encoder


# Errors and signals


def test_an_error_is_one_line_and_debug_shows_its_traceback(tmp_path, fails):
    missing = tmp_path / "none"
    for line in (["translate", missing, "Hola."], ["evaluate", missing], ["score", missing], ["align", missing]):
        assert re.fullmatch(r"nmt: RUN: .*none does not exist.*\n", fails(*line)), line
    assert re.fullmatch(rf"nmt: RUN: .*{tmp_path}.*\n", fails("evaluate", tmp_path))
    for line in (
        ["translate", missing, "Hola.", "--debug"],
        ["plot", "--debug", "curves", tmp_path],
        ["plot", "curves", tmp_path, "--debug"],
    ):
        assert "Traceback" in fails(*line)


def test_a_closed_output_ends_a_command_quietly():
    command = [sys.executable, "-m", "nmt_keras", "recipes"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_command_succeeds_without_standard_output_and_standard_error():
    command = ["sh", "-c", '"$0" -m nmt_keras recipes >&- 2>&-', sys.executable]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_an_interruption_before_training_says_how_to_resume(monkeypatch, fails):
    monkeypatch.setattr("nmt_keras.corpus.loading.load_corpus", Mock(side_effect=KeyboardInterrupt))
    assert fails("train", code=130).startswith("nmt: interrupted. Run the same command again")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty working directory, without a network."""
    unavailable = CorpusUnavailable("http://127.0.0.1/none.zip", "the server cannot be reached")
    monkeypatch.setattr("nmt_keras.corpus.loading.fetch_corpus", Mock(side_effect=unavailable))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_training_stops_without_a_network_rather_than_train_on_the_sample(offline, fails):
    assert "nmt: The corpus could not be fetched" in fails("train", "--run", "runs/spa-eng")
    assert list(offline.iterdir()) == []


def test_the_recipe_for_a_pair_of_languages_depends_on_its_size(offline, monkeypatch, answers, fails):
    chosen = []
    Path("deu.txt").write_text("".join(f"One {n}.\tEins {n}!\tCC-BY #{n}\n" for n in range(99)))
    monkeypatch.setattr("nmt_keras.corpus.loading.fetch_corpus", lambda *_, **__: offline / "deu.txt")
    monkeypatch.setattr(Train, "train", lambda _, __, recipe, ___: chosen.append(recipe) or Path("runs/deu-eng"))
    for options in ((), ("--minutes", "4"), ("--train.batch-size", "32")):
        answers("train", "--languages", "deu-eng", *options)
    answers("train", "tutorial", "--languages", "deu-eng")
    (offline / "old").mkdir()
    write_recipe(offline / "old", CONDITIONAL_GRU)
    write_origin(offline / "old", CorpusOptions(languages="deu-eng"))
    answers("train", "--run", "old")
    answers("train", "--languages", "deu-eng", "--init-from", "old")
    monkeypatch.setattr("nmt_keras.cli.train.SMALL_CORPUS_PAIRS", 50)
    answers("train", "--languages", "deu-eng")
    held = cli.parse(["evaluate", "old", "--pairs", "mine.tsv", "--source-column", "1", "--target-column", "0"]).data
    assert (held.languages, held.language_tags, held.source_column) == (None, ("de", "en"), 1)
    moved = cli.parse(["train", "--run", "old", "--corpus", "deu-eng.zip"]).data
    assert (moved.corpus, moved.language_tags, moved.source_column) == (("deu-eng.zip",), ("de", "en"), 1)
    assert [recipe.name for recipe in chosen] == [*["small-corpus"] * 3, "tutorial", *["conditional-gru"] * 3]
    assert (chosen[1].train.minutes, chosen[2].train.batch_size) == (4, 32)
    assert "--languages: expected two languages" in fails("train", "--languages", "deu-fra", code=2)


# Several commands in a row


def test_a_run_is_exported_with_a_beam_and_an_ensemble_with_the_given_options(
    run_folder, tmp_path, answers, monkeypatch
):
    monkeypatch.setattr(tf.saved_model, "save", save_little)  # no graph is traced
    folder = tmp_path / "models"
    first, second = (
        Path(*answers("export", run_folder, "--to", folder, *options))
        for options in ([], ["--ensemble", run_folder, "--max-to-keep", "1", "--options.half-precision"])
    )
    assert (first.name, first.exists(), second.name) == ("1", False, "2")
    manifest = read_manifest(second)
    assert manifest["search"]["beam_size"] == 5
    assert manifest["languages"] == {"source": "es", "target": "en"}  # the server's page shows them
    assert manifest["runs"] == [run_folder.name, run_folder.name]
    assert manifest["corpus"]["pairs"] == {"train": 80, "valid": 20, "test": 20}
    assert manifest["export"]["half_precision"]


@pytest.mark.parametrize(
    ("options", "told", "code"),
    [
        ("--to x.html", "--to: .* cannot have --source.kind word, --target.kind word", 1),
        ("--to x.html --ensemble y", "--to: expected a folder with --ensemble, received 'x.html'", 2),
        (
            "--to x.HTML --options.half-precision --verify",
            "--to: expected a folder with --verify, received 'x.HTML'",
            2,
        ),
        ("--to x --float16", "--to: expected an HTML file with --float16, received 'x'", 2),
    ],
)
def test_what_an_html_file_cannot_hold_is_told_before_it_is_written(
    run_folder, tmp_path, fails, monkeypatch, options, told, code
):
    monkeypatch.chdir(tmp_path)
    assert re.search(told, fails("export", run_folder, *options.split(), code=code))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_exported_version_is_run_without_what_other_commands_import():
    unused = {"grpc", "httpx", "matplotlib", "sacrebleu", "sklearn", "tensorflow_serving"}
    program = (
        "import sys; from nmt_keras import cli; cli.main(['translate', sys.argv[1], 'No.']); "
        f"print({unused} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, ROOT / "saved_models/spa-eng/1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == ["set()"], done.stderr[-2000:]


@pytest.fixture
def own(pairs, tmp_path):
    """Options that evaluate ten pairs with gold links."""
    gold = tmp_path / "gold"
    gold.write_text("".join(f"{pair.source}\t{pair.target}\t0-0\n" for pair in pairs[100:110]), encoding="utf-8")
    return ["--pairs", write_pairs(tmp_path / "own.tsv", pairs[100:110]), "--gold", gold]


def test_runs_are_compared_on_given_pairs_and_with_gold_links(run_folder, pairs, own, tmp_path, report, fails):
    other = shutil.copytree(run_folder, tmp_path / "other")
    first, second = report(run_folder, other, *own, "--worst", 0)["systems"]
    assert [first["name"], second["name"]] == ["tiny", "other"]
    assert first["bleu"]["mean"] == second["bleu"]["mean"]
    assert (first["bleu"]["p"], second["bleu"]["p"]) == (None, None)  # BLEU near 0 tells nothing apart
    aligned = nmt_keras.load(run_folder).align(*zip(*pairs[100:110], strict=True))
    linked = [
        set(links(written_words(align_words(*one), *two))) for one, two in zip(aligned, pairs[100:110], strict=True)
    ]
    hits = sum((0, 0) in each for each in linked)
    assert first["alignment"]["error_rate"] == pytest.approx(1 - 2 * hits / (sum(map(len, linked)) + 10))
    own[-1].write_text("0-0\n")
    assert "expected source words, target words and links" in fails("evaluate", run_folder, *own)


@pytest.mark.slow
def test_an_exported_version_has_a_fixed_search_also_beside_a_run(run_folder, own, tmp_path, answers, report, fails):
    wide = shutil.copytree(run_folder, tmp_path / "wide")
    recipe = read_recipe(wide)
    write_recipe(wide, replace(recipe, search=replace(recipe.search, beam_size=3, precision="bfloat16")))
    (exported,) = answers("export", wide, "--to", tmp_path / "models")
    for beam, line in (("beam 3", [wide, exported]), ("beam 4", [exported, wide, "--search.beam-size", 4])):
        searches = {system["name"]: system["search"] for system in report(*line, *own[:2])["systems"]}
        assert searches["1"].startswith("beam 3")
        assert searches["wide"].startswith(beam)
    message = fails("translate", exported, "No.", "--search.beam-size", 4)
    assert re.search(rf"--search: .*{re.escape(str(exported))}.*received 'beam 4", message)
    (second,) = answers("export", run_folder, "--to", tmp_path / "second")
    for options, starts in (((), ("beam 3", "beam 5")), (("--search.beam-size", 1), ("greedy", "greedy"))):
        first, other = report(exported, second, *options, *own[:2])["systems"]
        assert (first["search"].startswith(starts[0]), other["search"].startswith(starts[1])) == (True, True)
    assert report(wide, exported, "--search.beam-size", 1, *own[:2])["systems"][1]["search"].startswith("greedy")
    assert "--search: " in fails("translate", exported, "No.", "--n-best", 2, "--search.beam-size", 1)
    assert "--gold: " in fails("evaluate", exported, *own)
    assert "at most 3" in fails("translate", exported, "No.", "--n-best", 4)


def test_heatmaps_of_one_sentence_and_of_several_are_drawn(run_folder, tmp_path, answers):
    one, grid = tmp_path / "one.svg", tmp_path / "grid.png"
    with matplotlib.rc_context({"text.usetex": True}):  # a user's matplotlibrc
        assert answers("plot", "heatmap", run_folder, SENTENCES[0], "--to", one) == [str(one)]
    assert answers("plot", "heatmap", run_folder, *SENTENCES, "--to", grid) == [str(grid)]
    assert one.read_bytes().startswith(b"<?xml")
    assert grid.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_demo_without_a_network_does_everything_on_the_sample_and_reuses_it(offline, tmp_path, monkeypatch, capfd):
    whole = split_corpus("sample", sample_pairs(), key_side="target")
    english_first = [Pair(*reversed(pair)) for pair in (*whole.train[:160], *whole.valid[:20], *whole.test[:20])]
    monkeypatch.setattr("nmt_keras.corpus.loading.SAMPLE_FILE", write_pairs(tmp_path / "small.tsv", english_first))
    monkeypatch.setattr("nmt_keras.cli.train.SAMPLE", replace(TINY_RECIPE, name="sample"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cli.main(["demo"])
    said = capfd.readouterr()
    assert said.out == ""
    assert "built-in sample" in said.err
    assert "/v1/models/demo:predict" in said.err
    assert re.findall(r"^\[(\d)/6\]", said.err, flags=re.MULTILINE) == list("123456")
    answer = json.loads(said.err[said.err.index("{\n") : said.err.index("\nDone in")])
    assert set(answer["predictions"][0]) == {"translation", "score", "truncated"}
    assert Path("runs/sample/alignment.png").stat().st_size > 1000
    assert set(json.loads(Path("runs/sample/scores.json").read_text())) == {"valid", "test"}
    log = Path("runs/sample/log.jsonl").read_bytes()
    cli.main(["demo"])
    assert Path("runs/sample/log.jsonl").read_bytes() == log
    assert sorted(version.name for version in Path("saved_models/demo").iterdir()) == ["1", "2"]
    with pytest.raises(SystemExit):
        cli.main(["demo", "--minutes", "7"])
    assert re.search(
        r"train.minutes None -> 7.0.* --run runs/sample with --more-epochs or --more-minutes", capfd.readouterr().err
    )
