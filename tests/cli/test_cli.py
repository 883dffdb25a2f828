"""The command line: what newcomers type first, what pipes carry, and what is said when something is wrong."""

import contextlib
import functools
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nmt_keras_serve.limits import Limits
from nmt_keras_serve.options import Options
from tiny import TINY_RECIPE

import nmt_keras
from nmt_keras import cli, demo
from nmt_keras.cli import lines
from nmt_keras.config import Recipe, SearchConfig
from nmt_keras.corpus import CorpusUnavailable, Pair
from nmt_keras.corpus.alignments import to_pharaoh
from nmt_keras.corpus.loading import sample_corpus
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.export import read_manifest
from nmt_keras.recipes import RECIPES
from nmt_keras.runs.directory import read_recipe, write_recipe
from nmt_keras.runs.origin import write_origin
from nmt_keras.translation.word_alignment import align_words, links, written_words

ROOT = Path(__file__).parents[2]
SENTENCES = ["Estoy en la cocina.", "¿Te gusta leer libros?"]


def fails(arguments, capsys):
    """Runs a command that must fail; answers the exit code and what was said on standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    return stop.value.code, capsys.readouterr().err


def answers(arguments, capsys):
    """Runs a command; answers the lines of its standard output."""
    cli.main(arguments)
    return capsys.readouterr().out.splitlines()


@pytest.fixture(scope="module", autouse=True)
def _loaded_once():
    """Every command gets the same translator of a run, so that it is traced once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmt_keras, "load", functools.cache(nmt_keras.load))
        yield


@pytest.fixture
def type_in(monkeypatch, tmp_path):
    """Puts bytes on standard input."""
    with (tmp_path / "standard-input").open("w+b") as file:

        def put(content):
            file.write(content)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file, encoding="utf-8"))

        yield put


# --- reading the command line


def test_help_needs_no_tensorflow_no_network_library_and_no_matplotlib():
    heavy = {
        *("tensorflow", "keras", "numpy", "httpx", "matplotlib", "sacrebleu", "sklearn"),
        *("uvicorn", "starlette", "grpc", "prometheus_client"),
    }
    code = (
        "import contextlib, io, sys\n"
        "import nmt_keras.cli as cli\n"
        "for arguments in [], *([name] for name in cli.COMMANDS), ['plot', 'heatmap']:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        cli.parse([*arguments, '--help'])\n"
        f"print({heavy} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "set()\n"


def test_a_mistyped_command_names_the_nearest(capsys):
    code, told = fails(["trian", "--minutes", "3"], capsys)
    assert code == 2
    assert "Did you mean 'train'?" in told
    assert told.count("\n") == 1


def test_a_mistyped_option_names_the_nearest(capsys):
    code, told = fails(["train", "lecture-rnn", "--modl.dropout", "0.3"], capsys)
    assert code == 2
    assert "--model.dropout" in told


@pytest.fixture(scope="module")
def completing(tmp_path_factory):
    """What bash offers where a command line ends."""
    file = tmp_path_factory.mktemp("completion") / "nmt.bash"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        cli.main(["completion", "bash"])
    file.write_text(said.getvalue())
    ask = 'source $0; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_nmt; printf \'%s\\n\' "${COMPREPLY[@]}"'

    def complete(*words):
        done = subprocess.run(["bash", "-c", ask, file, "nmt", *words], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    return complete


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tra", ["train", "translate"]),
        ("plot cur", ["curves"]),
        ("train luong-l", ["luong-location", "luong-local-m", "luong-local-p"]),
        ("recipes tut", ["tutorial"]),
        ("demo --recipe tut", ["tutorial"]),
        ("train --model.dro", ["--model.dropout"]),
        ("train lecture-rnn --model.decoder.cel", ["--model.decoder.cell"]),
        ("train --model.decoder.cell gru-", ["gru-reset-after"]),
        ("translate runs/sample --search.beam", ["--search.beam-size"]),
        ("serve --po", ["--port", "--poll-seconds"]),
        ("completion z", []),  # a place for a word of its own: tyro completes options and commands
    ],
)
def test_bash_completes_commands_options_choices_and_recipes(typed, offered, completing):
    assert [word for word in completing(*typed.split()) if word] == offered


def test_single_fields_of_a_recipe_are_changed_on_the_command_line():
    command = cli.parse(
        ["train", "luong-base", "--model.dropout", "0.3", "--train.learning-rate", "0.5", "--minutes", "5"]
    )
    base, changed = RECIPES["luong-base"], command.chosen()
    assert (changed.model.dropout, changed.train.learning_rate) == (0.3, 0.5)
    assert (changed.train.minutes, changed.train.epochs, changed.train.steps) == (5.0, None, None)
    assert changed.model.encoder == base.model.encoder
    assert changed.name == "luong-base"


def test_a_recipe_after_the_options_is_refused_rather_than_ignored(capsys):
    code, told = fails(["train", "--minutes", "5", "luong-base"], capsys)
    assert code == 2
    assert "RECIPE: expected right after train" in told


def test_a_value_that_cannot_be_is_told_with_its_name(capsys):
    code, told = fails(["train", "--model.dropout", "1.5"], capsys)
    assert code == 2
    assert "ModelConfig.dropout" in told
    assert "1.5" in told
    assert "Traceback" not in told


def test_how_long_to_train_is_said_once():
    with pytest.raises(ValueError, match="--steps, --epochs, --minutes: expected one of them"):
        cli.parse(["train", "--minutes", "5", "--epochs", "1"]).chosen()


def test_a_width_scales_the_recipe():
    recipe = cli.parse(["train", "luong-base", "--width", "0.1"]).chosen()
    assert (recipe.name, recipe.model.decoder.units) == ("luong-base-x0.1", 100)


def test_the_sample_and_other_corpora_have_recipes_of_their_own():
    assert cli.parse(["train", "--corpus", "sample"]).chosen() == RECIPES["sample"]
    assert cli.parse(["train", "--corpus=sample"]).chosen() == RECIPES["sample"]
    assert cli.parse(["train", "--corpus", "my.tsv"]).chosen() == RECIPES["rnnsearch-small"]


@pytest.mark.parametrize("command", [["translate"], ["align"], ["plot", "heatmap"]])
def test_a_long_sentence_is_no_path(command, tmp_path):
    long = "palabra " * 40
    parsed = cli.parse([*command, str(tmp_path), long])
    given = getattr(parsed, "picture", parsed)
    assert getattr(given, "sentences", None) or given.files == (long,)


def test_options_start_from_the_run_that_is_asked_and_from_none_that_is_named_after_it(tmp_path):
    write_recipe(tmp_path, replace(RECIPES["sample"], search=SearchConfig(beam_size=7)))
    run, exported = str(tmp_path), str(tmp_path / "exported")
    assert cli.parse(["translate", run]).search.beam_size == 7
    assert cli.parse(["translate", "--json", run]).search.beam_size == 7
    assert cli.parse(["translate", exported, run]).search.beam_size == 1  # here the run's path is a sentence
    assert cli.parse(["evaluate", exported, run]).search.beam_size == 7  # here it is a run
    assert cli.parse(["evaluate", exported, "--to", run]).search.beam_size == 1  # and here a report's folder


def test_the_runs_of_an_ensemble_are_not_the_one_whose_values_options_start_from(tmp_path):
    for name, beam in (("a", 3), ("b", 7)):
        (tmp_path / name).mkdir()
        write_recipe(tmp_path / name, replace(TINY_RECIPE, search=SearchConfig(beam_size=beam)))
    run, joins = str(tmp_path / "a"), str(tmp_path / "b")
    assert cli.parse(["evaluate", "--ensemble", joins, "--json", run]).search.beam_size == 3
    assert cli.parse(["evaluate", run, "--ensemble", joins]).search.beam_size == 3


def test_a_run_is_found_however_its_option_is_written(tmp_path):
    recipe = replace(RECIPES["luong-base"], search=SearchConfig(beam_size=7))
    write_recipe(tmp_path, recipe)
    write_origin(tmp_path, CorpusOptions(("sample",)))
    for named in (["--run", str(tmp_path)], [f"--run={tmp_path}"]):
        command = cli.parse(["train", *named])
        assert command.chosen() == recipe
        assert (command.run, command.data.corpus) == (tmp_path, ("sample",))


# --- lines in, lines out


def test_lines_come_in_blocks_of_what_is_there():
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as keyboard:
        found = lines.blocks(stream)
        keyboard.write(b"uno\ndos\r\ntr")
        assert next(found) == ["uno", "dos"]
        keyboard.write(b"es\n")
        assert next(found) == ["tres"]
        keyboard.write(b"cuatro")
        keyboard.close()
        assert list(found) == [["cuatro"]]


def test_only_line_feeds_end_lines_and_what_is_no_utf_8_stays_a_line():
    stream = io.BytesIO("\ufeffuno\u2028dos\n\n".encode() + b"\xff\n")
    assert [line for block in lines.blocks(stream) for line in block] == ["uno\u2028dos", "", "\ufffd"]


def test_a_line_without_end_does_not_fill_memory(monkeypatch):
    monkeypatch.setattr(lines, "READ_AT_ONCE", 1000)
    monkeypatch.setattr(lines, "LONGEST_LINE", 5000)
    found = [line for block in lines.blocks(io.BytesIO(b"x" * 50_000 + b"\nnext")) for line in block]
    assert len(found[0]) <= 6000
    assert found[1] == "next"


def test_pairs_come_from_one_file_or_from_two(tmp_path):
    (tmp_path / "pairs.tsv").write_text("uno\tone\ndos\ttwo\n")
    (tmp_path / "es").write_text("uno\ndos\n")
    (tmp_path / "en").write_text("one\ntwo\n")
    expected = [Pair("uno", "one"), Pair("dos", "two")]
    for files in (["pairs.tsv"], ["es", "en"]):
        assert [
            pair for block in lines.pair_blocks([str(tmp_path / file) for file in files]) for pair in block
        ] == expected


def test_pairs_come_from_the_columns_that_are_named(tmp_path):
    (tmp_path / "pairs.tsv").write_text("one\tuno\tCC BY 2.0\ntwo\tdos\n")
    file = str(tmp_path / "pairs.tsv")
    (found,) = lines.pair_blocks([file], (1, 0))
    assert found == [Pair("uno", "one"), Pair("dos", "two")]
    (found,) = lines.pair_blocks([file], (0, 1))
    assert found == [Pair("one", "uno"), Pair("two", "dos")]
    with pytest.raises(ValueError, match=r"pairs\.tsv:1: expected source<TAB>target, received 'one\\tuno\\tCC BY 2.0'"):
        list(lines.pair_blocks([file]))
    with pytest.raises(ValueError, match=r"pairs\.tsv:2: expected columns 2 and 0, counted from 0"):
        list(lines.pair_blocks([file], (2, 0)))


def test_standard_input_is_translated_line_by_line(run_folder, type_in, capsys):
    expected = [found.text for found in nmt_keras.load(run_folder).translate(SENTENCES)]
    type_in("\n\n".join(SENTENCES).encode())
    assert answers(["translate", str(run_folder)], capsys) == [expected[0], "", expected[1]]
    type_in(SENTENCES[0].encode())
    assert answers(["translate", str(run_folder), "-"], capsys)[0] == expected[0]


def test_a_line_is_translated_sentence_by_sentence_unless_told_otherwise(run_folder, capsys):
    translator, text = nmt_keras.load(run_folder), " ".join(SENTENCES)
    by_sentence = " ".join(found.text for found in translator.translate(SENTENCES))
    assert answers(["translate", str(run_folder), text], capsys) == [by_sentence]
    (whole,) = translator.translate([text])
    assert answers(["translate", str(run_folder), text, "--no-split"], capsys) == [whole.text]


def test_json_has_a_row_for_every_line_and_a_record_for_every_sentence(run_folder, capsys):
    (line,) = answers(["translate", str(run_folder), " ".join(SENTENCES), "--json"], capsys)
    row = json.loads(line)
    assert [part["source"] for part in row["sentences"]] == SENTENCES
    first = row["sentences"][0]
    assert set(first) == {
        "source", "translation", "tokens", "score", "log_prob", "alignment", "source_tokens", "truncated",
    }  # fmt: skip
    assert len(first["alignment"]) == len(first["tokens"])
    assert row["translation"] == " ".join(part["translation"] for part in row["sentences"])


def test_n_best_lists_as_json_are_those_that_the_translator_makes(run_folder, capsys):
    translator = nmt_keras.load(run_folder)
    expected = translator.with_search(replace(translator.search, beam_size=2, n_best=2)).translate_nbest(SENTENCES)
    rows = [
        json.loads(line)
        for line in answers(["translate", str(run_folder), *SENTENCES, "--n-best", "2", "--json"], capsys)
    ]
    assert [row["source"] for row in rows] == SENTENCES
    for row, found in zip(rows, expected, strict=True):
        assert [each["translation"] for each in row["translations"]] == [translation.text for translation in found]
        assert [each["tokens"] for each in row["translations"]] == [translation.tokens for translation in found]
        scores = [each["score"] for each in row["translations"]]
        assert scores == pytest.approx([translation.score for translation in found], abs=1e-5)


def test_search_options_change_the_search(run_folder, capsys):
    (line,) = answers(["translate", str(run_folder), SENTENCES[0], "--search.max-tokens", "2", "--json"], capsys)
    assert len(json.loads(line)["sentences"][0]["tokens"]) <= 2
    (line,) = answers(["translate", str(run_folder), SENTENCES[0], "--search.min-tokens", "4", "--json"], capsys)
    assert len(json.loads(line)["sentences"][0]["tokens"]) >= 4


def test_scores_as_json_add_up_token_by_token(run_folder, pairs, type_in, capsys):
    given = pairs[:3]
    expected = nmt_keras.load(run_folder).score([pair.source for pair in given], [pair.target for pair in given])
    type_in("".join(f"{pair.source}\t{pair.target}\n" for pair in given).encode())
    rows = [json.loads(line) for line in answers(["score", str(run_folder), "--json"], capsys)]
    for row, pair, score in zip(rows, given, expected, strict=True):
        assert (row["source"], row["target"], row["tokens"]) == (*pair, score.tokens)
        assert row["log_prob"] == pytest.approx(sum(row["token_log_probs"]), abs=1e-3)
        assert row["log_prob"] == pytest.approx(score.log_prob, abs=1e-3)
        assert row["truncated"] is False


def test_alignments_as_json_hold_the_words_their_links_and_their_weights(run_folder, pairs, tmp_path, capsys):
    given = pairs[:3]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in given), encoding="utf-8")
    found = nmt_keras.load(run_folder).align([pair.source for pair in given], [pair.target for pair in given])
    rows = [json.loads(line) for line in answers(["align", str(run_folder), str(file), "--json"], capsys)]
    for row, pair, one in zip(rows, given, found, strict=True):
        aligned = written_words(align_words(*one), *pair)
        assert (row["source"], row["target"]) == pair
        assert (row["source_words"], row["target_words"]) == (aligned.source, aligned.target)
        assert [tuple(link) for link in row["links"]] == links(aligned)
        assert np.array(row["weights"]) == pytest.approx(aligned.alignment, abs=1e-3)


def test_given_pairs_are_aligned_in_the_pharaoh_format(run_folder, pairs, tmp_path, capsys):
    sources, targets = [pair.source for pair in pairs[:5]], [pair.target for pair in pairs[:5]]
    found = nmt_keras.load(run_folder).align(sources, targets)
    expected = [
        to_pharaoh(links(written_words(align_words(*one), *pair))) for one, pair in zip(found, pairs, strict=False)
    ]
    (tmp_path / "es").write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    (tmp_path / "en").write_text("".join(f"{target}\n" for target in targets), encoding="utf-8")
    lines_out = answers(["align", str(run_folder), str(tmp_path / "es"), str(tmp_path / "en")], capsys)
    assert lines_out == expected
    for line, pair in zip(lines_out, pairs, strict=False):
        for source, target in (map(int, link.split("-")) for link in line.split()):
            assert source < len(pair.source.split())
            assert target < len(pair.target.split())


def test_a_file_whose_target_comes_first_is_aligned_and_scored_by_its_columns(run_folder, pairs, tmp_path, capsys):
    first, last = tmp_path / "source-first.tsv", tmp_path / "target-first.tsv"
    first.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs[:5]), encoding="utf-8")
    last.write_text("".join(f"{pair.target}\t{pair.source}\tCC BY\n" for pair in pairs[:5]), encoding="utf-8")
    columns = ["--source-column", "1", "--target-column", "0"]
    for command in ("align", "score"):
        expected = answers([command, str(run_folder), str(first)], capsys)
        assert answers([command, str(run_folder), str(last), *columns], capsys) == expected
        code, told = fails([command, str(run_folder), str(last)], capsys)
        assert code == 1
        assert "target-first.tsv:1: expected source<TAB>target" in told


def test_translations_are_printed_beside_their_alignment(run_folder, type_in, capsys):
    type_in(SENTENCES[0].encode())
    (line,) = answers(["align", str(run_folder), "--translations"], capsys)
    translation, alignment = line.split("\t")
    assert translation == nmt_keras.load(run_folder).translate(SENTENCES[:1])[0].text
    assert re.fullmatch(r"(\d+-\d+( \d+-\d+)*)?", alignment)


# --- what goes wrong


def test_an_error_is_one_line_without_a_traceback_unless_asked_for(tmp_path, capsys):
    code, told = fails(["translate", str(tmp_path / "none"), "Hola."], capsys)
    assert code == 1
    assert re.fullmatch(r"nmt: .*none does not exist.*\n", told)
    for arguments in (
        ["translate", str(tmp_path / "none"), "Hola.", "--debug"],
        ["plot", "--debug", "curves", str(tmp_path)],
        ["plot", "curves", str(tmp_path), "--debug"],
    ):
        with pytest.raises(FileNotFoundError):
            cli.main(arguments)


@pytest.mark.long
def test_tensorflow_adds_nothing_to_what_is_said(tmp_path):
    command = [sys.executable, "-m", "nmt_keras", "plot", "curves", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert re.fullmatch(r"nmt: RUN: expected a run's log in .*, found none\..*\n", found.stderr)


@pytest.mark.parametrize(
    ("asked", "environment", "found"), [(1, {}, 1), (None, {}, 0), (1, {"TF_NUM_INTRAOP_THREADS": "2"}, 0)]
)
def test_commands_that_translate_give_each_batch_one_thread_unless_the_environment_says_otherwise(
    asked, environment, found
):
    program = (
        f"from nmt_keras.cli.quiet import import_tensorflow; import_tensorflow({asked}); import tensorflow; "
        "print(tensorflow.config.threading.get_intra_op_parallelism_threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, check=True
    )
    assert done.stdout == f"{found}\n"  # 0: TensorFlow chooses
    assert {command.threads for name, command in cli.COMMANDS.items() if name in TRANSLATING} == {1}
    assert cli.COMMANDS["train"].threads is None


def test_tensorflow_is_imported_without_what_keras_would_import_for_parts_that_no_command_calls():
    program = (
        "import gc, sys; from nmt_keras.cli.quiet import UNUSED, import_tensorflow; gc.enable(); import_tensorflow(); "
        "import nmt_keras.runs.run; print([name for name in UNUSED if name in sys.modules]); "
        "import matplotlib.pyplot, sklearn.model_selection; print(gc.isenabled(), gc.get_freeze_count() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue True\n"


TRANSLATING = {"translate", "evaluate", "align", "score"}


def test_a_reader_that_goes_away_ends_a_command_quietly():
    command = [sys.executable, "-m", "nmt_keras", "recipes", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["train", "--help"]])
def test_a_reader_that_goes_away_ends_helps_and_the_version_as_quietly(arguments):
    command = [sys.executable, "-m", "nmt_keras", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--version"], ["recipes", "--json"]])
def test_a_full_disk_is_told_in_one_line(arguments, unbuffered):
    command = [sys.executable, "-m", "nmt_keras", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert re.fullmatch(r"nmt: \[Errno 28\] .*\n", done.stderr)


def test_gold_links_are_not_passed_over_for_an_exported_model(tmp_path, capsys):
    exported, pairs, gold = tmp_path / "exported", tmp_path / "pairs.tsv", tmp_path / "gold"
    exported.mkdir()
    pairs.write_text("one\tuno\n")
    gold.write_text("0-0\n")
    code, told = fails(["evaluate", str(exported), "--pairs", str(pairs), "--gold", str(gold)], capsys)
    assert code == 1
    assert f"--gold: expected runs alone, received the exported {exported}, which align no given pairs." in told


def test_an_interruption_before_the_first_checkpoint_has_its_own_words(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nmt_keras.corpus.loading.load_corpus", interrupted)
    code, told = fails(["train"], capsys)
    assert code == 130
    assert "nmt: interrupted. The same command goes on" in told


def test_a_termination_while_training_is_prepared_is_told_and_names_its_signal(monkeypatch, capsys):
    def terminated(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("nmt_keras.corpus.loading.load_corpus", terminated)
    code, told = fails(["train"], capsys)
    assert code == 143
    assert "nmt: stopped by SIGTERM. The same command goes on" in told
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty folder to work in, without a network."""

    def unavailable(*_):
        raise CorpusUnavailable("http://127.0.0.1/none.zip", "the server cannot be reached")

    monkeypatch.setattr("nmt_keras.corpus.loading.fetch_corpus", unavailable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_training_without_a_network_stops_rather_than_train_on_the_sample(offline, capsys):
    code, told = fails(["train", "--run", "runs/spa-eng"], capsys)
    assert code == 1
    assert "nmt: The corpus could not be fetched" in told
    assert list(offline.iterdir()) == []


# --- whole ways


@pytest.mark.saved_model
def test_any_two_files_become_a_run_which_is_evaluated_on_what_it_has_not_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sample = built_in_beginning(300)
    pairs = [*sample.train, *sample.valid, *sample.test]
    Path("home.es").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    Path("home.en").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    small = shlex.split(
        "--steps 6 --train.length-buckets 1 --train.batch-size 32 --train.xla False --train.validation-sentences 4 "
        "--train.validations 1 --model.embedding-size 8 --model.encoder.units 8 --model.attention.units 8 "
        "--model.decoder.units 8 --model.decoder.output-units 8 --search.max-tokens 8"
    )
    files = ["--corpus", "home.es", "home.en", "--source-language", "es", "--target-language", "en"]
    cli.main(["train", "sample", *files, *small, "--options.tensorboard"])
    run = Path("runs/home-sample")
    said = capsys.readouterr()
    assert said.out == f"{run}\n"
    assert list((run / "tensorboard").iterdir())
    assert json.loads((run / "origin.json").read_text())["target_language"] == "en"
    assert "home: 300 pairs to train on" in said.err
    scores = json.loads((run / "scores.json").read_text())

    cli.main(["evaluate", str(run), "--to", "report", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["systems"][0]["bleu"]["value"] == pytest.approx(scores["test"]["bleu"], abs=0.01)
    assert (report["title"], report["sentences"]) == ("home, test", 30)
    assert Path("report/report.md").read_text(encoding="utf-8").startswith("# home, test: 30 sentences")
    assert json.loads(Path("report/report.json").read_text(encoding="utf-8")) == report

    for kind in ("lengths", "scores"):
        assert answers(["plot", kind, "report/report.json", "--to", f"{kind}.svg"], capsys) == [f"{kind}.svg"]
        assert Path(f"{kind}.svg").read_bytes().startswith(b"<?xml")
    assert answers(["plot", "curves", str(run), "--to", "curves.png"], capsys) == ["curves.png"]

    log = (run / "log.jsonl").read_bytes()
    cli.main(["train", "--run", str(run)])  # begins from what the run says, and finds that it is finished
    assert (run / "log.jsonl").read_bytes() == log
    code, told = fails(["train", "--run", str(run), "--model.dropout", "0.4"], capsys)
    assert code == 1
    assert "model.dropout 0.1 -> 0.4" in told


@pytest.mark.saved_model
def test_a_run_is_exported_with_a_beam_and_an_ensemble_with_the_options_asked_for(run_folder, tmp_path, capsys):
    folder = tmp_path / "models"
    (line,) = answers(["export", str(run_folder), "--to", str(folder)], capsys)
    first = Path(line)
    assert read_manifest(first)["search"].startswith("beam 5")
    assert read_manifest(first)["languages"] == {"source": "es", "target": "en"}  # what a server's page asks for
    assert "from es to en" in (first / "assets.extra" / "README.md").read_text("utf-8")
    asked = ["--ensemble", str(run_folder), "--max-to-keep", "1", "--options.half-precision"]
    (line,) = answers(["export", str(run_folder), "--to", str(folder), *asked], capsys)
    second = Path(line)
    manifest = read_manifest(second)
    assert (first.exists(), second.name) == (False, "2")
    assert manifest["runs"] == [run_folder.name, run_folder.name]
    assert manifest["corpus"]["pairs"] == {"train": 80, "valid": 20, "test": 20}
    assert "from es to en" in (second / "assets.extra" / "README.md").read_text("utf-8")
    assert manifest["export"]["half_precision"]
    assert len(nmt_keras.load(folder).translate(["No."])) == 1
    answers(["export", str(run_folder), "--to", str(folder), "--max-to-keep", "1", "--labelled", "2"], capsys)
    assert sorted(child.name for child in folder.iterdir() if child.name.isdigit()) == ["2", "3"]


@pytest.mark.long
def test_runs_are_compared_on_pairs_of_ones_own_with_gold_links(run_folder, pairs, tmp_path, capsys):
    chosen = pairs[100:110]
    (tmp_path / "own.tsv").write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in chosen), encoding="utf-8")
    (tmp_path / "gold").write_text("0-0\n" * 10)
    given = ["--pairs", str(tmp_path / "own.tsv"), "--gold", str(tmp_path / "gold"), "--json"]
    other = shutil.copytree(run_folder, tmp_path / "other")
    cli.main(["evaluate", str(run_folder), str(other), "--pairs", given[1], "--json", "--worst", "0"])
    first, second = json.loads(capsys.readouterr().out)["systems"]
    assert [first["name"], second["name"]] == ["tiny", "other"]
    assert first["bleu"]["value"] == second["bleu"]["value"]
    assert first["bleu"]["p"] is None
    assert second["bleu"]["p"] == 1.0  # the same weights
    cli.main(["evaluate", str(run_folder), *given])
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    found = nmt_keras.load(run_folder).align([pair.source for pair in chosen], [pair.target for pair in chosen])
    linked = [set(links(written_words(align_words(*one), *pair))) for one, pair in zip(found, chosen, strict=True)]
    hits = sum((0, 0) in each for each in linked)
    assert system["alignment"]["error_rate"] == pytest.approx(1 - 2 * hits / (sum(map(len, linked)) + 10))


@pytest.mark.long
def test_runs_that_translate_together_are_evaluated_as_one_system(run_folder, pairs, tmp_path, capsys):
    """Twice the same model is the model: the mean of equal probabilities."""
    (tmp_path / "own.tsv").write_text(
        "".join(f"{pair.target}\t{pair.source}\n" for pair in pairs[100:110]), encoding="utf-8"
    )
    (tmp_path / "gold").write_text("0-0\n" * 10)
    given = ["--pairs", str(tmp_path / "own.tsv"), "--gold", str(tmp_path / "gold"), "--json"]
    other = shutil.copytree(run_folder, tmp_path / "other")
    cli.main(["evaluate", str(run_folder), *given])
    (alone,) = json.loads(capsys.readouterr().out)["systems"]
    cli.main(["evaluate", str(run_folder), *given, "--ensemble", str(other), "--to", str(tmp_path / "report")])
    said = capsys.readouterr()
    (together,) = json.loads(said.out)["systems"]
    assert f"{run_folder} and {other}: translating" in said.err
    assert together["name"] == "tiny+other"
    for score in ("bleu", "chrf", "exact", "search", "alignment"):
        assert together[score] == alone[score]
    assert (tmp_path / "report" / "worst-alignments.svg").exists()
    assert "expected exactly one RUN" in fails(["evaluate", "x", "y", *given, "--ensemble", str(other)], capsys)[1]


@pytest.mark.saved_model
def test_an_exported_version_stands_beside_a_run_unless_a_search_is_asked_for(run_folder, pairs, tmp_path, capsys):
    wide = shutil.copytree(run_folder, tmp_path / "wide")
    recipe = read_recipe(wide)
    write_recipe(wide, replace(recipe, search=replace(recipe.search, beam_size=3)))
    (exported,) = answers(["export", str(wide), "--to", str(tmp_path / "models")], capsys)
    file = tmp_path / "own.tsv"
    file.write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in pairs[100:103]), encoding="utf-8")
    given = ["--pairs", str(file), "--json", "--worst", "0"]
    for paths in ([str(wide), exported], [exported, str(wide)]):
        cli.main(["evaluate", *paths, *given])
        searches = {system["name"]: system["search"] for system in json.loads(capsys.readouterr().out)["systems"]}
        assert searches["1"] == "greedy"
        assert searches["wide"].startswith("beam 3")
    code, told = fails(["evaluate", str(wide), exported, *given, "--search.beam-size", "4"], capsys)
    assert code == 1
    assert f"--search: expected none for the exported version {exported}" in told


def test_gold_links_need_a_line_for_every_pair(run_folder, pairs, tmp_path, capsys):
    (tmp_path / "own.tsv").write_text(
        "".join(f"{pair.target}\t{pair.source}\n" for pair in pairs[:3]), encoding="utf-8"
    )
    (tmp_path / "gold").write_text("0-0\n")
    files = ["--pairs", str(tmp_path / "own.tsv"), "--gold", str(tmp_path / "gold")]
    code, told = fails(["evaluate", str(run_folder), *files], capsys)
    assert code == 1
    assert "--gold: expected 3 lines" in told


def test_a_run_is_not_evaluated_on_another_corpus_by_mistake(run_folder, capsys):
    code, told = fails(["evaluate", str(run_folder)], capsys)  # trained on a piece of the sample, not on the sample
    assert code == 1
    assert "the test part of sample is not the one that" in told


@pytest.mark.long
def test_heatmaps_of_sentences_and_of_n_best_lists_are_drawn(run_folder, tmp_path, capsys):
    one, grid = str(tmp_path / "one.svg"), str(tmp_path / "grid.png")
    assert answers(["plot", "heatmap", str(run_folder), SENTENCES[0], "--to", one], capsys) == [one]
    assert answers(["plot", "heatmap", str(run_folder), *SENTENCES, "--n-best", "2", "--to", grid], capsys) == [grid]
    assert Path(one).read_bytes().startswith(b"<?xml")
    assert Path(grid).read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_another_kind_is_refused_before_anything_is_computed(run_folder, capsys):
    code, told = fails(["plot", "heatmap", str(run_folder), "Hola.", "--to", "a.pdf"], capsys)
    assert code == 2
    assert "--to: expected a file name that ends in .svg or .png, received 'a.pdf'" in told


def test_recipes_are_listed_and_printed(capsys):
    assert [line.split()[0] for line in answers(["recipes"], capsys)] == list(RECIPES)
    cli.main(["recipes", "tutorial"])
    assert Recipe.from_json(capsys.readouterr().out) == RECIPES["tutorial"]
    cli.main(["recipes", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert {name: Recipe.from_json(json.dumps(fields)) for name, fields in listed.items()} == RECIPES


def test_serving_is_left_to_the_embedded_server(monkeypatch):
    given = []
    monkeypatch.setattr("nmt_keras_serve.server.serve", given.append)
    monkeypatch.setattr(cli, "import_tensorflow", lambda _: pytest.fail("the server imports it, once it has its port"))
    cli.main(["serve", "--port", "0", "--enable-monitoring", "--max-batch-rows", "3"])
    cli.main(["serve", "--model-dir", "elsewhere"])
    cli.main(["serve", "--model-config-file", "models.config"])
    assert given == [
        Options(Path("saved_models"), port=0, enable_monitoring=True, limits=Limits(max_batch_rows=3)),
        Options(Path("elsewhere")),
        Options(model_config_file=Path("models.config")),
    ]


@pytest.mark.server
def test_the_demo_without_a_network_does_its_whole_job_on_the_sample_and_then_reuses_it(offline, monkeypatch, capfd):
    small = built_in_beginning(160, 20)
    monkeypatch.setattr("nmt_keras.corpus.loading.sample_corpus", lambda *_: small)
    monkeypatch.setattr("nmt_keras.cli.demo.SAMPLE", replace(TINY_RECIPE, name="sample"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cli.main(["demo"])
    said = capfd.readouterr()
    told = said.err
    assert said.out == ""
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
    code, told = fails(["demo", "--minutes", "7"], capfd)
    assert code == 1
    assert re.search(r"train.minutes None -> 7.0.*remove runs/sample", told)


def built_in_beginning(pairs, held_out=30):
    """Returns the sample corpus with fewer pairs in each part."""
    whole = sample_corpus()
    return whole._replace(train=whole.train[:pairs], valid=whole.valid[:held_out], test=whole.test[:held_out])


def test_the_readme_shows_the_very_request_that_the_demo_sends():
    request = json.dumps({"instances": [demo.QUESTIONS["spa-eng"][0]]}, ensure_ascii=False)
    assert f"curl -d '{request}' http://127.0.0.1:8501/v1/models/spa-eng:predict" in (ROOT / "README.md").read_text()
