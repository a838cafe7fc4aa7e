from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from autorubric.errors import AutorubricError, InputError, LedgerError
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.request import Reply, Usage
from autorubric.runs.manifest import write_manifest
from autorubric.runs.run_folder import open_ledger, run_folder
from tests.offenders import each


def test_starting_over_without_the_ledger_says_that_a_budget_counts_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_ledger(tmp_path) as ledger:
        asyncio.run(
            ledger.record(CallRow(b"k" * 16, "q1", "judge", "a/b", 0, 0, Reply("MET", usage=Usage(12, 3), cost=0.5)))
        )
        before = ledger.sum_spent()
    write_manifest(tmp_path, {"calls": 1})
    with open_ledger(tmp_path, start_over=True) as ledger:
        assert ledger.sum_spent() == before == (1, 15, 0.5, 0, 0)
    assert caplog.messages == []
    (tmp_path / "ledger" / "ledger.sqlite").unlink()
    with pytest.raises(LedgerError, match="missing"):
        open_ledger(tmp_path)
    with open_ledger(tmp_path, start_over=True) as ledger:
        assert (ledger.count, ledger.sum_spent()) == (0, before)
    [message] = caplog.messages
    assert message.endswith(
        "calls lost from the ledger: 1; what they cost (15 tokens, $0.5) still counts in a budget"
    )


def test_a_refused_run_removes_the_folders_that_it_made_and_nothing_of_another_run(tmp_path: Path) -> None:
    one, other = tmp_path / "runs" / "one", tmp_path / "runs" / "other"
    with pytest.raises(InputError), run_folder(one, []):
        with run_folder(other, []):
            (other / "paid").write_text("a reply")
        raise InputError("the key was refused")
    assert [path.name for path in (tmp_path / "runs").rglob("*")] == ["other", "paid"]
    with pytest.raises(InputError), run_folder(other, []):  # made by the run before
        raise InputError("the key was refused")
    assert (other / "paid").read_text() == "a reply"
    with pytest.raises(InputError), run_folder(tmp_path / "a" / "b", []):
        raise InputError("the key was refused")
    assert not (tmp_path / "a").exists()


def test_a_removed_run_is_not_reported_as_wrong_input(tmp_path: Path) -> None:
    with (
        pytest.raises(AutorubricError, match="was removed or moved during the run") as caught,
        run_folder(tmp_path / "r", []),
    ):
        shutil.rmtree(tmp_path / "r")
        raise InputError("r/manifest.json: cannot be written")
    assert not isinstance(caught.value, InputError)  # which says that nothing was paid for


@each(
    ("error", "filename"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "run"),
        (OSError(errno.ENOSPC, "No space left on device", "there"), "there"),
        (OSError(errno.EMFILE, "Too many open files"), None),
    ],
)
def test_a_full_disk_is_told_with_the_directory_of_the_run(error: OSError, filename: str | None) -> None:
    with TemporaryDirectory() as folder:
        with pytest.raises(OSError, match=str(error.strerror)) as caught, run_folder(Path(folder) / "run", []):
            raise error
        named = caught.value.filename
        assert named == (str(Path(folder) / "run") if filename == "run" else filename)
