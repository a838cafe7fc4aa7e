from __future__ import annotations

from autorubric.synthesis.accounting import build_sameness_key, find_lost_numbers
from tests.offenders import each

SAME = [
    ("Names the dose.", "  names THE\tdose"),
    ("Mentions “aspirin”, then rest.", 'mentions "aspirin" then rest'),
    ("提到剂量，并说明频率。", "提到剂量,并说明频率"),
    ("提到 剂量", "提到剂量"),
    ("Ｎａｍｅｓ the dose！", "Names the dose"),
    ("Gives 5mg.", "gives 5 mg"),
    ("Follow-up is advised", "follow up is advised"),
    ("每３个月复查一次。", "每3个月复查一次"),
    ("Gives .5 g!", "gives 0.5 g"),
]
DIFFERENT = [
    ("Advises a check every 3 months.", "Advises a check every 6 months."),
    ("每三个月复查", "每六个月复查"),
    ("Gives 2.5 mg", "Gives 25 mg"),
    ("Gives 2.5 mg", "Gives 2 5 mg"),
    ("Gives 5 mg", "Gives 5 g"),
    ("Gives 5 mg", "Gives 5 Mg"),
    ("Says it is 5 °C", "Says it is -5 °C"),
    ("A value < 5", "A value > 5"),
    ("A value < 5", "A value < -5"),
    ("Raises it by 10", "Raises it by 10%"),
    ("Says 10² units", "Says 102 units"),
    ("Mentions alcohol", "Does not mention alcohol"),
    ("提到酒精", "不提到酒精"),
    ("Gives .5 g", "Gives 5 g"),
    ("Asks for x = 1", "Asks for x != 1"),
    ("Is 5′ away", "Is 5″ away"),
    ("Uses C", "Uses C#"),
    ("Uses C", "Uses C++"),
    ("Takes 1/2 tablet", "Takes 12 tablet"),
    ("Between 1:2 and 3", "Between 1.2e and 3"),
    ("Is about a non smoker", "Is about a smoker"),
    ("Ends with '!'", "Ends with '?'"),
    ("Has a semicolon (;)", "Has a semicolon (:)"),
    ("Se termine par «.»", "Se termine par «!»"),
    ("Endet mit „.“", "Endet mit „!“"),
    ('Ends with "..."', 'Ends with "!!!"'),
    ("以“！”结尾", "以“？”结尾"),
]


@each(("one", "other"), SAME)
def test_case_space_and_marks_do_not_make_a_difference(one: str, other: str) -> None:
    assert build_sameness_key(one) == build_sameness_key(other)


@each(("one", "other"), DIFFERENT)
def test_numbers_units_signs_and_negations_do(one: str, other: str) -> None:
    assert build_sameness_key(one) != build_sameness_key(other)


@each(
    ("source", "merged", "lost"),
    [
        ("Every 3 months", "Every 3 months or so", set()),
        ("Gives three examples", "Gives 3 examples", set()),
        ("Gives 3 examples", "Gives examples", {"3"}),
        ("至少三个例子", "至少3个例子", set()),
        ("十二个月", "12 个月", set()),
        ("第三方", "外部机构", set()),
        ("At most 1,000 words", "At most 1000 words", set()),
        ("Names one cause", "Names a cause", set()),
        ("Between 2 and 4.5 g", "Between 2 and 4 g", {"4.5"}),
    ],
)
def test_a_merged_wording_has_to_keep_the_numbers(source: str, merged: str, lost: set[str]) -> None:
    assert find_lost_numbers(source, merged) == lost
