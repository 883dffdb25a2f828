"""Files of a run: whoever fails to write one is told which, and what is on the disk is waited for where that can be."""

import errno
import os

import pytest

from nmt_keras.files import make_run_folder, settle, unwritable, write_whole, writing


def failing(number):
    """A function that fails as the system does."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


def test_an_error_that_names_no_file_gets_its_name_and_what_to_do(tmp_path):
    path = tmp_path / "not" / "there" / "yet"
    expected = rf"{path}: could not be written; No space left on device\. [\d,]+ MiB are free\. All is lost\. Make room"
    with pytest.raises(OSError, match=expected), writing(path, "All is lost."):
        failing(errno.ENOSPC)()


def test_what_says_itself_what_is_wrong_is_left_as_it_is(tmp_path):
    with pytest.raises(OSError, match=r"^said$"), writing(tmp_path):
        raise OSError("said")


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "recipe.json"
    write_whole(path, "before")
    monkeypatch.setattr(os, "replace", failing(errno.EACCES))
    with pytest.raises(OSError, match=r"recipe\.json: could not be written; Permission denied"):
        write_whole(path, "after")
    assert path.read_text() == "before"


def test_of_a_file_elsewhere_nobody_says_what_is_free_here():
    assert str(unwritable("gs://bucket/a", "Permission denied")) == (
        "gs://bucket/a: could not be written; Permission denied. Make room or mend the permissions, then run the same "
        "command."
    )


def test_a_run_directory_that_cannot_be_made_is_named_with_what_to_do(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    expected = r"expected a run directory that can be written, .*: Not a directory\. Name another \(--run\)"
    with pytest.raises(OSError, match=rf"{tmp_path}/runs/mine: {expected}"):
        make_run_folder(tmp_path / "runs" / "mine")


def test_a_run_directory_of_somebody_else_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # who runs tests may write anywhere
    with pytest.raises(OSError, match=rf"{tmp_path}: expected a run directory .*: Permission denied\. Name another"):
        make_run_folder(tmp_path)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_disk_that_cannot_be_waited_for_is_left_to_itself(tmp_path, monkeypatch, number):
    monkeypatch.setattr(os, "fsync", failing(number))
    settle([tmp_path])


def test_a_disk_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        settle([tmp_path])
