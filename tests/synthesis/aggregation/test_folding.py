from __future__ import annotations

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.rubric_merge import can_fit


def test_what_fits_is_counted_in_characters() -> None:
    # id 2 + title 4 + description 15 + 60 for the JSON around it.
    one = [Candidate("a1", "Dose", "Names the dose.", 5)]
    assert can_fit([one, one], 162)
    assert not can_fit([one, one], 161)
