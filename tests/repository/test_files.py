"""Files of a run: whoever fails to write one is told which, and what is on the disk is waited for where that can be."""

import errno
import os
import threading
import time

import portalocker
import pytest

from nmt_keras.files import ABANDONED_AFTER, locked, make_run_folder, settle, unwritable, write_whole, writing


def failing(number):
    """A function that fails as the system does."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


def failing_lock(*_):
    """Fails as ``portalocker.lock`` does on a file system without locks."""
    raise portalocker.LockException(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)))


def test_an_error_that_names_no_file_gets_its_name_and_what_to_do(tmp_path):
    path = tmp_path / "not" / "there" / "yet"
    with pytest.raises(OSError, match=rf"{path}.*No space left on device.* MiB"), writing(path):
        failing(errno.ENOSPC)()


def test_what_says_itself_what_is_wrong_is_left_as_it_is(tmp_path):
    with pytest.raises(OSError, match=r"^said$"), writing(tmp_path):
        raise OSError("said")


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "recipe.json"
    write_whole(path, "before")
    monkeypatch.setattr(os, "replace", failing(errno.EACCES))
    with pytest.raises(OSError, match=r"recipe\.json.*Permission denied"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_with_the_same_content_is_not_rewritten(tmp_path):
    path = tmp_path / "recipe.json"
    write_whole(path, "same")
    before = path.stat()
    write_whole(path, "same")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_written_file_has_the_mode_that_the_umask_gives(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "recipe.json", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "recipe.json").stat().st_mode & 0o777 == 0o640


def test_the_next_write_removes_what_a_killed_one_left_and_spares_one_under_way(tmp_path):
    old = time.time() - ABANDONED_AFTER - 60
    for name in ("a.json.1f.partial", "a.json.2e.partial", "b.json.3d.partial"):
        (tmp_path / name).write_text("half")
        if name != "a.json.2e.partial":
            os.utime(tmp_path / name, (old, old))
    write_whole(tmp_path / "a.json", "text")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.json.2e.partial", "b.json.3d.partial"}


def test_a_disk_without_locks_is_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("portalocker.lock", failing_lock)
    with locked(tmp_path / "scores.json"):
        write_whole(tmp_path / "scores.json", "{}")
    assert (tmp_path / "scores.json").read_text() == "{}"


def test_the_free_space_of_a_remote_disk_is_not_told():
    assert "MiB" not in str(unwritable("gs://bucket/a", "Permission denied"))


def test_a_lock_leaves_nothing_that_other_users_of_the_folder_could_not_open(tmp_path):
    with locked(tmp_path / "scores.json"):
        write_whole(tmp_path / "scores.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_a_second_lock_waits_until_the_first_is_released(tmp_path):
    entered = threading.Event()

    def enter():
        with locked(tmp_path / "scores.json"):
            entered.set()

    second = threading.Thread(target=enter)
    with locked(tmp_path / "scores.json"):
        second.start()
        assert not entered.wait(0.1)
    second.join(timeout=60)
    assert entered.is_set()


def test_a_run_directory_that_cannot_be_made_is_named_with_what_to_do(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=rf"{tmp_path}/runs/mine.*Not a directory.*--run"):
        make_run_folder(tmp_path / "runs" / "mine")


def test_a_run_directory_of_somebody_else_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # who runs tests may write anywhere
    with pytest.raises(OSError, match=rf"{tmp_path}.*Permission denied.*--run"):
        make_run_folder(tmp_path)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_disk_that_cannot_be_waited_for_is_left_to_itself(tmp_path, monkeypatch, number):
    monkeypatch.setattr(os, "fsync", failing(number))
    settle([tmp_path])


def test_a_disk_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        settle([tmp_path])
