"""The data of functions that grade: which input is what, and the places that messages name."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, DataItem, InputError, Rubric, RubricDataset, lint
from autorubric.errors import MissingFileError, Note
from autorubric.jobs.submissions import check_weighed, list_rubrics, read_dataset, read_rubric
from autorubric.synthesis.query_file import QueryFile
from tests.offenders import offenders

RUBRIC = Rubric([Criterion(name="Tone", weight=2.0, requirement="Is kind.")])
ENTRY = {"name": "Tone", "weight": 2.0, "requirement": "Is kind."}


def test_a_rubric_is_read_from_whatever_holds_it(tmp_path: Path) -> None:
    item = {"submission": "s", "description": "", "rubric": [ENTRY]}
    files: dict[str, str] = {
        "one_line.jsonl": json.dumps({"criteria": [ENTRY]}),
        "a_criterion_a_line.jsonl": json.dumps(ENTRY),
        "table.csv": "name,weight,requirement\nTone,2,Is kind.\n",
        "one_cell.csv": 'name,weight,requirement,criteria\nTone,2,Is kind.,""\n',
        "list.json": json.dumps([ENTRY]),
        "dataset.json": json.dumps({"prompt": "P", "rubric": None, "items": [item, item]}),
    }
    with offenders() as case:
        for name, text in files.items():
            with case(name):
                (tmp_path / name).write_text(text)
                assert read_rubric(tmp_path / name).to_dict() == RUBRIC.to_dict()


def test_criteria_of_other_formats_are_read_in_tables_and_documents(tmp_path: Path) -> None:
    entries = [{"criterion": "Is kind.", "points": 2}, {"criterion": "Rambles,\nat length.", "points": -1.5}]
    table = 'criterion{0}points\nIs kind.{0}2\n"Rambles,\nat length."{0}-1.5\n'
    files: dict[str, bytes] = {
        "rubric.json": json.dumps(entries).encode(),
        "wrapped.json": json.dumps({"rubrics": entries}).encode(),
        "rubric.jsonl": "\n".join(map(json.dumps, entries)).encode(),
        "rubric.csv": table.format(";").encode(),
        "excel.csv": f"sep=\t\n{table}".format("\t").title().encode("utf-16"),
        "rar.tsv": table.format("\t").replace("criterion", "Description").replace("points", "WEIGHT").encode(),
    }
    with offenders() as case:
        for name, data in files.items():
            with case(name):
                (tmp_path / name).write_bytes(data)
                found = [(one.requirement.capitalize(), one.weight) for one in read_rubric(tmp_path / name)]
                assert found == [("Is kind.", 2.0), ("Rambles,\nat length.", -1.5)]
                assert lint(tmp_path / name, select=("zero-weight",)) == []


def test_weights_and_texts_that_can_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    cases = {
        "weight": ("criterion,points\nIs kind.,5 or 6\n", "points is '5 or 6'; expected a finite number"),
        "unit": ("criterion,points\nIs kind.,50%\nIs brief.,0.5\n", "has the weight '50%', but others are not in"),
        "text": ("criterion,text,weight\nIs brief.,Is kind.,2\n", "criterion='Is brief.' and text='Is kind.'"),
        "name of the weight": ("criterion,max points\nIs kind.,4\n", "'max points' is '4'; rename it to 'weight'"),
        "words for the weight": (
            "criterion,criterion_weight\nIs kind.,Major\n",
            "'criterion_weight' is 'Major'; ren",
        ),
        "two weights": ("criterion,weight,points\nIs kind.,4,3\n", "weight='4' and points='3'; leave one out"),
        "thousands": ("name;requirement;weight\nTone;Is kind.;1,500\n", "got '1,500'"),
        "levels": ("Criterion,Weight,Good (3),Poor\nTone,2,Is kind,Is rude\n", "'Good (3)', 'Poor' describe a scale"),
    }
    with offenders() as case:
        for name, (text, problem) in cases.items():
            with case(name):
                (tmp_path / "rubric.csv").write_text(text)
                with pytest.raises(InputError) as caught:
                    read_rubric(tmp_path / "rubric.csv")
                assert str(caught.value).startswith(f"{tmp_path / 'rubric.csv'}: ") and problem in str(caught.value)
                told = [one for one in caught.value.problems if "index 0" in one or "rubric[0]" in one]
                assert len(told) == 1
                with pytest.raises(InputError, match=r"rubric\.csv: criterion 1: "):
                    lint(tmp_path / "rubric.csv")


def test_tables_without_a_known_heading_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rubric.csv"
    path.write_text("Kriteerium,Kirjeldus\nToon,Is kind.\n")
    with pytest.raises(InputError, match="is under 'requirement', 'criterion', 'description', 'text', …"):
        read_rubric(path)
    path.write_text("Rubric for essays,,\nName,Criterion,Points\nTone,Is kind.,4\n")
    with pytest.raises(InputError, match=r"rubric\.csv:1: the header names 1 of 3 columns; delete lines above"):
        read_rubric(path)


def test_the_rubrics_of_several_queries_are_not_one_rubric(tmp_path: Path) -> None:
    path = tmp_path / "final.jsonl"
    for key in ("rubrics", "criteria"):  # of final.jsonl, of final_full.jsonl
        row = json.dumps({"question": "Why?", key: [{"criterion": "Is brief.", "points": 3}], "id": "q0"}) + "\n"
        path.write_text(row)
        assert [(one.requirement, one.weight) for one in read_rubric(path)] == [("Is brief.", 3)]
        path.write_text(row * 2)
        with pytest.raises(InputError, match=r"final\.jsonl: it has 2 rubrics, each of one query; expected one"):
            read_rubric(path)


def test_weights_are_read_as_people_write_them(tmp_path: Path) -> None:
    tables = {
        "criterion;points\nIs kind.;60%\nIs brief.;40 %\n": [60, 40],
        "name;requirement;weight\nTone;Is kind.;2,5\nErrors;Has errors.;−1,25\n": [2.5, -1.25],
        "标准,分值\n语气友好。,20分\n内容简短。,5\n": [20, 5],
        "准则,权重\n语气友好。,３\n答非所问。,–2\n": [3, -2],
        "Requirement;Weight\nIs kind.;60％\nIs brief.;４０%\n": [60, 40],
        "Criterion,Description,Weight\nTone,The answer is kind.,3 points\nLength,The answer is brief.,2\n": [3, 2],
    }
    with offenders() as case:
        for number, (text, weights) in enumerate(tables.items()):
            with case(text):
                path = tmp_path / f"{number}.csv"
                path.write_text(text)
                assert [one.weight for one in read_rubric(path)] == weights
                assert Rubric.from_file(path) == read_rubric(path)
                assert lint(path, select=("zero-weight",)) == []
    first = read_rubric(path)[0]
    assert (first.name, first.requirement) == ("Tone", "The answer is kind.")


def test_other_keys_of_criteria_without_weights_stay_metadata(tmp_path: Path) -> None:
    entry = {
        "criterion": "Is kind.",
        "name": "Tone",
        "key_points": "kindness",
        "max_words": 4,
        "pointsOf": ["a"],
        "weights": None,
    }
    (tmp_path / "rubric.json").write_text(json.dumps([entry]))
    [found] = read_rubric(tmp_path / "rubric.json")
    assert (found.weight, found.metadata["key_points"]) == (10.0, "kindness")
    (tmp_path / "rubric.json").write_text(json.dumps([{**entry, "maxPoints": "5", "points": 3}]))
    assert read_rubric(tmp_path / "rubric.json")[0].weight == 3.0


def test_answers_and_a_dataset_without_one_rubric_for_all_are_no_rubric(tmp_path: Path) -> None:
    own, other = {"submission": "s", "rubric": [ENTRY]}, {"submission": "s", "rubric": [{**ENTRY, "weight": 3.0}]}
    told = "pass it as DATASET or --submissions, and a file of criteria as --rubric"
    bare = f"it is a dataset without a rubric; {told}"
    rows = f"its rows have submissions (in 'Answer') and no criteria; {told}"
    cases: list[tuple[Any, str]] = [
        ({"prompt": "P", "items": [own, other]}, "it is a dataset whose items have their own rubrics"),
        ({"prompt": "P", "rubric": None, "items": []}, bare),
        ({"prompt": "P", "items": [{"submission": "s"}]}, bare),
        ({"prompt": "P", "items": [{"text": "s"}]}, bare),
        ({"criteria": ["Is brief."], "items": ["s"]}, bare),
        ([{"id": 1, "Answer": "s"}], rows),
    ]
    with offenders() as case:
        for value, message in cases:
            with case(str(value)):
                (tmp_path / "d.json").write_text(json.dumps(value))
                with pytest.raises(InputError, match=re.escape(f"d.json: {message}")):
                    read_rubric(tmp_path / "d.json")


def test_messages_name_the_dataset_as_it_was_given(tmp_path: Path) -> None:
    made = RubricDataset("Why?", RUBRIC, [DataItem("So.", "")])
    made.to_file(tmp_path / "d.json")
    (tmp_path / "rows.csv").write_text("submission\nSo.\n")
    empty = RubricDataset("Why?", RUBRIC, [])
    table: list[tuple[tuple[Any, ...], str]] = [
        ((made, RUBRIC, None), "the dataset: DATASET has its own rubric and submissions"),
        ((tmp_path / "d.json", None, ["So."]), f"{tmp_path / 'd.json'}: DATASET has its own rubric"),
        ((tmp_path / "rows.csv", None, ["So."]), f"submissions are given twice, in {tmp_path / 'rows.csv'} and by"),
        ((empty, None, None), "the dataset: it has no items"),
    ]
    with offenders() as case:
        for (data, rubric, submissions), said in table:
            with case(said):
                with pytest.raises(InputError) as raised:
                    read_dataset(data, rubric, submissions, None)
                assert str(raised.value).startswith(said)


def test_a_prompt_fills_what_has_none_and_is_told_where_it_has_no_effect(tmp_path: Path) -> None:
    bare = RubricDataset("", RUBRIC, [DataItem("So.", ""), DataItem("No.", "", prompt="How?")])
    filled = read_dataset(bare, None, None, "Why?")
    assert [filled.get_item_prompt(0), filled.get_item_prompt(1)] == ["Why?", "How?"]
    for full in (RubricDataset("When?", RUBRIC, bare.items), RubricDataset("", RUBRIC, bare.items[1:])):
        with pytest.raises(InputError, match="the dataset: DATASET has its own prompt; leave --prompt out"):
            read_dataset(full, None, None, "Why?")
    (tmp_path / "rows.csv").write_text("question,answer\nHow?,So.\n")
    with pytest.warns(Note, match="--prompt has no effect, because every row has its own query"):
        read_dataset(tmp_path / "rows.csv", RUBRIC, None, "Why?")


def test_a_rubric_without_weight_is_placed_at_the_file_or_at_the_item_that_brings_it() -> None:
    flat = Rubric([Criterion(weight=0.0, requirement="Is kind.")])
    dataset = RubricDataset("Why?", flat, [DataItem("a", ""), DataItem("b", "", rubric=Rubric(list(flat)))])
    assert [where for where, _ in list_rubrics(dataset, Path("d.json"))] == ["d.json", "d.json: item 1"]
    with pytest.raises(InputError) as raised:
        check_weighed(list_rubrics(dataset, RUBRIC))
    assert [one.partition(": every")[0] for one in raised.value.problems] == ["the rubric", "the rubric: item 1"]


def test_rows_of_a_file_become_a_dataset_with_its_name(tmp_path: Path) -> None:
    text = "submission,description,model\nSo.,short,m\nNo.,,n\n"
    (tmp_path / "rows.csv").write_text(text)
    with gzip.open(tmp_path / "packed.csv.gz", "wt") as file:
        file.write(text)
    for path, name in ((tmp_path / "rows.csv", "rows"), (tmp_path / "packed.csv.gz", "packed")):
        made = read_dataset(path, RUBRIC, None, "Why?")
        assert (made.name, made.prompt, made.rubric) == (name, "Why?", RUBRIC)
        assert [(item.submission, item.description, item.metadata) for item in made] == [
            ("So.", "short", {"model": "m"}),
            ("No.", "", {"model": "n"}),
        ]


def test_texts_are_submissions_wherever_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "folder/b.md", "folder/c.txt"):
        (tmp_path / name).write_text("So.")
    for name, ids in (("a.txt", ["a.txt"]), ("folder", ["b.md", "c.txt"])):
        for data, submissions in ((tmp_path / name, None), (None, tmp_path / name)):
            assert [item.id for item in read_dataset(data, RUBRIC, submissions, None)] == ids
    for data, submissions in ((tmp_path / "no.txt", None), (None, tmp_path / "no.txt")):
        with pytest.raises(MissingFileError, match=r"not found: .*no\.txt"):
            read_dataset(data, RUBRIC, submissions, None)


def test_a_text_that_is_a_table_with_answers_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    table = "id,question,answer\na,Why?,So.\nb,How?,Thus.\n"
    with offenders() as case:
        for text, count in (
            (table, 2),
            (table.replace(",", "\t"), 2),
            (table.replace(",", "|"), 2),
            ('{"id": "a", "answer": "So."}\n{"id": "b", "answer": "Thus."}\n', 2),
            ("The answer, in short\nis wind, not rain\n", 1),
            ("Answer: the wind.\n", 1),
            ("one,two\n1,2\n", 1),
            ('Essay, by Ann\nWind is "air", moving, they say.\nIt is, "so".\n', 1),
        ):
            with case(text):
                path.write_text(text)
                assert len(read_dataset(path, RUBRIC, None, None if "question" in text else "Why?").items) == count


def test_a_rubric_that_is_prose_is_refused_as_such(tmp_path: Path) -> None:
    row = {"question": "Why?", "response": "So.", "rubric": "# Rubric\n- Is kind (3 points)"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"rows\.jsonl:1: the rubric is text, and not JSON: "):
        read_dataset(tmp_path / "rows.jsonl", None, None, None)


def test_of_a_folder_texts_are_read_and_ten_other_files_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("So.")
    for number in range(10):
        (tmp_path / f"{number}.pdf").touch()
    with pytest.warns(UserWarning, match=r"not \.txt or \.md files: 0\.pdf, .*9\.pdf$"):
        assert [item.id for item in read_dataset(None, RUBRIC, tmp_path, None)] == ["a.txt"]
    (tmp_path / "x.pdf").touch()
    with pytest.warns(UserWarning, match=r"9\.pdf and 1 more$"):
        read_dataset(None, RUBRIC, tmp_path, None)


def test_rows_without_a_query_whose_other_columns_may_be_one_get_a_note(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("ticket,lang,answer\nWhy is it late?,en,So.\n")
    (tmp_path / "kinds.csv").write_text("kind,answer\nlate,So.\n")
    told = r"no column is read as the query, perhaps 'ticket'; choose one with --column query=NAME"
    with pytest.warns(UserWarning, match=told):
        read_dataset(None, RUBRIC, tmp_path / "rows.csv", None)
    with pytest.warns(UserWarning, match="models do not see 'ticket'; add what they need to the query, or name"):
        read_dataset(None, RUBRIC, tmp_path / "rows.csv", "Why?")
    read_dataset(None, RUBRIC, tmp_path / "rows.csv", None, {"query": "ticket"})
    read_dataset(None, RUBRIC, tmp_path / "kinds.csv", None)
    (tmp_path / "twice.csv").write_text("prompt,text,answer\nWhy is it late?,Why is it late?,So.\n")
    read_dataset(None, RUBRIC, tmp_path / "twice.csv", None, {"submission": "answer"})
    (tmp_path / "merged.csv").write_text("question,answer\nWhy?,So.\n,Because.\nHow?,No.\n")
    with pytest.warns(UserWarning, match="merged.csv: judges do not see what was asked in 1 of 3 rows: fill"):
        read_dataset(None, RUBRIC, tmp_path / "merged.csv", None)
    read_dataset(None, RUBRIC, tmp_path / "merged.csv", "Why?")
    (tmp_path / "context.csv").write_text("system_prompt,question,answer\nBe kind.,Why?,So.\n")
    with pytest.warns(UserWarning, match="context.csv: models do not see 'system_prompt'; add what they need"):
        read_dataset(None, RUBRIC, tmp_path / "context.csv", None)
    (tmp_path / "inside.jsonl").write_text('{"prompt": "Why?", "made": {"answer": "The moon pulls the sea."}}\n')
    read_dataset(None, RUBRIC, tmp_path / "inside.jsonl", None, {"submission": "made.answer"})
    notes: list[str] = []
    QueryFile(tmp_path / "context.csv").with_guesses(notes)
    told = "models do not see 'system_prompt'; add what they need to the query"
    assert notes == [f"{tmp_path}/context.csv: {told}"]


def test_sentences_of_criteria_that_judges_do_not_see_get_a_note(tmp_path: Path) -> None:
    path = tmp_path / "rubric.csv"
    path.write_text("criterion,weight,explanation,axis\nBreadth,2,All three causes are named.,insight\n")
    with pytest.warns(
        UserWarning,
        match="rubric.csv: 'explanation', 'axis' of the criteria is metadata, which judges do not see; join",
    ):
        assert read_rubric(path)[0].metadata == {"explanation": "All three causes are named.", "axis": "insight"}


def test_criteria_that_count_10_among_others_with_weights_get_a_note(tmp_path: Path) -> None:
    path = tmp_path / "rubric.csv"
    path.write_text("requirement,weight\nIs brief.,1\nIs kind.,\nIs late.,-1\n")
    told = "rubric.csv: 1 of 3 criteria have no weight and count 10, the first is criterion 2"
    with pytest.warns(UserWarning, match=told):
        assert [one.weight for one in read_rubric(path)] == [1.0, 10.0, -1.0]


def test_criteria_below_a_merged_cell_of_their_section_get_a_note(tmp_path: Path) -> None:
    path = tmp_path / "rubric.csv"
    path.write_text("Section,Requirement\nStyle,Is brief.\n,Is kind.\nFacts,Names coal.\n")
    told = (
        "rubric.csv: 1 of 3 criteria have no section, the first is criterion 2; if cells were merged, fill them all"
    )
    with pytest.warns(UserWarning, match=told):
        assert [one.section for one in read_rubric(path)] == ["Style", None, "Facts"]


def test_choices_that_are_verdicts_are_no_scale_and_met_as_the_worst_is_a_fault(tmp_path: Path) -> None:
    """Files of verifiers list choices from worst to best; to read a pitfall as points would turn its sign."""
    path = tmp_path / "rubric.json"
    entry = {"text": "Is kind.", "weight": 2, "choices": ["UNMET", "MET"]}
    path.write_text(json.dumps({"criteria": [entry]}))
    assert read_rubric(path)[0].is_binary
    path.write_text(json.dumps({"criteria": [{**entry, "choices": ["MET", "UNMET"]}]}))
    with pytest.raises(
        InputError, match=r"'choices' is .'MET', 'UNMET'.; give a criterion that describes a fault a neg"
    ):
        read_rubric(path)
    path.write_text(json.dumps({"criteria": [{**entry, "weight": -2, "choices": ["MET", "UNMET"]}]}))
    assert read_rubric(path)[0].weight == -2
