"""``nmt check``: exit codes, formats, and the files of any toolkit."""

import json

import pytest
from tiny import write_sides

from benchmarks.check import shifted
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.recipes import find_recipe
from nmt_keras.runs.directory import read_recipe

PAIRS = sample_pairs()[:600]


@pytest.fixture
def findings(nmt):
    """Runs the command, which must have findings. Returns its standard output."""
    return lambda *arguments: nmt("check", *arguments, code=3).out


def test_a_clean_corpus_exits_with_0_and_a_faulty_one_with_3(findings, nmt, fails, tmp_path):
    nmt("check", *write_sides(tmp_path / "corpus", PAIRS))
    out = findings(*write_sides(tmp_path / "corpus", shifted(PAIRS, 0.5, 1)), "--json")
    assert json.loads(out)[0]["name"] == "shifted"
    source, target = write_sides(tmp_path / "corpus", PAIRS)
    assert "swapped" in findings(target, source, "--source-language", "es", "--target-language", "en")
    assert "swapped" in findings(target.rename(tmp_path / "corpus.spa"), source.rename(tmp_path / "corpus.eng"))
    fails("check", tmp_path / "missing.tsv")


def test_the_report_has_pictures_and_the_repaired_corpus_has_no_findings(findings, nmt, tmp_path):
    pairs = [pair._replace(source=f"&amp; {pair.source}", target=f"&amp; {pair.target}") for pair in PAIRS]
    files = *write_sides(tmp_path / "corpus", shifted(pairs, 0.0, 2)), "--target-language", "en"
    assert "--corpus NEW.tsv --target-language en." in findings(
        *files, "--to", tmp_path / "report", "--repaired", tmp_path / "new.tsv"
    )
    pictures = [path.name for path in sorted((tmp_path / "report").glob("*.svg"))]
    assert pictures == ["1-shifted.svg", "2-entities.svg", "3-entities.svg"]  # of sources and targets
    assert all(f"({name})" in (tmp_path / "report" / "report.md").read_text("utf-8") for name in pictures)
    assert nmt("check --source-column 0 --target-column 1", tmp_path / "new.tsv").out == "No findings.\n"


def test_files_with_different_numbers_of_lines_and_translations_are_checked(findings, nmt, fails, tmp_path):
    source, target = write_sides(tmp_path / "corpus", PAIRS)
    target.write_text("".join(f"{pair.target}\n" for pair in PAIRS[5:]), encoding="utf-8")
    assert {"shifted", "uneven-files"} <= {each["name"] for each in json.loads(findings(source, target, "--json"))}
    same = ("--source", source, "--reference", target, "--output", target)
    findings(*same)  # the source has more lines
    assert "--bleu-tokenizer" in fails("check --source a --reference b --output c --bleu-tokenizer d")  # before reading
    write_sides(tmp_path / "corpus", PAIRS)
    nmt("check --target-language ja --bleu-tokenizer char", *same)


@pytest.mark.parametrize(("files", "place"), [({"a.tsv": 2}, "line 602: "), ({"a.tsv": 1, "b.tsv": 1}, "b.tsv:2: ")])
def test_a_quoted_pair_has_the_line_of_its_file(files, place, findings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, copies in files.items():
        rows = [f"{pair.source}\t{pair.target}\n" for pair in PAIRS] * copies
        (tmp_path / name).write_text("".join(["Spanish\tEnglish\n", *rows]), encoding="utf-8")
    (found,) = (each for each in json.loads(findings(*files, "--tables", "--json")) if each["name"] == "duplicates")
    assert found["evidence"][0].startswith(place)


def test_ill_held_out_files_are_findings(findings, tmp_path):
    held = write_sides(tmp_path / "valid", [*PAIRS[:50], ("", "Nothing.")])
    held[1].write_text(held[1].read_text("utf-8") + "Yes.\n", "utf-8")
    out = findings(*write_sides(tmp_path / "corpus", PAIRS), "--valid", *held, "--json")
    assert {"malformed", "uneven-files"} <= {each["name"] for each in json.loads(out)}


@pytest.mark.parametrize("option", ["--to", "--repaired"])
def test_a_file_that_cannot_be_written_is_refused_before_the_corpus_is_read(option, fails, tmp_path):
    (tmp_path / "file").touch()
    assert "a folder that can be written" in fails("check missing.tsv", option, tmp_path / "file" / "new" / "new")


@pytest.mark.long
def test_a_run_is_checked_with_its_corpus_and_its_model(findings, run_folder):
    remedies = [finding["remedy"] for finding in json.loads(findings(run_folder, "--json"))]
    recipe = run_folder / "recipe.json"
    assert find_recipe(str(recipe)) == read_recipe(run_folder)
    assert any(f"nmt train {recipe} --corpus sample --run NEW" in remedy for remedy in remedies), remedies
