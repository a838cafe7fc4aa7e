from autorubric import Criterion
from autorubric.core.criterion import build_criterion_rows, name_criteria
from tests.offenders import each


@each(
    ("named", "expected"),
    [
        ([("Tone", "A"), ("Tone", "B"), ("Tone", None), (None, None)], ["A/Tone", "B/Tone", "Tone", "C4"]),
        ([("Tone", "A"), ("Facts", "B")], ["Tone", "Facts"]),
        ([("Tone", "A"), ("Tone", "B")], ["A/Tone", "B/Tone"]),
        ([("C2", None), (None, None)], ["C2", "C2 (C2)"]),
        # Who has a name keeps it, also after one without.
        ([(None, None), ("C1", None)], ["C1 (C1)", "C1"]),
        ([("C3 (C3)", None), ("C3", None), (None, None)], ["C3 (C3)", "C3", "C3 (C3) (C3)"]),
    ],
)
def test_names_of_criteria_do_not_collide(named: list[tuple[str | None, str | None]], expected: list[str]) -> None:
    made = [Criterion(name=name, section=section, requirement="r") for name, section in named]
    assert name_criteria(made) == expected


def test_a_row_of_a_table_names_the_options_of_a_criterion() -> None:
    options = [{"label": "Flat", "value": 0.0}, {"label": "Deep", "value": 1.0}]
    choice = Criterion.model_validate({"requirement": "How deep?", "options": options})
    assert [row["options"] for row in build_criterion_rows([choice, Criterion(requirement="r")])] == [
        "Flat, Deep",
        None,
    ]
