"""What the writer is shown."""

from __future__ import annotations

from autorubric.checks import CheckOutcome, check
from autorubric.improvement import writing


def test_the_writer_is_offered_only_checks_of_the_package() -> None:
    @check("of_a_program")
    def of_a_program(submission: str) -> CheckOutcome:
        return CheckOutcome(bool(submission), "")

    offered = writing._list_checks.__wrapped__()  # what a process says that has not been asked before
    assert "of_a_program" not in offered
    assert "word_count(" in offered
