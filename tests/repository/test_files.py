"""Files of a run: errors name the file, writes are atomic, and written files are synced if the disk supports it."""

import errno
import os
import re
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import portalocker
import pytest
import tensorflow as tf

from nmt_keras.io.files import (
    ABANDONED_AFTER,
    described,
    locked,
    make_writable_folder,
    read_json,
    read_rows,
    sole_writer,
    sync,
    to_json,
    unwritable,
    write_whole,
    writing,
)


def test_json_is_strict_and_numbers_that_are_not_finite_are_null():
    record = {"a": [1.5, float("nan"), (float("-inf"), 2)], "é": {"b": float("inf")}, "c": "NaN"}
    assert to_json(record) == '{"a": [1.5, null, [null, 2]], "é": {"b": null}, "c": "NaN"}'


@pytest.mark.parametrize("depth", [33, 900, 30_000])
@pytest.mark.parametrize(("opening", "closing"), ["[]", ('{"a":', "}")])
def test_json_that_is_nested_too_deeply_is_refused_by_the_name_of_its_file(tmp_path, depth, opening, closing):
    path = tmp_path / "recipe.json"
    path.write_text('{"a":' + opening * depth + "1" + closing * depth + "}")
    with pytest.raises(ValueError, match=r"recipe\.json: expected a JSON object"):
        read_json(path)
    path.write_text(path.read_text() + '\n{"step": 1}\n')
    with pytest.warns(match="skipped 1 damaged"):
        assert read_rows(path)[0] == [{"step": 1}]


def failing(number):
    """Returns a function that fails with an error of the system."""
    return Mock(side_effect=OSError(number, os.strerror(number)))


def test_an_error_without_a_file_name_gets_the_name_the_free_space_and_the_reason(tmp_path):
    path = tmp_path / "not" / "there" / "yet"
    with pytest.raises(OSError, match=rf"{path}.*No space left on device.* MiB"), writing(path):
        failing(errno.ENOSPC)()


def test_an_error_of_tensorflow_in_writing_becomes_one_short_line(tmp_path):
    (tmp_path / "file").touch()
    expected = rf"^{tmp_path}: could not be written; Not a directory\. Nothing was lost\. Pass another path"
    with pytest.raises(OSError, match=expected), writing(tmp_path, "Nothing was lost."):
        tf.io.write_file(str(tmp_path / "file" / "name"), "text")
    message = "{{function_node __wrapped__SaveV2_device_/job:localhost}} a/part-0.tempstate1; Not a directory"
    assert re.match(expected.replace(" Nothing was lost\\.", ""), str(unwritable(tmp_path, message)))


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "Make room"),
        (errno.EACCES, "Correct the permissions"),
        (errno.EMFILE, "Raise the limit of open files .ulimit -n"),
        (errno.ELOOP, "Replace the link"),
        (errno.ENAMETOOLONG, "Pass a shorter path"),
        (errno.ENETDOWN, "Check the path"),
    ],
)
def test_an_error_of_the_system_gets_the_remedy_for_its_own_cause(tmp_path, number, told):
    with pytest.raises(OSError, match=told), writing(tmp_path):
        failing(number)()
    assert re.search(rf"x\.tsv.*{told}", described(OSError(number, os.strerror(number), "x.tsv")))
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(OSError, match="a broken link"):
        make_writable_folder(tmp_path / "link")


def test_a_failed_write_leaves_the_file_unchanged_and_no_partial_file(tmp_path, monkeypatch):
    path = tmp_path / "recipe.json"
    write_whole(path, "before")
    monkeypatch.setattr(os, "replace", failing(errno.EACCES))
    with pytest.raises(OSError, match=r"recipe\.json.*Permission denied"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_link_keeps_its_target_and_a_file_its_permissions(tmp_path):
    (tmp_path / "target").write_text("before")
    (tmp_path / "target").chmod(0o664)
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "target").read_text() == "after"
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o664
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    for path in (tmp_path / "pipe", Path(f"/dev/fd/{pipe}")):
        write_whole(path, "text")
        assert os.read(pipe, 9) == b"text"
    os.close(pipe)
    assert (tmp_path / "pipe").is_fifo()


def test_a_write_removes_old_partial_files_of_its_own_file_alone(tmp_path):
    old = time.time() - ABANDONED_AFTER - 60
    for name in ("a.json.1f.partial", "a.json.2e.partial", "b.json.3d.partial"):
        (tmp_path / name).write_text("half")
        if name != "a.json.2e.partial":
            os.utime(tmp_path / name, (old, old))
    write_whole(tmp_path / "a.json", "text")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.json.2e.partial", "b.json.3d.partial"}


def test_the_clock_of_the_file_system_says_how_old_a_partial_file_is(tmp_path, monkeypatch):
    seconds = time.time
    monkeypatch.setattr(time, "time", lambda: seconds() + 86400.0)
    (tmp_path / "a.json.1f.partial").write_text("half")
    write_whole(tmp_path / "a.json", "text")
    assert (tmp_path / "a.json.1f.partial").exists()


NO_LOCKS = portalocker.LockException(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)))  # of a file system without locks


@pytest.mark.parametrize("lock", [portalocker.lock, Mock(side_effect=NO_LOCKS)], ids=["locks", "no locks"])
def test_a_locked_folder_holds_the_written_file_alone_also_on_a_disk_without_locks(lock, tmp_path, monkeypatch):
    monkeypatch.setattr(portalocker, "lock", lock)
    with sole_writer(tmp_path), locked(tmp_path / "scores.json"):
        write_whole(tmp_path / "scores.json", "{}")
    assert list(tmp_path.iterdir()) == [tmp_path / "scores.json"]


def test_a_folder_has_one_writer_at_a_time_and_no_lock_file_remains(tmp_path):
    folder = tmp_path / "new" / "corpus"
    with sole_writer(folder):
        with pytest.raises(ValueError, match=rf"{folder}: another process"), sole_writer(folder):
            pass
        with sole_writer(folder, "other.lock"):
            assert {path.name for path in folder.iterdir()} == {"lock", "other.lock"}
    with sole_writer(folder):
        pass
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_or_written_is_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "runs").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=rf"{tmp_path}/runs/mine.*Not a directory.*another path"):
        make_writable_folder(tmp_path / "runs" / "mine")
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # replaced, because root may write everywhere
    with pytest.raises(OSError, match=rf"{tmp_path}.*Permission denied.*another folder"):
        make_writable_folder(tmp_path)
    with pytest.raises(ValueError, match=r"gs:/bucket/runs: expected a folder on a disk, received 'a URL'"):
        make_writable_folder(Path("gs://bucket/runs"))


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (errno.EINVAL, nullcontext()),
        (errno.ENOTSUP, nullcontext()),
        (errno.EIO, pytest.raises(OSError, match="Input/output error")),
    ],
)
def test_a_failed_fsync_raises_except_on_a_disk_without_fsync(tmp_path, monkeypatch, number, raised):
    monkeypatch.setattr(os, "fsync", failing(number))
    with raised:
        sync([tmp_path])
