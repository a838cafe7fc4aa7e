from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric import Rubric
from autorubric.cli.app import run
from autorubric.errors import InputError, MissingFileError
from autorubric.formats import Options, convert, read_records
from autorubric.linting.rubric_sources import iter_rubrics

GOOD = {"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}


def jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def problems(path: Path, source: str | None = None) -> list[str]:
    with pytest.raises(InputError) as caught:
        list(read_records(path, source))
    return [problem.replace(str(path), path.name) for problem in caught.value.problems]


def test_every_row_that_is_wrong_is_named_with_its_key_and_nothing_is_written(tmp_path: Path) -> None:
    rows = [
        GOOD,
        {**GOOD, "rubrics": []},
        {**GOOD, "rubrics": [{"criterion": "", "points": True}, {"criterion": "x", "points": "5"}]},
        {"question": "Why?"},
        {**GOOD, "question": 5.5},
    ]
    source = jsonl(tmp_path / "final.jsonl", *rows)
    assert problems(source) == [
        "final.jsonl:2: rubrics is []; expected a list of criteria that is not empty",
        "final.jsonl:3: rubrics[0].criterion is ''; expected the text of a criterion",
        "final.jsonl:3: rubrics[0].points is True; expected a finite number",
        "final.jsonl:3: rubrics[1].points is '5'; expected a finite number",
        "final.jsonl:4: is not a row of rubrichub; its keys are 'question'",
        "final.jsonl:5: question is 5.5; expected a string or a list of messages",
    ]
    with pytest.raises(InputError):
        convert(source, tmp_path / "out.jsonl", "healthbench")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final.jsonl"]


def test_a_broken_line_stops_the_conversion_too(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "final.jsonl", GOOD)
    source.write_text(source.read_text() + "{\n[1]\n")
    assert [problem.split(": ")[0] for problem in problems(source)] == ["final.jsonl:2", "final.jsonl:3"]


def test_rows_of_no_format_are_refused_with_what_was_seen(tmp_path: Path) -> None:
    (problem,) = problems(jsonl(tmp_path / "rows.jsonl", {"text": "Why?", "label": 1}))
    assert problem.startswith(
        "rows.jsonl:1: no format has rows with the keys 'text', 'label'; known formats: autorubric,"
    )


def test_mirrors_that_differ_are_refused(tmp_path: Path) -> None:
    convert(jsonl(tmp_path / "final.jsonl", GOOD), tmp_path / "rows.jsonl", "rurl")
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    row["Rubrics"][0]["points"] = 6
    assert problems(jsonl(tmp_path / "rows.jsonl", row)) == [
        "rows.jsonl:1: Rubrics differs from its mirror in the row"
    ]


def test_a_target_with_other_content_is_left_alone(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "final.jsonl", GOOD)
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    with pytest.raises(InputError, match="--force"):
        convert(source, target, "rar")
    assert target.read_text() == "mine"
    convert(source, target, "rar", Options(force=True))
    written = target.read_bytes()
    # The same content again is no harm.
    convert(source, target, "rar")
    assert target.read_bytes() == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final.jsonl", "out.jsonl"]


def test_the_file_that_is_read_is_never_written(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "final.jsonl", GOOD)
    with pytest.raises(InputError, match="also the input file"):
        convert(source, source, "rar", Options(force=True))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rubric.md", "## Style\n\n- **Tone** [5]: Is kind\n- Is rude (-2 points)\n"),
        ("rubric.csv", "Name,Criterion,Points\nTone,Is kind,5\n,Is rude,-2\n"),
        ("rubric.jsonl", '{"id": 1, "title": "Tone", "description": "Is kind", "points": 5}\n'
                         '{"id": 2, "description": "Is rude", "points": -2}\n'),
        ("canvas.json", json.dumps({"title": "Essay", "data": [
            {"title": "Tone", "description": "Is kind", "points": 5},
            {"description": "Is rude", "points": -2}]})),
    ],
)  # fmt: skip
def test_a_file_of_criteria_is_one_rubric_everywhere(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = convert(tmp_path / name, tmp_path / "out.json", "llmdc")
    wanted = [("Tone", "Is kind", 5.0), (None, "Is rude", -2.0)]
    for path in (tmp_path / name, tmp_path / "out.json"):
        found = [(c.name, c.requirement, c.weight) for c in Rubric.from_file(path)]
        assert (done.records, done.criteria, found) == (1, 2, wanted), path
        assert len(next(iter_rubrics(path, [])).criteria) == 2, path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.md", "## Style\n\n- Is kind\n"),
        ("canvas.json", json.dumps({"id": 5, "title": "Essay", "criteria": [
            {"id": "_1", "description": "Is kind", "points": 2, "ratings": [
                {"description": "Full", "points": 2}, {"description": "None", "points": 0}]}]})),
    ],
)  # fmt: skip
def test_a_document_of_criteria_is_one_rubric(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = convert(tmp_path / name, tmp_path / "out.json", "llmdc")
    assert (done.records, done.criteria) == (1, 1)
    assert [c.requirement for c in Rubric.from_file(tmp_path / "out.json")] == ["Is kind"]


@pytest.mark.parametrize("key", ["query_id", "prompt_id", "answer", "submission_id"])
def test_criteria_of_several_queries_or_submissions_are_not_one_rubric(tmp_path: Path, key: str) -> None:
    rows = jsonl(tmp_path / "a.jsonl", *({key: place, "criterion": "Is kind", "weight": 1} for place in ("a", "b")))
    rubrics = jsonl(
        tmp_path / "b.jsonl", *({"id": place, "criteria": [{"description": "x"}]} for place in ("a", "b"))
    )
    for source in (rows, rubrics):
        with pytest.raises(InputError, match="no format has rows with the keys"):
            convert(source, tmp_path / "out.json", "llmdc")


def test_strict_writes_nothing_where_anything_would_be_lost(tmp_path: Path) -> None:
    row = {"question": "Why?", "reference_answer": "So.", "rubric": [{"description": "x", "weight": 1, "title": "t"}]}
    source = jsonl(tmp_path / "rar.jsonl", row, row)
    with pytest.raises(InputError) as caught:
        convert(source, tmp_path / "final.jsonl", "rubrichub", Options(strict=True))
    assert caught.value.problems == (
        "criteria.name would be lost in 2 of 2 rows",
        "reference would be lost in 2 of 2 rows",
    )
    assert not (tmp_path / "final.jsonl").exists()
    convert(source, tmp_path / "rows.jsonl", "healthbench", Options(strict=True))


def test_extras_can_be_left_out(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "final.jsonl", {**GOOD, "note": "n"})
    done = convert(source, tmp_path / "out.jsonl", "healthbench", Options(carry=False))
    assert dict(done.lost) == {"metadata.note": 1}
    assert "autorubric" not in json.loads((tmp_path / "out.jsonl").read_text())


def test_final_rows_keep_their_tools_except_in_parquet(tmp_path: Path) -> None:
    row = {**GOOD, "tools": '[{"type": "function", "function": {"name": "look_up"}}]'}
    source = jsonl(tmp_path / "final.jsonl", row, {**GOOD, "question": "Who?", "tools": "a spade"})
    done = convert(source, tmp_path / "out.jsonl", "rubrichub")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first, second.keys(), dict(done.lost)) == (row, GOOD.keys(), {"metadata.tools": 1})
    assert dict(convert(source, tmp_path / "out.parquet", "rubrichub").lost) == {"metadata.tools": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "autorubric is not valid JSON"),
        ('{"colour": 1}', "autorubric has the unknown keys colour"),
        ('{"id": 5}', "autorubric.id is 5; expected a string"),
        ('{"criteria": {"7": {"weight": 1}}}', "autorubric.criteria refers to criterion '7'; the row has 1"),
        ('{"criteria": {"0": {"weight": "x"}}}', "weight"),
        ('{"prompt": 5}', "autorubric.prompt is 5"),
    ],
)
def test_extras_that_do_not_fit_are_named(text: str, message: str, tmp_path: Path) -> None:
    row = {"question": "Why?", "rubric": [{"description": "x", "weight": 1}], "autorubric": text}
    (problem,) = problems(jsonl(tmp_path / "rar.jsonl", row))
    assert message in problem


def test_questions_that_come_again_and_leaks_between_splits_are_reported(tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", GOOD, {**GOOD, "question": "How?"})
    rows = [{**GOOD, "question": text} for text in ("WHY", "why?", "When?")]
    done = convert(jsonl(tmp_path / "test.jsonl", *rows), None, None, Options(polarity="audit", against=[train]))
    assert (done.questions.repeated, done.questions.leaked) == (1, 2)
    assert done.questions.examples == [
        (f"{tmp_path}/test.jsonl:1", f"{train}:1"),
        (f"{tmp_path}/test.jsonl:2", f"{train}:1"),
    ]


def test_splits_within_a_file_are_told_apart_by_their_column(tmp_path: Path) -> None:
    rows = [{**GOOD, "split": "train"}, {**GOOD, "split": "test"}, {**GOOD, "split": "train"}]
    questions = convert(jsonl(tmp_path / "all.jsonl", *rows), None, None, Options(polarity="audit")).questions
    assert (questions.repeated, questions.leaked) == (2, 1)


def test_a_dataset_with_a_head_and_shared_rubrics_is_read_item_by_item(tmp_path: Path) -> None:
    head = {
        "prompt": "Why?",
        "rubric": [{"requirement": "Is brief"}],
        "rubrics": {"r0": [{"requirement": "Is kind"}]},
    }
    items = [
        {"submission": "a", "description": "one", "ground_truth": ["MET"]},
        {"submission": "b", "description": "two", "rubric": {"$ref": "#/rubrics/r0"}},
    ]
    path = jsonl(tmp_path / "data.jsonl", {"dataset": head}, *items)
    found = [record for _, record in read_records(path)]
    assert [(r.prompt, r.answer, r.criteria[0].requirement) for r in found] == [
        ("Why?", "a", "Is brief"),
        ("Why?", "b", "Is kind"),
    ]
    (tmp_path / "data.json").write_text(json.dumps({**head, "items": items}))
    assert [record for _, record in read_records(tmp_path / "data.json")] == found


def test_a_misspelt_key_of_an_item_is_named(tmp_path: Path) -> None:
    item = {"submission": "a", "description": "d", "prompt": "p", "rubric": [{"requirment": "x"}]}
    (problem,) = problems(jsonl(tmp_path / "data.jsonl", item))
    assert problem.startswith("data.jsonl:1: ")
    assert "did you mean 'requirement'?" in problem


def test_titles_that_repeat_are_told_apart_and_come_back(tmp_path: Path) -> None:
    rubric = [{"title": "t", "description": text, "weight": 1} for text in ("x", "y")]
    source = jsonl(tmp_path / "rar.jsonl", {"question": "Why?", "rubric": rubric})
    full = jsonl(tmp_path / "full.jsonl", {"question": "Why?", "criteria": rubric})
    for path in (full, source):
        convert(path, tmp_path / "data.json", "autorubric", Options(force=True))
        items = json.loads((tmp_path / "data.json").read_text())["items"]
        assert [one["name"] for one in items[0]["rubric"]] == ["t", "t (2)"]
    convert(tmp_path / "data.json", tmp_path / "back.jsonl", "rar")
    assert [one["title"] for one in json.loads((tmp_path / "back.jsonl").read_text())["rubric"]] == ["t", "t"]


def test_files_and_formats_that_are_not_there_are_named(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "final.jsonl", GOOD)
    with pytest.raises(MissingFileError):
        convert(tmp_path / "no.jsonl", tmp_path / "out.jsonl", "rar")
    with pytest.raises(MissingFileError):
        convert(tmp_path / "no.parquet", tmp_path / "out.jsonl", "rar")
    (tmp_path / "bad.parquet").write_text("x")
    for bad, message in (
        ((source, tmp_path / "out.jsonl", "raar"), "did you mean 'rar'"),
        ((source, tmp_path / "out.jsonl", None), "--to"),
        ((source, tmp_path / "out.toml", "rar"), "rar is stored in .jsonl or .parquet or .json files"),
        ((source, tmp_path / "no" / "out.jsonl", "rar"), "does not exist"),
        ((tmp_path / "bad.parquet", tmp_path / "out.jsonl", "rar"), "not a Parquet file"),
        ((tmp_path / "x.csv", tmp_path / "out.jsonl", "rar"), "File not found"),
    ):
        with pytest.raises(InputError, match=message):
            convert(*bad)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet", "final.jsonl"]


def test_the_command_reports_and_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = jsonl(tmp_path / "final.jsonl", GOOD), tmp_path / "rows.parquet"
    assert run(["convert", str(source), str(target), "--to", "verl", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["from"], told["to"], told["records"], told["lost"]) == ("rubrichub", "verl", 1, {})
    assert run(["convert", str(source), "--polarity", "audit"]) == 0
    assert "nothing was written" in capsys.readouterr().out
    answered = jsonl(tmp_path / "answered.jsonl", GOOD | {"answer": "It rains."}, GOOD)
    assert run(["convert", str(answered), str(tmp_path / "items.json"), "--to", "autorubric"]) == 0
    assert "without an answer: 1 item; `grade` decides blank" in capsys.readouterr().out
    for wrong in (
        [],
        [str(source)],
        [str(source), str(target), "--to", "rar", "--extras", "some"],
        [str(source), str(target), "--to", "rar"],
        [str(source), str(tmp_path / "x.jsonl"), "--from", "rar", "--to", "verl"],
    ):
        assert run(["convert", *wrong]) == 2
        assert capsys.readouterr().err.startswith("autorubric: ")
    assert run(["convert", "--list"]) == 0
    assert "healthbench" in capsys.readouterr().out


def test_ids_that_are_fractions_and_answers_in_lists_are_kept(tmp_path: Path) -> None:
    """They have no place of their own: the one becomes text, the other metadata."""
    row = {
        "id": 7.5,
        "question": "Why?",
        "response": ["So."],
        "reference": "",
        "rubrics": [{"requirement": "Is kind."}],
    }
    [(_, record)] = read_records(jsonl(tmp_path / "rows.jsonl", row))
    assert (record.id, record.answer, record.reference, record.metadata) == ("7.5", None, None, {"response": ["So."]})


def test_columns_are_named_for_rows_in_no_format_only(tmp_path: Path) -> None:
    path, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"instruction": "Say why.", "passage": "Ice floats.", "demands": ["Names the density."]}\n')
    with pytest.raises(
        InputError, match=r"with the keys 'instruction', 'passage', 'demands'; .*\n.* --column ROLE=NAME"
    ):
        autorubric.convert(path, target=out, to="rubrichub")
    column = {"query": "instruction", "rubric": "demands"}
    with pytest.raises(InputError, match="names columns of rows in no named format; leave out --from"):
        autorubric.convert(path, target=out, to="rubrichub", from_="rar", column=column)
    done = autorubric.convert(path, target=out, to="rubrichub", column=column)
    assert (done.source, done.records, dict(done.lost)) == ("usual names", 1, {"metadata.passage": 1})
    rubrics = [{"criterion": "Names the density.", "points": 10}]
    assert json.loads(out.read_text()) == {"question": "Say why.", "id": "", "rubrics": rubrics}


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Why?"}]
    answer_only = jsonl(tmp_path / "answer.jsonl", {"prompt": turns, "reward_model": {"ground_truth": "4"}})
    assert problems(answer_only, "verl") == [
        "answer.jsonl:1: no rubric found in reward_model.rubrics, extra_info.reward_model.rubrics or Rubric"
    ]
    tagged = {"criterion": "Says why.", "points": 5, "tags": ["depth", 3]}
    (tmp_path / "tagged.jsonl").write_text(json.dumps({"prompt": turns, "reward_model": {"rubrics": [tagged]}}))
    (told,) = problems(tmp_path / "tagged.jsonl", "verl")
    assert told.endswith("tags are ['depth', 3]; expected a list of strings")
    two = jsonl(tmp_path / "two.jsonl", GOOD, {**GOOD, "id": "q2", "question": "How?"})
    with pytest.raises(InputError, match=r"one rubric, but there are 2; write a \.jsonl with one per line"):
        convert(two, tmp_path / "two.toml", "verifiers")
    assert not (tmp_path / "two.toml").exists()


_SHARED = [{"name": "Dose", "weight": -2, "requirement": "Avoids a dose."}]
_HEAD = {"name": "Set", "metadata": {"by": "us"}}
_ITEM = {"id": "q1", "submission": "a", "description": "d"}


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "P", "rubric": _SHARED, "items": [_ITEM, {**_ITEM, "id": "q2", "prompt": "Q"}]},
        {
            "prompt": None,
            "rubric": {"guidelines": "g", "criteria": _SHARED, "metadata": {"v": 1}},
            "reference_submission": "R",
            "items": [{**_ITEM, "prompt": "P", "metadata": {"k": 1}, "rubric": [{"requirement": "Is kind."}]}],
        },
        {"prompt": "P", "rubric": None, "items": []},
    ],
)
def test_a_dataset_comes_back_equal_from_every_file_type(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "start.json"
    path.write_text(json.dumps({**_HEAD, **fields}))
    wanted = autorubric.RubricDataset.from_file(path)
    for number, suffix in enumerate(("json", "jsonl", "yaml", "json")):
        source, path = path, tmp_path / f"copy{number}.{suffix}"
        done = convert(source, path, "autorubric", Options(strict=True))
        assert (done.lost, done.carried) == ({}, {})
        assert autorubric.RubricDataset.from_file(path) == wanted


def test_the_name_of_a_dataset_is_carried_or_reported(tmp_path: Path) -> None:
    source, back = tmp_path / "set.json", tmp_path / "back.json"
    source.write_text(json.dumps({**_HEAD, "prompt": "P", "rubric": _SHARED, "items": [_ITEM]}))
    done = convert(source, tmp_path / "rows.parquet", "verl")
    assert done.carried["metadata.autorubric_dataset"] == 1
    convert(tmp_path / "rows.parquet", back, "autorubric")
    found = autorubric.RubricDataset.from_file(back)
    assert (found.name, found.metadata, found.items[0].metadata) == ("Set", {"by": "us"}, {})
    with pytest.raises(InputError, match=r"metadata\.autorubric_dataset would be lost in 1 of 1 rows"):
        convert(source, tmp_path / "rows.jsonl", "rubrichub", Options(strict=True))


def test_a_shared_rubric_is_converted_like_those_of_items(tmp_path: Path) -> None:
    source = tmp_path / "set.json"
    source.write_text(json.dumps({"prompt": "P", "rubric": _SHARED, "items": [_ITEM]}))
    convert(source, tmp_path / "turned.json", "autorubric", Options(polarity="met-is-good"))
    turned = json.loads((tmp_path / "turned.json").read_text())
    assert [one["weight"] for one in turned["rubric"]] == [2.0]
    assert "rubric" not in turned["items"][0]
