"""What the writer is shown."""

from __future__ import annotations

from pathlib import Path

from autorubric.checks import CheckOutcome, check
from autorubric.cli.app import run
from autorubric.improvement import writing
from tests.improvement.essays import BETTER, answers, endpoint, files, models, wordings


def test_the_writer_is_offered_only_checks_of_the_package() -> None:
    @check("of_a_program")
    def of_a_program(submission: str) -> CheckOutcome:
        return CheckOutcome(bool(submission), "")

    offered = writing._list_checks.__wrapped__()  # what a process says that has not been asked before
    assert "of_a_program" not in offered
    assert "word_count(" in offered


def test_the_writer_sees_the_submissions_that_the_judge_sees(tmp_path: Path) -> None:
    data, shown = answers(60), list[str]()
    for item in data.items:
        item.submission = f"<think>{'Wind? ' * 900}</think>\n{item.submission}"

    def write(prompt: str) -> str:
        shown.append(prompt)
        return wordings(BETTER)

    cases = [("drop", "Answer ", "Wind?"), ("keep", "Wind?", "Answer ")]  # 4,000 characters of a submission are shown
    with endpoint(written=write).in_thread() as served:
        for how, seen, hidden in cases:
            command = files(tmp_path / how, data, only="Tides")
            run([*command, *models(served.base_url), "--rounds", "1", "--reasoning", how])
            prompt = shown.pop()
            assert seen in prompt and hidden not in prompt, how
