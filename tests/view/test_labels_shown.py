"""Report and view show the labels that `autorubric agree` takes, with its numbers, which are counted by hand."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, InputError, Rubric, RubricDataset, agree, report, verify
from autorubric.cli.app import run as command
from autorubric.labels import Ask, label_queue
from tests.labels.runs import RUBRIC as ASKED
from tests.labels.runs import answers, graded
from tests.offenders import offenders
from tests.oracles import cohen_kappa_score, proportion_confint
from tests.processes import wait_until
from tests.view.viewing import RUBRIC, Viewer, item, judged, line, viewing, write_run

CAUSE, BRIEF = RUBRIC
JUDGED = [["MET" if (n + place) % 3 else "UNMET" for place in range(2)] for n in range(30)]
LABELS = [["MET" if (n * 7 + place) % 4 else "UNMET" for place in range(2)] for n in range(30)]


def unlabelled(folder: Path, count: int = 30, **more: Any) -> Path:
    words = JUDGED[:count]
    lines = [line(n, 0.5, [judged(CAUSE, a), judged(BRIEF, b)]) for n, (a, b) in enumerate(words)]
    return write_run(folder, [item(n, **more) for n in range(count)], lines)


def store(run: Path, items: range, places: tuple[int, ...] = (0, 1)) -> None:
    with label_queue(run) as queue:
        for n in items:
            for place in places:
                queue.label("ana", n, place, LABELS[n][place])


def agreed(items: range, places: tuple[int, ...] = (0, 1)) -> tuple[int, int]:
    """Pairs, and those with equal words."""
    pairs = [(LABELS[n][place], JUDGED[n][place]) for n in items for place in places]
    return len(pairs), sum(a == b for a, b in pairs)


def command_json(*flags: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert command(["agree", *flags, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def measured(view: Viewer) -> Any:
    """The agreement page, once the labels of pairs are measured."""
    wait_until(lambda: view.indexed().data("/r/0/agreement")["labelled"], "the labels are not measured")
    return view.data("/r/0/agreement")


def check(numbers: Any, n: int, same: int, items: int) -> None:
    """The numbers of a report, against counts."""
    shown, whole = numbers["agreement"], numbers["summary"]["against_labels"]
    assert (shown["labelled"]["value"], shown["labelled"]["n"]) == (pytest.approx(same / n), items)
    assert whole == shown["labelled"]
    assert sum(one["labelled"] for one in shown["criteria"]) == n
    assert sum((one["agreement"] or 0) * one["labelled"] for one in shown["criteria"]) == pytest.approx(same)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("places", [(0, 1), (1,)])
def test_labels_of_the_store_are_in_report_view_and_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], places: tuple[int, ...]
) -> None:
    run, items = unlabelled(tmp_path / "run"), range(0, 24, 2)
    store(run, items, places)
    n, same = agreed(items, places)
    found = report(run, format="json").numbers
    check(found, n, same, len(items))
    told = command_json(str(run), capsys=capsys)
    assert (told["judge"]["n"], told["judge"]["accuracy"]["value"]) == (n, pytest.approx(same / n))
    low, high, *_ = told["judge"]["accuracy"]["interval"]
    assert found["agreement"]["labelled"]["interval"] == pytest.approx([low, high])
    kappas = {one["name"]: one["kappa"] for one in found["agreement"]["criteria"] if one["labelled"]}
    for place in places:
        words = [(LABELS[at][place], JUDGED[at][place]) for at in items]
        expected = cohen_kappa_score([a for a, _ in words], [b for _, b in words])
        assert kappas[RUBRIC[place]["name"]] == pytest.approx(expected)
        [row] = [one for one in told["criteria"] if one["name"] == RUBRIC[place]["name"]]
        wilson = proportion_confint(sum(a == b for a, b in words), len(words), method="wilson")
        assert row["accuracy"]["interval"][:2] == pytest.approx(wilson)
    assert f"| Agreement with labels | {same / n:.1%} (95% interval" in report(run, format="md").text
    with viewing(run) as view:
        page, rows = measured(view), view.data("/r/0/items?sort=place")["items"]
        one = view.data("/r/0/items/2")["criteria"]
        html = re.sub(r"<[^>]+>", " ", view.page("/r/0/agreement").text)
    assert page["labelled"]["value"] == pytest.approx(same / n)
    assert page["labels"]["origin"] == "the label store"
    assert page["majority"] == pytest.approx(told["judge"]["baseline"])
    assert "Labels: the label store." in html
    labelled = [sum(at in items for _ in places) for at in range(30)]
    assert [row["labelled"] for row in rows] == labelled
    assert [entry["label"] for entry in one] == [LABELS[2][place] if place in places else None for place in (0, 1)]


@pytest.mark.usefixtures("forked")
def test_criteria_of_the_same_name_have_their_own_weighted_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Rubric([Criterion(name=ASKED[0].name, requirement="Is another."), *[*ASKED][1:]])
    items = [replace(one, rubric=other if n % 2 else None) for n, one in enumerate(answers(24))]
    run = graded(tmp_path / "run", 24, RubricDataset("Why?", Rubric([*ASKED]), items))
    with label_queue(run, Ask("uncertain", size=24, seed=5)) as queue:
        for turn in range(24):
            task = queue.next("ana")
            assert task is not None
            queue.label("ana", task.pair.index, task.pair.place, "MET" if turn % 3 else "UNMET")
    criteria = command_json(str(run), capsys=capsys)["criteria"]
    told = sorted((one["n"], pytest.approx(one["accuracy"]["value"])) for one in criteria)
    for no_text in (False, True):
        shown = report(run, format="json", no_text=no_text).numbers["agreement"]["criteria"]
        found = sorted((one["labelled"], one["agreement"]) for one in shown if one["labelled"])
        assert found == told
    with viewing(run) as view:
        measured(view)
        pages = [view.data(f"/r/0/criteria/{one['criterion']}") for one in view.data("/r/0/agreement")["criteria"]]
    pairs = [pair for page in pages for pair in page["raters"] if pair["n"]]
    assert sorted((pair["n"], pair["share"]) for pair in pairs) == told


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("own", [False, True])
def test_labels_of_drawn_pairs_have_the_weighted_numbers_of_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    items = [replace(one, rubric=Rubric([*ASKED][n % 2 :])) for n, one in enumerate(answers(24))]
    run = graded(tmp_path / "run", 24, RubricDataset("Why?", None, items) if own else None)
    with label_queue(run, Ask("uncertain", size=12, seed=5)) as queue:
        for turn in range(12):
            task = queue.next("ana")
            assert task is not None
            queue.label("ana", task.pair.index, task.pair.place, "MET" if turn % 3 else "UNMET")
    told = command_json(str(run), capsys=capsys)
    assert told["weighted"]
    found = report(run, format="json").numbers["agreement"]
    assert found["labels"]["weighted"]
    assert found["labelled"]["value"] == pytest.approx(told["judge"]["accuracy"]["value"])
    assert found["labelled"]["n"] == told["judge"]["items"]
    assert found["whole"]["kappa"] == pytest.approx(told["judge"]["kappa"]["value"])
    criteria = {one["name"]: one for one in told["criteria"]}
    assert sum(one["labelled"] for one in found["criteria"]) == 12
    for one in found["criteria"]:
        if own:  # `agree` pools the criteria, so each has its number of labels alone
            assert {one["agreement"], one["interval"], one["kappa"]} == {None}
        elif one["labelled"]:
            expected = criteria[one["name"]]
            assert (one["labelled"], one["agreement"]) == (
                expected["n"],
                pytest.approx(expected["accuracy"]["value"]),
            )


@pytest.mark.usefixtures("forked")
def test_the_labels_of_the_dataset_come_first_and_labels_chooses_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = unlabelled(tmp_path / "run")
    for n, one in enumerate(whole := json.loads((run / "dataset.json").read_text())["items"]):
        one["ground_truth"] = JUDGED[n]  # those of the dataset always agree
    write_run(run, whole, (run / "items.jsonl").read_text().splitlines())
    store(run, range(10))
    n, same = agreed(range(10))
    table = tmp_path / "labels.csv"
    with table.open("w", newline="") as file:
        rows = [(f"e{at}", RUBRIC[place]["name"], LABELS[at][place]) for at in range(10, 30) for place in (0, 1)]
        csv.writer(file).writerows([("id", "criterion", "label"), *rows])
    with offenders() as case:
        with case("of the dataset"), pytest.warns(UserWarning, match=r"the label store \(20\) do not"):
            check(report(run, format="json").numbers, 60, 60, 30)
        with case("of the label store"):
            chosen = {"labels": run / "labels"}
            check(report(run, format="json", **chosen).numbers, n, same, 10)
            assert command_json(str(run), "--labels", str(run / "labels"), capsys=capsys)["judge"]["n"] == n
        with case("in a file"), pytest.warns(UserWarning, match="10 of 30 items have no labels"):
            made = report(run, out=tmp_path / "report.html", labels=table)
            check(made.numbers, *agreed(range(10, 30)), 20)
            assert agree(run, labels=table).criterion_accuracy == pytest.approx(
                made.numbers["agreement"]["labelled"]["value"]
            )
            assert verify(tmp_path / "report.html", run=run, labels=table).is_verified
        with case("a report with other labels"), pytest.raises(InputError, match="pass the same --labels"):
            verify(tmp_path / "report.html", run=run)
        with case("in the view"), viewing(run, flags=["--labels", str(run / "labels")]) as view:
            assert measured(view)["labelled"]["value"] == pytest.approx(same / n)
        with case("in the view, without a choice"), viewing(run) as view:
            page = measured(view)
            assert (page["labelled"]["value"], page["labels"]["not_counted"]) == (1.0, 20)
        with case("of other items"), pytest.raises(InputError, match="no item has the id"):
            table.write_text("id,criterion,label\nnobody,Cause,MET\n")
            report(run, labels=table)


def test_new_labels_are_shown_once_labelling_ends(tmp_path: Path) -> None:
    run = unlabelled(tmp_path / "run")
    store(run, range(6))
    with viewing(run) as view:
        before = measured(view)["labelled"]["n"]
        view.post("/r/0/label/open", {"annotator": "ben", "policy": "random", "size": 5})
        for n in range(6, 9):
            body = {"annotator": "ben", "index": n, "place": 0, "verdict": "MET"}
            assert view.post("/r/0/label/label", body).status == 200
        assert view.page("/r/0/agreement").status == 403
        view.post("/r/0/label/close", {})
        pages = [view.page("/r/0/agreement").text]

        def is_shown() -> bool:  # the item is gone for a moment, while the run is indexed again
            pages.append(view.page("/r/0/agreement").text)
            found = view.page("/r/0/items/6?format=json")
            return found.status == 200 and found.json["criteria"][0]["label"] == "MET"

        wait_until(is_shown, "the new label is not shown")
    assert before == 6
    for page in pages:  # figures of the labels, or why there are none yet; never both, nor that there are no labels
        waits = "Labels: new labels are" in page or "is computed once" in page
        assert ("Labels against verdicts" in page, "Agreement with the labels" in page) == (not waits, not waits)
        assert "has no labels" not in page
