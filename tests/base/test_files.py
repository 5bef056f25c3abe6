import pytest

from vicinal._base import write_whole


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
