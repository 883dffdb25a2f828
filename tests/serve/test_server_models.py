"""Models and versions of the embedded server, and their changes during requests, without TensorFlow."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt_keras.io.files import version_folders
from serve.models.model_config import (
    ALL,
    Latest,
    ServedModel,
    Specific,
    models_in,
    read_model_configs,
)
from serve.models.repository import Repository, kept_up_to_date
from serve.models.status import Code, State, StatusError


class Loaded:
    """A servable that records whether it is closed."""

    is_closed = False

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


def load(folder: Path) -> Loaded:
    """Loads a version. Raises the error of TensorFlow's loader if the file of the model is missing."""
    if not (folder / "saved_model.pb").exists():
        raise StatusError(Code.NOT_FOUND, f"no saved_model.pb in {folder}")
    return Loaded()


def publish(folder: Path, *versions: int) -> None:
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_bytes(b"graph")


def started(folder: Path, *configs: ServedModel, load: Callable[[Path], Loaded] = load) -> Repository:
    """Starts a repository of the models in ``configs``, by default of those in ``folder``."""
    repository = Repository(lambda: list(configs) or models_in(folder), load)
    repository.start()
    return repository


def states(repository: Repository, name: str = "spa") -> dict[int, State]:
    return {status.version: status.state for status in repository.status(name)}


def answering(repository: Repository, *model: object) -> int:
    """Returns the version that answers a request for a model, or for one of its versions or labels."""
    with repository.using(*model) as loaded:
        return loaded.version


@pytest.fixture
def spa(tmp_path) -> Path:
    """The folder of the model ``spa`` with version 1."""
    publish(tmp_path / "spa", 1)
    return tmp_path / "spa"


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The clock of the repository, in seconds. Tests may set it."""
    now = [100.0]
    monkeypatch.setattr("serve.models.repository.time.monotonic", lambda: now[0])
    return now


# Folders and policies


def test_versions_are_the_folders_whose_names_are_numbers(tmp_path):
    versions = ("spa/1", "spa/0010", "spa/tmp-11", "spa/9.5", "spa/-3", "spa/²")
    for folder in (*versions, "empty", "draft/next", ".trash/1", "lost+found"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "spa/12").write_text("a file")
    (tmp_path / "file").write_text("a file")
    assert version_folders(tmp_path / "spa") == {1: tmp_path / "spa/1", 10: tmp_path / "spa/0010"}
    assert [model.name for model in models_in(tmp_path)] == ["draft", "empty", "spa"]


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
def test_a_policy_chooses_the_versions_that_are_served(tmp_path, policy, available):
    publish(tmp_path, 2, 4, 7)
    repository = started(tmp_path, ServedModel("spa", tmp_path, policy))
    assert repository.available() == [("spa", version) for version in available]
    assert answering(repository, "spa") == available[-1]
    assert answering(repository, "spa", available[0]) == available[0]


def test_models_that_appear_and_disappear_are_noticed(spa):
    repository = started(spa.parent)
    publish(spa.parent / "deu", 5)
    repository.poll()
    assert repository.available() == [("deu", 5), ("spa", 1)]
    shutil.rmtree(spa)
    repository.poll()
    assert repository.available() == [("deu", 5)]
    assert states(repository) == {1: State.END}


def test_a_folder_that_is_not_utf_8_has_a_name_that_answers_can_contain(tmp_path):
    (tmp_path / "caf\udce9").mkdir()
    assert [model.name for model in models_in(tmp_path)] == ["caf\ufffd"]


# New and removed versions


def test_a_new_version_is_loaded_before_the_old_one_is_unloaded(spa):
    loads = []

    def watchful_load(folder: Path) -> Loaded:
        loads.append((int(folder.name), repository.available()))
        return load(folder)

    repository = Repository(lambda: models_in(spa.parent), watchful_load)
    repository.start()
    publish(spa, 2)
    repository.poll()
    assert loads == [(1, []), (2, [("spa", 1)])]
    assert states(repository) == {2: State.AVAILABLE, 1: State.END}
    with pytest.raises(StatusError, match=r"Servable not found for request: Specific\(spa, 1\)"):
        answering(repository, "spa", 1)


def test_a_request_under_way_ends_on_the_version_it_began_with(spa):
    repository = started(spa.parent)
    with repository.using("spa") as first:
        with repository.using("spa"):
            publish(spa, 2)
            repository.poll()
            assert answering(repository, "spa") == 2
        assert (first.version, first.servable.is_closed) == (1, False)
        assert states(repository) == {2: State.AVAILABLE, 1: State.UNLOADING}
    assert first.servable.is_closed
    assert states(repository) == {2: State.AVAILABLE, 1: State.END}


def test_requests_of_a_former_version_do_not_change_the_state_of_another_with_its_number(spa):
    repository = started(spa.parent)
    publish(spa, 2)
    repository.poll()
    with repository.using("spa", 2):
        shutil.rmtree(spa / "2")
        repository.poll()
        (spa / "2").mkdir()
        repository.poll()
    broken, old = repository.status("spa")
    assert (broken.version, broken.state, broken.code) == (2, State.END, Code.NOT_FOUND)
    assert old.state is State.AVAILABLE


def test_loaded_versions_stay_while_the_folder_of_all_models_is_empty(spa, caplog):
    """If a volume is not mounted, its mount point is an empty folder."""
    repository = started(spa.parent)
    spa.rename(spa.parent / ".away")
    for _ in range(3):
        repository.poll()
    assert repository.available() == [("spa", 1)]
    assert "Is its volume mounted?" in caplog.text
    (spa.parent / ".away").rename(spa)
    publish(spa, 2)
    repository.poll()
    assert repository.available() == [("spa", 2)]


# Versions that fail


def test_a_version_that_fails_leaves_the_old_one_and_has_its_reason_until_its_files_change(spa):
    repository = started(spa.parent)
    (spa / "2").mkdir()
    repository.poll()
    broken, old = repository.status("spa")
    assert (broken.version, broken.state, broken.code) == (2, State.END, Code.NOT_FOUND)
    assert broken.message == f"no saved_model.pb in {spa / '2'}"
    assert (old.version, old.state, old.code) == (1, State.AVAILABLE, Code.OK)
    (spa / "2" / "saved_model.pb").write_bytes(b"graph")
    repository.poll()
    assert repository.available() == [("spa", 2)]


def test_a_model_that_failed_counts_as_failed_until_it_is_removed(spa):
    (spa.parent / "new" / "1").mkdir(parents=True)
    repository = started(spa.parent)
    assert repository.failed() == [("new", 1)]
    shutil.rmtree(spa.parent / "new")
    repository.poll()
    assert repository.failed() == []
    assert repository.available() == [("spa", 1)]


def test_without_another_version_the_newest_that_can_be_loaded_serves(spa, clock):
    publish(spa, 2, 7)
    for broken in (3, 4):
        (spa / str(broken)).mkdir()
    repository = started(spa.parent)
    assert answering(repository, "spa") == 7
    (spa / "7").rename(spa / "rejected-7")
    repository.poll()
    assert answering(repository, "spa") == 2
    repository.poll()
    assert states(repository) == {7: State.END, 4: State.END, 3: State.END, 2: State.AVAILABLE}
    assert answering(started(spa.parent), "spa") == 2
    publish(spa, 8)
    repository.poll()
    assert answering(repository, "spa") == 8
    assert states(repository)[2] is State.END


def test_versions_that_a_policy_does_not_name_are_no_replacement(spa):
    (spa / "2").mkdir()
    assert states(started(spa.parent, ServedModel("spa", spa, Specific(frozenset({2}))))) == {2: State.END}


def test_a_model_that_fails_in_any_way_is_tried_again_each_minute_and_stops_no_other(spa, caplog, clock):
    publish(spa.parent / "tur", 1)
    failures = [MemoryError("no room"), MemoryError("no room")]

    def load_at_third_attempt(folder: Path) -> Loaded:
        if folder.parent.name == "spa" and failures:
            raise failures.pop()
        return load(folder)

    repository = started(spa.parent, load=load_at_third_attempt)
    for seconds in (59.0, 1.0, 59.0):
        clock[0] += seconds
        repository.poll()
    assert repository.available() == [("tur", 1)]
    (failed,) = repository.status("spa")
    assert (failed.state, failed.code) == (State.END, Code.RESOURCE_EXHAUSTED)
    assert failed.message == "MemoryError: no room"
    assert caplog.text.count("Model spa version 1 could not be loaded: RESOURCE_EXHAUSTED: MemoryError") == 2
    clock[0] += 1.0
    repository.poll()
    assert repository.available() == [("spa", 1), ("tur", 1)]


# Polling


def test_polling_goes_on_after_a_poll_that_failed(spa, caplog, monkeypatch):
    repository, recovered = started(spa.parent), threading.Event()

    def poll() -> None:
        if "Polling failed" not in caplog.text:
            raise ZeroDivisionError("a defect")
        recovered.set()

    monkeypatch.setattr(repository, "poll", poll)
    with kept_up_to_date(repository, seconds=0.01):
        assert recovered.wait(10)


def test_memory_is_returned_to_the_system_also_without_polls(spa, monkeypatch):
    repository, returned = started(spa.parent), threading.Semaphore(0)
    monkeypatch.setattr("serve.models.repository.RETURN_MEMORY_SECONDS", 0.01)
    monkeypatch.setattr("serve.models.repository._return_memory", returned.release)
    publish(spa, 2)
    with kept_up_to_date(repository, seconds=0):
        assert all(returned.acquire(timeout=10) for _ in range(3))
    assert answering(repository, "spa") == 1


# Labels


def test_the_label_of_a_version_that_is_not_loaded_leaves_the_others_and_works_later(spa):
    repository = started(spa, ServedModel("spa", spa, ALL, {"stable": 1, "canary": 2}))
    assert answering(repository, "spa", None, "stable") == 1
    with pytest.raises(StatusError, match=r"Servable not found for request: Specific\(spa, 2\)"):
        answering(repository, "spa", None, "canary")
    publish(spa, 2)
    repository.poll()
    assert answering(repository, "spa", None, "canary") == 2
    assert answering(repository, "spa", None, "stable") == 1


# The file that lists models


def test_a_file_in_tensorflow_servings_format_lists_models_policies_and_labels(tmp_path):
    path = tmp_path / "models.config"
    path.write_text(
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
        """
    )
    assert read_model_configs(path) == [
        ServedModel("spa", Path("/models/spa"), Latest(), {}),
        ServedModel("deu", Path("/models/deu"), Latest(2), {"stable": 3, "canary": 4}),
        ServedModel("fra", Path("/models/fra"), ALL, {}),
        ServedModel("ita", Path("/models/ita"), Specific(frozenset({3, 5})), {}),
    ]


MODEL = 'config { name: "a" base_path: "/a" model_platform: "tensorflow" } '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_config_list { conf {} }", r"models.config:1:21 : .*: expected a ModelServerConfig"),
        ("", "Expected a model_config_list"),
        (MODEL.replace('"a"', '""'), "without a name"),
        (MODEL.replace('"/a"', '"models/a"'), r"model a .*absolute path.*models/a"),
        (MODEL.replace("tensorflow", "caffe"), "Model a requests unsupported platform 'caffe'"),
        (MODEL * 2, "model a multiple times"),
    ],
)
def test_a_file_that_cannot_be_served_is_refused_with_the_place_or_the_reason(tmp_path, text, message):
    path = tmp_path / "models.config"
    path.write_text(f"model_config_list {{ {text} }}" if text.startswith("config") else text)
    with pytest.raises(ValueError, match=message):
        read_model_configs(path)
