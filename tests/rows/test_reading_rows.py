from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from autorubric.errors import InputError
from autorubric.rows import read_rows
from tests.offenders import each
from tests.warm_commands import forked_python

ROWS = [{"id": "q1", "question": 'Why "now"?\nAnd how?'}, {"id": "q2", "question": "它是什么；为什么?"}]


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def delimited(delimiter: str) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    return "".join(
        delimiter.join(map(cell, cells)) + "\r\n" for cells in (("id", "question"), *(row.values() for row in ROWS))
    )


def arrow(make: Callable[..., pa.RecordBatchStreamWriter]) -> bytes:
    table = pa.Table.from_pylist(ROWS)
    sink = io.BytesIO()
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


def workbook(sheets: dict[str, Sequence[Sequence[object]]], merged: str = "") -> bytes:
    book = openpyxl.Workbook()
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        if merged:
            sheet.merge_cells(merged)
    book.remove(book.worksheets[0])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def archive(*names: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.writestr(name, delimited(","))
    return sink.getvalue()


def damaged(data: bytes) -> bytes:
    half = len(data) // 2
    return data[: half - 200] + bytes(400) + data[half + 200 :]


LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
KINDS: dict[str, bytes] = {
    "commas": delimited(",").encode(),
    "semicolons as Excel saves them": b"\xef\xbb\xbf" + delimited(";").encode(),
    "tabs in UTF-16": delimited("\t").encode("utf-16"),
    "big-endian UTF-16": b"\xfe\xff" + delimited(",").encode("utf-16-be"),
    "a separator line": b"sep=;\r\n" + delimited(";").encode(),
    "empty lines": b"\r\n" + delimited(",").replace('\r\n"q2"', '\r\n\r\n,\r\n"q2"').encode(),
    "JSON Lines": LINES,
    "JSON Lines with a mark and CRLF": b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n"),
    "a JSON list": json.dumps(ROWS).encode(),
    "a JSON object with a list under data": json.dumps({"version": 1, "data": ROWS}).encode(),
    "an indented JSON list": json.dumps(ROWS, indent=2).encode(),
    "YAML": yaml.safe_dump(ROWS, allow_unicode=True).encode(),
    "Parquet": parquet(),
    "Arrow stream": arrow(pa.ipc.new_stream),
    "Feather": arrow(pa.ipc.new_file),
    "Excel": workbook({"Empty": [], "Rows": [["id", "question"], *([*row.values()] for row in ROWS), [None, " "]]}),
    "zip of CSV": archive("rows/", "rows/train.csv", "rows/.DS_Store", "__MACOSX/rows/._train.csv"),
    "gzip of CSV": gzip.compress(delimited(",").encode()),
    "gzip of JSON": gzip.compress(json.dumps(ROWS).encode()),
    "zstd of JSON Lines": zstd(LINES),
    "two zstd frames": zstd(LINES[:40]) + zstd(LINES[40:]),
    "two gzip members": gzip.compress(LINES[:40]) + gzip.compress(LINES[40:]),
}


# Content alone cannot tell YAML from broken JSON, nor a wrapped list from a file of one row.
OPEN = [("YAML", "rows.json"), ("YAML", "rows.jsonl"), ("a JSON object with a list under data", "rows.jsonl")]


@pytest.mark.parametrize(
    ("kind", "name"),
    [pair for pair in itertools.product(KINDS, ["rows", "rows.json", "rows.jsonl"]) if pair not in OPEN],
)
def test_the_content_says_what_a_file_is_and_not_its_name(tmp_path: Path, kind: str, name: str) -> None:
    (tmp_path / name).write_bytes(KINDS[kind])
    problems: list[str] = []
    assert [record.fields for record in read_rows(tmp_path / name, problems)] == ROWS
    assert not problems


def test_places_are_the_lines_on_which_rows_start(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'sep=,\r\nid,text\r\n1,"a\r\nb"\r\n\r\n2,c\r\n')
    found = [(Path(record.where).name, record.number) for record in read_rows(tmp_path / "a.csv", [])]
    assert found == [("a.csv:3", 3), ("a.csv:6", 6)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"id,text\n1\n2,a,b\n3,c\n", ["a.csv:2: the row has 1 cell", "a.csv:3: the row has 3 cells"]),
        (b"id,id,text\n1,2,3\n", ["a.csv:1: the header has 'id' more than once"]),
        (b"R,R a,R b,R a,R b\n1,2,3,4,5\n", ["a.csv:1: the header has 'R a', 'R b' more than once"]),
        (b"id,text,R a,R b,R a,R b\n1\n", ["a.csv:2: the row has 1 cell, the header has 6"]),
        (b'id,text\n1,"open\n2,b\n', ["a.csv:2: a quote that opens here is not closed"]),
        (b'id,text\n1,"say "hi""\n', ["a.csv:2: not valid CSV", "double each quote"]),
        (b"id,text\n1,caf\xe9\n", ["a.csv:2: byte 0xe9 at column 6 is not UTF-8"]),
        (b"id,text\n1,a\0b\n", ["a.csv:2: the line contains a NUL"]),
        (b"id,text\r1,a\r2,b\r", ["bare carriage return"]),
        (b"", ["a.csv: the file is empty"]),
        (b'id,messages\n1,"[{""role"": "\n', ["a.csv:2: 'messages' is not valid JSON"]),
        (gzip.compress(b"id,text\n1,a\n", mtime=0)[:-6], ["a.csv", "damaged or cut off"]),
        (zstd(b"id,text\n" + random.Random(0).randbytes(500).hex().encode())[:-6], ["a.csv", "damaged or cut off"]),
        (
            gzip.compress(parquet(), mtime=0),
            ["a.csv: is a Parquet file inside gzip, zstd or zip; decompress"],
        ),
        (b"PK\x03\x04 and so on", ["a.csv: the zip archive cannot be read"]),
        (archive("a.csv", "b.csv"), ["a.csv: the zip archive has 2 files; unpack it"]),
        (archive("rows/"), ["a.csv: the zip archive is empty"]),
        (archive(), ["a.csv: the zip archive is empty"]),
        (archive("[Content_Types].xml", "word/document.xml"), ["a document of an office program; save it as CSV"]),
        (archive("rows.csv")[:-60] + bytes(60), ["a.csv: the zip archive cannot be read"]),
        (archive("rows.csv").replace(archive("rows.csv")[50:60], bytes(10)), ["a.csv", "damaged or cut off"]),
        (b"\xd0\xcf\x11\xe0", ["an old or encrypted Excel or Word file; save it as .xlsx or CSV"]),
        (workbook({"One": [["id"], [1]], "Two": [[], ["x"]]}), ["the sheets 'One', 'Two' have data; save the one"]),
        (workbook({"A": [["id", "q"], [1, "a"], [None, 2]]}, "A2:A3"), ["merged cells (A2:A3); unmerge them"]),
        (workbook({"A": [["id", "q"], [1, "=1+1"]]}), ["formulas without a stored value (B2); open the file"]),
        (
            workbook({"A": [["id"], ["#N/A"], [1, "a"]]}),
            ["a.csv:2: cell A2 is #N/A", "a.csv:3: cell B3 is to the right"],
        ),
        (
            workbook({"A": [["id"], [10**15 - 1], [1234567890123456789], [1e20]]}),
            ["a.csv:3: cell A3 is a number of more than 15 digits", "a.csv:4: cell A4 is a number of more than"],
        ),
        (workbook({"A": [["Title"], ["id", "q"]]}), ["a.csv:2: cell B2", "or delete rows above the header"]),
        (workbook({"A": [["id", "id"], [1, 2]]}), ["a.csv:1: the header has 'id' more than once"]),
        (workbook({"A": []}), ["a.csv: the file is empty"]),
        (damaged(workbook({"A": [["id"], [1]]})), ["a.csv: cannot be read as an Excel workbook"]),
        ("id,text\n1,a\n".encode("utf-32"), ["UTF-32"]),
        (b"\xff\xfei", ["not valid UTF-16"]),
    ],
)
def test_what_is_wrong_with_a_table_is_named_with_its_line(tmp_path: Path, content: bytes, says: list[str]) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    problems: list[str] = []
    try:
        list(read_rows(tmp_path / "a.csv", problems))
    except InputError as error:
        problems += error.problems
    for part in says:
        assert any(part in problem for problem in problems), problems


def test_cells_of_excel_become_the_texts_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(
        workbook(
            {
                "A": [
                    [],
                    ["id", "n", "half", "day", "time", "ok", "text", "rubric"],
                    [7, 1.0, 0.5, datetime(2024, 1, 2), datetime(2024, 1, 2, 3), True, "007_x000D_", '["Is kind."]'],
                    [8],
                ]
            }
        )
    )
    values = ["7", "1", "0.5", "2024-01-02", "2024-01-02T03:00:00", "TRUE", "007\r", ["Is kind."]]
    names = ["id", "n", "half", "day", "time", "ok", "text", "rubric"]
    blank = {**dict.fromkeys(names, ""), "id": "8", "rubric": None}
    found = [(record.number, record.fields) for record in read_rows(tmp_path / "a.xlsx", [])]
    assert found == [(3, dict(zip(names, values, strict=True))), (4, blank)]


def test_an_empty_text_is_the_stored_value_of_a_formula(tmp_path: Path) -> None:
    plain = workbook({"A": [["id", "note"], [1, '=""']]})
    with zipfile.ZipFile(io.BytesIO(plain)) as source, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'<c r="B2">', b'<c r="B2" t="str">'))
    assert [record.fields for record in read_rows(tmp_path / "a.xlsx", [])] == [{"id": "1", "note": ""}]


def test_only_columns_of_lists_and_conversations_are_read_as_json(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi, you"}]
    cell = json.dumps(messages).replace('"', '""')
    text = (
        f'id,answer,messages,prompt,rubric\n1,"{cell}","{cell}","{cell}",\n2,[1],"{messages}",[1],"[{{""a"": 1}}]"\n'
    )
    (tmp_path / "a.csv").write_text(f'{text}3,a,"{cell}",[{{x,\n')
    one, two, three = (record.fields for record in read_rows(tmp_path / "a.csv", []))
    assert one == {
        "id": "1",
        "answer": json.dumps(messages),
        "messages": messages,
        "prompt": messages,
        "rubric": None,
    }
    assert three["prompt"] == "[{x"
    assert two == {"id": "2", "answer": "[1]", "messages": messages, "prompt": "[1]", "rubric": [{"a": 1}]}


def test_a_column_without_a_name_is_called_as_pandas_calls_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",id\n0,q1\n")
    assert [record.fields for record in read_rows(tmp_path / "a.csv", [])] == [{"Unnamed: 0": "0", "id": "q1"}]


def save(folder: Path, rows: list[dict[str, str]], shards: int) -> None:
    """What `Dataset.save_to_disk` writes: streams and a state that names them."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-{shards:05}.arrow" for number in range(shards)]
    for number, name in enumerate(names):
        table = pa.Table.from_pylist(rows[number::shards])
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_a_dataset_saved_to_disk_is_read_with_all_its_shards(tmp_path: Path) -> None:
    save(tmp_path / "set", ROWS, 2)
    assert [record.fields for record in read_rows(tmp_path / "set", [])] == ROWS
    (tmp_path / "set" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(InputError, match="data-00001-of-00002"):
        list(read_rows(tmp_path / "set", []))
    (tmp_path / "set" / "state.json").write_text('{"_data_files": [{"filename": "../../secret"}]}')
    with pytest.raises(InputError, match="expected the names of files in the folder"):
        list(read_rows(tmp_path / "set", []))


def test_a_split_is_named_behind_its_folder(tmp_path: Path) -> None:
    for split, rows in (("train", ROWS), ("test", ROWS[:1])):
        save(tmp_path / "saved" / split, rows, 1)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    (tmp_path / "hub" / "data").mkdir(parents=True)
    (tmp_path / "hub" / "README.md").write_text("---\nlicense: mit\n---\n")
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        (tmp_path / "hub" / "data" / f"{name}.parquet").write_bytes(parquet())
    for folder, count in (("saved", 2), ("hub", 4)):
        with pytest.raises(
            InputError, match=rf"{folder}: the folder has the splits .*name one, such as .*{folder}/t"
        ):
            list(read_rows(tmp_path / folder, []))
        assert len(list(read_rows(tmp_path / folder / "train", []))) == count
    with pytest.raises(InputError, match="File not found"):
        list(read_rows(tmp_path / "hub" / "validation", []))


def test_a_split_with_missing_or_foreign_shards_is_refused(tmp_path: Path) -> None:
    for name in ("train-00000-of-00003", "train-00002-of-00003", "test-00000-of-00001"):
        (tmp_path / f"{name}.parquet").write_bytes(parquet())
    with pytest.raises(InputError, match="1 of 3 shards are missing, such as train-00001-of-00003"):
        list(read_rows(tmp_path / "train", []))
    assert list(read_rows(tmp_path / "test", []))
    (tmp_path / "test-00001-of-00002.parquet").write_bytes(parquet())
    with pytest.raises(InputError, match="the file names belong to sets of 1 and 2 shards"):
        list(read_rows(tmp_path / "test", []))


def test_a_split_with_a_file_in_two_forms_is_refused(tmp_path: Path) -> None:
    for number, names in enumerate((("final.jsonl", "final.parquet"), ("final.CSV", "final.csv.gz"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(parquet())
        for path in (folder, folder / "final"):
            with pytest.raises(InputError, match=rf"it has {names[0]} and {names[1]}, which may be the same rows"):
                list(read_rows(path, []))
    for name in ("part.1.parquet", "part.2.parquet"):
        (tmp_path / "2").mkdir(exist_ok=True)
        (tmp_path / "2" / name).write_bytes(parquet())
    assert len(list(read_rows(tmp_path / "2", []))) == 4


def test_every_split_that_a_folder_has_is_found_by_its_name(tmp_path: Path) -> None:
    files = {
        "train": "data/train-00000-of-00001.parquet",
        "test": "data/test/part-0.parquet",
        "de/train": "de/data/train.parquet",
        "de/test": "de/test-00000-of-00001.parquet",
        "a/b/c": "a/b/data/c.parquet",
    }
    for name in files.values():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(parquet())
    with pytest.raises(InputError, match="the folder has the splits a/b/c, test, train, de/train, de/test;"):
        list(read_rows(tmp_path, []))
    for split in files:
        assert len(list(read_rows(tmp_path / split, []))) == 2, split


def test_the_directory_of_a_run_is_refused_with_a_file_to_pass(tmp_path: Path) -> None:
    for name in ("manifest.json", "spent.json", "step0_reference.jsonl", "final.jsonl", "final.parquet"):
        (tmp_path / name).write_text("{}")
    wanted = f"{tmp_path}: this is the directory of a run; pass one of its files, such as {tmp_path}/final.jsonl"
    with pytest.raises(InputError, match=re.escape(wanted)):
        list(read_rows(tmp_path, []))


def test_a_path_that_is_not_there_has_no_other_folder_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home/photos/2019", "home/data/train", "home/essays"):
        (tmp_path / name).mkdir(parents=True)
    looked, scan, names = set(), os.scandir, os.listdir

    def scandir(path: Any) -> Any:
        looked.add(Path(path).name)
        return scan(path)

    def listdir(path: Any) -> list[str]:
        looked.add(Path(path).name)
        return names(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(InputError, match="File not found"):
        list(read_rows(tmp_path / "home" / "esays", []))
    assert looked <= {"home", "data"}


def test_a_folder_of_one_split_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "train.csv").write_bytes(KINDS["commas"])
    assert [record.fields for record in read_rows(tmp_path / "hub", [])] == ROWS


def test_a_named_pipe_is_read_while_it_is_written_and_may_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(KINDS["Parquet"],))
    writer.start()
    for _ in range(2):
        assert [record.fields for record in read_rows(path, [])] == ROWS
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe that is empty or that nobody writes to"):
        list(read_rows(tmp_path / "pipe", []))


@pytest.mark.parametrize("kind", ["commas", "zstd of JSON Lines", "Feather"])
@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_standard_input_is_read_as_often_as_needed(kind: str, path: str) -> None:
    code = (
        "import json, sys; from autorubric.rows import read_rows\n"
        "for _ in range(2): print(json.dumps([record.fields for record in read_rows(sys.argv[1], [])]))"
    )
    python = forked_python()
    ended = subprocess.run([python, "-c", code, path], input=KINDS[kind], capture_output=True, check=True)
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [ROWS, ROWS]


def test_a_table_larger_than_memory_is_read_row_by_row(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt", compresslevel=1) as file:
        file.write("id,text\n")
        file.writelines(f"{number},{'x' * 1000}\n" for number in range(50_000))
    code = (
        "import resource, sys; from autorubric.rows import read_rows\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(sum(1 for _ in read_rows(sys.argv[1], [])))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.csv.gz")], capture_output=True, check=True, text=True
    )
    rows, kilobytes = map(int, ended.stdout.split())
    assert rows == 50_000
    assert kilobytes < 30_000  # the text has 50 MB


def test_the_copy_of_standard_input_is_closed_at_the_end() -> None:
    code = "from autorubric.rows import read_rows\nprint(len(list(read_rows('-', []))))"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code]
    ended = subprocess.run(command, input=KINDS["commas"], capture_output=True, check=True)
    assert (int(ended.stdout), ended.stderr) == (len(ROWS), b"")


def test_a_header_that_begins_like_a_separator_line_is_a_header(tmp_path: Path) -> None:
    for header in ("sep=ll", 'sep=""', "sep="):
        (tmp_path / "a.csv").write_text(f"{header},text\n1,a\n", encoding="utf-8")
        assert [list(record.fields.values()) for record in read_rows(tmp_path / "a.csv", [])] == [["1", "a"]], header


def test_a_header_with_accents_in_two_code_points_is_composed(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("re\u0301ponse\nL'e\u0301te\u0301.\n", "utf-8")
    [record] = read_rows(path, [])
    assert record.fields == {"réponse": "L'e\u0301te\u0301."}  # cells stay as they are


@each(
    ("text", "rows"),
    [
        ("| Criterion | Points |\n|---|---:|\n| Is kind. | 3 |\n| - | -2 |\n", [("Is kind.", "3"), ("-", "-2")]),
        ("|Criterion|Points|\n|:-:|:-:|\n|Is kind.||\n", [("Is kind.", "")]),
        ("\n\n| Criterion | Points |\n| --- | --- |\n| Is kind. | 3 |\n", [("Is kind.", "3")]),
        ('|Criterion|Points|\n|---|---|\n|"Yes" or 1 \\| 2|3|\n', [('"Yes" or 1 | 2', "3")]),
        ("\n \nCriterion;Points\nIs kind.;3\n", [("Is kind.", "3")]),
        ("Criterion|Points\n|3\nIs kind.|\n", [("", "3"), ("Is kind.", "")]),  # not Markdown: the header has no bars
    ],
)
def test_a_markdown_table_is_a_table(text: str, rows: list[tuple[str, str]]) -> None:
    path = Path(tempfile.mkdtemp()) / "rubric.md"
    path.write_text(text)
    problems: list[str] = []
    found = [record.fields for record in read_rows(path, problems)]
    assert (found, problems) == ([{"Criterion": one, "Points": two} for one, two in rows], [])


@each(
    ("row", "cells"), [("| Is kind. | 3", "3 cells"), ("So is this.", "1 cell"), ("1 | Is kind. | 3 | x", "4 cells")]
)
def test_a_row_with_text_outside_the_bars_of_a_markdown_table_is_refused(row: str, cells: str) -> None:
    path = Path(tempfile.mkdtemp()) / "rubric.md"
    path.write_text(f"| Criterion | Points |\n|---|---|\n{row}\n")
    problems: list[str] = []
    assert [*read_rows(path, problems)] == []
    assert problems == [
        f"{path}:3: the row has {cells}, the header has 2; check for quotes and delimiters in the text"
    ]


def test_a_markdown_table_without_outer_bars_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_text("Criterion | Points\n:---|---:\nIs kind. | 3\n")
    with pytest.raises(InputError, match=r"rubric.md:2: a Markdown table; begin and end each of its lines with \|"):
        list(read_rows(path, []))
    path.write_text("# Marks\n\n| Criterion | Points |\n|---|---|\n| Is kind. | 3 |\n")
    with pytest.raises(InputError, match="expected CSV, TSV, a Markdown table without other text, JSON"):
        list(read_rows(path, []))
