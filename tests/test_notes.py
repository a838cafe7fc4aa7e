import asyncio
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

import autorubric
from autorubric import Criterion, Note, Rubric, grade, grade_async
from autorubric.errors import warn

SHORT = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
ROWS = [{"Question": "Why?", "Reply": "Because of the moon."}]


@contextmanager
def filtered(action: Literal["default", "error", "ignore", "always"], category: type[Warning]) -> Iterator[list[str]]:
    """The notes that are shown under one filter only."""
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter(action, category)
        warnings.showwarning = lambda message, category, *_, **__: shown.append(f"{category.__name__}: {message}")
        yield shown


@pytest.mark.parametrize("category", [Warning, UserWarning])
def test_a_note_is_shown_and_its_result_returned_where_warnings_are_errors(
    category: type[Warning], tmp_path: Path
) -> None:
    with filtered("error", category) as shown:
        assert grade(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / "a").get_scores() == [1.0]
        made = asyncio.run(grade_async(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / "b"))
    assert made.get_scores() == [1.0]
    told = ["column 'Reply' is read as the submission", "column 'Question' is read as the query"]
    assert shown == 2 * [f"Note: submissions: {one}" for one in told]


def test_notes_are_hidden_and_raised_by_their_own_category(tmp_path: Path) -> None:
    with filtered("ignore", Note) as shown:
        grade(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / "a")
    assert shown == []
    with filtered("error", autorubric.Note), pytest.raises(Note, match="is read as the submission"):
        grade(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / "b")


def test_a_program_with_warnings_as_errors_keeps_its_result(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from autorubric import Criterion, CriterionGrader, JudgeSpec, LLMConfig\n"
        "CriterionGrader(judges=[JudgeSpec(LLMConfig('builtin/offline', temperature=0), 'a', repeats=3)])\n"
        "print('made')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "made\n"
    assert done.stderr.startswith(f"{program}:2: Note: judge 'a' is asked 3 times at temperature 0")


def test_a_note_is_shown_once_for_each_call_that_it_is_about(tmp_path: Path) -> None:
    calls = [
        lambda out: grade(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / out),
        lambda out: asyncio.run(grade_async(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / out)),
    ]
    with filtered("default", Note) as shown:
        for out in "abcd":
            calls[out > "b"](out)
    assert len(set(shown)) == 2 and len(shown) == 8


def test_a_note_is_placed_at_the_synchronous_call_or_else_at_the_package(tmp_path: Path) -> None:
    places = []
    with filtered("always", Note):
        warnings.showwarning = lambda *told, **_: places.append(told[2:4])
        grade(ROWS, rubric=SHORT, judge="builtin/offline", out=tmp_path / "a")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(warn, "in a thread").result()
    call = sys._getframe().f_lineno - 3
    assert set(places) == {(__file__, call), ("autorubric", 1)}


def test_a_note_on_files_that_were_moved_away_names_the_line_that_made_the_call(tmp_path: Path) -> None:
    grade(["So it is."], rubric=SHORT, judge="builtin/offline", out=tmp_path)
    with pytest.warns(Note, match="are now in") as notes:
        asyncio.run(
            grade_async(["Thus."], rubric=SHORT, judge="builtin/offline", out=tmp_path, replace=True),
        )
    places = {note.filename for note in notes if "are now in" in str(note.message)}
    assert not any("contextlib" in place for place in places), places


def test_a_note_is_placed_at_the_line_that_calls() -> None:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno + 1
        warn("here")
    assert [(note.filename, note.lineno) for note in notes] == [(__file__, line)]
