"""`autorubric agree`, as users type it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset, agree, grade, label_agreement
from autorubric.cli.app import run
from autorubric.cli.labels import show_corrected
from autorubric.core.report import CriterionReport, EvaluationReport
from autorubric.errors import InputError
from autorubric.metrics.corrected import corrected_scores
from autorubric.testing import Fault, LoopbackEndpoint
from tests.offenders import offenders

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


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


@pytest.fixture(scope="session")
def graded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graded(tmp_path_factory.mktemp("graded"))


@pytest.fixture
def one(graded_once: Path, tmp_path: Path) -> Path:
    """A graded run of this test's own."""
    shutil.copytree(graded_once.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / graded_once.name


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
    assert (row["judge"], row["n"], row["accuracy"], row["asked"]) == ("check", "24", "0.75", "full")


def test_csv_has_every_place_of_a_number_and_a_column_for_each_end_of_an_interval(
    one: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agree", str(one), "--csv"]) == 0
    table = io.StringIO(capsys.readouterr().out)
    rows = list(csv.DictReader(table))
    assert run(["agree", str(one), "--json"]) == 0
    whole = {found["name"]: found for found in json.loads(capsys.readouterr().out)["per_criterion"]}
    for row in rows:
        found = whole[row["criterion"]]
        assert float(row["kappa"]) == found["kappa"] and float(row["AC"]) == found["gwet"]
        assert float(row["accuracy low"]) == found["accuracy_ci"]["lower"]
        assert float(row["kappa high"]) == found["kappa_ci"]["upper"]
    # One judge alone: there is no panel without it, and the cell is empty.
    assert run(["agree", str(one), "--by", "judge", "--csv"]) == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["panel without it"] == ""


def test_items_with_rubrics_of_their_own_have_a_kappa_by_kind_judge_and_tag_and_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = RubricDataset("Explain.")
    for number in range(80):
        short = number % 2 == 0
        check = {"name": "word_count", "parameters": {"at_most": 3}}
        rubric = Rubric([Criterion(name="Short", requirement=f"{number}: short", tags=["form"], check=check)])
        # Four labels in five are the opposite of what the check finds.
        text = f"Text {number}." if short else f"This is the text {number}."
        dataset.add_item(text, "", ["MET" if short == (number % 5 == 0) else "UNMET"], rubric)
    dataset.to_file(tmp_path / "own.json")
    assert run(["grade", str(tmp_path / "own.json"), "-o", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    # 40 of each label and a fifth agrees: κ = (0.2 - 0.5) / (1 - 0.5) = -0.6.
    for by in ("criterion", "judge", "tag"):
        assert run(["agree", str(tmp_path / "run"), "--by", by, "--csv"]) == 0
        [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
        assert float(row["kappa"]) == pytest.approx(-0.6)
        assert not row.get("mean kappa")
        assert float(row["baseline"]) == 0.5
    assert run(["agree", str(tmp_path / "run")]) == 0
    assert "Do not rely on the binary criteria: their kappa is below 0.41" in capsys.readouterr().out


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
    assert "no item has labels to compare the verdicts with" in capsys.readouterr().err
    assert run(["agree", str(bare), "--dataset", str(tmp_path / "some.json")]) == 0
    assert "4 labelled items" in capsys.readouterr().out


@pytest.mark.parametrize("question", [[], ["--corrected"], ["--criteria"], ["--label-next", "3"]])
def test_every_question_finds_labels_elsewhere_whatever_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    made = graded(tmp_path)
    labels = RubricDataset.from_file(made.with_suffix(".json"))
    labels.items = labels.items[8::-1]
    assert labels.rubric is not None
    labels.rubric = Rubric(labels.rubric.rubric[::-1])
    for item in labels.items:
        item.ground_truth = (item.ground_truth or [])[::-1]
    labels.to_file(tmp_path / "turned.json")
    # The same labels without a turn: those of the last three items are not there.
    straight = RubricDataset.from_file(made.with_suffix(".json"))
    for item in straight.items[9:]:
        item.ground_truth = None
    straight.to_file(tmp_path / "straight.json")
    printed = []
    for name in ("turned", "straight"):
        capsys.readouterr()
        assert run(["agree", str(made), *question, "--dataset", str(tmp_path / f"{name}.json"), "--json"]) == 0
        said = capsys.readouterr()
        printed.append(said.out)
        left = "3 of 12 graded items are not in the dataset of labels and count as unlabelled"
        assert (left in said.err) == (name == "turned")
    assert printed[0] == printed[1]


@pytest.mark.parametrize("question", [[], ["--corrected"], ["--criteria"], ["--label-next", "3"]])
def test_every_question_refuses_labels_of_other_texts_and_other_criteria(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    dataset = RubricDataset.from_file(one.with_suffix(".json"))
    for item in dataset.items:
        item.submission, item.id = f"Another {item.submission}", None
    dataset.to_file(tmp_path / "texts.json")
    assert run(["agree", str(one), *question, "--dataset", str(tmp_path / "texts.json")]) == 2
    assert "none of the 12 graded items is in the dataset" in capsys.readouterr().err
    dataset = RubricDataset.from_file(one.with_suffix(".json"))
    dataset.rubric = Rubric([Criterion(name="Warm", requirement="Is warm."), Criterion(requirement="Is kind.")])
    dataset.to_file(tmp_path / "criteria.json")
    assert run(["agree", str(one), *question, "--dataset", str(tmp_path / "criteria.json")]) == 2
    said = capsys.readouterr().err
    assert (
        f"{tmp_path / 'criteria.json'}: item t0: the report judges 'Short', which its rubric in the dataset" in said
    )
    assert "Give the labels of what was graded" in said


def test_two_runs_are_compared(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = graded(tmp_path, "other")
    capsys.readouterr()
    assert run(["agree", str(one), "--against", str(other)]) == 0
    assert "is not significant" in capsys.readouterr().out


def test_items_with_own_rubrics_have_the_kappa_of_all_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 4 of 8 verdicts are MET, 3 of 8 labels, and 7 agree: kappa = (7/8 - 1/2) / (1 - 1/2).
    dataset = RubricDataset("Explain.")
    for number in range(8):
        check = {"name": "word_count", "parameters": {"at_most": 2}}
        own = Rubric([Criterion(name=f"Short {number}", requirement=f"Is short: {number}", check=check)])
        text = f"Text {number}" if number % 2 else f"This is text {number}"
        dataset.add_item(text, "", ["MET" if number % 2 and number > 1 else "UNMET"], rubric=own)
    dataset.to_file(tmp_path / "own.json")
    out = str(tmp_path / "own")
    assert run(["grade", str(tmp_path / "own.json"), "-o", out]) == 0
    capsys.readouterr()
    assert run(["agree", out]) == 0
    said = capsys.readouterr().out
    found = re.search(
        r"baseline 0\.625\), kappa of all binary pairs (0\.750 \[0\.\d{3}, 0\.\d{3}\]), Gwet's AC1", said
    )
    assert found is not None and said.count(found[1]) == 2  # the second time in the row of the binary criteria
    assert run(["agree", out, "--against", out, "--csv"]) == 0
    rows = [line.split(",")[:4] for line in capsys.readouterr().out.replace("kappa, ", "").splitlines()]
    assert ['"binary"', "8", "0.75", "0.75"] in rows


def test_a_mean_kappa_below_a_threshold_is_a_status_of_its_own(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["id,criterion,label"]
    for number in range(12):
        met = number % 2 == 0 or number % 4 == 3
        rows += [f"t{number},{name},{'yes' if met == (name == 'Short') else 'no'}" for name in ("Short", "Long")]
    (tmp_path / "labels.csv").write_text("\n".join([*rows, ""]))
    stored = graded(tmp_path, labels=False)
    assert run(["labels", str(stored), "--import", str(tmp_path / "labels.csv"), "--annotator", "ana"]) == 0
    for path in (one, stored):
        # Each criterion: 9 of 12 agree, and half would by chance, as the judge says MET of half of the items.
        assert run(["agree", str(path), "--fail-under", "0.5"]) == 0
        capsys.readouterr()
        assert run(["agree", str(path), "--fail-under", "0.5000001"]) == 100
        assert capsys.readouterr().err.endswith("--fail-under: the mean kappa is 0.5, below 0.5000001\n")
    # Only MET of Short and UNMET of Long: kappa is undefined for either, also where that of all pairs is 1.
    table = "id,criterion,label\n" + "".join(f"t{n},Short,yes\nt{n},Long,no\n" for n in (0, 2, 4))
    (tmp_path / "labels.csv").write_text(table)
    alike = graded(tmp_path, "alike", labels=False)
    assert run(["agree", str(alike), "--labels", str(tmp_path / "labels.csv"), "--fail-under", "0.5"]) == 100
    assert run(["labels", str(alike), "--import", str(tmp_path / "labels.csv"), "--annotator", "ana"]) == 0
    capsys.readouterr()
    assert run(["agree", str(alike), "--fail-under", "0.5"]) == 100
    assert capsys.readouterr().err.endswith("--fail-under: the mean kappa is undefined\n")
    # Without labels, the judges of a panel are not compared with each other instead.
    panel = shutil.copytree(ROOT / "tests" / "stored_runs" / "grade_panel" / "run", tmp_path / "panel")
    texts = (panel / "dataset.json").read_text().replace('"ground_truth"', '"own"')
    (panel / "dataset.json").write_text(texts)
    assert run(["agree", str(panel), "--fail-under", "0.5"]) == 2
    assert "no item has labels to compare the verdicts with" in capsys.readouterr().err
    assert run(["agree", str(one), "--criteria", "--fail-under", "0.5"]) == 2
    assert "--fail-under has no effect with --criteria" in capsys.readouterr().err


def test_criteria_are_shown_with_what_to_do(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(one), "--criteria"]) == 0
    out = capsys.readouterr().out
    # Of the two criteria one is the other turned round.
    assert "advice" in out and "2 criteria, equivalent to 1.0 independent ones" in out


def test_the_signal_of_the_rubric_for_groups_of_rollouts_is_shown(
    one: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agree", str(one), "--criteria", "--rollouts", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Scores are 10/12 and 2/12, six of each: ±1/3 about their mean, (12/9) / 11 unbiased, 3/4 of it around the mean
    # of a group of four; and 2·C(6, 4) of C(12, 4) groups are all alike.
    assert found["group"]["expected"] == pytest.approx(12 / 9 / 11 * 3 / 4)
    assert found["group"]["silent"] == pytest.approx(30 / 495)
    assert found["effective"] == pytest.approx(1.0)
    assert [each["name"] for each in found["criteria"]] == ["Long", "Short"]
    assert run(["agree", str(one), "--criteria", "--rollouts", "1"]) == 2


WRONG_ARGUMENTS: list[tuple[list[str], str]] = [
    (["--by", "colour"], "--by is 'colour'"),
    (["--json", "--csv"], "--json and --csv are mutually exclusive"),
    (["--criteria", "--by", "judge"], "--by and --criteria are mutually exclusive"),
    (["--criteria", "--corrected"], "--criteria and --corrected are mutually exclusive"),
    (["--labels", "drawn.csv", "--corrected"], "--corrected and --labels are mutually exclusive"),
    (["--label-next", "3", "--criteria"], "--criteria and --label-next are mutually exclusive"),
    (["--by", "criterion", "--labels", "drawn.csv"], "--by and --labels are mutually exclusive"),
    (["--rollouts", "8"], "--rollouts has no effect here; leave it out, or use --criteria"),
    (["--criteria", "--cannot-assess", "as_unmet"], "--cannot-assess has no effect with --criteria"),
    (["--label-next", "3", "--confidence", "0.7"], "--confidence has no effect with --label-next"),
    (["--label-next", "3", "--na", "as_unmet"], "--na has no effect with --label-next"),
    (["--label-next", "3", "--labels", "drawn.csv", "--confidence", "0.9"], "--confidence has no effect"),
    (["--labels", "drawn.csv", "--seed", "1"], "--seed has no effect with --labels"),
    (["--against", "none", "--rollouts", "4"], "--rollouts has no effect with --against"),
    (
        ["--corrected", "--replicates", "50", "--seed", "0"],
        "--replicates has no effect with --corrected; leave it out, or use --against or --pairwise",
    ),
    (["--dataset", "none.json"], "none.json"),
    (["--cannot-assess", "drop"], "--cannot-assess is 'drop'"),
]


def test_wrong_arguments_are_named(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("drawn.csv").write_text("item,criterion,probability,batch,draw,verdict\n0,0,0.5,0,x,MET\n", encoding="utf-8")
    with offenders() as case:
        for arguments, told in WRONG_ARGUMENTS:
            with case(" ".join(arguments)):
                assert run(["agree", str(one), *arguments]) == 2
                assert told in capsys.readouterr().err


def test_a_run_with_one_label_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agree", str(graded(tmp_path, items=1))]) == 2
    assert "only 1 item has both labels and verdicts" in capsys.readouterr().err


def test_a_dataset_of_labels_is_given_alone(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, other = one.with_suffix(".json"), tmp_path / "labels.csv"
    other.write_text("id,criterion,label\n0,Short,MET\n")
    for first, then in ((dataset, other), (other, dataset)):
        assert run(["agree", str(one), "--labels", str(first), "--labels", str(then)]) == 2
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert f"{dataset}: --labels takes either one dataset or other files; not both" in said


@pytest.mark.parametrize("mode", [[], ["--pairwise"]])
def test_runs_over_different_answers_are_refused_with_what_compares_them(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: list[str]
) -> None:
    dataset = RubricDataset.from_file(one.with_suffix(".json"))
    for item in dataset.items:
        item.submission = f"Another {item.submission}"
    other = str(tmp_path / "other")
    grade(dataset, judge="builtin/offline", out=other)
    assert run(["agree", str(one), "--against", other, *mode]) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"{one} and {other} have no submission in common" in said
    assert f"autorubric report {one} --against {other}" in said


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
    # Whoever labels reads here what to label, and by what.
    assert {row["choices"] for row in rows} == {"MET | UNMET"} and all(row["requirement"] for row in rows)
    assert all(row["submission"] for row in rows)
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
    for function in (agree, label_agreement):
        with pytest.raises(InputError, match=r"must be weighted.*\n.*autorubric.import_labels"):
            function(made, labels=sheet)
    assert run(["agree", str(made), "--labels", str(sheet), "--label-next", "3", "--csv"]) == 0
    more = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["batch"] for row in more} == {"1"}
    known = {(row["item"], row["criterion"]) for row in rows}
    assert not known & {(row["item"], row["criterion"]) for row in more}


def write(sheet: Path, rows: list[dict[str, str]]) -> None:
    with sheet.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def test_labels_that_stay_open_count_by_those_of_their_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, sheet = graded(tmp_path, labels=False, items=40), tmp_path / "to_label.csv"
    capsys.readouterr()
    assert run(["agree", str(made), "--label-next", "80", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["draw"] for row in rows} == {"80 of 80, seed 0"}
    # All pairs are asked for and every second item is labelled, all UNMET: the judge finds half of them MET, so that
    # the errors found, taken twice, take all from the score: (10/12 + 2/12) / 2 less as much.
    for row in rows:
        row["verdict"] = "UNMET" if int(row["item"]) % 4 < 2 else ""
    write(sheet, rows)
    assert run(["agree", str(made), "--labels", str(sheet)]) == 0
    out = capsys.readouterr().out
    assert "0.000 [" in out
    assert "note: batch 0: 40 of 80 labels; valid only if these are a random part, not the easy ones" in out


def test_labels_of_another_state_of_the_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, sheet = graded(tmp_path, labels=False, items=10), tmp_path / "to_label.csv"
    capsys.readouterr()
    assert run(["agree", str(made), "--label-next", "4", "--csv"]) == 0
    rows = [row | {"verdict": "MET"} for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
    write(sheet, rows)
    assert run(["agree", str(made), "--labels", str(sheet)]) == 0
    dataset = RubricDataset.from_file(made / "dataset.json")
    other = next(number for number in range(10) if str(number) not in {row["item"] for row in rows})
    dataset.items[other].ground_truth = [CriterionVerdict.MET, CriterionVerdict.UNMET]
    dataset.to_file(tmp_path / "labelled.json")
    capsys.readouterr()
    assert run(["agree", str(made), "--dataset", str(tmp_path / "labelled.json"), "--labels", str(sheet)]) == 2
    assert "batch 0 was drawn from 20 open pairs, and 18 are open now" in capsys.readouterr().err


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
    # No label is MET, so that nothing is known of the judge's sensitivity.
    shown = show_corrected(corrected_scores(reports, dataset), 0.95)
    assert shown.below == [
        "",
        "note: no 'Rogan-Gladen' estimate for Lies: no label is MET",
        "note: no 'PPI++' interval for mean score, Lies: the estimated variance is 0: the labels, or their "
        "differences from the verdicts, do not vary",
    ]


HEAD = "item,id,criterion,name,probability,batch,draw,verdict\n"
DRAW = '"2 of 24, seed 0"'


# A word stands for a verdict, as in other files of labels.
def test_a_completed_file_may_have_words_for_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, found = graded(tmp_path, labels=False), []
    capsys.readouterr()
    for words in (("MET", "UNMET"), ("yes", "n")):
        rows = [f'{n},,0,Short,0.5,0,"4 of 24, seed 0",{words[n % 2]}\n' for n in range(4)]
        (tmp_path / "labels.csv").write_text(HEAD + "".join(rows))
        assert run(["agree", str(one), "--labels", str(tmp_path / "labels.csv")]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]


BAD_LABELS: list[tuple[str, str]] = [
    ("a,b\n1,2\n", "no column for id, criterion, label"),
    ("pupil,criterion,label\na,Tone,MET\n", "name it with --column id=NAME (in Python: column={'id': NAME})"),
    ("id,Tone,Length\na,MET,UNMET\n", "no column for criterion, label; the columns are 'id', 'Tone', 'Length'"),
    (f"{HEAD}0,,0,Short,0.5,0,{DRAW},\n", "no row has a verdict"),
    (f"{HEAD}x,,0,Short,0.5,0,{DRAW},MET\n", ":2: item, criterion"),
    (f"{HEAD}0,,9,Short,0.5,0,{DRAW},MET\n", "no such pair"),
    (f"{HEAD}0,,0,Short,7,0,{DRAW},MET\n", ":2: item, criterion, probability"),
    (f"{HEAD}0,,0,Short,1e-300,0,{DRAW},MET\n", ":2: item, criterion, probability"),
    (f"{HEAD}0,,0,Short,0.5,0,all of them,MET\n", ":2: item, criterion, probability, batch and draw"),
    (f"{HEAD}0,,0,Short,0.5,0,{DRAW},perhaps\n", ":2: verdict 'perhaps' is not one of MET, UNMET, CANNOT_ASSESS"),
    (f"{HEAD}0,,0,{'x' * 2**18},0.5,0,{DRAW},MET\n", "labels.csv:2: name is 'xxx"),
    (f"{HEAD}0,,0,Short,0.5,-1,{DRAW},MET\n", ":2: item, criterion"),
    (f"{HEAD}0,t0,1,Short,0.5,0,{DRAW},MET\n", ":2: name is 'Short', but the run's criterion 1 has 'Long'"),
    (f"{HEAD}0,t1,0,Short,0.5,0,{DRAW},MET\n", ":2: id is 't1', but the run's item 0 has 't0'"),
    (f"{HEAD}0,,0,Short,0.5,0,{DRAW},MET\n0,,0,Short,0.5,0,{DRAW},UNMET\n", "has a label already"),
    (
        f'{HEAD}0,,0,Short,0.5,0,{DRAW},MET\n1,,0,Short,0.5,0,"9 of 9, seed 1",MET\n',
        ":3: batch 0 comes from two draws",
    ),
    (f"{HEAD}0,,0,Short,0.5,0,{DRAW},MET\n", "criterion 0: the item has ground truth"),
    (HEAD.replace(",", ";"), "no row has a verdict"),
    (f"{HEAD}0,,0,Short,0.5,0,2 of 24, seed 0,MET\n", "labels.csv:2: the row has 9 cells, the header has 8"),
]


def test_a_label_file_that_cannot_be_used_is_named(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with offenders() as case:
        for content, says in BAD_LABELS:
            with case(content[:100]):
                (tmp_path / "labels.csv").write_text(content)
                assert run(["agree", str(one), "--labels", str(tmp_path / "labels.csv")]) == 2
                assert says in capsys.readouterr().err
    (tmp_path / "labels.csv").write_text("id,criterion,label\nt0,Short,MET\n")
    assert run(["agree", str(one), "--labels", str(tmp_path / "labels.csv"), "--label-next", "2"]) == 2
    told = "no column item, name, probability, batch, draw, verdict; expected a completed file of --label-next"
    assert told in capsys.readouterr().err


def test_judgments_that_a_budget_left_out_are_counted_apart_from_failed_ones(tmp_path: Path) -> None:
    criteria = [Criterion(name=f"C{n}", requirement=f"Says {n}.") for n in range(5)]
    dataset = RubricDataset("Why?", Rubric(criteria))
    for n in range(9):
        dataset.add_item(f"Essay {n}.", "", ["MET"] * 5)
    broken = Fault("500", 500, body=b"{}")
    with LoopbackEndpoint(
        faults=lambda body: broken if "Says 4." in json.dumps(body) else None
    ).in_thread() as server:
        judge = f"j@{server.base_url}"
        settings = {"concurrency": 1, "retry": 0, "budget_tokens": 26_000, "out": tmp_path / "run"}
        grade(dataset, judge=judge, **settings)
    rows = [json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()]
    errors = [entry.get("error") for row in rows for entry in row["report"]["criterion_reports"]]
    skipped = sum(error is not None and (": budget: " in error or ": stopped: " in error) for error in errors)
    failed = sum(error is not None and ": server: " in error for error in errors)
    assert failed and skipped and failed + skipped + errors.count(None) == len(errors), errors
    found = agree(tmp_path / "run")
    coverage = found.coverage_stats
    assert coverage is not None
    assert (coverage.n_errored, coverage.n_not_requested, coverage.n_total) == (failed, skipped, len(errors))
    assert f"{failed} of {len(errors)} labelled judgments failed and are left out" in found.warnings
    assert f"{skipped} of {len(errors)} labelled judgments were not made and are left out" in found.warnings
