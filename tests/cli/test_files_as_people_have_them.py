from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric import RubricDataset
from autorubric.cli.app import run
from autorubric.core.judgment import CriterionVerdict
from autorubric.eval import EvalResult

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET
RUBRIC = [
    {"name": "Short", "requirement": "Contains at most 5 words."},
    {"name": "Kind", "requirement": "Is kind."},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rubric.json").write_text(json.dumps(RUBRIC), encoding="utf-8")
    Path("answers.csv").write_text("\ufeffID;Answer;Model\na;Thank you.;m1\nb;;m2\n", encoding="utf-8")
    return tmp_path


def graded(*words: str) -> list[tuple[str | None, str, object, dict[str, object]]]:
    assert run(["grade", *words, "--judge", "builtin/offline", "-o", "run"]) == 0
    items = [result.item for result in EvalResult.from_experiment("run").item_results]
    return [(item.id, item.submission, item.ground_truth, item.metadata) for item in items]


def test_rows_of_a_table_are_graded_and_blank_answers_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert graded("answers.csv", "--rubric", "rubric.json") == [
        ("a", "Thank you.", None, {"Model": "m1"}),
        ("b", "", None, {"Model": "m2"}),
    ]
    told = capsys.readouterr().err
    assert "note: answers.csv: column 'Answer' is read as the submission" in told
    assert "note: answers.csv: column 'ID' is read as the id" in told


def test_rows_of_json_lines_with_a_submission_each_take_a_rubric(folder: Path) -> None:
    rows = [{"key": name, "submission": f"{name}, thanks."} for name in "ab"]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert graded("rows.jsonl", "--rubric", "rubric.json", "--column", "id=key") == [
        ("a", "a, thanks.", None, {}),
        ("b", "b, thanks.", None, {}),
    ]


def test_rows_bring_rubrics_and_labels_by_name(folder: Path) -> None:
    rows = [
        {"response": "Yes.", "prompt": "Well?", "rubrics": RUBRIC, "ground_truth": {"kind": "UNMET", "Short": "met"}}
    ]
    pq.write_table(pa.Table.from_pylist(rows), "rows.parquet")
    assert graded("rows.parquet") == [(None, "Yes.", [MET, UNMET], {})]


@pytest.mark.parametrize(
    ("content", "words", "says"),
    [
        (
            "answer,output\na,b\n",
            [],
            ["the submission may be column 'answer' or 'output'", "--column submission=NAME"],
        ),
        ("answer,x\na,b\n", ["--column", "submission=y"], ["no column 'y'; the columns are 'answer', 'x'"]),
        ("answer,x\na,b\n", ["--column", "text=x"], ["expected ROLE=NAME with one of submission"]),
        ("a1,b1\na,b\n", [], ["no submission column found; the columns are 'a1', 'b1'"]),
        ("id^text2\n1^a\n", [], ["'id^text2' (the delimiter of a table is a comma, semicolon, tab or |)"]),
        ("id,answer\n", [], ["no submissions in it"]),
        ("id,answer\n1,a\n1,b\n", [], ["csv:3: the id '1' is also that of ", "csv:2; make ids unique"]),
        ("question_id,answer\n1,a\n1,b\n", ["--column", "id=question_id"], ["csv:3: the id '1' is also that of "]),
        (
            'answer,ground_truth\na,"{""Short"": ""MET"", ""Kidn"": ""MET""}"\n',
            [],
            ["named 'Kidn'; did you mean 'Kind'?"],
        ),
        ('answer,ground_truth\na,"{""Short"": ""MET""}"\n', [], ["ground_truth has no verdict on 'Kind'"]),
    ],
)
def test_rows_that_cannot_be_graded_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str, words: list[str], says: list[str]
) -> None:
    Path("a.csv").write_text(content, encoding="utf-8")
    assert run(["grade", "a.csv", "--rubric", "rubric.json", *words, "--judge", "builtin/offline"]) == 2
    told = capsys.readouterr().err
    assert all(part in told for part in ("a.csv" if "ROLE" not in says[0] else "--column", *says)), told


def test_the_id_of_a_question_with_several_answers_is_metadata(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["question_id,question,model,answer", "q0,Why?,a,So.", "q0,Why?,b,No.", "q1,How?,a,So.", "q1,How?,b,No."]
    Path("a.csv").write_text("\n".join(rows), encoding="utf-8")
    found = graded("a.csv", "--rubric", "rubric.json")
    assert [(item, metadata["question_id"]) for item, _, _, metadata in found] == [
        (None, "q0"), (None, "q0"), (None, "q1"), (None, "q1"),
    ]  # fmt: skip
    told = capsys.readouterr().err
    assert told.count("note: a.csv: 'question_id' is not read as the id, because several rows have the same") == 1


def test_rows_without_any_rubric_say_how_to_give_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["grade", "answers.csv", "--judge", "builtin/offline"]) == 2
    assert "answers.csv: 2 of 2 rows have no rubric; pass --rubric FILE" in capsys.readouterr().err


LABELS = "id,criterion,label,annotator\n"


def test_labels_of_a_table_join_a_dataset_and_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "a,short,MET,ana\na,Is kind.,UNMET,ana\na,Short,met,ben\na,Kind,MET,ben\n"
    Path("labels.csv").write_text(LABELS + rows, encoding="utf-8")
    words = ["answers.csv", "--rubric", "rubric.json", "--labels", "labels.csv", "--annotator", "ana"]
    assert [truth for _, _, truth, _ in graded(*words)] == [[MET, UNMET], None]
    assert "note: 1 of 2 items have no labels in the file and count as unlabelled" in capsys.readouterr().err
    Path("more.csv").write_text("item,verdict,criterion\nb,UNMET,Short\nb,UNMET,Kind\n", encoding="utf-8")
    both = ["--labels", "labels.csv", "--labels", "more.csv"]
    for words in (["--annotator", "majority"], ["--by", "criterion"]):
        assert run(["agree", "run", *both, *words]) == 2
        assert "(ana UNMET, ben MET)" in capsys.readouterr().err
    Path("labels.csv").write_text(f"{LABELS}a,Short,MET,ana\na,Kind,UNMET,ana\n", encoding="utf-8")
    assert run(["agree", "run", *both, "--by", "criterion", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    rows = "a,short,MET,ana\na,Is kind.,UNMET,ana\na,Short,met,ben\na,Kind,MET,ben\n"
    Path("labels.csv").write_text(LABELS + rows, encoding="utf-8")
    assert run(["agree", "run", "--labels", "labels.csv"]) == 2
    where = "labels.csv:5: item 'a', criterion 'Kind'"
    told = f"{where} (ana UNMET, ben MET): annotators disagree; pass --annotator NAME or majority"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words", "says"),
    [
        ("c,Short,MET,ana\n", [], "labels.csv:2: no item has the id 'c'"),
        ("7.0,Short,MET,ana\n", [], "no item has the id '7.0'; a column of numbers with blanks becomes floats"),
        ("a,Shrot,MET,ana\n", [], "labels.csv:2: no criterion is named 'Shrot'; did you mean 'Short'?"),
        ("a,Short,maybe,ana\n", [], "labels.csv:2: label 'maybe' is not one of MET, UNMET, CANNOT_ASSESS"),
        ("a,Short,MET,ana\na,Short,MET,ana\n", [], "labels.csv:3: this label was already given at labels.csv:2"),
        ("a,Short,MET,ana\n", [], "item 'a': no label for 'Kind'; label all criteria or none"),
        ("a,Short,MET,ana\n", [], "`autorubric labels RUN --import FILE --annotator NAME`"),
        ("a,Short,MET,ana\na,Kind,MET,ana\n", ["--annotator", "bob"], "--annotator 'bob' is unknown"),
        ("a,Short,,ana\n", [], "it has no labels"),
        (
            "a,Kind,MET,ana\na,Kind,UNMET,ben\na,Short,MET,ana\n",
            ["--annotator", "majority"],
            "(ana MET, ben UNMET): no label has a majority; pass --annotator NAME, or import the labels into a",
        ),
    ],
)
def test_labels_that_cannot_be_joined_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], rows: str, words: list[str], says: str
) -> None:
    Path("labels.csv").write_text(LABELS + rows, encoding="utf-8")
    command = ["grade", "answers.csv", "--rubric", "rubric.json", "--labels", "labels.csv", *words]
    assert run([*command, "--judge", "builtin/offline"]) == 2
    assert says in capsys.readouterr().err


def test_a_majority_is_taken_where_it_is_asked_for(folder: Path) -> None:
    votes = "a,Kind,MET,ana\na,Kind,UNMET,ben\na,Kind,UNMET,cy\na,Short,MET,ana\n"
    Path("labels.csv").write_text(LABELS + votes, encoding="utf-8")
    words = ["answers.csv", "--rubric", "rubric.json", "--labels", "labels.csv", "--annotator", "majority"]
    assert [truth for _, _, truth, _ in graded(*words)] == [[MET, UNMET], None]


def test_a_dataset_in_a_table_warns_of_its_guesses(folder: Path) -> None:
    cell = json.dumps(RUBRIC).replace('"', '""')
    Path("set.csv").write_text(f'Query,Reply,rubric\nWhy?,So.,"{cell}"\n', encoding="utf-8")
    with pytest.warns(UserWarning, match="column 'Reply' is read as the submission"):
        made = RubricDataset.from_file("set.csv", columns={"prompt": "Query"})
    assert (made[0].submission, made[0].prompt, len(made.get_item_rubric(0))) == ("So.", "Why?", 2)


def test_the_domain_of_each_row_comes_from_its_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("q.tsv").write_text("Instruction\tField\nWhy is ice light?\tphysics\n", encoding="utf-8")
    words = ["synthesize", "q.tsv", "--models", "builtin/offline", "--domain-column", "Field", "-o", "out"]
    assert run([*words, "--profile", "full"]) == 0
    row = json.loads(Path("out/final_full.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (row["question"], row["domain"]) == ("Why is ice light?", "physics")
    for name in ("final_full.jsonl", "final_full.parquet"):
        assert run(["lint", f"out/{name}"]) == 0
        assert run(["convert", f"out/{name}", f"{name}.jsonl", "--to", "rubrichub"]) == 0
    assert run([*words[:5], "Filed", "-o", "other"]) == 2
    assert (
        "no column 'Filed'; the rows have 'Instruction', 'Field'; "
        "did you mean --domain-column Field (in Python: domain_column)?"
    ) in capsys.readouterr().err


def test_two_columns_that_may_be_the_query_are_refused_unless_they_are_of_alpaca(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"instruction": "Sum up.", "input": "A text.", "output": "So."}
    Path("other.json").write_text(json.dumps([{"instruction": "Sum up.", "input": "A text."}]), encoding="utf-8")
    Path("alpaca.json").write_text(json.dumps([row, {**row, "input": ""}]), encoding="utf-8")
    words = ["--models", "builtin/offline", "-o", "out"]
    assert run(["synthesize", "other.json", *words]) == 2
    says = "other.json: the query may be column 'instruction' or 'input'; choose one with --question-column NAME"
    assert says in capsys.readouterr().err
    assert run(["synthesize", "alpaca.json", *words]) == 0
    says = "note: alpaca.json: 'instruction' and 'input' are read as the query, joined by a blank line"
    assert says in capsys.readouterr().err
    asked = [json.loads(line)["question"] for line in Path("out/final.jsonl").read_text("utf-8").splitlines()]
    assert asked == ["Sum up.\n\nA text.", "Sum up."]
    assert run(["synthesize", "alpaca.json", *words, "--question-column", "instruction", "--dry-run"]) == 0
    assert "note: alpaca.json: 'input' is not part of the query" in capsys.readouterr().err


def test_labels_of_all_kinds_that_do_not_fit_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rubric, rows = tmp_path / "rubric.json", tmp_path / "rows.jsonl"
    rubric.write_text('[{"name": "Tone", "requirement": "Is kind."}, {"name": "Length", "requirement": "Is brief."}]')
    labels: list[Any] = [["MET", "maybe"], ["MET", 3], ["MET"], 7, {"Tone": "MET", "Lenght": "UNMET"}, ["MET", "MET"]]
    rows.write_text("".join(json.dumps({"submission": "Hello.", "ground_truth": one}) + "\n" for one in labels))
    command = ["grade", "--submissions", str(rows), "--rubric", str(rubric), "--judge", "builtin/offline"]
    assert run([*command, "-o", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2].strip() if number == 0 else line.strip() for number, line in enumerate(told)] == [
        "5 problems:",
        f"{rows}:1: ground_truth[1]: invalid verdict 'maybe'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.",
        f"{rows}:2: ground_truth[1]: invalid verdict '3'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.",
        f"{rows}:3: Ground truth has 1 value, but rubric has 2 criteria",
        f"{rows}:4: ground_truth must be a list of verdicts, got int",
        f"{rows}:5: ground_truth: no criterion is named 'Lenght'; did you mean 'Length'?",
    ]


RUBRICS = {
    "rubric.csv": "name,weight,requirement\nTone,5,Is kind.\nLength,,Is brief.\n",
    "rubric.tsv": "name\tweight\trequirement\nTone\t5\tIs kind.\nLength\t\tIs brief.\n",
    "rubric.jsonl": '{"name": "Tone", "weight": 5, "requirement": "Is kind."}\n'
    '{"name": "Length", "requirement": "Is brief."}\n',
    "canvas.csv": "Rubric Name,Criteria Name,Criteria Description,Criteria Enable Range,"
    "Rating Name,Rating Description,Rating Points,Rating Name,Rating Description,Rating Points\n"
    "Style,Tone,Is kind.,FALSE,Full,Kind.,5,None,Rude.,0\nStyle,Length,,FALSE,Full,Short.,10,None,,0\n",
    "es.yaml": "criterios:\n- {criterio: Tone, descripción: Is kind., puntos: 5}\n"
    "- {criterio: Length, descripción: Is brief., puntos: ١٠}\n",
    "rubric": "- {name: Tone, weight: 5, requirement: Is kind.}\n- {name: Length, requirement: Is brief.}\n",
    "one.jsonl": '{"criteria": [{"name": "Tone", "weight": 5, "requirement": "Is kind."}, '
    '{"name": "Length", "requirement": "Is brief."}]}\n',
}


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("name", list(RUBRICS))
def test_a_rubric_may_come_in_any_kind_of_file_and_through_a_pipe(tmp_path: Path, name: str, piped: bool) -> None:
    source, rows, out = tmp_path / name, tmp_path / "rows.csv", tmp_path / "run"
    rows.write_text("submission\nHello.\n")
    if piped:
        os.mkfifo(source)
        threading.Thread(target=source.write_text, args=(RUBRICS[name],)).start()
    else:
        source.write_text(RUBRICS[name])
    command = ["grade", "--submissions", str(rows), "--rubric", str(source), "--judge", "builtin/offline"]
    assert run([*command, "-o", str(out)]) == 0
    criteria = json.loads((out / "dataset.json").read_text())["rubric"]
    assert [(one["name"], one["weight"]) for one in criteria] == [("Tone", 5.0), ("Length", 10.0)]


def test_a_rubric_in_a_table_is_refused_with_all_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, rows = tmp_path / "rubric.csv", tmp_path / "rows.csv"
    rows.write_text("submission\nHello.\n")
    source.write_text("name,weight,requirement\nTone,heavy,Is kind.\nLength,1_000,Is brief.\n")
    command = ["grade", "--submissions", str(rows), "--rubric", str(source), "--judge", "builtin/offline"]
    assert run([*command, "-o", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert f"{source}: Invalid criterion at index 0" in told and f"{source}: Invalid criterion at index 1" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("q.csv", "question,id\nWhy?,1\n"), ("q.jsonl", '{"question": "Why?"}\n'), ("q.json", '[{"question": "Why?"}]')],
)
def test_utf_16_without_a_mark_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, encoding: str
) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    out = ["--out", str(tmp_path / "run"), "--models", "builtin/offline"]
    assert run(["synthesize", str(tmp_path / name), *out]) == 2
    assert f"{name}: the text looks like UTF-16 without a byte order mark; save the file" in capsys.readouterr().err


def test_two_columns_that_may_be_the_query_are_named_with_the_flag_that_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "queries.csv"
    source.write_text("question,prompt\nWhy is the sky blue?,Explain.\n")
    out = ["--out", str(tmp_path / "run"), "--models", "builtin/offline"]
    assert run(["synthesize", str(source), *out]) == 2
    told = capsys.readouterr().err
    assert "may be column 'question' or 'prompt'; choose one with --question-column NAME" in told
    for column, text in (("question", "Why is the sky blue?"), ("prompt", "Explain.")):
        assert run(["synthesize", str(source), *out, "--question-column", column, "--replace"]) == 0
        assert json.loads((tmp_path / "run" / "final.jsonl").read_text())["question"] == text
    answers = tmp_path / "answers.csv"
    answers.write_text('question,prompt,answer,rubric\nWhy?,Explain.,So.,"[{""requirement"": ""Is kind.""}]"\n')
    grading = ["grade", str(answers), "--judge", "builtin/offline", "-o", str(tmp_path / "graded")]
    assert run(grading) == 2
    assert "may be column 'question' or 'prompt'; choose one with --column query=NAME" in capsys.readouterr().err
    assert run([*grading, "--column", "prompt=question"]) == 0


def test_an_id_that_is_copied_to_the_results_is_not_used_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "queries.jsonl"
    ids = ["q1", "q2", "", "q1", ""]
    source.write_text("".join(json.dumps({"id": one, "question": f"Why {n}?"}) + "\n" for n, one in enumerate(ids)))
    out = ["--out", str(tmp_path / "run"), "--models", "builtin/offline"]
    assert run(["synthesize", str(source), *out]) == 2
    assert f"{source}:4: id 'q1' is already used on line 1; ids must be unique" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
