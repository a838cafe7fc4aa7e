import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import multimode
from typing import Any

import pytest

import autorubric
from autorubric import Criterion, CriterionOption, InputError, Rubric, RubricDataset
from autorubric.cli.app import run as command
from autorubric.labels import Ask, label_queue, read_history
from autorubric.labels.label_agreement import LabelAgreement
from tests.labels.runs import RUBRIC, answers, graded, with_options
from tests.offenders import offenders


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return graded(tmp_path / "run", dataset=answers(6, with_options()))


def said(run: Path) -> dict[tuple[str, str, str], str | None]:
    """The labels that stand, by item, criterion and annotator."""
    history = read_history(run)
    return {
        (event.item, event.criterion, name): event.verdict
        for key in history.labelled()
        for name, event in history.labels(key).items()
    }


def argilla(user: str = "ana") -> list[dict[str, Any]]:
    """As `dataset.records.to_list()` of Argilla 2 gives them."""

    def answered(word: str) -> list[dict[str, Any]]:
        return [{"value": word, "user_id": user, "status": "submitted"}]

    return [
        {
            "id": "q0",
            "fields": {"text": "it depends"},
            "metadata": {},
            "suggestions": {"Moon": {"value": "MET", "score": None, "agent": "judge"}},
            "responses": {"Moon": answered("UNMET"), "Tone": answered("good"), "comment": answered("fine")},
            "vectors": {},
        },
        {
            "id": "r-17",
            "fields": {"text": "moon"},
            "metadata": {"item": "q1", "criterion": "Short"},
            "suggestions": {},
            "responses": {"verdict": [*answered("MET"), {"value": "UNMET", "user_id": "ben", "status": "discarded"}]},
            "vectors": {},
        },
    ]


def label_studio() -> list[dict[str, Any]]:
    """As the JSON export of Label Studio gives them."""

    def choice(name: str, word: str) -> dict[str, Any]:
        return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [word]}}

    return [
        {
            "id": 11,
            "data": {"id": "q0", "text": "it depends"},
            "annotations": [
                {
                    "id": 1,
                    "completed_by": {"id": 3, "email": "ana@example.org"},
                    "result": [
                        choice("Moon", "UNMET"),
                        {"from_name": "note", "to_name": "text", "type": "textarea", "value": {"text": ["no moon"]}},
                        {"from_name": "quote", "to_name": "text", "type": "labels",
                         "value": {"start": 0, "end": 2, "text": "it", "labels": ["quote"]}},
                    ],
                    "was_cancelled": False,
                    "lead_time": 4.288,
                },
                {"id": 2, "completed_by": 10, "result": [choice("Moon", "MET")], "was_cancelled": True},
            ],
            "predictions": [],
        },
        {
            "id": 12,
            "data": {"item": "q1", "criterion": "Tone"},
            "annotations": [{"id": 3, "completed_by": 10, "result": [choice("verdict", "bad")], "lead_time": None}],
        },
    ]  # fmt: skip


def argilla_1() -> list[dict[str, Any]]:
    values = {"Moon": {"value": "UNMET"}, "Short": {"value": "MET"}}
    return [{
        "fields": {"text": "it depends"}, "metadata": {"id": "q0"}, "external_id": None,
        "responses": [{"user_id": "ana", "status": "submitted", "values": values},
                      {"user_id": "ben", "status": "draft", "values": values}],
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (argilla(), {("q0", "Moon", "ana"): "UNMET", ("q0", "Tone", "ana"): "good", ("q1", "Short", "ana"): "MET"}),
        (argilla_1(), {("q0", "Moon", "ana"): "UNMET", ("q0", "Short", "ana"): "MET"}),
        (label_studio(), {("q0", "Moon", "ana@example.org"): "UNMET", ("q1", "Tone", "10"): "bad"}),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_labels_of_other_tools(run: Path, records: list[Any], expected: object, suffix: str) -> None:
    file = run.parent / f"labels{suffix}"
    lines = "".join(json.dumps(record) + "\n" for record in records)
    file.write_text(json.dumps(records) if suffix == ".json" else lines)
    done = autorubric.import_labels(run, files=file)
    assert (done.labels, done.repeated) == (len(said(run)), 0)
    assert said(run) == expected
    again = autorubric.import_labels(run, files=file)
    assert (again.labels, again.repeated) == (0, done.labels)


def test_notes_quotes_and_times_come_along(run: Path) -> None:
    (run.parent / "studio.json").write_text(json.dumps(label_studio()))
    (run.parent / "argilla.json").write_text(json.dumps(argilla()))
    autorubric.import_labels(run, files=[run.parent / "studio.json", run.parent / "argilla.json"])
    events = {(event.item, event.criterion, event.annotator): event for event in read_history(run).events}
    first = events["q0", "Moon", "ana@example.org"]
    assert (first.note, first.quote, first.seconds) == ("no moon", "it", 4.288)
    assert events["q0", "Tone", "ana"].note == "fine"


def test_rows_with_any_usual_names(run: Path) -> None:
    file = run.parent / "marks.csv"
    file.write_text(
        "item,criterion,verdict,rater,comment\nq0,moon,met,ana,why not\nq1,Tone,GOOD,ben,\nq2,Moon,,ana,\n"
    )
    with pytest.warns(UserWarning, match="is read as the|1 row has no label") as caught:
        autorubric.import_labels(run, files=file)
    assert said(run) == {("q0", "Moon", "ana"): "MET", ("q1", "Tone", "ben"): "good"}
    assert f"{file}: column 'rater' is read as the annotator" in {str(one.message) for one in caught}
    assert read_history(run).events[0].note == "why not"


def test_a_labelled_dataset_is_imported_for_an_annotator(run: Path) -> None:
    labelled = answers(6, with_options())
    labelled.items[2].ground_truth = ["MET", "UNMET", "good"]
    labelled.items.reverse()
    labelled.to_file(run.parent / "labelled.json")
    with pytest.raises(InputError, match="does not say whose label this is; pass --annotator NAME"):
        autorubric.import_labels(run, files=run.parent / "labelled.json")
    autorubric.import_labels(run, files=run.parent / "labelled.json", annotator="ana")
    assert said(run) == {
        ("q2", "Short", "ana"): "MET",
        ("q2", "Moon", "ana"): "UNMET",
        ("q2", "Tone", "ana"): "good",
    }


WRONG: list[tuple[str, str, str]] = [
    ("a.csv", "id,criterion,label,annotator\nq0,Moon,MET,ana\nq99,Moon,MET,ana\n", "a.csv:3: no item has the id"),
    ("a.csv", "id,criterion,label,annotator\nq0,Moon,MET,ana\nq0,Mon,MET,ana\n", "no criterion is named 'Mon'"),
    ("a.csv", "id,criterion,label,annotator\nq0,Moon,MET,ana\nq0,Tone,MET,ana\n", "not one of bad, good"),
    ("a.csv", "id,criterion,label,annotator\nq0,Moon,MET,ana\nq0,Moon,MET,../x\n", "not contain a slash"),
    ("a.csv", "id,criterion,label,annotator,seconds\nq0,Moon,MET,ana,1\nq0,Tone,bad,ana,soon\n", "seconds='soon'"),
    ("a.csv", "id,criterion,label\nq0,Moon,MET\n", "pass --annotator NAME"),
    ("a.csv", "id,criterion,note\nq0,Moon,MET\n", "no column for label"),
    ("a.csv", "id,criterion,label,annotator\n", "a.csv: no labels found"),
    ("a.jsonl", '{"fields": {}, "responses": {"Moon": 3}, "id": "q0"}\n', "is not as Argilla writes it"),
    ("a.jsonl", '{"fields": {}, "responses": {"Moon": [{"value": ["a", "b"]}]}, "id": "q0"}\n', "one label"),
    (
        "a.jsonl",
        '{"data": {"id": "q0"}, "annotations": [{"result": [{"from_name": "Moon", "value": {"choices": ["MET", '
        '"UNMET"]}}]}]}\n',
        "Label Studio writes it: Moon: expected one choice, got 2",
    ),
    ("a.jsonl", '{"data": {"id": "q0"}, "annotations": [{"result": [{}]}]}\n', "is not as Label Studio writes it"),
    ("a.jsonl", '{"id": 1, "at": 0.0, "kind": "label", "digest": "x", "annotator": "ana"}\n', "this is not an event"),
    ("a.jsonl", '{"id": 2, "at": 1.0, "kind": "label", "item": "q0", "criterion": "Moon", "digest": "x", '
                '"annotator": "ana", "verdict": "MET"}\n', "its id is 2; expected 1"),
    ("a.jsonl", '{"id": 1, "at": 1.0, "kind": "draw", "item": "q0", "criterion": "Moon", "digest": "x", '
                '"annotator": ""}\n', "an event is not valid"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), WRONG)
def test_a_wrong_file_adds_nothing(run: Path, name: str, content: str, message: str) -> None:
    (run.parent / name).write_text(content)
    with pytest.raises(InputError) as caught:
        autorubric.import_labels(run, files=run.parent / name)
    assert message in str(caught.value)
    assert read_history(run).events == []


def label_some(run: Path) -> None:
    with label_queue(run, Ask("random", size=10), second_share=0.5) as queue:
        for name in ("ana", "ben"):
            while (task := queue.next(name)) is not None and queue.progress(name).labelled < 6:
                queue.label(name, task.pair.index, task.pair.place, task.choices[0], note="=1+1", seconds=1.5)
        queue.undo("ben")
        for item in range(2):
            for place, word in enumerate(["MET", "UNMET", "good"]):
                queue.label("cy", item, place, word)


def test_events_come_back_from_jsonl_with_their_draws(run: Path, tmp_path: Path) -> None:
    label_some(run)
    file = autorubric.export_labels(run, target=tmp_path / "all.jsonl")
    copy = graded(tmp_path / "copy", dataset=answers(6, with_options()))
    autorubric.import_labels(copy, files=file)
    assert read_history(copy).events == read_history(run).events
    again = autorubric.export_labels(copy, target=tmp_path / "again.jsonl")
    assert again.read_bytes() == file.read_bytes()


def test_an_export_that_is_imported_twice_adds_nothing_and_a_longer_one_only_its_end(
    run: Path, tmp_path: Path
) -> None:
    label_some(run)
    file = autorubric.export_labels(run, target=tmp_path / "all.jsonl")
    copy = graded(tmp_path / "copy", dataset=answers(6, with_options()))
    first = autorubric.import_labels(copy, files=file)
    events = read_history(run).events
    for where in (copy, run):
        again = autorubric.import_labels(where, files=file)
        assert (again.labels, again.repeated) == (0, first.labels)
        assert read_history(where).events == events
    with label_queue(run) as queue:
        queue.label("dan", 5, 0, "MET")
    longer = autorubric.export_labels(run, target=tmp_path / "longer.jsonl")
    added = autorubric.import_labels(copy, files=longer)
    assert (added.labels, added.repeated) == (1, first.labels)
    assert read_history(copy).events == read_history(run).events
    assert autorubric.import_labels(copy, files=file).labels == 0
    with label_queue(copy) as queue:
        queue.label("eve", 5, 1, "MET")
    with label_queue(run) as queue:
        queue.label("fay", 5, 1, "MET")
    other = autorubric.export_labels(run, target=tmp_path / "other.jsonl")
    with pytest.raises(InputError, match="only be imported into an empty label store"):
        autorubric.import_labels(copy, files=other)


def test_csv_comes_back_and_agree_reads_it(run: Path, tmp_path: Path) -> None:
    label_some(run)
    file = autorubric.export_labels(run, target=tmp_path / "labels.csv")
    copy = graded(tmp_path / "copy", dataset=answers(6, with_options()))
    with pytest.warns(UserWarning, match="the probabilities of drawn pairs are not read"):
        autorubric.import_labels(copy, files=file)
    assert said(copy) == said(run)
    with pytest.warns(UserWarning, match="4 of 6 items have no labels in the file|the probabilities of drawn pairs"):
        cy = autorubric.agree(run, labels=file, annotator="cy")
    assert (cy.n_items, cy.n_samples) == (2, 6)


def test_a_tie_has_no_label_in_whatever_order_the_rows_come(tmp_path: Path) -> None:
    rows = ["q0,Moon,MET,ana", "q0,Moon,UNMET,ben", "q1,Moon,MET,ana", "q2,Moon,UNMET,ben"]
    rows += ["q3,Short,MET,ana", "q3,Short,MET,ben"]
    found: list[Any] = []
    for order in (rows, rows[::-1]):
        run = graded(tmp_path / f"run{len(found)}")
        file = tmp_path / f"labels{len(found)}.csv"
        file.write_text("\n".join(["id,criterion,label,annotator", *order]))
        autorubric.import_labels(run, files=file)
        with pytest.warns(UserWarning, match="annotators are tied on 1 of 1 pair without adjudication; "):
            final_file = autorubric.export_labels(run, target=run.with_suffix(".csv"), final=True)
        final = final_file.read_text().splitlines()[1:]
        assert sorted(line[:12] for line in final) == ["q1,Moon,MET,", "q2,Moon,UNME", "q3,Short,MET"]
        found.append(autorubric.label_agreement(run))
    assert found[0].judge.n == 3
    assert [[*one.annotators.by_criterion] for one in found] == [["Moon", "Short"]] * 2
    assert [[*one.annotators.labels] for one in found] == [["ana", "ben"]] * 2
    assert [one.judge for one in found] == [found[0].judge] * 2 and found[0].notes == found[1].notes


def test_final_rows_are_what_counts(run: Path, tmp_path: Path) -> None:
    with label_queue(run) as queue:
        for item in range(2):
            for place, word in enumerate(["MET", "UNMET", "good"]):
                queue.label("ana", item, place, word)
        queue.label("ben", 0, 0, "UNMET")
        queue.adjudicate("cy", 0, 0, "UNMET")
    file = autorubric.export_labels(run, target=tmp_path / "final.csv", final=True)
    rows = [line.split(",")[:4] for line in file.read_text().splitlines()]
    assert rows[:3] == [
        ["id", "criterion", "label", "annotator"],
        ["q0", "Short", "UNMET", ""],
        ["q0", "Moon", "UNMET", ""],
    ]
    assert len(rows) == 7
    with pytest.warns(UserWarning, match="4 of 6 items have no labels in the file"):
        assert autorubric.agree(run, labels=file).n_items == 2


@pytest.mark.filterwarnings("ignore:annotators are tied on 2 of 3 pairs")
def test_the_dataset_has_ground_truth_where_every_criterion_is_labelled(run: Path, tmp_path: Path) -> None:
    label_some(run)
    with pytest.warns(UserWarning, match="of 6 labelled items have labels for some criteria only; left out"):
        file = autorubric.export_labels(run, target=tmp_path / "labelled.json")
    dataset = RubricDataset.from_file(file)
    labelled = {item.id: item.ground_truth for item in dataset if item.ground_truth is not None}
    assert "q0" in labelled  # of the others, some have a tie
    assert len(dataset) == 6
    history = read_history(run)
    for key in history.labelled():
        if key[0] in labelled:
            assert history.verdict(key) in labelled[key[0]]


def test_partial_labels_of_an_item_that_had_ground_truth_are_named(tmp_path: Path) -> None:
    dataset = answers(2, RUBRIC)
    truth: list[Any] = ["MET"] * len(RUBRIC)
    dataset = replace(dataset, items=[replace(item, ground_truth=truth) for item in dataset.items])
    run = graded(tmp_path / "run", dataset=dataset)
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "UNMET")
    with pytest.warns(UserWarning, match="1 of 1 labelled items have labels for some criteria only; left out"):
        file = autorubric.export_labels(run, target=tmp_path / "labelled.json")
    assert [json.loads(file.read_text())["items"][place]["ground_truth"] for place in range(2)] == [truth] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "out.txt"}, "expected a name that ends in .csv, .jsonl, .json"),
        ({"target": "out.csv"}, "no label in the run's label store counts"),
        ({"target": "out.jsonl"}, "the run has no labels yet"),
        ({"target": "out.json"}, "no item has a label for every criterion"),
        ({"target": "out.json", "final": True}, "--final is for .csv"),
        ({}, "no file to write"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        autorubric.export_labels(run, **given)
    assert message in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_an_export_replaces_nothing_without_force(run: Path, tmp_path: Path) -> None:
    label_some(run)
    file = autorubric.export_labels(run, target=tmp_path / "labels.csv")
    file.write_text("mine")
    with pytest.raises(InputError, match=r"labels\.csv exists; pass another file, or --force"):
        autorubric.export_labels(run, target=file)
    assert file.read_text() == "mine"
    autorubric.export_labels(run, target=file, force=True)
    assert file.read_text().startswith("id,criterion,label,annotator")


def test_the_command_imports_shows_exports_and_agrees(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out: Callable[[], str] = lambda: capsys.readouterr().out  # noqa: E731
    marks = "".join(f"q{n},Moon,{'MET' if n % 3 else 'UNMET'},{who}\n" for n in range(4) for who in ("ana", "ben"))
    (tmp_path / "marks.csv").write_text(f"id,criterion,label,annotator\n{marks}")
    assert command(["labels", str(run), "--import", str(tmp_path / "marks.csv")]) == 0
    assert out() == "added 8 labels\n"
    assert command(["labels", str(run)]) == 0
    shown = out().splitlines()
    assert shown[:3] == ["4 pairs with labels", "  ana: 4 labels", "  ben: 4 labels"]
    assert "4 pairs with two labels or more: 0 differ, 0 adjudicated" in shown
    assert command(["labels", str(run), "--json"]) == 0
    assert json.loads(out())["annotators"]["labels"] == {"ana": 4, "ben": 4}
    assert command(["agree", str(run)]) == 0
    shown = out().splitlines()
    assert shown[0].startswith("4 items with labels, 4 pairs of label and verdict, unweighted")
    figure = r"(-?\d\.\d{3}( \[-?\d\.\d{3}, -?\d\.\d{3}\])?|–)"
    majority = r"\(majority-class baseline \d\.\d{3}\)"
    kappas = rf"mean kappa {figure}, kappa of all binary pairs {figure}"
    assert re.fullmatch(rf"accuracy {figure} {majority}, {kappas}", shown[1]), shown[1]
    assert any(
        re.fullmatch(
            rf"judge and ana: accuracy {figure} over 4 pairs, mean kappa {figure}, kappa of the binary ones {figure}",
            one,
        )
        for one in shown
    )
    assert "ana and ben: agree on 1.000 of 4 pairs, mean kappa 1.000, kappa of the binary ones 1.000" in shown
    assert command(["agree", str(run), "--json"]) == 0
    assert json.loads(out())["judge"]["n"] == 4
    assert command(["labels", str(run), "--export", str(tmp_path / "out.csv")]) == 0
    assert out() == f"wrote {tmp_path / 'out.csv'}\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--annotator", "ana"], "--annotator has no effect without --import FILE"),
        (["--final"], "--final has no effect without --export FILE"),
        (["--import", "a.csv", "--export", "b.csv"], "--import and --export are mutually exclusive"),
    ],
)
def test_flags_without_effect_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert command(["labels", str(run), *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_completed_file_of_label_next_comes_with_its_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = graded(tmp_path / "run", count=12), graded(tmp_path / "other", count=12)
    rows = autorubric.label_next(run, n=8)
    for row in rows[:6]:
        row["verdict"] = "MET"
    table = tmp_path / "done.csv"
    write_csv(table, rows)
    with pytest.raises(InputError, match="--annotator"):
        autorubric.import_labels(run, files=table)
    assert autorubric.import_labels(run, files=table, annotator="ana").labels == 6
    history = read_history(run)
    assert len(history.draws) == 8
    assert {event.draw.probability for event in history.draws.values() if event.draw} == {
        float(row["probability"]) for row in rows
    }
    for row in rows[6:]:
        row["verdict"] = "UNMET"
    write_csv(table, rows)
    done = autorubric.import_labels(run, files=table, annotator="ana")
    assert (done.labels, done.repeated) == (2, 6)
    assert list(read_history(run).batches) == [0]
    found = autorubric.label_agreement(run)
    assert found.weighted
    # The same labels without their draws say something else of a run: each counts once.
    plain = [{name: row[name] for name in ("id", "name", "verdict")} for row in rows]
    write_csv(table, [{"id": row["id"], "criterion": row["name"], "label": row["verdict"]} for row in plain])
    autorubric.import_labels(other, files=table, annotator="ana")
    assert not autorubric.label_agreement(other).weighted


def test_batches_of_label_next_are_taken_in_their_order_and_drawn_with_all_earlier_ones(tmp_path: Path) -> None:
    run, files = graded(tmp_path / "run", count=12), list[Path]()
    for batch in range(3):
        rows = autorubric.label_next(run, n=4, labels=files)
        files.append(tmp_path / f"batch{batch}.csv")
        write_csv(files[batch], [{**row, "verdict": "MET"} for row in rows])
    with pytest.raises(InputError, match=r"batch 1 was drawn from \d+ open pairs, and \d+ are open now"):
        autorubric.label_next(run, n=4, labels=files[1:2])
    with pytest.raises(InputError, match="batch 2 was drawn after 2 others, but only 0 of them are here"):
        autorubric.import_labels(run, files=files[2], annotator="ana")
    assert not read_history(run).events
    for file in files:
        assert autorubric.import_labels(run, files=file, annotator="ana").labels == 4
    assert autorubric.import_labels(run, files=files[0], annotator="ana").repeated == 4
    one_by_one = autorubric.label_agreement(run)
    together = graded(tmp_path / "together", count=12)
    autorubric.import_labels(together, files=files[::-1], annotator="ana")
    assert autorubric.label_agreement(together) == one_by_one and one_by_one.weighted


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


MANY = [("ana", item, 1, "MET") for item in range(5)] + [
    ("bén", item, 1, "MET" if item else "UNMET") for item in range(5)
]
LABELS: dict[str, list[tuple[str, int, int, str]]] = {
    "single": [("ana", item, item % 2, "MET" if item < 4 else "UNMET") for item in range(6)],
    "whole": [("ana", item, place, "MET" if item < 3 else "UNMET") for item in range(4) for place in range(2)],
    "two": MANY,
    "adjudicated": MANY,
    "drawn": [],
    "odd": [("@ana", 0, 2, "good"), ("@ana", 1, 2, "CANNOT_ASSESS"), ("@ana", 2, 2, "bad"), ("@ana", 2, 0, "MET")],
}


def stores(folder: Path) -> dict[str, Path]:
    """Runs with stores of each kind."""
    made = {}
    for name, labels in LABELS.items():
        made[name] = graded(folder / name, dataset=odd_items() if name == "odd" else None)
        with label_queue(made[name]) as queue:
            for annotator, item, place, word in labels:
                queue.label(annotator, item, place, word, note="=1+1", quote='a, "b"\nc')
            if name == "adjudicated":
                queue.adjudicate("cy", 0, 1, "UNMET")
    with label_queue(made["drawn"], Ask("uncertain", size=8, seed=3)) as queue:
        while len(said(made["drawn"])) < 8 and (task := queue.next("ana")) is not None:
            queue.label("ana", task.pair.index, task.pair.place, "UNMET")
    return made


def odd_items() -> RubricDataset:
    """Items without an id, with an id that a spreadsheet would compute, and with one that is a number."""
    options = [CriterionOption(label="bad", value=0.0), CriterionOption(label="good", value=1.0)]
    rubric = Rubric([*RUBRIC, Criterion(name="Tone", requirement="How kind is it?", options=options)])
    items = zip(answers(3).items, (None, "=1+1", "07"), strict=True)
    return RubricDataset("Why?", rubric, [replace(one, id=id) for one, id in items])


def agreed_by_hand(run: Path, *, final: bool) -> tuple[int, int]:
    """Pairs that the judge decided, and those on which it gave the label: the adjudicated or the most frequent."""
    verdicts = {}
    items = json.loads((run / "dataset.json").read_text())["items"]
    for line in (run / "items.jsonl").read_text().splitlines():
        row = json.loads(line)
        for entry in row["report"]["criterion_reports"]:
            choice = entry.get("final_multi_choice_verdict") or entry.get("multi_choice_verdict") or {}
            word = choice.get("selected_label") if choice else entry.get("final_verdict", entry.get("verdict"))
            name = items[row["item_idx"]].get("id") or f"#{row['item_idx']}"
            verdicts[name, (entry.get("criterion") or entry)["name"]] = word or "CANNOT_ASSESS"
    history = read_history(run)
    n = same = 0
    for key in history.labelled():
        labels = list(history.labels(key).values())
        decision = history.decision(key)
        words = [event.verdict for event in labels]
        most = multimode(words)
        word = decision.verdict if decision is not None and final else most[0]
        if len(most) > 1 and (decision is None or not final):
            continue  # a tie
        said_by_judge = verdicts[labels[0].item, labels[0].criterion]
        if {word, said_by_judge}.isdisjoint({"CANNOT_ASSESS"}):
            n, same = n + 1, same + (word == said_by_judge)
    return n, same


FORMS: list[tuple[str, dict[str, bool]]] = [
    ("a.csv", {}),
    ("f.csv", {"final": True}),
    ("a.jsonl", {}),
    ("a.json", {}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_export_is_read_by_agree_and_by_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with offenders() as case:
        for name, run in stores(tmp_path).items():
            for form, flags in FORMS:
                if form == "a.json" and name != "whole":
                    continue  # a dataset has labels of whole items only, and export refuses others
                with case(f"{name}, {form} {flags}"):
                    round_trip(run, tmp_path / f"{name}-{form}", flags, capsys)


def round_trip(run: Path, file: Path, flags: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    autorubric.export_labels(run, target=file, **flags)
    n, same = agreed_by_hand(run, final=bool(flags) or file.suffix != ".csv")
    capsys.readouterr()
    assert command(["agree", str(run), "--labels", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    if "judge" in found:
        measured = found["judge"]["n"], found["judge"]["accuracy"]["value"]
    else:
        measured = found["n_samples"], found["criterion_accuracy"]
    if not found.get("weighted"):
        assert measured == (n, pytest.approx(same / n))
    else:
        assert command(["agree", str(run), "--json"]) == 0
        assert found == json.loads(capsys.readouterr().out)
    other = file.with_name(f"imported {file.name}")
    shutil.copytree(run, other, ignore=shutil.ignore_patterns("labels"))
    plain = bool(flags) or file.suffix == ".json"
    autorubric.import_labels(other, files=file, **({"annotator": "someone"} if plain else {}))
    expected = said(run)
    if plain:
        history = read_history(run)
        names = {key: next(iter(history.labels(key).values())) for key in history.labelled()}
        counted = {(one.item, one.criterion, "someone"): history.verdict(key) for key, one in names.items()}
        expected = {key: verdict for key, verdict in counted.items() if verdict is not None}
    assert said(other) == expected


def test_batches_of_label_next_exclude_those_in_the_store_and_one_that_does_not_is_refused(
    run: Path, tmp_path: Path
) -> None:
    def add(rows: list[dict[str, Any]]) -> None:
        write_csv(tmp_path / "filled.csv", [row | {"verdict": row["choices"].split(" | ")[0]} for row in rows])
        autorubric.import_labels(run, files=tmp_path / "filled.csv", annotator="ana")

    first, other = autorubric.label_next(run, n=6), autorubric.label_next(run, n=6, seed=5)
    add(first)
    with pytest.raises(
        InputError, match="batch 1 was drawn from 18 open pairs, and 12 are open to it now: other pairs"
    ):
        add(other)
    assert autorubric.label_status(run).pairs == 6
    second = autorubric.label_next(run, n=6)
    assert {row["draw"] for row in second} == {"6 of 12, seed 1, event 12"}
    pairs = [{(row["item"], row["criterion"]) for row in rows} for rows in (first, second)]
    assert not pairs[0] & pairs[1]
    add(second)
    assert autorubric.label_agreement(run).judge.n == 12
    write_csv(
        tmp_path / "drawn.csv", [*(third := autorubric.label_next(run, n=6))[:5], third[5] | {"verdict": "MET"}]
    )
    autorubric.import_labels(run, files=tmp_path / "drawn.csv", annotator="ana")
    # Five pairs were drawn and have no label.
    with pytest.raises(InputError, match="every judged pair has a label or was drawn before"):
        autorubric.label_next(run, n=6)


def test_labels_that_no_draw_chose_are_known_to_the_next_draw_and_wait_after_the_last(tmp_path: Path) -> None:
    pairs = [(f"q{item}", name) for item in range(6) for name in ("Short", "Moon")]

    def collect(run: Path, chosen: list[tuple[str, str]]) -> None:
        """Add labels as the judge gives them, except on (q1, Moon)."""
        rows = [{"id": id, "criterion": name, "label": words[id, name], "annotator": "ana"} for id, name in chosen]
        write_csv(tmp_path / "labels.csv", rows)
        assert autorubric.import_labels(run, files=tmp_path / "labels.csv").labels == len(chosen)

    def fill(run: Path, rows: list[dict[str, Any]]) -> LabelAgreement:
        write_csv(tmp_path / "filled.csv", [row | {"verdict": "UNMET"} for row in rows])
        assert autorubric.import_labels(run, files=tmp_path / "filled.csv", annotator="ana").labels == len(rows)
        return autorubric.label_agreement(run)

    words = {pair: "UNMET" if pair[0] in ("q0", "q3") else "MET" for pair in pairs} | {("q1", "Moon"): "UNMET"}
    before, after = graded(tmp_path / "before", count=6), graded(tmp_path / "after", count=6)
    collect(before, pairs[:10])
    assert [(row["id"], row["name"]) for row in autorubric.label_next(before, n=3)] == pairs[10:]
    [row] = autorubric.label_next(before, n=1)
    assert (row["id"], row["draw"]) == ("q5", "1 of 2, seed 0, event 10")
    found, stands_for = fill(before, [row]), 1 / float(row["probability"])
    # 9 of the 10 labels before the draw agree and count 1; the drawn one differs and counts 1/p.
    assert (found.judge.n, found.notes) == (11, ())
    assert found.judge.accuracy.value == pytest.approx(9 / (10 + stands_for))
    with pytest.raises(InputError, match="drawn from 2 open pairs, and 12 are open now") as refused:
        autorubric.label_next(before, n=1, labels=tmp_path / "filled.csv")
    assert "labels RUN --import FILE" in str(refused.value)

    [row] = autorubric.label_next(after, n=1)
    rest = [pair for pair in pairs if pair != (row["id"], row["name"])]
    collect(after, rest[:10])
    found = fill(after, [row])
    late = "10 labels do not count until the next batch from all pairs; no batch covers them yet"
    assert (found.judge.n, found.notes) == (1, (late,))
    last = autorubric.label_next(after, n=3)
    assert [(row["id"], row["name"], row["draw"]) for row in last] == [(*rest[10], "1 of 1, seed 1, event 12")]
    found = fill(after, last)
    assert (found.judge.n, found.notes) == (12, ())
