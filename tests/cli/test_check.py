"""``nmt check``: exit codes, formats, and the files of any toolkit."""

import json

import pytest
from tiny import write_sides

from benchmarks.check import shifted
from nmt_keras import cli
from nmt_keras.cli.check import FOUND
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.recipes import find_recipe
from nmt_keras.runs.directory import read_recipe

PAIRS = sample_pairs()[:600]


@pytest.fixture
def check(capsys):
    """Runs the command. Returns its exit code and its standard output."""

    def run(*arguments):
        try:
            cli.main(["check", *map(str, arguments)])
            code = 0
        except SystemExit as stop:
            code = stop.code
        return code, capsys.readouterr().out

    return run


def test_a_clean_corpus_exits_with_0_and_a_faulty_one_with_3(check, tmp_path):
    assert check(*write_sides(tmp_path / "corpus", PAIRS))[0] == 0
    code, out = check(*write_sides(tmp_path / "corpus", shifted(PAIRS, 0.5, 1)), "--json")
    assert (code, json.loads(out)[0]["name"]) == (FOUND, "shifted") == (3, "shifted")
    source, target = write_sides(tmp_path / "corpus", PAIRS)
    assert "swapped" in check(target, source, "--source-language", "es", "--target-language", "en")[1]
    assert "swapped" in check(target.rename(tmp_path / "corpus.spa"), source.rename(tmp_path / "corpus.eng"))[1]
    assert check(tmp_path / "missing.tsv")[0] == 1


def test_the_report_has_pictures_and_the_repaired_corpus_has_no_findings(check, tmp_path):
    files = *write_sides(tmp_path / "corpus", shifted(PAIRS, 0.0, 2)), "--target-language", "en"
    code, out = check(*files, "--to", tmp_path / "report", "--repaired", tmp_path / "new.tsv")
    assert (code, "--corpus NEW.tsv --target-language en." in out) == (FOUND, True)
    assert (tmp_path / "report" / "shifted.svg").exists()
    assert "shifted.svg" in (tmp_path / "report" / "report.md").read_text("utf-8")
    assert check(tmp_path / "new.tsv", "--source-column", "0", "--target-column", "1") == (0, "No findings.\n")


def test_files_with_different_numbers_of_lines_and_translations_are_checked(check, fails, tmp_path):
    source, target = write_sides(tmp_path / "corpus", PAIRS)
    target.write_text("".join(f"{pair.target}\n" for pair in PAIRS[5:]), encoding="utf-8")
    _, out = check(source, target, "--json")
    assert {"shifted", "uneven-files"} <= {each["name"] for each in json.loads(out)}
    same = ("--source", source, "--reference", target, "--output", target)
    assert check(*same)[0] == FOUND  # the source has more lines
    assert "--bleu-tokenizer" in fails("check --source a --reference b --output c --bleu-tokenizer d")  # before reading
    write_sides(tmp_path / "corpus", PAIRS)
    assert check(*same, "--target-language", "ja", "--bleu-tokenizer", "char")[0] == 0


@pytest.mark.parametrize(("files", "place"), [({"a.tsv": 2}, "line 602: "), ({"a.tsv": 1, "b.tsv": 1}, "b.tsv:2: ")])
def test_a_quoted_pair_has_the_line_of_its_file(files, place, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, copies in files.items():
        rows = [f"{pair.source}\t{pair.target}\n" for pair in PAIRS] * copies
        (tmp_path / name).write_text("".join(["Spanish\tEnglish\n", *rows]), encoding="utf-8")
    _, out = check(*files, "--tables", "--json")
    (found,) = (each for each in json.loads(out) if each["name"] == "duplicates")
    assert found["evidence"][0].startswith(place)


def test_ill_held_out_files_are_findings(check, tmp_path):
    held = write_sides(tmp_path / "valid", [*PAIRS[:50], ("", "Nothing.")])
    held[1].write_text(held[1].read_text("utf-8") + "Yes.\n", "utf-8")
    _, out = check(*write_sides(tmp_path / "corpus", PAIRS), "--valid", *held, "--json")
    assert {"malformed", "uneven-files"} <= {each["name"] for each in json.loads(out)}


@pytest.mark.parametrize("option", ["--to", "--repaired"])
def test_a_file_that_cannot_be_written_is_refused_before_the_corpus_is_read(option, fails, tmp_path):
    (tmp_path / "file").touch()
    assert "a folder that can be written" in fails("check missing.tsv", option, tmp_path / "file" / "new" / "new")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.tsv", "--source", "b"),
        ("--source", "a"),
        ("a", "--prepared", "b"),
        ("a.tsv", "--repaired", "."),
        ("a", "--valid", "b", "c"),
    ],
)
def test_other_combinations_of_options_are_refused(check, arguments):
    assert check(*arguments)[0] == 2


@pytest.mark.long
def test_a_run_is_checked_with_its_corpus_and_its_model(check, run_folder, tmp_path):
    code, out = check(run_folder, "--json")
    assert code == FOUND
    recipe = run_folder / "recipe.json"
    assert find_recipe(str(recipe)) == read_recipe(run_folder)
    remedies = [finding["remedy"] for finding in json.loads(out)]
    assert any(f"nmt train {recipe} --corpus sample --run NEW" in remedy for remedy in remedies), remedies
