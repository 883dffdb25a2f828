"""The folder of a model: how exports add versions for servers, and how old versions are deleted."""

import json
import os
import re
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, make_versions, save_little

from nmt_keras.config import ExportConfig, MicroBatchingConfig
from nmt_keras.export import export, load_exported, prune, read_manifest, versions
from nmt_keras.export.versions import publish
from nmt_keras.io.files import ABANDONED_AFTER


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A model's folder. Exports write only small files there, which is fast."""
    monkeypatch.setattr(tf.saved_model, "save", save_little)
    return tmp_path / "model"


def children(folder):
    return sorted(child.name for child in folder.iterdir())


# Writing


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ({}, "expected format 2 or 3, received None"),
        ({"format": 1}, "expected format 2 or 3, received 1"),
        ({"format": 3}, "expected the field 'search', received none."),
        ({"format": 3, "search": {"beam": 5}}, "search.beam: expected one of beam_size, "),
        (
            {"format": 2, "search": {"temperature": 1.0}},
            "search.temperature: expected the former default of this removed field, 0.0",
        ),
    ],
)
def test_an_export_of_another_format_is_refused(tmp_path, manifest, told):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "assets.extra" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=rf"manifest\.json: {re.escape(told)}"):
        load_exported(tmp_path)


def test_the_manifest_contains_facts_options_and_library_versions(translator, folder):
    config = ExportConfig(half_precision=True, micro_batching=MicroBatchingConfig(max_batch_size=3))
    found = read_manifest(export(translator, folder, {"command": "«eña»"}, config))
    assert (found["format"], found["command"]) == (3, "«eña»")
    assert found["export"] == json.loads(json.dumps(asdict(config)))
    assert found["search"] == asdict(translator.search)
    assert found["libraries"]["tensorflow"] == tf.__version__
    assert read_manifest(folder) == {}


@pytest.mark.parametrize(("owner", "name"), [(tf.saved_model, "save"), (os, "fsync"), (os, "rename")])
def test_an_interrupted_export_leaves_nothing(translator, folder, monkeypatch, owner, name):
    export(translator, folder)

    def interrupt(*arguments, **options):
        assert list(versions(folder)) == [1]
        if name == "save":
            save_little(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(translator, folder)
    assert children(folder) == ["1"]


def test_an_export_that_fails_its_check_leaves_the_versions_as_they_are(translator, folder):
    export(translator, folder)

    def check(written):
        assert (written / "assets.extra" / "manifest.json").exists()
        raise ValueError("unfit")

    with pytest.raises(ValueError, match="unfit"):
        export(translator, folder, max_to_keep=1, check=check)
    assert children(folder) == ["1"]


def test_a_full_disk_during_an_export_is_one_line_and_leaves_nothing(translator, folder):
    """A limit on the size of files simulates a full disk: further writes fail."""
    export(translator, folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    expected = (
        rf"^{folder}: could not be written; File too large\. [\d,]+ MiB are free\. No version was written\. Make room"
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
        with pytest.raises(OSError, match=expected):
            export(translator, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert children(folder) == ["1"]


def test_exports_at_the_same_time_take_different_numbers(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        names = [path.name for path in threads.map(lambda _: publish(tmp_path, lambda folder: None), range(4))]
    assert sorted(names) == ["1", "2", "3", "4"]


def test_a_version_is_named_below_the_given_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert publish(Path("models"), lambda folder: None) == Path("models/1")


def test_the_number_of_a_version_that_was_set_aside_is_not_given_again(tmp_path):
    for number in (1, 2):
        publish(tmp_path, lambda folder: None)
        (tmp_path / str(number)).rename(tmp_path / f"rejected-{number}")
    assert publish(tmp_path, lambda folder: None).name == "3"


def test_the_next_number_follows_the_largest_one(translator, folder):
    make_versions(folder, "9", "0010", "3")
    (folder / "0041").touch()  # not a version, but its number is taken
    assert versions(folder) == {3: folder / "3", 9: folder / "9", 10: folder / "0010"}
    export(translator, folder)
    assert list(versions(folder)) == [3, 9, 10, 42]
    assert (folder / "42").stat().st_mode & 0o777 == 0o755  # a server that runs as another user can read it


# The card


def test_the_card_names_recipe_corpus_scores_and_languages(translator, folder):
    manifest = {
        "recipe": asdict(TINY_RECIPE),
        "corpus": {"name": "spa-eng", "pairs": {"train": 112047}, "sha256": {"train": "b9f487d2"}},
        "scores": {"test": {"bleu": 45.26, "chrf": 60.15, "search": "greedy", "signature": "nrefs:1|case:mixed"}},
        "languages": {"source": "es", "target": "en"},
        "command": "nmt train rnnsearch-small --minutes 60",
    }
    config = ExportConfig(data_licence="Tatoeba, CC BY 2.0", limitations=("Dates are wrong.",))
    text = (export(translator, folder, manifest, config) / "assets.extra" / "README.md").read_text("utf-8")
    assert "\n- Dates are wrong.\n\n## " in text
    assert "Licence of the data: Tatoeba, CC BY 2.0." in text
    assert "    nmt train rnnsearch-small --minutes 60\n" in text
    for fact in ("from es to en", "tiny", "bidirectional gru", "spa-eng", "112,047", "b9f487d2", "45.26", "60.15"):
        assert fact in text
    assert "nrefs:1\\|case:mixed |" in text  # a | would end the cell of the table


# Old versions


def test_the_newest_versions_are_kept_and_so_is_what_is_no_version(tmp_path):
    make_versions(tmp_path, "1", "0002", "9", "10", "11", "notes", "-1", "1.5")
    (tmp_path / "0").touch()
    (tmp_path / "2023").mkdir()  # a folder of a user
    prune(tmp_path, max_to_keep=2)
    assert children(tmp_path) == sorted(["10", "11", "notes", "-1", "1.5", "0", "2023"])


def test_leftovers_of_deletions_go_and_those_of_exports_if_they_have_not_changed_for_an_hour(tmp_path):
    deleted, old, new, slow = (
        f"{name}-{digit * 32}" for name, digit in zip(["deleted-1", *["partial"] * 3], "0123", strict=True)
    )
    of_users = ["deleted-scenes", "deleted-1-abc", "partial-old", f"partial-{'4' * 31}"]
    make_versions(tmp_path, "2", deleted, old, new, slow, *of_users)
    now = time.time()
    for name in (old, slow, *of_users):
        for path in (tmp_path / name, *(tmp_path / name).rglob("*")):
            os.utime(path, (now, now - 2 * ABANDONED_AFTER))
    os.utime(tmp_path / slow / "variables", (now, now - 0.9 * ABANDONED_AFTER))
    prune(tmp_path, max_to_keep=1)
    assert children(tmp_path) == sorted(["2", new, slow, *of_users])


def test_at_least_one_version_is_kept(translator, folder):
    make_versions(folder, "1")
    for delete in (prune, lambda folder, max_to_keep: export(translator, folder, max_to_keep=max_to_keep)):
        with pytest.raises(ValueError, match=r"max_to_keep.*0"):
            delete(folder, max_to_keep=0)
    assert children(folder) == ["1"]
