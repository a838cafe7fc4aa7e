import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autorubric.errors import InputError
from autorubric.files import atomic_writer, write_atomically
from tests.offenders import each


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def chunks() -> Iterator[str]:
        yield "new"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_atomically(path, chunks())
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_text_and_bytes_mix_and_unicode_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, ["é\n", b"\x00"])
    assert path.read_bytes() == b"\xc3\xa9\n\x00"
    with atomic_writer(path) as file:
        file.write("one\n")
    assert path.read_bytes() == b"one\n"


def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("")
    path.chmod(0o640)
    write_atomically(path, ["x"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    plain = tmp_path / "plain"
    plain.touch()
    write_atomically(tmp_path / "b", ["x"])
    assert (tmp_path / "b").stat().st_mode == plain.stat().st_mode
    write_atomically(tmp_path / "c", ["x"], permissions=0o600)
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o600


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", ["new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_missing_folder_and_a_folder_in_the_place_of_the_file_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "none" / "a", ["x"])
    with pytest.raises(InputError, match="it is a folder"):
        write_atomically(tmp_path, ["x"])


def test_a_pipe_is_written_to_directly_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, ["one\n", b"two\n"])
        assert os.read(reader, 100) == b"one\ntwo\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


@each(
    ("old", "pieces", "replaced"),
    [
        ("ab", ["a", "b"], False),
        ("abc", ["a", "b"], True),  # the old file goes on
        ("abcde", ["ab"], True),
        ("ab", ["a", "b", "c"], True),
        ("ab", ["a", "c"], True),
        ("ab", ["x", "b"], True),
        ("ab", [], True),
        ("", [], False),
        ("", ["a"], True),
        (None, ["a"], True),
        (None, [], True),
    ],
)
def test_a_file_is_replaced_only_by_other_content(old: str | None, pieces: list[str], replaced: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        if old is not None:
            path.write_text(old)
            os.utime(path, ns=(1, 1))
        with atomic_writer(path, "wb", keep_same=True) as file:
            file.writelines(piece.encode() for piece in pieces)
        assert path.read_text() == "".join(pieces)
        assert (path.stat().st_mtime_ns != 1) == replaced


def test_a_write_that_fails_for_want_of_space_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with pytest.raises(OSError) as caught, atomic_writer(path):
        raise OSError(errno.ENOSPC, "No space left on device")  # as `write` says it
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())
