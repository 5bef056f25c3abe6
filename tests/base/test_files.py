import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time

import pytest
from tests.common.processes import posix

from vicinal._base import _files, counted, whole_file, write_whole


@pytest.mark.parametrize(("content", "expected"), [("é", "é".encode()), (b"\x00\x01", b"\x00\x01")])
def test_content_replaces_the_old_file(tmp_path, content, expected):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    assert write_whole(path, content) == path
    assert path.read_bytes() == expected


def test_failure_keeps_the_old_file_and_leaves_no_draft(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_link_laid_in_the_way_of_the_draft_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(_files.secrets, "token_hex", lambda n: "guessed")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".model.guessed.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "model", "new")
    assert victim.read_text() == "mine"


@posix
def test_the_mode_of_a_replaced_file_is_kept(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "new"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x" * 300, errno.ENAMETOOLONG),
        ("none/model", errno.ENOENT),
        pytest.param(
            "/dev/full",
            None,
            marks=pytest.mark.skipif(
                not os.path.exists("/dev/full"), reason="needs /dev/full, a device of Linux"
            ),
        ),
    ],
)
def test_what_cannot_be_written_is_one_line_that_names_the_file(tmp_path, name, code, monkeypatch):
    if code is None:  # every write fails because the disk is full
        name, code, full = "model", errno.ENOSPC, os.open(name, os.O_WRONLY)
        monkeypatch.setattr(_files.os, "open", lambda *args: os.dup(full))
    with pytest.raises(OSError) as caught, whole_file(tmp_path / name) as file:  # noqa: PT011
        file.write(bytes(10_000))
    assert caught.value.errno == code
    assert caught.value.filename == str(tmp_path / name)
    assert str(caught.value).endswith(f"'{tmp_path / name}'")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_read_only_is_one_line(tmp_path, monkeypatch):
    def refuse(path, *args):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(_files.os, "open", refuse)
    with pytest.raises(PermissionError, match=f"Permission denied: '{tmp_path / 'model'}'"):
        write_whole(tmp_path / "model", "new")


# The file alone, because the package takes a second to import.
WRITER = """
import runpy, sys
write_whole = runpy.run_path(sys.argv[2])["write_whole"]
contents = [bytes([65 + i]) * 2_000_000 for i in range(2)]
print("ready", flush=True)
while True:
    for content in contents:
        write_whole(sys.argv[1], content)
"""


@posix
@pytest.mark.parametrize(
    "n_kills", [12, pytest.param(200, marks=pytest.mark.statistical)], ids=["some", "many"]
)
def test_killed_at_any_moment_the_file_is_the_old_or_the_new_one(tmp_path, n_kills):
    path, rng = tmp_path / "model", random.Random(n_kills)
    path.write_bytes(b"A" * 2_000_000)
    for _ in range(n_kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, _files.__file__], stdout=subprocess.PIPE
        )
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        content = path.read_bytes()
        assert len(content) == 2_000_000
        assert len(set(content)) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_replaced(tmp_path):
    """Nor is a device, on which no test should be tried."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file, choose another path"):
        write_whole(tmp_path / "pipe", "text")
    assert [entry.is_fifo() for entry in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1200, "class", "1,200 classes"),
        (1, "category", "1 category"),
        (2, "category", "2 categories"),
    ],
)
def test_a_noun_is_singular_for_one(number, noun, text):
    assert counted(number, noun) == text
