"""A model's folder: what an export writes, when a server sees it, and how old versions go."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import tensorflow as tf
from tiny import TINY_RECIPE

from nmt_keras.config import ExportConfig, MicroBatchingConfig
from nmt_keras.export import CONTRACT, export, load_exported, prune, read_manifest, versions

HOUR = 3600


def write_little(module, folder, signatures):
    """Stands in for ``tf.saved_model.save`` where its result is not run."""
    (Path(folder) / "variables").mkdir()
    (Path(folder) / "variables" / "variables.index").write_text("weights")
    (Path(folder) / "saved_model.pb").write_text("graph")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder of a model whose exports write little and hence are fast."""
    monkeypatch.setattr(tf.saved_model, "save", write_little)
    return tmp_path / "model"


def make_versions(folder, *names):
    """Versions that hold a file and a folder each."""
    for name in names:
        (folder / name / "variables").mkdir(parents=True)
        (folder / name / "saved_model.pb").write_text(name)


def children(folder):
    return sorted(child.name for child in folder.iterdir())


# Writing


def test_the_manifest_lies_beside_the_model_with_the_versions_of_the_libraries(translator, folder):
    found = read_manifest(export(translator, folder, {"corpus": "«eña»"}))
    assert found["corpus"] == "«eña»"
    assert found["libraries"]["tensorflow"] == tf.__version__
    assert json.loads((folder / "1" / "assets.extra" / "manifest.json").read_text("utf-8")) == found


@pytest.mark.parametrize("found", [None, 2])
def test_an_export_of_another_format_is_refused(tmp_path, found):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "assets.extra" / "manifest.json").write_text(json.dumps({} if found is None else {"format": found}))
    with pytest.raises(ValueError, match=rf"manifest\.json: expected format 1, received {found}\. Export"):
        load_exported(tmp_path)


def test_the_manifest_says_how_the_model_was_exported(translator, folder):
    config = ExportConfig(half_precision=True, micro_batching=MicroBatchingConfig(max_batch_size=3))
    assert read_manifest(export(translator, folder, config=config))["export"] == asdict(config)


def test_a_version_without_manifest_has_an_empty_one(tmp_path):
    assert read_manifest(tmp_path) == {}


@pytest.mark.parametrize("where", ["tf.saved_model.save", "os.fsync", "os.rename"])
def test_an_interrupted_export_leaves_nothing(translator, folder, monkeypatch, where):
    export(translator, folder)

    def interrupt(*arguments, **options):
        assert sorted(child.name for child in folder.iterdir() if child.name.isdecimal()) == ["1"]
        if where == "tf.saved_model.save":
            write_little(*arguments, **options)
        raise KeyboardInterrupt

    owner = {"tf.saved_model.save": tf.saved_model, "os.fsync": os, "os.rename": os}[where]
    monkeypatch.setattr(owner, where.rsplit(".", 1)[1], interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(translator, folder)
    assert children(folder) == ["1"]


def test_everything_is_on_the_disk_before_the_version_has_its_number(translator, folder, monkeypatch):
    flushed, fsync, rename = set(), os.fsync, os.rename

    def record(descriptor):
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def check(partial, final):
        written = [Path(partial), *Path(partial).rglob("*")]
        extra = {path.name for path in (Path(partial) / "assets.extra").iterdir()}
        assert extra == {"manifest.json", "README.md", "tf_serving_warmup_requests"}
        assert {path.stat().st_ino for path in written} <= flushed
        assert not Path(partial).name.isdecimal()
        assert Path(partial).parent == Path(final).parent
        rename(partial, final)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "rename", check)
    export(translator, folder)
    assert versions(folder) == [1]
    assert folder.stat().st_ino in flushed


def test_a_version_that_appears_meanwhile_is_not_overwritten(translator, folder, monkeypatch):
    rename = os.rename

    def be_late(partial, final):
        if not (folder / "1").exists():
            (folder / "1").mkdir()
            (folder / "1" / "saved_model.pb").write_text("another's")
        rename(partial, final)

    monkeypatch.setattr(os, "rename", be_late)
    assert export(translator, folder).name == "2"
    assert (folder / "1" / "saved_model.pb").read_text() == "another's"


def test_a_number_taken_by_a_file_or_written_with_zeros_is_passed_over(translator, folder):
    folder.mkdir()
    (folder / "1").write_text("a stray file")
    assert export(translator, folder).name == "2"
    (folder / "0041").mkdir()
    assert export(translator, folder).name == "42"


def test_versions_count_up_past_nine(translator, folder):
    make_versions(folder, "9", "10", "3")
    assert versions(folder) == [3, 9, 10]
    assert export(translator, folder).name == "11"


def test_a_server_of_another_user_may_read_a_version(translator, folder):
    assert export(translator, folder).stat().st_mode & 0o777 == 0o755


def test_a_folder_that_does_not_exist_has_no_versions(tmp_path):
    assert versions(tmp_path / "nowhere") == []


# The card


def card(translator, folder, manifest, config=None):
    version = export(translator, folder, manifest, config or ExportConfig())
    return (version / "assets.extra" / "README.md").read_text("utf-8")


def test_the_card_names_recipe_corpus_scores_and_languages(translator, folder):
    manifest = {
        "recipe": asdict(TINY_RECIPE),
        "corpus": {"name": "spa-eng", "pairs": {"train": 112047}, "sha256": {"train": "b9f487d2"}},
        "scores": {"test": {"bleu": 45.26, "chrf": 60.15, "search": "greedy", "signature": "nrefs:1|case:mixed"}},
        "languages": {"source": "es", "target": "en"},
    }
    text = card(translator, folder, manifest)
    for fact in ("from es to en", "tiny: bidirectional gru encoder of 1 x 7 units, additive attention", "spa-eng"):
        assert fact in text
    assert "| train | 112,047 | `b9f487d2` |" in text
    assert "| test | 45.26 | 60.15 |  |  | greedy | nrefs:1\\|case:mixed |" in text


def test_the_card_of_a_model_of_which_nothing_is_known_says_so(translator, folder):
    text = card(translator, folder, None)
    assert "Not recorded." in text
    assert "Not evaluated." in text


def test_the_card_says_what_every_output_is(translator, folder):
    text = card(translator, folder, None)
    for signature in CONTRACT.values():
        for name, output in signature.outputs.items():
            assert f"| `{name}` | {output.dtype} [{','.join(output.axes)}] |" in text
    assert "/v1/models/model:predict" in text


def test_the_card_gives_the_limits_of_this_model(translator, folder):
    assert "up to 30 tokens" in card(translator, folder, None)
    config = ExportConfig(half_precision=True, micro_batching=MicroBatchingConfig(max_batch_size=7, queue=5))
    text = card(translator, folder, None, config)
    assert "stored in float16" in text
    assert "up to 7 sentences" in text


def test_a_table_cell_cannot_break_its_table(translator, folder):
    text = card(translator, folder, {"scores": {"test": {"signature": "a|b|c"}}})
    assert "a\\|b\\|c |" in text


# Options


@pytest.mark.parametrize(
    ("field", "value"), [("max_batch_size", 0), ("threads", 0), ("queue", -1), ("queue", 1.5), ("wait_ms", -0.1)]
)
def test_micro_batching_that_cannot_be_meant_is_refused(field, value):
    with pytest.raises(ValueError, match=rf"MicroBatchingConfig\.{field}: expected .*, received {value}\."):
        MicroBatchingConfig(**{field: value})


# Old versions


def test_the_newest_versions_stay_and_older_ones_go(tmp_path):
    make_versions(tmp_path, "1", "2", "9", "10", "11")
    assert prune(tmp_path, max_to_keep=2) == [tmp_path / "1", tmp_path / "2", tmp_path / "9"]
    assert children(tmp_path) == ["10", "11"]


def test_what_is_no_version_stays(tmp_path):
    make_versions(tmp_path, "1", "2", "notes", "-1", "1.5")
    (tmp_path / "0").write_text("a stray file")
    prune(tmp_path, max_to_keep=1)
    assert children(tmp_path) == sorted(["2", "notes", "-1", "1.5", "0"])


def test_a_version_that_a_label_points_to_stays(tmp_path):
    make_versions(tmp_path, "1", "2", "3", "4")
    assert prune(tmp_path, max_to_keep=1, labelled=[2]) == [tmp_path / "1", tmp_path / "3"]
    assert children(tmp_path) == ["2", "4"]


def test_two_spellings_of_a_number_are_one_version(tmp_path):
    make_versions(tmp_path, "007", "7", "8")
    prune(tmp_path, max_to_keep=2)
    assert children(tmp_path) == ["007", "7", "8"]
    prune(tmp_path, max_to_keep=1)
    assert children(tmp_path) == ["8"]


def test_a_version_has_no_number_any_more_when_its_files_are_deleted(tmp_path, monkeypatch):
    make_versions(tmp_path, "1", "2")
    seen = []
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: seen.append(Path(path)))
    prune(tmp_path, max_to_keep=1)
    assert [path.name.startswith("deleted-1-") for path in seen] == [True]
    assert (seen[0] / "saved_model.pb").read_text() == "1"  # renamed whole
    assert versions(tmp_path) == [2]


def test_what_a_killed_deletion_left_goes(tmp_path):
    make_versions(tmp_path, "2", "deleted-1-abc")
    assert prune(tmp_path, max_to_keep=1) == []
    assert children(tmp_path) == ["2"]


def test_a_version_that_is_being_written_stays_until_nothing_in_it_has_changed_for_an_hour(tmp_path):
    make_versions(tmp_path, "2", "partial-old", "partial-new", "partial-slow")
    now = time.time()
    for name in ("partial-old", "partial-slow"):
        for path in (tmp_path / name, *(tmp_path / name).rglob("*")):
            os.utime(path, (now - 2 * HOUR, now - 2 * HOUR))
    os.utime(tmp_path / "partial-slow" / "variables", (now - 0.9 * HOUR, now - 0.9 * HOUR))
    prune(tmp_path, max_to_keep=1)
    assert children(tmp_path) == ["2", "partial-new", "partial-slow"]


def test_who_prunes_at_the_same_time_does_no_harm(tmp_path, monkeypatch):
    make_versions(tmp_path, "1", "2", "3")
    rename = os.rename

    def be_late(old, new):
        rename(old, new.with_name(f"{new.name}-by-another"))
        rename(old, new)

    monkeypatch.setattr(os, "rename", be_late)
    assert prune(tmp_path, max_to_keep=1) == []
    assert children(tmp_path) == ["3"]


def test_a_model_without_versions_has_nothing_to_prune(tmp_path):
    assert prune(tmp_path / "nowhere", max_to_keep=3) == []


@pytest.mark.parametrize("max_to_keep", [0, -1])
def test_at_least_one_version_stays(translator, folder, max_to_keep):
    make_versions(folder, "1")
    with pytest.raises(ValueError, match=f"max_to_keep: expected at least 1 version to stay.*received {max_to_keep}"):
        prune(folder, max_to_keep)
    with pytest.raises(ValueError, match=f"max_to_keep: expected at least 1 version to stay.*received {max_to_keep}"):
        export(translator, folder, max_to_keep=max_to_keep)
    assert children(folder) == ["1"]


def test_an_export_prunes_once_it_is_there(translator, folder):
    make_versions(folder, "1", "2", "3")
    assert export(translator, folder, max_to_keep=2).name == "4"
    assert children(folder) == ["3", "4"]
    export(translator, folder, max_to_keep=1, labelled=[3])
    assert children(folder) == ["3", "5"]
    export(translator, folder)
    assert children(folder) == ["3", "5", "6"]
