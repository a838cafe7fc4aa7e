"""Every reader of rows says the same of the same forty rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.formats.conversion import Options, convert, read_records
from autorubric.jobs.submissions import Submissions
from autorubric.linting.rubric_sources import iter_rubrics
from autorubric.rows.record import as_text, read_prompt, read_question
from autorubric.synthesis.query_file import QueryFile
from autorubric.training.adapters.openrlhf import remote_samples
from autorubric.training.candidates import read_candidates
from autorubric.training.queries import find_rubric_column, read_queries, read_rubric
from autorubric.training.service.calls import read_call
from tests.offenders import offenders
from tests.rows.forty_rows import AMBIGUOUS, ASKED, DIALOGUE, LAST, POINTS, READ, SAID, SHAPES, UNREAD, row

Found = dict[str, Any]


def listed(criteria: Any) -> tuple[tuple[str, float], ...]:
    return tuple((one.requirement, one.weight) for one in criteria)


def by_grade(path: Path) -> Found:
    [item] = Submissions(path).read_items()
    assert isinstance(item.rubric, Rubric)
    return {
        "query": item.prompt,
        "id": item.id,
        "criteria": listed(item.rubric),
        "submission": item.submission,
        "reference": item.reference_submission,
    }


def by_from_file(path: Path) -> Found:
    [item] = RubricDataset.from_file(path).items
    assert item.rubric is not None
    return {
        "query": item.prompt,
        "id": item.id,
        "criteria": listed(item.rubric),
        "submission": item.submission,
        "reference": item.reference_submission,
    }


def by_select(path: Path) -> Found:
    found = read_queries(path)
    assert not found.problems, found.problems
    [query] = found.queries
    [candidate] = read_candidates(path, [query], [])
    return {
        "query": query.text,
        "id": query.id,
        "criteria": listed(query.rubric),
        "submission": candidate.answer,
    }


def by_lint(path: Path) -> Found:
    """Of a conversation, rules look at what the user says."""
    problems: list[str] = []
    [sheet] = iter_rubrics(path, problems)
    assert not problems
    query = DIALOGUE if sheet.query == "Hi.\nWhy is the sky blue?" else sheet.query
    criteria = tuple((one.text, one.weight) for one in sheet.criteria)
    return {"query": query, "id": sheet.place.record, "criteria": criteria}


def by_synthesize(path: Path) -> Found:
    source = QueryFile(path).with_guesses([])
    assert source.check().rows == 1
    [query] = source
    return {"query": as_text(read_prompt(query.fields["question"], "question")), "id": str(query.fields["id"])}


def by_convert(path: Path) -> Found:
    [(_, record)] = read_records(path)
    return {
        "query": as_text(record.prompt),
        "id": record.id,
        "criteria": listed(record.criteria),
        "submission": record.answer,
        "reference": record.reference,
    }


def by_trainer(path: Path) -> Found:
    """As adapters read the columns of a dataset; trainers hand over prompts and completions themselves."""
    columns = json.loads(path.read_text(encoding="utf-8"))
    return {"criteria": listed(read_rubric(columns[find_rubric_column(columns, None)], "row 1"))}


def by_openrlhf(path: Path) -> Found:
    """A label of OpenRLHF is the row itself, as JSON."""
    [sample] = remote_samples(["<user>Why?<bot>So."], ["<user>Why?<bot>"], [path.read_text(encoding="utf-8")])
    query = as_text(read_question(sample.query, "query"))
    return {"query": query, "criteria": listed(sample.rubric)}


READERS: dict[str, Callable[[Path], Found]] = {
    "grade": by_grade,
    "from_file": by_from_file,
    "select": by_select,
    "lint": by_lint,
    "synthesize": by_synthesize,
    "convert": by_convert,
    "trainer": by_trainer,
    "openrlhf": by_openrlhf,
}
DECIDES = {
    "grade": "--column {role}=NAME (in Python: column={{'{role}': NAME}})",
    "from_file": "columns={{'{role}': NAME}}",
    "select": "--column {role}=NAME (in Python: column={{'{role}': NAME}})",
    "lint": "--column {role}=NAME (in Python: column={{'{role}': NAME}})",
    "synthesize": "--question-column NAME",
    "convert": "--from FORMAT",
    "trainer": "rubric=NAME",
    "openrlhf": "a label that holds one of them",
}
KEEPS_TEXT = ("grade", "from_file", "synthesize")
"""Readers that keep a text which is JSON, so that earlier runs resume."""
READ_BY = {"synthesize": ("query",), "trainer": ("rubric",)}
"""The roles of an ambiguous row that a reader looks for, where not both."""


def test_every_reader_reads_the_same(tmp_path: Path) -> None:
    assert len(READ) + len(AMBIGUOUS) == 40
    path = tmp_path / "rows.jsonl"
    warnings.simplefilter("ignore")
    with offenders() as case:
        for number, (line, reading) in enumerate([*READ, *LAST]):
            path.write_text(json.dumps(line) + "\n")
            for name, read in READERS.items():
                with case(f"{name}, row {number}: {line}"):
                    found = read(path)
                    if name in KEEPS_TEXT and reading.as_stored is not None:
                        assert found.pop("query") == reading.as_stored
                    assert found == {part: getattr(reading, part) for part in found}


def test_every_reader_reads_the_same_shapes_of_rubrics(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    warnings.simplefilter("ignore")
    with offenders() as case:
        for shape, criteria in SHAPES:
            path.write_text(json.dumps(row(rubrics=shape)) + "\n")
            for name in READERS.keys() - {"synthesize"}:
                with case(f"{name}: {shape}"):
                    assert READERS[name](path)["criteria"] == criteria


def test_what_no_reader_reads_every_reader_refuses(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with offenders() as case:
        for shape, told in UNREAD:
            path.write_text(json.dumps(row(rubrics=shape)) + "\n")
            for name in READERS.keys() - {"synthesize"}:
                with case(f"{name}: {shape}"):
                    said = refused(name, path)
                    assert told in said, said


def refused(name: str, path: Path) -> str:
    """What a reader says is wrong; `lint` also says it in findings, and `select` in its problems."""
    if name == "lint":
        problems: list[str] = []
        for sheet in iter_rubrics(path, problems):
            problems += (reason for _, reason in sheet.refusals)
        return "\n".join(problems)
    if name == "select":
        return "\n".join(read_queries(path).problems)
    with pytest.raises(InputError) as error:
        READERS[name](path)
    return str(error.value)


def test_two_candidates_are_named_with_the_option_that_decides(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with offenders() as case:
        for line, role, one, other in AMBIGUOUS:
            path.write_text(json.dumps(line) + "\n")
            for name, read in READERS.items():
                if role not in READ_BY.get(name, (role,)):
                    continue
                with case(f"{name}: {line}"):
                    with pytest.raises(InputError) as refused:
                        read(path)
                    told = f"the {role} may be column {one!r} or {other!r}; choose one with "
                    assert told in str(refused.value)
                    assert DECIDES[name].format(role=role) in str(refused.value)


def test_a_named_column_decides(tmp_path: Path) -> None:
    path, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    warnings.simplefilter("ignore")
    with offenders() as case:
        for line, role, one, other in AMBIGUOUS:
            path.write_text(json.dumps(line) + "\n")
            read: dict[str, list[Any]] = {"grade": [], "select": [], "lint": [], "convert": []}
            for name in (one, other):
                [item] = Submissions(path, {role: name}).read_items()
                assert isinstance(item.rubric, Rubric)
                [query] = read_queries(path, {role: name}).queries
                [sheet] = iter_rubrics(path, [], {role: name})
                convert(path, out, "rubrichub", Options(columns={role: name}, force=True))
                [(_, record)] = read_records(out)
                read["convert"].append(as_text(record.prompt) if role == "query" else listed(record.criteria))
                read["grade"].append(item.prompt if role == "query" else listed(item.rubric))
                read["select"].append(query.text if role == "query" else listed(query.rubric))
                criteria = tuple((criterion.text, criterion.weight) for criterion in sheet.criteria)
                read["lint"].append(sheet.query.replace("Hi.\nWhy is the sky blue?", DIALOGUE))
                if role == "rubric":
                    read["lint"][-1] = criteria
            with case(f"{role} of {line}"):
                assert read["grade"] == read["select"] == read["lint"] == read["convert"]
                assert role != "query" or read["grade"][0] != read["grade"][1]


def test_a_column_named_for_one_role_is_read_for_no_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(ground_truth="Rayleigh.")) + "\n")
    with pytest.raises(InputError, match="if it is a reference answer, name it with --column reference=NAME"):
        Submissions(path).read_items()
    [item] = Submissions(path, {"reference": "ground_truth"}).read_items()
    assert (item.reference_submission, item.ground_truth) == ("Rayleigh.", None)


CONTRACTS: list[tuple[str, Callable[[dict[str, Any]], object], dict[str, Any], dict[str, Any], str]] = [
    (
        "autorubric serve takes the keys of its documented call",
        lambda row: read_call(json.dumps(row).encode()),
        {"query": ASKED, "submission": SAID, "rubric": POINTS},
        {"question": ASKED, "submission": SAID, "rubric": POINTS},
        "unknown key 'question'",
    ),
]
"""Readers of calls with documented keys: no usual name stands in for one."""


def test_keys_of_a_contract_have_no_usual_names() -> None:
    with offenders() as case:
        for words, read, right, wrong, told in CONTRACTS:
            with case(words):
                read(right)
                with pytest.raises(InputError, match=told):
                    read(wrong)
