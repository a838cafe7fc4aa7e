"""Labels in columns that are named like the criteria."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, Rubric
from autorubric.dataset.ground_truth import GroundTruthReader, choose_majority, match_label
from autorubric.errors import InputError
from autorubric.jobs.submissions import Submissions

RUBRIC = Rubric.from_dict(
    [
        {"name": "Names a cause", "requirement": "Names at least one cause."},
        {
            "name": "Tone",
            "requirement": "How kind is it?",
            "options": [{"label": "Kind", "value": 1}, {"label": "Rude", "value": 0}],
        },
    ]
)


def read(folder: Path, *rows: str) -> Submissions:
    """The rows of a CSV file, to be read."""
    path = folder / "a.csv"
    path.write_text("\n".join(rows) + "\n")
    return Submissions(path, rubric=RUBRIC)


def test_a_column_for_each_criterion_holds_its_labels_and_a_row_of_blanks_has_none(tmp_path: Path) -> None:
    rows = ["submission,tone,Names a Cause,by", "So.,Kind,met,ann", "No.,,,ann", "Why,Rude,CANNOT_ASSESS,"]
    source = read(tmp_path, *rows)
    items = source.read_items()
    met, unclear = CriterionVerdict.MET, CriterionVerdict.CANNOT_ASSESS
    assert [item.ground_truth for item in items] == [[met, "Kind"], None, [unclear, "Rude"]]
    assert [item.metadata for item in items] == [{"by": "ann"}, {"by": "ann"}, {}]
    assert source.notes == ["labels are read from 'Names a Cause', 'tone', named like the criteria"]


def test_a_column_may_have_the_text_of_a_criterion_such_as_one_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("answer,is kind.,Length\nThanks.,MET,UNMET\n")
    rubric = Rubric.from_dict([{"requirement": "Is kind."}, {"name": "Length", "requirement": "Has 50 words."}])
    source = Submissions(path, rubric=rubric, columns={"submission": "answer"})
    assert [item.ground_truth for item in source.read_items()] == [[CriterionVerdict.MET, CriterionVerdict.UNMET]]
    assert "labels are read from 'is kind.', 'Length', named like the criteria" in source.notes


SCORES = "columns named like criteria, but without labels such as MET, are kept as metadata: 'Names a cause', 'Tone'"

UNREAD = (
    "labels in 'Tone' are not read, since 'Names a cause' has none; label all criteria, or import single labels into "
    "the run with `autorubric labels RUN --import FILE`"
)


@pytest.mark.parametrize(
    ("rows", "metadata", "notes"),
    [
        (["submission,Tone", "So.,Kind"], {"Tone": "Kind"}, [UNREAD]),
        (["submission,Tone,Names a cause", "So.,Kind, ", "No.,Rude,"], {"Tone": "Kind"}, [UNREAD]),
        (["submission,Tone", "So.,4"], {"Tone": "4"}, []),
        (
            ["submission,Tone,tone,Names a cause", "So.,Kind,Rude,MET"],
            {"Tone": "Kind", "tone": "Rude", "Names a cause": "MET"},
            ["labels are not read, since several columns are named like one criterion: 'Tone', 'tone'"],
        ),
        (["submission,Tone,Names a cause", "So.,4,0.5"], {"Tone": "4", "Names a cause": "0.5"}, [SCORES]),
        (
            ["submission,Tone,Names a cause", "So.,4,1"],
            {"Tone": "4", "Names a cause": "1"},
            ["labels in 'Names a cause', 'Tone' are not read, since 'Tone' has '4'; expected only labels"],
        ),
    ],
)
def test_a_missing_column_two_columns_and_scores_are_kept_as_metadata(
    tmp_path: Path, rows: list[str], metadata: dict[str, str], notes: list[str]
) -> None:
    source = read(tmp_path, *rows)
    item, *_ = source.read_items()
    assert (item.ground_truth, item.metadata, source.notes) == (None, metadata, notes)


def test_a_column_of_labels_comes_before_columns_that_are_named_like_criteria(tmp_path: Path) -> None:
    source = read(tmp_path, "submission,Tone,Names a cause,ground_truth", 'So.,Kind,UNMET,"[""MET"", ""Rude""]"')
    [item] = source.read_items()
    assert item.ground_truth == ["MET", "Rude"]
    assert item.metadata == {"Tone": "Kind", "Names a cause": "UNMET"}


def test_null_in_json_is_a_blank(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"submission": "So.", "Tone": "Kind", "Names a cause": "MET"},
        {"submission": "No.", "Tone": None, "Names a cause": None},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [item.ground_truth for item in Submissions(path, rubric=RUBRIC).read_items()] == [["MET", "Kind"], None]


def test_labels_for_a_part_of_the_criteria_are_noted_whatever_holds_the_blanks(tmp_path: Path) -> None:
    row = {"submission": "So.", "Tone": "Kind"}
    nothing: list[Any] = [None, "", " ", []]
    blanks: list[dict[str, Any]] = [{}, *({"Names a cause": one} for one in nothing)]
    for number, blank in enumerate(blanks):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({**row, **blank}))
        for rows in ([{**row, **blank}], tmp_path / f"{number}.jsonl"):
            source = Submissions(rows, rubric=RUBRIC)
            [item] = source.read_items()
            assert (item.ground_truth, item.metadata["Tone"], source.notes) == (None, "Kind", [UNREAD])


def test_columns_next_to_a_ground_truth_are_told_to_stay_metadata() -> None:
    source = Submissions([{"submission": "So.", "ground_truth": ["MET", "Kind"], "Tone": "Rude"}], rubric=RUBRIC)
    [item] = source.read_items()
    assert item.ground_truth == [CriterionVerdict.MET, "Kind"]
    assert item.metadata == {"Tone": "Rude"}
    assert source.notes == ["kept as metadata, since 'ground_truth' has the labels: 'Tone'"]


def test_a_row_with_only_some_labels_keeps_them_in_its_metadata(tmp_path: Path) -> None:
    source = read(tmp_path, "submission,Tone,Names a cause", "So.,Kind,yes", "Why.,Rude,", "No.,,")
    items = source.read_items()
    assert [item.ground_truth for item in items] == [[CriterionVerdict.MET, "Kind"], None, None]
    assert [item.metadata.get("Tone") for item in items] == [None, "Rude", None]
    note, *others = source.notes
    assert note.startswith(
        f"labels of 1 of 2 rows in 'Names a cause', 'Tone' are not read: {tmp_path / 'a.csv'}:3 has only some"
    )
    assert note.endswith("`autorubric labels RUN --import FILE`")
    assert others[0] == "labels are read from 'Names a cause', 'Tone', named like the criteria"


def test_a_value_that_is_no_label_among_labels_is_named_with_its_line(tmp_path: Path) -> None:
    rows = ["submission,Tone,Names a cause", "So.,Kind,MET", "No.,Rudee,UNMET", "Why,Kind,"]
    with pytest.raises(InputError) as raised:
        read(tmp_path, *rows).read_items()
    assert [problem.partition(": ")[0] for problem in raised.value.problems[:2]] == [
        f"{tmp_path / 'a.csv'}:3",
        f"{tmp_path / 'a.csv'}:4",
    ]
    assert "'Rudee'" in raised.value.problems[0]
    assert "has no verdict on 'Names a cause'" in raised.value.problems[1]
    assert "rename columns that contain something else" in raised.value.problems[2]


def test_words_and_numbers_are_read_as_everywhere_and_noted(tmp_path: Path) -> None:
    source = read(tmp_path, "submission,Tone,Names a cause", "So.,Kind,yes", "No.,,", "Why.,rude,0", "Ah.,Rude,1.0")
    met, unmet = CriterionVerdict.MET, CriterionVerdict.UNMET
    assert [item.ground_truth for item in source.read_items()] == [
        [met, "Kind"],
        None,
        [unmet, "Rude"],
        [met, "Rude"],
    ]
    assert source.notes[1:] == ["label 'yes' is read as MET, '0' is read as UNMET, '1.0' is read as MET"]


def test_numbers_are_labels_only_where_all_are() -> None:
    rubric = Rubric.from_dict([{"name": "A", "requirement": "Is kind."}, {"name": "B", "requirement": "Is brief."}])
    met, unmet = CriterionVerdict.MET, CriterionVerdict.UNMET
    cases: list[tuple[list[Any], list[Any]]] = [
        ([1, 0], [met, unmet]),
        ([True, False], [met, unmet]),
        ([1.0, "no"], [met, unmet]),
        ([["MET"], "0"], [met, unmet]),
        ([1, 0.5], []),
        ([1, 3], []),
    ]
    for (a, b), expected in cases:
        [item] = Submissions([{"submission": "So.", "A": a, "B": b}], rubric=rubric).read_items()
        assert (item.ground_truth or []) == expected, (a, b)
        assert item.metadata == ({} if expected else {"A": a, "B": b}), (a, b)


def test_a_column_of_labels_that_is_nearly_called_like_a_criterion_is_noted(tmp_path: Path) -> None:
    near = "column 'Name a cause' is not read; rename it to 'Names a cause' if it has the labels of this criterion"
    by_text = near.replace("'Name a cause'", "'Names at least one cause'").replace("a cause'", "at least one cause.'")
    for rows, notes in [
        (["submission,Tone,Name a cause", "So.,Kind,yes"], [UNREAD, near]),
        (["submission,Name a cause", "So.,1"], [near]),
        (["submission,Name a cause", "So.,0.4"], []),
        (["submission,Names at least one cause", "So.,yes"], [by_text]),
        (["submission,Tone,Name a cause", "So.,Kind,wind"], [UNREAD]),
    ]:
        source = read(tmp_path, *rows)
        assert [item.ground_truth for item in source.read_items()] == [None]
        assert source.notes == notes, rows


OWN = [{"name": "Cause", "requirement": "Names a cause."}, {"name": "Kind", "requirement": "Is kind."}]


@pytest.mark.parametrize(
    "labels",
    [
        *([True, False], ["yes", "No"], [1, 0.0], {"Kind": "reject", "Cause": "accept"}, ["met", "UNMET"]),
        *(
            ["✅", "❌"],
            ["✔️", "✗"],
            ["Oui", "non"],
            ["ja", "Nein"],
            ["sí", "no"],
            ["はい", "いいえ"],
            ["예", "아니요"],
        ),
    ],
)
def test_ground_truth_is_read_in_the_words_of_columns(tmp_path: Path, labels: Any) -> None:
    path = tmp_path / "a.jsonl"
    row = {"submission": "So.", "ground_truth": labels}
    expected = [[CriterionVerdict.MET, CriterionVerdict.UNMET]]
    for rubric, fields in ((Rubric.from_dict(OWN), row), (None, {**row, "rubric": OWN})):
        path.write_text(json.dumps(fields) + "\n")
        assert [item.ground_truth for item in Submissions(path, rubric=rubric).read_items()] == expected


def test_label_columns_of_a_row_with_its_own_rubric_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows: list[dict[str, Any]] = [
        {"submission": "So.", "rubric": OWN, "kind": tone} for tone in ("so-so", "yes", "no")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = Submissions(path)
    assert [item.ground_truth for item in source.read_items()] == [None] * 3
    told = "since the row has its own rubric; write them under 'ground_truth', a list or a mapping from names"
    assert source.notes == [f"{path}:2: labels in 'kind' are not read, {told}"]


def test_a_tie_with_an_option_outside_the_order_has_no_middle_label() -> None:
    values = {"1": 0.0, "3": 0.5, "5": 1.0}
    options = [
        *({"label": label, "value": value} for label, value in values.items()),
        {"label": "none", "value": 0.0, "na": True},
    ]
    tone = Criterion(requirement="How kind is it?", scale_type="ordinal", options=options)
    chosen = {"1 3 5": "3", "1 none": None, "1 3 5 none": None, "1 1 3 5 5 none": "3", "5 CANNOT_ASSESS": None}
    assert {labels: choose_majority(tone, labels.split()) for labels in chosen} == chosen


def test_words_for_a_good_result_are_labels_of_criteria_and_not_of_pitfalls() -> None:
    words = dict.fromkeys(["pass", "Passed", "PASS ", "✓", "✔", "✔\ufe0f", "✅"], "MET")
    words |= dict.fromkeys(["fail", "Failed", "✗", "✘", "❌"], "UNMET")
    pitfall = RUBRIC.rubric[0].model_copy(update={"weight": -1.0})
    assert {word: match_label(RUBRIC.rubric[0], word) for word in words} == words
    assert {match_label(pitfall, word) for word in words} == {None}
    with pytest.raises(InputError, match=r"\(or yes, no\); it does not say whether a pitfall is met; leave the cell"):
        GroundTruthReader(Rubric([pitfall])).check("Pass")
    scale = Criterion(requirement="How?", options=[{"label": str(value), "value": value} for value in (0.0, 1.0)])
    with pytest.raises(InputError, match=r"is not one of 0\.0, 1\.0; leave the cell"):
        GroundTruthReader(Rubric([scale])).check("pass")
    both = {"yes": "MET", "true": "MET", "not_met": "UNMET", "x": None, "good": None}
    for criterion in (RUBRIC.rubric[0], pitfall):
        assert {word: match_label(criterion, word) for word in both} == both


def test_only_the_numbers_0_and_1_are_verdicts() -> None:
    meant = {"1": "MET", "1e0": "MET", "-0.0": "UNMET", "0.9999999": None, "1.0000001": None, "-1": None}
    assert {word: match_label(RUBRIC.rubric[0], word) for word in meant} == meant
