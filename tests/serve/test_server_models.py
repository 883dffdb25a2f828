"""Which models and versions the embedded server serves, and how they change under requests; no TensorFlow here."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import pytest

from serve.models.model_config import ALL, Latest, ModelConfig, Specific, model_configs, models_in, read_model_configs
from serve.models.repository import Repository, kept_up_to_date
from serve.models.status import Code, StatusError
from serve.models.versions import State


class Loaded:
    """Stands in for a servable: remembers where it came from and whether it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_closed = False

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


def load(folder: Path) -> Loaded:
    """A servable of a version that has its file; another fails as TensorFlow's loader does."""
    if not (folder / "saved_model.pb").exists():
        raise StatusError(Code.NOT_FOUND, f"no saved_model.pb in {folder}")
    return Loaded(folder)


def publish(folder: Path, *versions: int) -> None:
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_bytes(b"graph")


def serving(folder: Path, policy: Latest | Specific | None = None, **labels: int) -> Repository:
    """A repository of one model, ``spa``, whose versions lie in ``folder``."""
    config = ModelConfig("spa", folder, policy or Latest(), labels)
    return Repository(lambda: [config], load)


def states(repository: Repository, name: str = "spa") -> dict[int, State]:
    return {status.version: status.state for status in repository.status(name)}


# Policies


@pytest.mark.parametrize(
    ("policy", "available"),
    [
        (Latest(), [7]),
        (Latest(2), [4, 7]),
        (Latest(9), [2, 4, 7]),
        (ALL, [2, 4, 7]),
        (Specific(frozenset({2, 4, 5})), [2, 4]),
    ],
)
def test_a_policy_says_which_of_the_versions_on_disk_are_served(tmp_path, policy, available):
    publish(tmp_path, 2, 4, 7)
    repository = serving(tmp_path, policy)
    repository.start()
    assert repository.available() == [("spa", version) for version in available]
    with repository.using("spa") as newest, repository.using("spa", available[0]) as oldest:
        assert newest.version == available[-1]
        assert oldest.version == available[0]


def test_every_child_of_a_folder_is_a_model_and_one_that_comes_later_is_found_too(tmp_path):
    publish(tmp_path / "spa", 1)
    repository = Repository(lambda: models_in(tmp_path), load)
    repository.start()
    publish(tmp_path / "deu", 5)
    repository.poll()
    assert repository.available() == [("deu", 5), ("spa", 1)]
    shutil.rmtree(tmp_path / "spa")
    repository.poll()
    assert repository.available() == [("deu", 5)]
    assert states(repository) == {1: State.END}


# Coming and going


def test_a_new_version_is_there_before_the_old_one_goes(tmp_path):
    publish(tmp_path, 1)
    loads = []

    def watchful_load(folder: Path) -> Loaded:
        loads.append((int(folder.name), repository.available()))
        return load(folder)

    config = ModelConfig("spa", tmp_path)
    repository = Repository(lambda: [config], watchful_load)
    repository.start()
    publish(tmp_path, 2)
    repository.poll()
    assert loads == [(1, []), (2, [("spa", 1)])]
    assert repository.available() == [("spa", 2)]
    assert states(repository) == {2: State.AVAILABLE, 1: State.END}
    with (
        pytest.raises(StatusError, match=r"Servable not found for request: Specific\(spa, 1\)"),
        repository.using("spa", 1),
    ):
        pass


def test_a_request_under_way_ends_on_the_version_it_began_with(tmp_path):
    publish(tmp_path, 1)
    repository = serving(tmp_path)
    repository.start()
    with contextlib.ExitStack() as requests:
        first = requests.enter_context(repository.using("spa"))
        second = requests.enter_context(repository.using("spa"))
        publish(tmp_path, 2)
        repository.poll()
        with repository.using("spa") as later:
            assert later.version == 2
        assert first is second
        assert first.version == 1
        assert not first.servable.is_closed
        assert states(repository) == {2: State.AVAILABLE, 1: State.UNLOADING}
    assert first.servable.is_closed
    assert states(repository) == {2: State.AVAILABLE, 1: State.END}


def test_a_version_that_fails_leaves_the_old_one_and_says_why(tmp_path):
    publish(tmp_path, 1)
    repository = serving(tmp_path)
    repository.start()
    (tmp_path / "2").mkdir()
    repository.poll()
    assert repository.available() == [("spa", 1)]
    broken, old = repository.status("spa")
    assert (broken.version, broken.state, broken.code) == (2, State.END, Code.NOT_FOUND)
    assert broken.message == f"no saved_model.pb in {tmp_path / '2'}"
    assert (old.version, old.state, old.code) == (1, State.AVAILABLE, Code.OK)


def test_a_version_that_failed_is_tried_again_once_its_files_change_and_not_before(tmp_path):
    attempts = []

    def counting_load(folder: Path) -> Loaded:
        attempts.append(folder.name)
        return load(folder)

    config = ModelConfig("spa", tmp_path)
    repository = Repository(lambda: [config], counting_load)
    (tmp_path / "3").mkdir()
    repository.start()
    repository.poll()
    assert attempts == ["3"]
    (tmp_path / "3" / "saved_model.pb").write_bytes(b"graph")
    repository.poll()
    assert attempts == ["3", "3"]
    assert repository.available() == [("spa", 3)]


class Stubborn:
    """Loads a version only at the attempt of this number."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.attempts = 0

    def __call__(self, folder: Path) -> Loaded:
        self.attempts += 1
        if self.attempts < self.needed:
            raise StatusError(Code.RESOURCE_EXHAUSTED, f"no memory at attempt {self.attempts}")
        return load(folder)


def test_a_version_whose_files_stay_is_tried_again_until_it_loads(tmp_path):
    publish(tmp_path, 1)
    stubborn = Stubborn(needed=9)
    repository = Repository(lambda: [ModelConfig("spa", tmp_path)], stubborn, retry_seconds=0.0)
    repository.start()
    (failed,) = repository.status("spa")
    assert (failed.state, failed.message) == (State.END, "no memory at attempt 1")
    for _ in range(10):
        repository.poll()
    assert stubborn.attempts == 9
    assert repository.available() == [("spa", 1)]


def test_the_pause_before_each_attempt_doubles_up_to_10_minutes_and_starts_again_when_files_change(
    tmp_path, monkeypatch
):
    publish(tmp_path, 1)
    now = [0.0]
    monkeypatch.setattr("serve.models.repository.time.monotonic", lambda: now[0])
    stubborn = Stubborn(needed=99)
    repository = Repository(lambda: [ModelConfig("spa", tmp_path)], stubborn, retry_seconds=60.0)
    repository.start()
    attempts = 1
    for pause in (60.0, 120.0, 240.0, 480.0, 600.0, 600.0):
        now[0] += pause - 1
        repository.poll()
        assert stubborn.attempts == attempts
        now[0] += 1
        repository.poll()
        attempts += 1
        assert stubborn.attempts == attempts
    (tmp_path / "1" / "more").write_bytes(b"changed")
    repository.poll()
    assert stubborn.attempts == attempts + 1
    now[0] += 60
    repository.poll()
    assert stubborn.attempts == attempts + 2


def test_a_model_that_fails_in_any_way_stops_no_other_and_is_tried_again_after_a_pause(tmp_path, caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("serve.models.repository.time.monotonic", lambda: now[0])
    attempts = []

    def exhausted(folder: Path) -> Loaded:
        if folder.parent.name == "a":
            attempts.append(folder)
            raise MemoryError("no room for a")
        return load(folder)

    publish(tmp_path / "a", 1)
    publish(tmp_path / "b", 1)
    repository = Repository(lambda: models_in(tmp_path), exhausted, retry_seconds=60.0)
    repository.start()
    repository.poll()
    assert repository.available() == [("b", 1)]
    (failed,) = repository.status("a")
    assert (failed.state, failed.code) == (State.END, Code.RESOURCE_EXHAUSTED)
    assert failed.message == "MemoryError: no room for a"
    assert len(attempts) == 1
    now[0] = 160.0
    repository.poll()
    assert len(attempts) == 2
    assert caplog.text.count("Model a version 1 could not be loaded: RESOURCE_EXHAUSTED: MemoryError") == 2


def test_a_version_that_cannot_be_closed_stops_no_other(tmp_path):
    class Sticky(Loaded):
        def close(self) -> None:
            raise ZeroDivisionError("cannot close")

    for name in "ab":
        publish(tmp_path / name, 1)
    repository = Repository(lambda: models_in(tmp_path), Sticky)
    repository.start()
    for name in "ab":
        publish(tmp_path / name, 2)
    repository.poll()
    assert repository.available() == [("a", 2), ("b", 2)]
    assert states(repository, "a") == states(repository, "b") == {2: State.AVAILABLE, 1: State.END}


def test_a_version_that_is_removed_gives_way_to_the_one_before(tmp_path):
    publish(tmp_path, 1, 2)
    repository = serving(tmp_path)
    repository.start()
    shutil.rmtree(tmp_path / "2")
    repository.poll()
    assert repository.available() == [("spa", 1)]
    shutil.rmtree(tmp_path / "1")
    repository.poll()
    assert repository.available() == []
    with pytest.raises(StatusError, match=r"Servable not found for request: Latest\(spa\)"), repository.using("spa"):
        pass


def test_what_is_loaded_stays_while_the_folder_cannot_be_read(tmp_path):
    base = tmp_path / "mounted"
    publish(base, 1)
    repository = serving(base)
    repository.start()
    base.rename(tmp_path / "away")
    repository.poll()
    assert repository.available() == [("spa", 1)]


def test_a_version_that_comes_back_is_served_again(tmp_path):
    publish(tmp_path, 1, 2)
    repository = serving(tmp_path)
    repository.start()
    (tmp_path / "2").rename(tmp_path / "aside")
    repository.poll()
    (tmp_path / "aside").rename(tmp_path / "2")
    repository.poll()
    assert repository.available() == [("spa", 2)]
    assert states(repository) == {2: State.AVAILABLE, 1: State.END}


def test_requests_from_many_threads_never_meet_a_closed_version(tmp_path):
    publish(tmp_path, 1)
    repository = serving(tmp_path)
    repository.start()
    seen, stop = set(), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            with repository.using("spa") as loaded:
                assert not loaded.servable.is_closed
                seen.add(loaded.version)

    failures = []
    threading_hook, threading.excepthook = threading.excepthook, lambda failure: failures.append(failure.exc_value)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(2, 12):
        publish(tmp_path, version)
        repository.poll()
    stop.set()
    for thread in threads:
        thread.join()
    threading.excepthook = threading_hook
    assert failures == []
    assert repository.available() == [("spa", 11)]
    assert {status.state for status in repository.status("spa")[1:]} == {State.END}


def test_memory_is_given_back_once_a_version_is_closed(tmp_path, monkeypatch):
    publish(tmp_path, 1)
    repository = serving(tmp_path)
    repository.start()
    with repository.using("spa") as loaded:
        old = loaded.servable
    was_closed = []
    monkeypatch.setattr("serve.models.repository._return_memory", lambda: was_closed.append(old.is_closed))
    publish(tmp_path, 2)
    repository.poll()
    assert was_closed == [True]


def test_polling_goes_on_after_a_poll_that_failed(tmp_path, caplog):
    publish(tmp_path, 1)
    config = ModelConfig("spa", tmp_path)
    polls, recovered = [], threading.Event()

    def configs() -> list[ModelConfig]:
        polls.append(1)
        if len(polls) == 3:
            raise ZeroDivisionError("a defect")
        if len(polls) == 5:
            recovered.set()
        return [config]

    repository = Repository(configs, load)
    repository.start()
    with kept_up_to_date(repository, seconds=0.01):
        assert recovered.wait(10)
    assert "Polling failed" in caplog.text


def test_polling_every_0_seconds_polls_never(tmp_path):
    publish(tmp_path, 1)
    repository = serving(tmp_path)
    repository.start()
    publish(tmp_path, 2)
    with kept_up_to_date(repository, seconds=0):
        assert repository.available() == [("spa", 1)]


# Labels


def test_a_label_answers_with_the_version_it_points_to(tmp_path):
    publish(tmp_path, 1, 2)
    repository = serving(tmp_path, ALL, stable=1, canary=2)
    repository.start()
    with repository.using("spa", label="stable") as stable, repository.using("spa", label="canary") as canary:
        assert (stable.version, canary.version) == (1, 2)
    with (
        pytest.raises(StatusError, match="Unrecognized servable version label: old"),
        repository.using("spa", label="old"),
    ):
        pass


def test_a_label_may_only_point_to_a_loaded_version(tmp_path):
    publish(tmp_path, 1, 2)
    reason = "Request to assign label to version 1 of model spa, which is not currently available for inference"
    with pytest.raises(StatusError, match=reason) as caught:
        serving(tmp_path, stable=1).start()
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_a_reload_with_an_impossible_label_changes_nothing(tmp_path):
    publish(tmp_path, 1, 2)
    repository = serving(tmp_path, ALL, stable=1)
    repository.start()
    with pytest.raises(StatusError, match="version 3 of model spa"):
        repository.reload([ModelConfig("spa", tmp_path, Latest(), {"stable": 3})])
    repository.poll()
    assert repository.available() == [("spa", 1), ("spa", 2)]
    with repository.using("spa", label="stable") as stable:
        assert stable.version == 1


def test_a_reload_serves_other_models_and_moves_labels(tmp_path):
    publish(tmp_path / "spa", 1, 2)
    publish(tmp_path / "deu", 5)
    repository = serving(tmp_path / "spa", ALL, stable=1)
    repository.start()
    repository.reload([ModelConfig("spa", tmp_path / "spa", ALL, {"stable": 2}), ModelConfig("deu", tmp_path / "deu")])
    assert repository.available() == [("deu", 5), ("spa", 1), ("spa", 2)]
    with repository.using("spa", label="stable") as stable:
        assert stable.version == 2
    repository.reload([ModelConfig("deu", tmp_path / "deu")])
    repository.poll()
    assert repository.available() == [("deu", 5)]


def test_a_reload_names_the_models_that_did_not_come(tmp_path):
    publish(tmp_path / "spa", 1)
    repository = serving(tmp_path / "spa")
    repository.start()
    with pytest.raises(StatusError, match=r"Some models did not become available: \{deu\}") as caught:
        repository.reload([ModelConfig("spa", tmp_path / "spa"), ModelConfig("deu", tmp_path / "nowhere")])
    assert caught.value.code is Code.UNKNOWN
    assert repository.available() == [("spa", 1)]


# The file that lists models


def config_file(folder: Path, text: str) -> Path:
    path = folder / "models.config"
    path.write_text(text, "utf-8")
    return path


def test_a_file_in_tensorflow_servings_format_lists_models_policies_and_labels(tmp_path):
    path = config_file(
        tmp_path,
        """
        # Three models.
        model_config_list {
          config { name: "spa" base_path: "/models/spa" model_platform: "tensorflow" }
          config {
            name: "deu" base_path: "/models/deu" model_platform: "tensorflow"
            model_version_policy { latest { num_versions: 2 } }
            version_labels { key: "stable" value: 3 }
            version_labels { key: "canary" value: 4 }
          }
          config { name: "fra" base_path: "/models/fra" model_platform: "tensorflow" model_version_policy { all {} } }
          config {
            name: "ita" base_path: "/models/ita" model_platform: "tensorflow"
            model_version_policy { specific { versions: 3 versions: 5 } }
          }
        }
        """,
    )
    assert read_model_configs(path) == [
        ModelConfig("spa", Path("/models/spa"), Latest(), {}),
        ModelConfig("deu", Path("/models/deu"), Latest(2), {"stable": 3, "canary": 4}),
        ModelConfig("fra", Path("/models/fra"), ALL, {}),
        ModelConfig("ita", Path("/models/ita"), Specific(frozenset({3, 5})), {}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_config_list { conf {} }", r"models.config:1:21 : .*: expected a ModelServerConfig"),
        ("", "Only ModelConfigList is currently supported"),
        (
            'model_config_list { config { base_path: "/m" model_platform: "tensorflow" } }',
            "Illegal to list a model without a name",
        ),
        (
            'model_config_list { config { name: "a" base_path: "models/a" model_platform: "tensorflow" } }',
            r"Expected model a to have an absolute path or URI; got base_path\(\)=models/a",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" } }',
            "Model a requests unsupported platform ''",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "caffe" } }',
            "Model a requests unsupported platform 'caffe'",
        ),
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow" } '
            'config { name: "a" base_path: "/b" model_platform: "tensorflow" } }',
            "Illegal to list model a multiple times in config list",
        ),
    ],
)
def test_a_file_that_cannot_be_served_is_refused_with_the_place_or_the_reason(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_model_configs(config_file(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.config: expected a text file with a ModelServerConfig"):
        read_model_configs(tmp_path / "nowhere.config")


def test_a_model_may_name_its_platform_in_the_old_way():
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    config = ModelServerConfig()
    config.model_config_list.config.add(name="a", base_path="/a", model_type=1)
    assert [model.name for model in model_configs(config)] == ["a"]
