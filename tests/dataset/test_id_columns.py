from typing import Any

from autorubric import DataItem
from autorubric.dataset.id_columns import note_id_columns
from tests.offenders import each

NAMES = [f"person {place}" for place in range(10)]


@each(
    ("columns", "told"),
    [
        ({"Schüler-ID": NAMES[:2], "lang": ["en", "de"]}, "perhaps 'Schüler-ID'; choose one with --column id=NAME"),
        ({"student_id": [1, 2], "candidateId": ["a", "b"]}, "perhaps 'student_id', 'candidateId'; choose"),
        ({"student_id": ["a", "a"]}, ""),  # a student with two answers
        ({"student_id": ["a", ""]}, ""),
        ({"respondent": NAMES, "lang": ["en"] * 10}, "perhaps 'respondent'; choose"),
        ({"respondent": NAMES[:9]}, ""),  # few values may differ by chance
        ({"context": [f"{name} said so" for name in NAMES]}, ""),
    ],
)
def test_columns_that_may_have_the_ids_are_noted(columns: dict[str, list[Any]], told: str) -> None:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    notes = "".join(note_id_columns("a.csv", [DataItem("So.", "", metadata=row) for row in rows]))
    assert (told in notes) if told else not notes
    assert not list(note_id_columns("a.csv", [DataItem("So.", "", id="1", metadata=row) for row in rows]))
