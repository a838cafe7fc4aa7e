from pathlib import Path

import pytest

from autorubric.errors import InputError, Note
from autorubric.jobs.submissions import read_rubric


@pytest.mark.parametrize(
    ("text", "criteria"),
    [
        (
            "# Rubric\n\n- [5] Names the cause\n- [-2] Is rude\n",
            [(5, None, "Names the cause", "Rubric"), (-2, None, "Is rude", "Rubric")],
        ),
        (
            "* Names the cause (5 points)\n* Names the date (2,5 Punkte).\n",
            [(5, None, "Names the cause", None), (2.5, None, "Names the date", None)],
        ),
        (
            "- **Cause (5 pts):** Names the cause\n  of it.\n- **Date** (3 pts): Names it\n- **Tone** [+1] Is kind\n",
            [
                (5, "Cause", "Names the cause of it.", None),
                (3, "Date", "Names it", None),
                (1, "Tone", "Is kind", None),
            ],
        ),
        (
            "## A\n1. [ ] Cites Smith (2019)\n## B\n2. [x] Adds up [1]\n",
            [(10, None, "Cites Smith (2019)", "A"), (10, None, "Adds up [1]", "B")],
        ),
        (
            "- Tone: is kind\n---\n- Is **very** brief\n",
            [(10, None, "Tone: is kind", None), (10, None, "Is **very** brief", None)],
        ),
        (
            "- Names A, or B (3 points)\n- Names C, or D (2 points)\n",  # not a table with two columns
            [(3, None, "Names A, or B", None), (2, None, "Names C, or D", None)],
        ),
        ("- Names 2–3 points\n", [(10, None, "Names 2–3 points", None)]),
        ("- requirement: Is kind\n  weight: 2\n", [(2, None, "Is kind", None)]),
        ('- "Is kind"\n- "Is brief"\n', [(10, None, "Is kind", None), (10, None, "Is brief", None)]),
    ],
)
def test_items_of_lists_are_criteria(tmp_path: Path, text: str, criteria: list[tuple[object, ...]]) -> None:
    for name in ("rubric.md", "rubric.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        read = [(one.weight, one.name, one.requirement, one.section) for one in read_rubric(tmp_path / name)]
        assert read == criteria


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- [1] A\n- [2] B\n", "[1], [2], … may be numbers or points"),
        ("- Names A (3 points)\n- Names B\n", "rubric[1] has no weight, but others have"),
        ("- Names A\n  - in full\n", "rubric.md:2: a nested item"),
        ("Rubric\n\n- Names A (3 points)\n", "above a Markdown list of criteria, only headings are allowed"),
        ("- Names A\nAnd B.\n", "rubric.md:2: 'And B.'; expected a heading, or an item"),
        ("## Style (40%)\n- Names A\n", "rubric.md:2: has points in 'Style (40%)'"),
        ("- Names A (3 points) in full\n", "rubric.md:1: has points in 'Names A (3 points) in full'"),
        ("- 3 points: names A\n", "rubric.md:1: has points in '3 points: names A'"),
        ("- Names A. **3 points**\n", "rubric.md:1: has points in 'Names A. **3 points**'"),
        ("- Names A, worth 3 points.\n", "rubric.md:1: has points in 'Names A, worth 3 points.'"),
        ("- Names A - 5\n- Names B - 2\n", "a text has '- 5'"),
    ],
)
def test_points_that_would_be_lost_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "rubric.md").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_rubric(tmp_path / "rubric.md")
    assert told in str(caught.value)


def test_points_without_brackets_are_text_with_one_note(tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text("- Names A 3 points\n- Names B 2 pts.\n- Names 3 causes\n")
    with pytest.warns(Note, match=r"r.md:1: the points at the end of 'Names A 3 points' .* \(and 1 more\)") as notes:
        rubric = read_rubric(tmp_path / "r.md")
    assert [(criterion.requirement, criterion.weight) for criterion in rubric] == [
        ("Names A 3 points", 10),
        ("Names B 2 pts.", 10),
        ("Names 3 causes", 10),
    ]
    assert len(notes) == 1
