"""Labels as people and other tools write them: each form is read, or refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric import Criterion, CriterionOption, InputError, Rubric, RubricDataset
from autorubric.dataset.ground_truth import find_criterion, match_label
from autorubric.dataset.label_table import LabelTable
from autorubric.errors import MissingFileError
from autorubric.files.printable import escape_formula, unescape_formula
from autorubric.labels import read_history
from autorubric.labels.exchange import LabelsRead, read_labels
from tests.labels.runs import RUBRIC, graded
from tests.offenders import offenders

STARS = [CriterionOption(label=str(stars), value=stars / 5) for stars in range(6)]
TEXTS = ["The moon.", "It depends on so much.", "The moon pulls.", "The moon."]
Marks = dict[tuple[str, str, str], str]


def answers() -> RubricDataset:
    """q0 and q3 have the same text."""
    dataset = RubricDataset(
        "Why?", Rubric([*RUBRIC, Criterion(name="Stars", requirement="How good?", options=STARS)])
    )
    for number, text in enumerate(TEXTS):
        dataset.add_item(text, "", id=f"q{number}")
    return dataset


def read(path: Path, dataset: RubricDataset, columns: dict[str, str] | None = None) -> LabelsRead:
    return read_labels(dataset, [path], None, columns)


def marks(found: LabelsRead) -> Marks:
    return {(one.item, one.criterion, one.annotator): str(one.verdict) for one in found.events}


def studio(data: dict[str, Any], *annotations: tuple[int, dict[str, Any]], task: int = 1) -> dict[str, Any]:
    """A task of Label Studio's JSON export; of each annotation who made it, and the value of each control."""
    return {
        "id": task,
        "data": data,
        "predictions": [{"result": [{"from_name": "Moon", "type": "choices", "value": {"choices": ["MET"]}}]}],
        "annotations": [
            {
                "completed_by": who,
                "was_cancelled": False,
                "lead_time": 4.2,
                "result": [
                    {"from_name": name, "to_name": "text", "type": next(iter(value)), "value": value}
                    for name, value in values.items()
                ],
            }
            for who, values in annotations
        ],
    }


# As label-studio-sdk 2.1 converts the same task; the id of JSON-MIN is the number of the task.
STUDIO_MIN = [
    {"text": TEXTS[2], "id": 0, "Moon": "UNMET", "Stars": [{"rating": 3}], "annotator": 2, "annotation_id": 2,
     "created_at": "2024-03-03T10:00:00Z", "lead_time": 4.2},
    {"text": TEXTS[1], "id": 2, "annotator": None, "annotation_id": None, "created_at": None, "lead_time": None},
]  # fmt: skip
STUDIO_CSV = (
    '"Moon","Stars","annotation_id","annotator","comment","created_at","id","lead_time","text"\n'
    f'"UNMET","[{{""rating"":3}}]",2,"2","","2024-03-03T10:00:00Z","q2",4.2,"{TEXTS[2]}"\n'
    f'"","","","","","","q1","","{TEXTS[1]}"\n'
)


# As argilla 2.8 gives them with `to_list(flatten=True)`, and as version 1 puts them on the hub.
def flat(*answers: tuple[str, str, str]) -> dict[str, Any]:
    values, users, states = (list(column) for column in zip(*answers, strict=True))
    return {
        "id": "q0", "status": "pending", "text": TEXTS[0], "Moon.suggestion": "MET", "Moon.suggestion.score": 0.9,
        "Moon.responses": values, "Moon.responses.users": users, "Moon.responses.status": states,
        "Stars.responses": None, "Stars.responses.users": None, "Stars.responses.status": None,
    }  # fmt: skip


HUB = {
    "text": TEXTS[0], "external_id": "q0", "metadata": "{}", "Moon-suggestion": "MET", "Stars-suggestion": None,
    "Moon": [{"user_id": "ana", "value": "UNMET", "status": "submitted"},
             {"user_id": "ben", "value": "MET", "status": "discarded"}],
    "Stars": [{"user_id": "ana", "value": 4, "status": "submitted"}],
}  # fmt: skip
ARGILLA_1 = {
    "id": "4a6cba2f-5e4d-4b0c-8b6a-b0bb2a5a0b2c", "external_id": "q0", "fields": {"text": "other"}, "metadata": {},
    "responses": [{"user_id": "ana", "status": "submitted", "values": {"Moon": {"value": "UNMET"}}},
                  {"user_id": "ben", "status": "discarded", "values": None}],
    "suggestions": [{"question_name": "Moon", "value": "MET"}],
}  # fmt: skip


def prodigy(answer: str, **more: Any) -> dict[str, Any]:
    return {"text": TEXTS[2], "answer": answer, "_task_hash": -7, "_annotator_id": "ana", **more}


PRODIGY = {"annotator": "_annotator_id", "criterion": "task"}
LANGFUSE = {"id": "traceId", "criterion": "name", "label": "stringValue", "annotator": "authorUserName"}
MOON = {("q2", "Moon", "2"): "UNMET"}
STARRED = {**MOON, ("q2", "Stars", "2"): "3"}

UNKNOWN = "is not one of MET, UNMET, CANNOT_ASSESS (or yes, no); leave the cell empty if there is no label"

READ: list[tuple[str, str | list[Any], dict[str, str], Marks, list[str]]] = [
    ("words", "id,criterion,label,annotator\nq0,Moon,yes,ana\nq1,Moon,No,ana\nq2,Moon,TRUE,ana\nq2,Short,false,ana\n",
     {}, {("q0", "Moon", "ana"): "MET", ("q1", "Moon", "ana"): "UNMET", ("q2", "Moon", "ana"): "MET",
          ("q2", "Short", "ana"): "UNMET"}, ["'No' is read as UNMET, 'TRUE' is read as MET"]),
    ("words of other languages and forms",
     "id,Moon,Short,annotator\nq0,是,Not met,ana\nq1,不满足,N,ana\nq2,y,cannot_assess,ana\n",
     {}, {("q0", "Moon", "ana"): "MET", ("q1", "Moon", "ana"): "UNMET", ("q2", "Moon", "ana"): "MET",
          ("q0", "Short", "ana"): "UNMET", ("q1", "Short", "ana"): "UNMET", ("q2", "Short", "ana"): "CANNOT_ASSESS"},
     ["label '是' is read as MET, 'Not met' is read as UNMET"]),
    ("numbers of a table with gaps",
     "id,criterion,label,annotator\nq0,Moon,1.0,ana\nq1,Moon,0,ana\nq2,Stars,3.0,ana\n",
     {}, {("q0", "Moon", "ana"): "MET", ("q1", "Moon", "ana"): "UNMET", ("q2", "Stars", "ana"): "3"},
     ["label '1.0' is read as MET", "'3.0' is read as 3"]),
    ("numbers and truth values of JSON", [{"id": "q0", "criterion": "Moon", "label": True, "annotator": "ana"},
                                          {"id": "q0", "criterion": "Stars", "label": 0, "annotator": "ana"}],
     {}, {("q0", "Moon", "ana"): "MET", ("q0", "Stars", "ana"): "0"}, ["label 'True' is read as MET"]),
    ("a column a criterion",
     "id,Moon,mentions the moon.,stars,annotator,why\nq0,MET,,5,ana,\nq1,,,,ana,\nq2,,MET,,ben,\n",
     {}, {("q0", "Moon", "ana"): "MET", ("q0", "Stars", "ana"): "5", ("q2", "Moon", "ben"): "MET"},
     ["labels are read from 'Moon', 'mentions the moon.', 'stars', named like the criteria", "1 row has no label"]),
    ("BOM, semicolons, CRLF, other scripts", "\ufeffid;criterion;label;annotator\r\nq0;Moon;MET;Ünal 月\r\n",
     {}, {("q0", "Moon", "Ünal 月"): "MET"}, []),
    ("a column called like a criterion next to one that names it",
     "id,criterion,label,annotator,Moon\nq0,Short,MET,ana,UNMET\n", {}, {("q0", "Short", "ana"): "MET"}, []),
    ("weights of labels", "id,criterion,label,annotator,Weight\nq0,Moon,MET,ana,0.5\n",
     {}, {("q0", "Moon", "ana"): "MET"},
     ["'Weight' is not read: each label counts once"]),
    ("texts that are not the submission", f"id,criterion,label,annotator,why\nq0,Moon,MET,ana,{TEXTS[2]}\n",
     {}, {("q0", "Moon", "ana"): "MET"}, []),
    ("the submission instead of an id", "text,criterion,label,annotator\nThe  moon pulls. ,Moon,MET,ana\n",
     {}, {("q2", "Moon", "ana"): "MET"}, ["items are found by their submission"]),
    ("Label Studio, JSON", [studio({"text": TEXTS[2]}, (2, {"Moon": {"choices": ["UNMET"]}, "Stars": {"rating": 3},
                                                           "why": {"text": ["so"]}}))],
     {}, STARRED, ["'why' is left out"]),
    ("Label Studio, number",
     [studio({"id": "q2", "why": TEXTS[1]}, (2, {"Stars": {"number": 3}}))], {}, {("q2", "Stars", "2"): "3"}, []),
    ("Label Studio, JSON-MIN",
     STUDIO_MIN, {}, STARRED, ["items are found by their submission", "1 row has no label"]),
    ("Label Studio, CSV", STUDIO_CSV, {}, STARRED, ["1 row has no label"]),
    ("Argilla 2, flat", [flat(("UNMET", "ana", "submitted"), ("MET", "ben", "draft"), ("MET", "cy", "discarded"))],
     {}, {("q0", "Moon", "ana"): "UNMET"}, []),
    ("Argilla 2, nested", [{"id": "q0", "fields": {}, "metadata": {}, "suggestions": {},
                            "responses": {"Moon": [{"value": "UNMET", "user_id": "ana"}]}}],
     {}, {("q0", "Moon", "ana"): "UNMET"},
      ["its answers have no status, so drafts and discarded ones count too"]),
    ("Argilla 1", [ARGILLA_1], {}, {("q0", "Moon", "ana"): "UNMET"}, []),
    ("Argilla 1, hub", [HUB], {}, {("q0", "Moon", "ana"): "UNMET", ("q0", "Stars", "ana"): "4"}, []),
    ("Prodigy, yes or no", [prodigy("reject", task="Moon"), prodigy("accept", task="Short"),
                            prodigy("ignore", task="Stars")], {**PRODIGY, "label": "answer"},
     {("q2", "Moon", "ana"): "UNMET", ("q2", "Short", "ana"): "MET"}, ["1 row has no label"]),
    ("Prodigy, choice",
     [prodigy("accept", task="Moon", accept=["MET"]), prodigy("reject", task="Short", accept=["MET"]),
                         prodigy("ignore", task="Short", accept=["MET"])], {**PRODIGY, "label": "accept"},
     {("q2", "Moon", "ana"): "MET"}, ["2 rows have no label"]),
    ("Langfuse, scores", "id,traceId,name,dataType,value,stringValue,authorUserName\ns1,q0,Moon,BOOLEAN,1,True,Ana\n"
     "s2,q1,Stars,NUMERIC,3,,Ana\n", LANGFUSE, {("q0", "Moon", "Ana"): "MET"}, ["1 row has no label"]),
    ("Braintrust, scores by name",
     [{"id": "b1", "output": TEXTS[2], "scores": {"Moon": 1, "Stars": 4, "Short": None}, "user": "ana"}],
     {"label": "scores", "annotator": "user"}, {("q2", "Moon", "ana"): "MET", ("q2", "Stars", "ana"): "4"},
     ["items are found by their submission"]),
    ("ground truth in order", [{"id": "q1", "ground_truth": ["MET", "UNMET", "5"], "annotator": "ana"},
                               {"id": "q2", "ground_truth": None, "annotator": "ana"}],
     {}, {("q1", "Short", "ana"): "MET", ("q1", "Moon", "ana"): "UNMET", ("q1", "Stars", "ana"): "5"},
     ["1 row has no label"]),
    ("ground truth by name in a table", 'id,ground_truth,annotator\nq1,"{""Moon"": ""MET""}",ana\n', {},
     {("q1", "Moon", "ana"): "MET"}, []),
    ("LangSmith, feedback", [{"id": "f1", "run_id": "q0", "key": "Moon", "score": 0.0, "who": "ana"}],
     {"id": "run_id", "criterion": "key", "label": "score", "annotator": "who"}, {("q0", "Moon", "ana"): "UNMET"},
     ["label '0.0' is read as UNMET"]),
]  # fmt: skip


def test_labels_are_read_as_people_and_tools_write_them(tmp_path: Path) -> None:
    dataset = answers()
    with offenders() as case:
        for name, content, columns, expected, notes in READ:
            with case(name):
                path = tmp_path / ("labels.csv" if isinstance(content, str) else "labels.json")
                path.write_text(content if isinstance(content, str) else json.dumps(content), newline="")
                found = read(path, dataset, columns)
                assert marks(found) == expected
                assert len(found.events) == len(expected)
                for note in notes:
                    assert any(note in one for one in found.notes), found.notes


REFUSED: list[tuple[str, str | list[Any], str]] = [
    ("one annotator says two things", "id,criterion,label,annotator,time\nq0,Moon,MET,ana,2\nq0,Moon,UNMET,ana,1\n",
     "labels.csv:3: 'ana' says UNMET here and MET at "),
    ("an id of one item and the text of another", f"id,text,criterion,label,annotator\nq1,{TEXTS[2]},Moon,MET,ana\n",
     "labels.csv:2: the id is that of item 'q1', but the submission is that of 'q2'"),
    ("a text of two items",
     f"text,criterion,label,annotator\n{TEXTS[0]},Moon,MET,ana\n", "2 items have its submission"),
    ("no item", "text,criterion,label,annotator\nOther.,Moon,MET,ana\n", "name its item; in merged"),
    ("partly", "id,criterion,label,annotator\nq0,Moon,partly,ana\n", "'partly' is not one of MET, UNMET, CANNOT_"),
    ("N/A", "id,criterion,label,annotator\nq0,Moon,N/A,ana\n", "'N/A' is not one of MET, UNMET, CANNOT_ASSESS"),
    ("a number that is not a verdict", "id,criterion,label,annotator\nq0,Moon,2,ana\n", "'2' is not one of MET"),
    ("a number that is no option", "id,criterion,label,annotator\nq0,Stars,2.5,ana\n", "'2.5' is not one of 0, 1"),
    ("several labels", [{"id": "q0", "criterion": "Moon", "label": ["MET", "UNMET"], "annotator": "ana"}],
     "expected one label, got ['MET', 'UNMET']"),
    ("a column an annotator", "id,criterion,ana,ben\nq0,Moon,MET,UNMET\n", "no column for label; the columns are"),
    ("a label without a criterion", "id,label,annotator\nq0,MET,ana\n", "no column for criterion; the columns are"),
    ("labels of another number of criteria", [{"id": "q1", "ground_truth": ["MET"], "annotator": "ana"}],
     "no column for criterion"),
    ("no column of a criterion", "id,Mon,annotator\nq0,MET,ana\n", "or name columns like the criteria"),
    ("Label Studio without id and text",
     [studio({"x": 1}, (1, {"Moon": {"choices": ["MET"]}}), task=0)], "not an item id"),
    ("a question that is no criterion", [{**HUB, "why-suggestion": None, "why": [{"user_id": "a", "value": "so"}]}],
     "no criterion is named 'why'"),
]  # fmt: skip


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    dataset = answers()
    with offenders() as case:
        for name, content, message in REFUSED:
            with case(name):
                path = tmp_path / ("labels.csv" if isinstance(content, str) else "labels.json")
                path.write_text(content if isinstance(content, str) else json.dumps(content))
                with pytest.raises(InputError) as caught:
                    read(path, dataset)
                assert message in str(caught.value)


def test_annotations_that_a_reviewer_rejected_last_are_no_labels(tmp_path: Path) -> None:
    rejected, accepted = (
        {"accepted": False, "created_at": "2026-01-02"},
        {"accepted": True, "created_at": "2026-01-03"},
    )
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"reviews": []}, True),
        ({"reviews": [rejected]}, False),
        ({"reviews": [accepted, rejected]}, True),  # in the order of their times
        ({"reviews": [{**accepted, "created_at": "2026-01-01"}, rejected]}, False),
        ({"reviews": [rejected], "last_action": "updated"}, True),
        ({"reviews": [rejected], "last_action": None}, False),
        ({"last_action": "rejected"}, False),
        ({"last_action": "fixed_and_accepted", "reviews": [rejected]}, True),
    ]
    for more, counts in cases:
        first = studio({"id": "q0"}, (1, {"Moon": {"choices": ["MET"]}}))
        second = studio({"id": "q1"}, (1, {"Moon": {"choices": ["MET"]}}))
        first["annotations"][0].update(more)
        (tmp_path / "labels.json").write_text(json.dumps([first, second]))
        found = read(tmp_path / "labels.json", answers())
        assert len(marks(found)) == 1 + counts, more
        assert [note.partition(": ")[2] for note in found.notes] == [
            "annotations that a reviewer rejected are left out"
        ] * (not counts), more


def test_a_column_that_a_file_without_columns_cannot_have_is_refused(tmp_path: Path) -> None:
    answer = {"id": "q0", "fields": {}, "responses": {"Moon": [{"value": "MET", "user_id": "1"}]}}
    files: dict[str, Any] = {
        "an export of Label Studio": [studio({"id": "q0"}, (1, {"Moon": {"choices": ["MET"]}}))],
        "an export of Argilla": [answer],
        "a dataset": json.loads(answers().to_json()),
    }
    for kind, content in files.items():
        (tmp_path / "labels.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=f"--column is for tables, and this is {kind}; leave it out"):
            read_labels(answers(), [tmp_path / "labels.json"], "ana", {"label": "score"})


def test_each_kind_of_problem_of_an_import_is_told_once_with_its_first_places(tmp_path: Path) -> None:
    rows = [f"q{number % 4},Moon,{'MET' if number < 6 else 'perhaps'}" for number in range(8)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,criterion,label", *rows, "q0,Mon,MET", "q9,Moon,MET"]))
    with pytest.raises(InputError) as caught:
        read(tmp_path / "labels.csv", answers())
    at = f"{tmp_path / 'labels.csv'}:"
    ways = "pass --annotator NAME (Python: annotator=), or --column annotator=COLUMN if a column has it"
    nobody = f"the file does not say whose label this is; {ways}"
    unknown = f"label 'perhaps' {UNKNOWN}"
    assert str(caught.value).splitlines() == [
        "5 problems:",
        *(f"  {at}{line}: {unknown}" for line in (8, 9)),
        f"  {at}10: no criterion is named 'Mon'; did you mean 'Moon'?",
        f"  {at}11: no item has the id 'q9'; the first item is 'q0'",
        f"  {at}2 and 5 more: {nobody}",
    ]


def test_the_column_that_has_the_id_of_a_label_is_named(tmp_path: Path) -> None:
    dataset = RubricDataset("Why?", RUBRIC)
    for number in range(2):
        found = {"status": "q1", "custom_id": f"q{number}"}  # the values of a status are not distinct
        dataset.add_item("The moon.", "", id=f"batch_req_{number}", metadata=found)
    (tmp_path / "labels.csv").write_text("id,criterion,label,annotator\nq1,Moon,MET,ana\nq9,Moon,MET,ana\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "labels.csv", dataset)
    assert [problem.split(": ", 1)[1] for problem in caught.value.problems] == [
        "no item has the id 'q1', but 'custom_id' has it; grade with --column id=custom_id "
        "(saved replies are not paid for twice)",
        "no item has the id 'q9'; the first item is 'batch_req_0'",
    ]


def test_a_column_that_is_nearly_called_like_a_criterion_is_named_with_it(tmp_path: Path) -> None:
    path, hint = (
        tmp_path / "labels.csv",
        "column 'star' is not read; rename it to 'Stars' if it has the labels of this",
    )
    path.write_text("id,Moon,star,text,annotator\nq0,yes,3,,ana\n")
    found = read(path, answers())
    assert marks(found) == {("q0", "Moon", "ana"): "MET"}
    assert any(hint in note for note in found.notes)
    with pytest.raises(InputError) as caught:
        LabelTable([path]).join_labels(answers())
    assert "item 'q0': no label for" in str(caught.value) and str(caught.value).count(hint) == 1
    path.write_text("id,star\nq0,3\n")
    with pytest.raises(InputError, match=hint):
        read(path, answers())


def test_with_one_criterion_no_column_names_it(tmp_path: Path) -> None:
    dataset = RubricDataset("Why?", Rubric([Criterion(name="Moon", requirement="Mentions the moon.")]))
    dataset.add_item("The moon.", "", id="q0")
    (tmp_path / "doccano.jsonl").write_text('{"id": 7, "text": "The moon.", "label": ["MET"], "annotator": "ana"}\n')
    found = read(tmp_path / "doccano.jsonl", dataset)
    assert [(one.item, one.verdict) for one in found.events] == [("q0", "MET")]


def test_a_question_that_is_called_like_a_criterion_has_labels_not_quotes_or_notes(tmp_path: Path) -> None:
    dataset = RubricDataset(
        "Why?", Rubric([Criterion(name=name, requirement=f"{name}.") for name in ("Evidence", "Reason")])
    )
    dataset.add_item("So.", "", id="q0")
    met = {"Evidence": {"choices": ["MET"]}, "Reason": {"choices": ["UNMET"]}}
    answers = {name: [{"value": value["choices"][0], "user_id": "1"}] for name, value in met.items()}
    for record in (studio({"id": "q0"}, (1, met)), {"id": "q0", "fields": {}, "responses": answers}):
        (tmp_path / "labels.json").write_text(json.dumps([record]))
        found = read(tmp_path / "labels.json", dataset)
        assert marks(found) == {("q0", "Evidence", "1"): "MET", ("q0", "Reason", "1"): "UNMET"}


def test_a_column_of_each_annotator_is_read_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,criterion,ana,ben\nq0,Moon,MET,UNMET\nq1,Moon,,MET\n")
    found = read_labels(answers(), [tmp_path / "labels.csv"], "ben", {"label": "ben"})
    assert marks(found) == {("q0", "Moon", "ben"): "UNMET", ("q1", "Moon", "ben"): "MET"}


def test_a_label_that_replaces_another_is_told(tmp_path: Path) -> None:
    run, file = graded(tmp_path / "run"), tmp_path / "labels.csv"
    file.write_text("id,criterion,label,annotator\nq0,Moon,MET,ana\nq1,Moon,MET,ana\n")
    autorubric.import_labels(run, files=file)
    file.write_text("id,criterion,label,annotator\nq0,Moon,UNMET,ana\nq1,Moon,MET,ana\n")
    with pytest.warns(UserWarning, match="1 of them replace an earlier label of the same annotator"):
        done = autorubric.import_labels(run, files=file)
    assert (done.labels, done.repeated) == (1, 1)


def test_agree_reads_the_same_tables(tmp_path: Path) -> None:
    run = graded(tmp_path / "run")
    rows = [(f"q{n}", "1" if n % 2 else "0", "yes" if n % 3 else "no") for n in range(12)]
    wide, long = tmp_path / "wide.csv", tmp_path / "long.csv"
    wide.write_text("id,Short,Moon\n" + "".join(f"{','.join(row)}\n" for row in rows))
    words = {"1": "MET", "0": "UNMET", "yes": "MET", "no": "UNMET"}
    long.write_text(
        "id,criterion,label\n" + "".join(f"{n},Short,{words[a]}\n{n},Moon,{words[b]}\n" for n, a, b in rows)
    )
    with pytest.warns(UserWarning, match="is read as|labels are read from"):
        assert autorubric.agree(run, labels=wide) == autorubric.agree(run, labels=long)


def test_texts_that_a_spreadsheet_would_carry_out_come_back_from_csv(tmp_path: Path) -> None:
    options = [CriterionOption(label=label, value=0.0) for label in ("-bad", "+good", "=x", "'q")]
    dataset = RubricDataset("Why?", Rubric([Criterion(name="@Tone", requirement="How?", options=options)]))
    for number in range(len(options)):
        dataset.add_item("So.", "", id=f"={number}")
    run, copy = graded(tmp_path / "run", dataset=dataset), graded(tmp_path / "copy", dataset=dataset)
    rows = [
        {"id": f"={number}", "criterion": "@Tone", "label": option.label, "annotator": "=ana", "note": "-1 +1\n=b",
         "quote": "+q", "seconds": 1.5}
        for number, option in enumerate(options)
    ]  # fmt: skip
    (tmp_path / "labels.json").write_text(json.dumps(rows))
    autorubric.import_labels(run, files=tmp_path / "labels.json")
    autorubric.import_labels(copy, files=autorubric.export_labels(run, target=tmp_path / "out.csv"))
    first, second = ([replace(one, at=0.0) for one in read_history(one).events] for one in (run, copy))
    assert first == second
    assert [one.verdict for one in first] == [option.label for option in options]


def test_a_marked_text_is_what_it_was() -> None:
    for text in ("=1", "-x", "+", "@a", "\t=1", "-0.5", "'tis", "plain", ""):
        assert unescape_formula(escape_formula(text)) == text


def test_a_dataset_in_json_lines_is_read(tmp_path: Path) -> None:
    labelled = answers()
    labelled.items[1].ground_truth = ["MET", "UNMET", "5"]
    labelled.to_file(tmp_path / "labelled.jsonl")
    found = read_labels(answers(), [tmp_path / "labelled.jsonl"], "ana")
    words = {"Short": "MET", "Moon": "UNMET", "Stars": "5"}
    assert marks(found) == {("q1", name, "ana"): word for name, word in words.items()}


def test_a_wrong_label_is_the_only_problem_where_others_are_partial(tmp_path: Path) -> None:
    run, table = graded(tmp_path / "run"), tmp_path / "labels.csv"
    table.write_text("id,criterion,label\nq0,Moon,MET\nq1,Moon,UNMET\nq2,Moon,perhaps\n")
    with pytest.raises(InputError) as caught:
        autorubric.agree(run, labels=table)
    assert str(caught.value) == f"{table}:4: label 'perhaps' {UNKNOWN}"


def test_a_file_of_labels_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="Label file not found: "):
        autorubric.agree(graded(tmp_path / "run"), labels=tmp_path / "labels.csv")


def test_ids_criteria_and_options_match_in_both_spellings_of_an_accent(tmp_path: Path) -> None:
    how = [CriterionOption(label=label, value=value) for label, value in (("Élevée", 1.0), ("Nulle", 0.0))]
    dataset = RubricDataset("Pourquoi ?", Rubric([Criterion(name="Clarté", requirement="Clair ?", options=how)]))
    dataset.add_item("La lune.", "", id="e\u0301te\u0301.txt")  # as macOS spells the name of a file
    path = tmp_path / "labels.csv"
    for row in (
        "été.txt,Clarté,Élevée",
        "e\u0301te\u0301.txt,Clarte\u0301,E\u0301leve\u0301e",
        "été.txt,CLARTÉ,élevée",
    ):
        path.write_text(f"编号,标准,标签,标注员\n{row},小王\n", "utf-8")
        assert marks(read(path, dataset)) == {("e\u0301te\u0301.txt", "Clarté", "小王"): "Élevée"}


def test_points_of_a_rubric_are_labels_of_its_options() -> None:
    levels = [
        {"points": 6, "description": "Full"},
        {"points": 3, "description": "Part"},
        {"points": 0, "text": "2 errors"},
    ]
    scored = [{"score": 6, "description": "Full"}, {"score": 3, "description": "Part"}]
    thesis, style = Rubric.from_dict(
        [{"criterion": "Thesis", "ratings": levels}, {"criterion": "B", "levels": scored}]
    )
    words = ("6", "3.0", "0", "2", "5", "Part")
    assert [match_label(thesis, word) for word in words] == ["Full", "Part", "2 errors", None, None, "Part"]
    assert [match_label(style, word) for word in ("6", "Full")] == [None, "Full"]


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (("1", "2", "3"), ["1", "2", "3", None, None]),
        (("Level 1", "Level 2", "Level 3"), [None] * 5),
        (("1 - Poor", "2 - Fair", "3 - Good"), [None] * 5),
        (("2: Poor", "4: Fair", "6: Good"), [None, "2: Poor", None, "4: Fair", "6: Good"]),
        (("", "Fair", "Good"), [None, "2.", None, "4. Fair", "6. Good"]),
    ],
)
def test_a_number_that_may_be_a_level_or_its_points_is_no_label_by_points(
    texts: tuple[str, ...], meant: list[str | None]
) -> None:
    levels = [{"points": 2 * place, "description": text} for place, text in enumerate(texts, 1)]
    [criterion] = Rubric.from_dict([{"criterion": "Thesis", "ratings": levels}])
    assert [match_label(criterion, word) for word in ("1", "2", "3", "4", "6")] == meant


def test_names_and_options_may_differ_in_nothing_but_an_accent() -> None:
    tone = Criterion(requirement="Ton?", options=[{"label": "ma", "value": 0.0}, {"label": "má", "value": 1.0}])
    words = ("ma", "má", "MÁ", "mà")
    assert [match_label(tone, word) for word in words] == ["ma", "má", "má", None]
    rubric = [Criterion(name=name, requirement=f"{name}?") for name in ("Ton", "Tön")]
    assert [find_criterion(name, rubric) for name in ("TON", "TÖN")] == [0, 1]


def test_yes_and_no_of_other_languages_are_labels() -> None:
    brief = Criterion(requirement="Is brief")
    pairs = [
        *("是 否", "对 错", "✓ ✗", "はい いいえ", "예 아니오", "oui non", "SÍ No", "Ja Nein", "да нет", "sim não"),
        *(
            "EVET HAYIR",
            "KARŞILANDI Karşılanmadı",
            "ĐẠT không_đạt",
            "満たす 満たしていない",
            "выполнено НЕ_ВЫПОЛНЕНО",
        ),
        *("evet hayır", "满足 不满足", "pass fail", "通过 未通过", "✅ ❌", "☑ ☒"),
    ]
    read = [[match_label(brief, word) for word in pair.split()] for pair in pairs]
    assert read == [["MET", "UNMET"]] * len(pairs)
    pitfall = Criterion(requirement="Is rude", weight=-1)
    assert [match_label(pitfall, word) for word in ("通过", "pass", "✓", "对", "❌", "部分满足")] == [None] * 6
    assert match_label(brief, "部分满足") is None
