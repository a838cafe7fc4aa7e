"""Every file that a command reads, spoilt in every way."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.battery.bench import READS, Bench, told
from tests.battery.spoilers import (
    NO_ARROW,
    NO_COLUMNS,
    NO_DATA,
    NO_PLAIN_FILE,
    NO_TABLE,
    NO_TEXT,
    NO_YAML,
    Spoil,
    changed,
    content,
)

COLUMNS = [name for name in READS if name.endswith((".parquet", ".arrow"))]
DATA = [name for name in READS if not name.endswith((".jinja", ".parquet", ".arrow"))]
# Files of rows may be packed, and saved by a spreadsheet as UTF-16; settings, prompts, prices and rubrics may not.
_ROWS = [
    name
    for name in READS
    if name not in COLUMNS
    and not name.startswith(("synth.", "prices.", "rubric.", "prompts/", "judging/", "run/manifest", "run/items"))
]
# A run may have no items yet and a table of prices no prices; of a rubric without criteria lint has something to say.
_TAKEN = {
    *(("run/items.jsonl", "empty"), ("run/items.jsonl", "blank")),
    *((f"prices.{ending}", "an object of nothing") for ending in ("json", "yaml")),
    *((f"linted.{ending}", "a list of nothing") for ending in ("json", "jsonl", "yaml", "csv")),
    *((name, way) for name in _ROWS for way in ("UTF-16", "gzip")),
}


def spoilt() -> Iterator[object]:
    for name in READS:
        inside = NO_ARROW if name.endswith(".arrow") else NO_COLUMNS if name in COLUMNS else NO_TEXT
        ways = {**NO_PLAIN_FILE, **inside}
        ways |= NO_TABLE if name.endswith(".csv") else {}
        ways |= NO_DATA if name in DATA else {}
        ways |= NO_YAML if name.endswith(".yaml") else {}
        for way, spoil in ways.items():
            if (name, way) not in _TAKEN:
                yield pytest.param(name, spoil, id=f"{name} {way}")


@pytest.mark.parametrize(("name", "spoil"), list(spoilt()))
def test_a_spoilt_file_is_named_in_one_message(bench: Bench, name: str, spoil: Spoil) -> None:
    spoil(bench.folder / name)
    bench.refuses(READS[name], told(name))


@pytest.mark.parametrize("name", READS)
def test_the_sound_commands_are_sound(bench: Bench, name: str) -> None:
    bench.accepts(READS[name])


@pytest.mark.parametrize("name", [name for name in READS if name in READS[name]])
def test_a_name_that_is_too_long_for_any_file_is_refused(bench: Bench, name: str) -> None:
    long = f"{'x' * 300}{Path(name).suffix}"
    bench.refuses([long if word == name else word for word in READS[name]], "File name too long")


@pytest.mark.parametrize(
    "name", [name for name in READS if not name.startswith(("run/", "graded/")) and name not in COLUMNS]
)
def test_a_byte_order_mark_does_no_harm(bench: Bench, name: str) -> None:
    path = bench.folder / name
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    bench.accepts(READS[name])


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


@pytest.mark.parametrize("name", [name for name in _ROWS if not name.startswith(("run/", "graded/"))])
@pytest.mark.parametrize("pack", [gzip.compress, zstd, lambda data: data.decode().encode("utf-16")])
def test_rows_may_be_packed_or_in_utf_16(bench: Bench, name: str, pack: Callable[[bytes], bytes]) -> None:
    changed(pack)(bench.folder / name)
    bench.accepts(READS[name])


@pytest.mark.parametrize("name", [name for name in READS if name.endswith(".json")])
def test_a_file_cut_in_two_is_refused(bench: Bench, name: str) -> None:
    path = bench.folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    bench.refuses(READS[name], told(name))


@pytest.mark.parametrize("name", ["queries.jsonl", "essays.jsonl", "answers.jsonl"])
def test_a_row_of_50_mb_is_refused_by_its_number(bench: Bench, name: str) -> None:
    path = bench.folder / name
    path.write_bytes(path.read_bytes() + b'{"submission": "' + b"x" * 50_000_000 + b'"}\n')
    rows = path.read_bytes().count(b"\n")
    bench.refuses(READS[name], f"{name}:{rows}: the row is longer than 16 MiB")


@pytest.mark.parametrize("name", ["queries.jsonl", "essays.jsonl", "answers.jsonl"])
def test_every_bad_row_is_named_and_not_the_first_alone(bench: Bench, name: str) -> None:
    path = bench.folder / name
    rows = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() + b"{oops\n[1]\n")
    bench.refuses(READS[name], f"{name}:{rows + 1}: ", f"{name}:{rows + 2}: ")


def test_a_file_without_measure_is_refused_before_it_is_read(bench: Bench) -> None:
    with (bench.folder / "essays.json").open("r+b") as file:
        file.truncate(2**40)
    bench.refuses(READS["essays.json"], "1,048,576 MiB", "the most that is read at once is 512 MiB")


def test_no_tag_of_yaml_runs_code(bench: Bench) -> None:
    content(b"a: !!python/object/apply:os.mkdir [pwned]")(bench.folder / "synth.yaml")
    bench.refuses(READS["synth.yaml"], "synth.yaml")
    assert not (bench.folder / "pwned").exists()
