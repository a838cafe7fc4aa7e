from __future__ import annotations

from pathlib import Path

import pytest

from autorubric.errors import InputError, RunLockedError
from autorubric.llm.records import lock
from autorubric.llm.records.lock import HOLDER_NAME, create_private_file, find_filesystem, find_lock_holder, run_lock

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home {root} nfs4 rw 0 0
/dev/vdb {root}/fast xfs rw 0 0
server:/shared {root}/with\\040space cifs rw 0 0
"""


def mounts_under(root: Path) -> Path:
    table = root / "mounts"
    table.write_text(MOUNTS.format(root=root))
    return table


def test_the_longest_mount_point_that_holds_a_path_decides_its_filesystem(tmp_path: Path) -> None:
    table = mounts_under(tmp_path)
    assert find_filesystem(tmp_path / "run", table) == "nfs4"
    assert find_filesystem(tmp_path / "fast" / "run", table) == "xfs"
    assert find_filesystem(tmp_path / "faster", table) == "nfs4"
    assert find_filesystem(tmp_path / "with space" / "run", table) == "cifs"
    assert find_filesystem(Path("/"), table) == "ext4"


def test_a_system_without_a_table_of_mounts_is_trusted(tmp_path: Path) -> None:
    assert find_filesystem(tmp_path, tmp_path / "missing") is None


def test_a_network_filesystem_is_refused_with_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = mounts_under(tmp_path)
    monkeypatch.setattr(lock, "find_filesystem", lambda path: find_filesystem(path, table))
    with pytest.raises(InputError, match=r"network filesystem \(nfs4\).* choose a run directory on a local"):
        create_private_file(tmp_path / "run", "ledger.sqlite")
    assert create_private_file(tmp_path / "fast" / "run", "ledger.sqlite").exists()


def test_a_damaged_name_of_the_holder_is_no_error(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        (tmp_path / HOLDER_NAME).write_bytes(b"process \xff")
        assert find_lock_holder(tmp_path) == "process \ufffd"
        with pytest.raises(RunLockedError, match="in use by process \ufffd"), run_lock(tmp_path):
            pass
    (tmp_path / HOLDER_NAME).write_bytes(b"\xff")
    assert find_lock_holder(tmp_path) is None


def test_a_run_does_not_wait_for_one_of_its_own_thread(tmp_path: Path) -> None:
    with run_lock(tmp_path), pytest.raises(RunLockedError, match="of this process"), run_lock(tmp_path, wait=True):
        pass
