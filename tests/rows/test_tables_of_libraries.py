"""The same rows in the tables of other libraries, and in the CSV that these write, are read as in JSON Lines."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from pydantic import BaseModel

from autorubric import InputError, convert, grade, lint, reward, select, synthesize
from autorubric.rows import convert_rows, read_rows
from tests.offenders import offenders

TURNS = [{"role": "user", "content": 'Why "so"?'}, {"role": "assistant", "content": "It's,\nso."}]
ROWS: list[dict[str, Any]] = [
    {"id": "a", "prompt": TURNS, "response": "So.", "rubrics": [{"criterion": "Is brief.", "points": 2.0}]},
    {"id": "b", "prompt": TURNS[:1], "response": "No.", "rubrics": [{"criterion": "Is kind.", "points": -0.5}]},
]


class Listed:
    """A table with a method that lists its rows, as those of polars (`to_dicts`) and datasets (`to_list`) have."""

    def __init__(self, method: str) -> None:
        self.columns = list(ROWS[0])
        if method == "to_dicts":
            self.collect_schema = dict  # a DataFrame of polars has it, like a LazyFrame
        setattr(self, method, lambda: json.loads(json.dumps(ROWS)))


class LazyFrame:
    """A query of polars that was not run: it has a schema and no rows."""

    collect_schema = dict


@dataclass
class DataclassRow:
    """A row as a dataclass."""

    id: str
    prompt: Any
    response: str
    rubrics: Any


class PydanticRow(BaseModel):
    """A row as a model of pydantic."""

    id: str
    prompt: Any
    response: str
    rubrics: Any


NamedRow = namedtuple("NamedRow", ["id", "prompt", "response", "rubrics"])
AttrsRow = attrs.make_class("AttrsRow", list(ROWS[0]))


class Column(Sequence[str]):
    """A column of datasets, which is a sequence and has no method that lists it."""

    def __getitem__(self, place: Any) -> Any:
        return ["So.", "No."][place]

    def __len__(self) -> int:
        return 2


def tables() -> Iterator[tuple[str, Any]]:
    frame = pandas.DataFrame(ROWS)
    yield "list", ROWS
    yield "generator", (row for row in ROWS)
    yield "DataFrame", frame
    yield "DataFrame with the ids as its index", frame.set_index("id")
    yield "DataFrame with the ids twice", frame.set_index("id", drop=False)
    yield "DataFrame of Arrow", pa.Table.from_pylist(ROWS).to_pandas(types_mapper=pandas.ArrowDtype)
    yield "pyarrow.Table", pa.Table.from_pylist(ROWS)
    yield "pyarrow.RecordBatch", pa.RecordBatch.from_pylist(ROWS)
    yield "polars", Listed("to_dicts")
    yield "datasets", Listed("to_list")
    yield "dataclass", [DataclassRow(**row) for row in ROWS]
    yield "pydantic", [PydanticRow(**row) for row in ROWS]
    yield "attrs", [AttrsRow(**row) for row in ROWS]
    yield "named tuple", [NamedRow(**row) for row in ROWS]


def test_rows_in_the_tables_of_libraries_become_the_items_of_a_file_of_them(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    pandas.DataFrame(ROWS).to_csv(tmp_path / "pandas.csv", index=False)

    def items(data: Any, out: str) -> Any:
        grade(data, judge="builtin/offline", out=tmp_path / out)
        return json.loads((tmp_path / out / "dataset.json").read_text())["items"]

    expected = items(tmp_path / "rows.jsonl", "lines")
    assert expected[0]["prompt"] == 'user: Why "so"?\n\nassistant: It\'s,\nso.'
    with offenders() as case:
        for number, (name, table) in enumerate([*tables(), ("CSV of pandas", tmp_path / "pandas.csv")]):
            with case(name):
                assert items(table, f"run{number}") == expected


def test_texts_in_columns_of_libraries_are_submissions_and_queries() -> None:
    frame: Any = pandas.Series(["So.", "No."])
    for column in (frame, frame.to_numpy(), pa.array(frame), iter(frame), Column()):
        assert convert_rows(column) == ["So.", "No."]


def test_a_value_that_only_leads_to_rows_is_refused_with_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]))
    splits = {name: pa.Table.from_pylist(ROWS) for name in ("train", "test")}
    asks: list[Any] = [grade, synthesize, lint, reward]
    with (tmp_path / "rows.jsonl").open() as file, offenders() as case:
        for value, told in (
            (LazyFrame(), "got a LazyFrame; call its collect()"),
            (splits, "got a dict; pass one of its splits: 'train', 'test'"),
            (file, "got a TextIOWrapper; pass the path of the file"),
        ):
            for ask in asks:
                with case(f"{told} to {ask.__name__}"), pytest.raises(InputError) as caught:
                    ask(value, **({} if ask is lint else {"out": tmp_path / "out"}))
                assert f"expected rows, {told}" in str(caught.value)


def test_queries_in_memory_may_hold_what_tables_hold(tmp_path: Path) -> None:
    day = pandas.Timestamp("2026-01-02")
    frame = pandas.DataFrame([{"question": "Why?", "day": day, "n": 3}, {"question": "How?", "day": None, "n": 4}])
    for number, queries in enumerate((frame, frame.to_dict("records"), pa.Table.from_pandas(frame))):
        out = tmp_path / str(number)
        synthesize(queries, models="builtin/offline", out=out, until="reference", domain_column="day")
        rows = [json.loads(line) for line in (out / "step0_reference.jsonl").read_text().splitlines()]
        assert [(row["question"], row["day"], row["n"]) for row in rows] == [
            ("Why?", "2026-01-02T00:00:00", 3),
            ("How?", None, 4),
        ]


def test_what_json_has_no_form_for_is_named_with_its_item_and_column(tmp_path: Path) -> None:
    strangers: list[Any] = [{1, 2}, 1j, pandas.Period("2026-01"), [{"a": {"b": frozenset()}}]]
    rubric = tmp_path / "rubric.csv"
    rubric.write_text("requirement\nIs brief.\n")
    asks: dict[str, Callable[[Any], Any]] = {
        "grade": lambda rows: grade(rows, rubric=rubric, judge="builtin/offline", out=tmp_path / "graded"),
        "synthesize": lambda rows: synthesize(rows, models="builtin/offline", out=tmp_path / "made"),
    }
    places = {"grade": "items[1].metadata.tags", "synthesize": "item 1: tags"}
    with offenders() as case:
        for one in strangers:
            rows = [{"query": "Why?", "response": "So."}, {"query": "How?", "response": "No.", "tags": one}]
            for name, ask in asks.items():
                with case(f"{one!r} to {name}"):
                    with pytest.raises(InputError) as caught:
                        ask(rows)
                    held = next(iter(one)) if isinstance(one, list) else one
                    kind = "frozenset" if isinstance(one, list) else type(held).__name__
                    [problem] = caught.value.problems
                    assert problem.startswith(places[name]) and f" is of type {kind}; expected text, " in problem


def test_two_columns_of_one_name_are_refused_in_every_table(tmp_path: Path) -> None:
    table = pa.table([pa.array(["So."]), pa.array(["No."])], names=["response", "response"])
    pq.write_table(table, tmp_path / "rows.parquet")
    feather.write_feather(table, tmp_path / "rows.arrow")
    (tmp_path / "rows.csv").write_text("response,response\nSo.,No.\n")
    with offenders() as case:
        for name in ("rows.parquet", "rows.arrow", "rows.csv"):
            with case(name), pytest.raises(InputError, match=rf"{name}.*'response'.*rename"):
                list(read_rows(tmp_path / name, []))
        with case("in memory"), pytest.raises(InputError, match="two columns named 'response'; rename one"):
            convert_rows(table)


def test_a_conversation_in_a_cell_is_read_or_refused_and_never_taken_for_a_text(tmp_path: Path) -> None:
    shares = [{"from": "human", "value": "Why?"}]
    cells: dict[str, Any] = {
        json.dumps(TURNS): TURNS,
        str(TURNS): TURNS,
        json.dumps(shares): shares,
        "[{x}] is a set in brackets": "[{x}] is a set in brackets",
        '[{"a": 1}]': '[{"a": 1}]',
        "[{'role': 'user', 'content': 'Why?'}\n {'role': 'user', 'content': 'How?'}]": None,  # as numpy writes it
        '[{"role": "user"': None,
    }
    with offenders() as case:
        for cell, expected in cells.items():
            with case(cell):
                pandas.DataFrame([{"prompt": cell}]).to_csv(tmp_path / "rows.csv", index=False)
                problems: list[str] = []
                found = [record.fields["prompt"] for record in read_rows(tmp_path / "rows.csv", problems)]
                assert found == ([] if expected is None else [expected])
                said = [problem.split("csv")[1].startswith(":2: 'prompt' is not valid JSON") for problem in problems]
                assert said == [True] * (expected is None)


def test_decimals_and_times_inside_tables_are_read_alike_by_every_command(tmp_path: Path) -> None:
    entry = pa.struct([("criterion", pa.string()), ("points", pa.decimal128(6, 2))])
    points = [[{"criterion": "Names the cause.", "points": Decimal("2.50")}]]
    columns = {
        "id": ["a"],
        "question": ["Why?"],
        "response": ["So."],
        "rubrics": pa.array(points, pa.list_(entry)),
        "at": pa.array([datetime(2026, 1, 2)], pa.timestamp("us", tz="UTC")),
        "span": pa.array([[{"from": time(12, 30)}]], pa.list_(pa.struct([("from", pa.time64("us"))]))),
    }
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    [row] = [record.fields for record in read_rows(path, [])]
    assert row["rubrics"] == [{"criterion": "Names the cause.", "points": 2.5}]
    assert [finding.rule for finding in lint(path)] == ["criteria-count", "length"]
    assert convert(path, target=tmp_path / "rows.jsonl", to="healthbench").records == 1
    result = grade(path, judge="builtin/offline", out=tmp_path / "graded")
    assert result.item_results[0].item.metadata == {
        "at": "2026-01-02T00:00:00+00:00",
        "span": [{"from": "12:30:00"}],
    }
    assert synthesize(path, models="builtin/offline", out=tmp_path / "made", until="reference").failures == {}
    select(path, candidates=path, judge="builtin/offline", out=tmp_path / "kept")
    [item] = json.loads((tmp_path / "kept" / "dataset.json").read_text())["items"]
    assert item["rubric"][0]["weight"] == 2.5
