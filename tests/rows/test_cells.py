"""What single cells hold, and which of several columns is read."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import InputError
from autorubric.rows import read_rows
from autorubric.rows.columns import RowReader
from autorubric.rows.delimited import parse_nested
from autorubric.rows.record import Record, dump_question, is_blank
from tests.offenders import each


@each(
    ("value", "blank"),
    [
        (1.5, False),
        (0.0, False),
        (float("nan"), True),
        (None, True),
        (date(2026, 1, 2), False),
        ({}, True),
        ({"a": None}, False),
    ],
)
def test_a_cell_is_blank_only_where_it_holds_nothing(value: Any, blank: bool) -> None:
    assert is_blank(value) is blank


def test_a_text_in_a_column_of_lists_stays_a_text() -> None:
    assert parse_nested("MET", "ground_truth") == "MET"


def test_a_conversation_in_a_column_of_text_can_be_read_by_people() -> None:
    assert "Größe" in dump_question([{"role": "user", "content": "Größe?"}])


@each(
    ("fields", "source"),
    [
        ({"domain": "chat", "source": "web"}, "web"),
        ({"domain": "chat", "data_source": "web"}, "web"),
        ({"ability": "chat", "domain": "web", "data_source": ""}, "web"),
    ],
)
def test_of_several_columns_that_name_a_source_the_closest_is_read(fields: dict[str, Any], source: str) -> None:
    [record] = RowReader("rows.jsonl", ("source",)).read_all([Record("rows.jsonl:1", 1, fields)])
    assert record.read_value("source") == source


def test_rows_of_a_folder_are_numbered_from_one_through_all_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for shard in range(2):
        text = json.dumps({"id": f"q{shard}", "question": "Why?"}) + "\n"
        (tmp_path / "data" / f"train-0000{shard}-of-00002.jsonl").write_text(text)
    assert [(row.number, row.fields["id"]) for row in read_rows(tmp_path, [])] == [(1, "q0"), (2, "q1")]


def test_columns_with_one_query_are_one_column_and_others_are_refused() -> None:
    one = [{"role": "user", "content": "Why?"}]
    more = [*one, {"role": "assistant", "content": "So."}, {"role": "user", "content": "How?"}]
    for question, prompt, column in (
        ("Why?", [{"role": "user", "content": "Why? "}], "question"),
        (json.dumps(more), more, "prompt"),
        (json.dumps(more), json.dumps(more), "question"),
        ("Why?", more, None),
        ("Why?", more[:2], "prompt"),
        ("How?", [*more, more[1]], None),
        ("Why?", [{"role": "user"}], None),
    ):
        row = Record("a.jsonl:1", 1, {"question": question, "prompt": prompt})
        if column is None:
            with pytest.raises(InputError, match="may be column 'question' or 'prompt'"):
                RowReader("a.jsonl", ("query",)).read(row)
        else:
            assert RowReader("a.jsonl", ("query",)).read(row).columns == {"query": column}
    # The answer of the conversation is not shown to the judge of another one.
    row = Record("a.jsonl:1", 1, {"messages": more[:2], "prompt": "Why?", "Response": "No."})
    assert RowReader("a.jsonl", ("query", "submission")).read(row).columns["query"] == "prompt"
    other = {"conversation": [more[0], {"role": "assistant", "content": "No."}], "messages": more[:2]}
    with pytest.raises(InputError, match="the query may be column 'conversation' or 'messages'"):
        RowReader("a.jsonl", ("query", "submission")).read(Record("a.jsonl:1", 1, other))
