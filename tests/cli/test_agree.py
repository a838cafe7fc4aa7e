"""`autorubric agree`, as users type it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.cli.labelling import corrected
from autorubric.core.report import CriterionReport, EvaluationReport

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def graded(folder: Path, name: str = "run", *, labels: bool = True, items: int = 12) -> Path:
    """A run of checks: a text is short or not, and the labels disagree on every fourth."""
    rubric = Rubric(
        [
            Criterion(
                name="Short",
                requirement="Has at most 3 words.",
                tags=["form"],
                check={"name": "word_count", "parameters": {"at_most": 3}},
            ),
            Criterion(
                name="Long",
                requirement="Has at least 4 words.",
                weight=2,
                tags=["form", "size"],
                check={"name": "word_count", "parameters": {"at_least": 4}},
            ),
        ]
    )
    dataset = RubricDataset("Explain.", rubric)
    for number in range(items):
        short = number % 2 == 0
        truth = ["MET", "UNMET"] if short != (number % 4 == 3) else ["UNMET", "MET"]
        text = f"Text {number}." if short else f"This is the text {number}."
        dataset.add_item(text, "", truth if labels else None, id=f"t{number}")
    path = folder / f"{name}.json"
    dataset.to_file(path)
    assert run(["grade", str(path), "--out", str(folder / name)]) == 0
    return folder / name


@pytest.fixture
def one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    made = graded(tmp_path)
    capsys.readouterr()
    return made


def test_a_run_is_held_against_its_labels(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(one)]) == 0
    out = capsys.readouterr().out
    # Items 3, 7 and 11 have the other label: 9 of 12 agree on either criterion.
    assert "12 labelled items, 24 pairs of label and verdict" in out
    assert "accuracy 0.750" in out
    assert "Short" in out and "Long" in out


@pytest.mark.parametrize("by", ["criterion", "tag"])
def test_the_table_has_other_forms(one: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    assert run(["agree", str(one), "--by", by, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row[by] for row in rows] == (["Short", "Long"] if by == "criterion" else ["form", "size"])
    assert run(["agree", str(one), "--by", by, "--md"]) == 0
    assert "| --- |" in capsys.readouterr().out
    assert run(["agree", str(one), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_items"] == 12


def test_a_row_for_each_judge(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(one), "--by", "judge", "--csv"]) == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["judge"], row["n"], row["accuracy"], row["asked"]) == ("check", "24", "0.750", "full")


def test_the_same_command_prints_the_same(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        run(["agree", str(one)])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_labels_may_come_from_another_file_with_a_part_of_the_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = graded(tmp_path, "bare", labels=False)
    labelled = RubricDataset.from_file(graded(tmp_path, "labelled").with_suffix(".json"))
    labelled.items = labelled.items[4:8]
    labelled.to_file(tmp_path / "some.json")
    capsys.readouterr()
    assert run(["agree", str(bare)]) == 2
    assert "no graded item has both ground truth and a judgment" in capsys.readouterr().err
    assert run(["agree", str(bare), "--dataset", str(tmp_path / "some.json")]) == 0
    assert "4 labelled items" in capsys.readouterr().out


def test_two_runs_are_compared(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = graded(tmp_path, "other")
    capsys.readouterr()
    assert run(["agree", str(one), "--against", str(other)]) == 0
    assert "do not tell which of the two" in capsys.readouterr().out


def test_criteria_are_shown_with_what_to_do(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(one), "--criteria"]) == 0
    assert "what to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--by", "colour"], "--by 'colour' is not one of criterion, judge, tag"),
        (["--json", "--csv"], "--json and --csv exclude each other"),
        (["--criteria", "--corrected"], "--criteria and --corrected are different questions"),
        (["--dataset", "none.json"], "none.json"),
        (["--cannot-assess", "drop"], "cannot_assess='drop' is not one of"),
    ],
)
def test_wrong_arguments_are_named(
    one: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(["agree", str(one), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_run_with_one_label_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(graded(tmp_path, items=1))]) == 2
    assert "only 1 item has both labels and verdicts" in capsys.readouterr().err


def test_labels_of_other_texts_are_refused(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = RubricDataset.from_file(one.with_suffix(".json"))
    for item in dataset.items:
        item.submission, item.id = f"Another {item.submission}", None
    dataset.to_file(tmp_path / "others.json")
    assert run(["agree", str(one), "--dataset", str(tmp_path / "others.json")]) == 2
    assert "none of the 12 graded items is in the dataset" in capsys.readouterr().err


def test_the_essays_are_graded_and_held_against_their_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = DATA / "essay_grading_dataset.json"
    if not path.exists():
        pytest.skip(f"{path.name} is not here; the repository does not carry it")
    assert run(["grade", str(path), "--judge", "builtin/offline", "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert run(["agree", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    for name in ("Causes", "Effects", "Structure", "Britain", "Errors"):
        assert name in out


def test_labels_are_asked_for_filled_in_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, sheet = graded(tmp_path, labels=False, items=40), tmp_path / "to_label.csv"
    capsys.readouterr()
    assert run(["agree", str(made), "--label-next", "12", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 12 and {row["batch"] for row in rows} == {"0"}
    # A person agrees with every check: the corrected mean is the mean as judged.
    for row in rows:
        short = int(row["item"]) % 2 == 0
        row["verdict"] = "MET" if short == (row["name"] == "Short") else "unmet"
    with sheet.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    assert run(["agree", str(made), "--labels", str(sheet), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Weights 10 and 2: short texts score 10/12, long ones 2/12; there are as many of either.
    assert found["labels"] == 12 and found["value"] == pytest.approx(0.5)
    assert run(["agree", str(made), "--labels", str(sheet), "--label-next", "3", "--csv"]) == 0
    more = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["batch"] for row in more} == {"1"}
    known = {(row["item"], row["criterion"]) for row in rows}
    assert not known & {(row["item"], row["criterion"]) for row in more}


def test_scores_are_corrected_with_the_labels(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(one), "--corrected", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # 6 of 12 are short; labels turn items 3, 7 and 11 into short ones.
    assert found["criteria"]["Short"]["raw"]["value"] == 0.5
    assert found["criteria"]["Short"]["labels_only"]["value"] == 0.75
    assert run(["agree", str(one), "--corrected"]) == 0
    assert "labels alone" in capsys.readouterr().out


def test_a_figure_without_an_interval_has_a_note_that_says_why() -> None:
    rubric = Rubric([Criterion(name="Lies", requirement="Invents a source.")])
    dataset, reports = RubricDataset("Explain.", rubric), []
    for number in range(130):
        verdict = CriterionVerdict.MET if number < 15 else CriterionVerdict.UNMET
        entry = CriterionReport(**rubric[0].model_dump(), verdict=verdict, reason=None)
        reports.append(EvaluationReport(score=float(number < 15), report=[entry]))
        dataset.add_item(f"text {number}", "", [CriterionVerdict.UNMET] if number < 30 else None)
    # The judge calls half of the labels MET, all in error, and nothing of the rest: 0 - 15/30 is no rate.
    shown = corrected(reports, dataset, 0.95)
    assert shown.below == [
        "",
        "note: mean score: no corrected (PPI) interval: the judge's errors put the mean beyond its scale",
        "note: Lies: no corrected (PPI) interval: the judge says MET less often than its errors allow",
        "note: Lies: no Rogan-Gladen interval: no label is MET",
    ]


HEAD = "item,id,criterion,name,probability,batch,verdict\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b\n", "no column item, id, criterion"),
        (f"{HEAD}0,,0,Short,0.5,0,\n", "no row has a verdict"),
        (f"{HEAD}x,,0,Short,0.5,0,MET\n", ":2: item, criterion"),
        (f"{HEAD}0,,9,Short,0.5,0,MET\n", "no such pair"),
        (f"{HEAD}0,,0,Short,7,0,MET\n", "probability=7.0"),
        (f"{HEAD}0,,0,Short,0.5,0,perhaps\n", "perhaps"),
    ],
)
def test_a_label_file_that_cannot_be_used_is_named(
    one: Path, tmp_path: Path, content: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.csv").write_text(content)
    assert run(["agree", str(one), "--labels", str(tmp_path / "labels.csv")]) == 2
    assert says in capsys.readouterr().err
