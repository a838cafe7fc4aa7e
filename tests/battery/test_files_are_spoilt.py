"""Every file that a command reads, spoilt in every way."""

from __future__ import annotations

import gzip
from collections.abc import Callable
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
from tests.offenders import offenders

COLUMNS = [name for name in READS if name.endswith((".parquet", ".arrow"))]
DATA = [name for name in READS if not name.endswith((".jinja", ".parquet", ".arrow"))]
# Files of rows may be packed, and saved by a spreadsheet as UTF-16; settings, prompts and prices may not.
_ROWS = [
    name
    for name in READS
    if name not in COLUMNS
    and not name.startswith(
        (
            *("synth.", "grade.", "prices.", "prompts/", "judging/", "run/manifest", "run/items"),
            *("shown/manifest", "shown/items", "part-2/manifest", "part-2/items", "report."),
        )
    )
]
# A run may have no items yet and a table of prices no prices; of a rubric without criteria lint has something to say.
_TAKEN = {
    *(("run/items.jsonl", "empty"), ("run/items.jsonl", "blank")),
    *((f"prices.{ending}", "an object of nothing") for ending in ("json", "yaml")),
    *((f"linted.{ending}", "a list of nothing") for ending in ("json", "jsonl", "yaml", "csv")),
    *((name, way) for name in _ROWS for way in ("UTF-16", "gzip")),
}


CENTRAL = {
    *("queries.jsonl", "queries.csv", "queries.arrow", "final.parquet", "synth.json", "synth.toml", "grade.yaml"),
    *("essays.json", "essays.jsonl", "prices.yaml", "prompts/reference.jinja", "linted.json"),
    *("run/dataset.json", "run/manifest.json", "run/items.jsonl"),
}
"""One file for each reader, spoilt in every way. The others go to the same readers: each in a seventh of the ways."""
_EVERY = 7


def ways(name: str) -> dict[str, Spoil]:
    """The ways in which a file is spoilt here."""
    found = _all_ways(name)
    if name in CENTRAL:
        return found
    turn = list(READS).index(name) % _EVERY
    return dict(list(found.items())[turn::_EVERY])


def _all_ways(name: str) -> dict[str, Spoil]:
    found = {**NO_PLAIN_FILE}
    found |= NO_ARROW if name.endswith(".arrow") else NO_COLUMNS if name in COLUMNS else NO_TEXT
    found |= NO_TABLE if name.endswith(".csv") else {}
    found |= NO_DATA if name in DATA else {}
    found |= NO_YAML if name.endswith(".yaml") else {}
    return {way: spoil for way, spoil in found.items() if (name, way) not in _TAKEN}


@pytest.mark.parametrize("name", READS)
def test_a_spoilt_file_is_named_in_one_message(bench: Bench, name: str) -> None:
    with offenders() as case:
        for way, spoil in ways(name).items():
            with case(way), bench.restored():
                spoil(bench.folder / name)
                bench.refuses(READS[name], told(name))


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def marked(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def utf_16(data: bytes) -> bytes:
    return data.decode().encode("utf-16")


def packed_utf_16(data: bytes) -> bytes:
    return gzip.compress(utf_16(data))


def packed_and_marked(data: bytes) -> bytes:
    return zstd(marked(data))


def forms(name: str) -> list[Callable[[bytes], bytes]]:
    """What may be done to a sound file: a byte order mark, and for rows packing and UTF-16.

    One file for each reader has these one by one, the others two at a time.
    """
    if name.startswith(("run/", "part-2/", "graded/", "shown/", "rollouts/")) or name in COLUMNS:
        return [bytes]
    if name in CENTRAL:
        return [bytes, marked, *((gzip.compress, zstd, utf_16) if name in _ROWS else ())]
    return [packed_utf_16, packed_and_marked] if name in _ROWS else [marked]


@pytest.mark.parametrize("command", sorted({words[0] for words in READS.values()}))
def test_a_sound_file_is_read_in_every_form_it_may_have(bench: Bench, command: str) -> None:
    with offenders() as case:
        for name in (name for name in READS if READS[name][0] == command):
            for form in forms(name):
                with case(f"{name} {form.__name__}"), bench.restored():
                    changed(form)(bench.folder / name)
                    bench.accepts(READS[name])


def test_a_name_that_is_too_long_for_any_file_is_refused(bench: Bench) -> None:
    with offenders() as case:
        for name in (name for name in READS if name in READS[name]):
            with case(name):
                long = f"{'x' * 300}{Path(name).suffix}"
                bench.refuses([long if word == name else word for word in READS[name]], "File name too long")


def test_a_file_cut_in_two_is_refused(bench: Bench) -> None:
    with offenders() as case:
        for name in (name for name in READS if name.endswith(".json")):
            with case(name), bench.restored():
                changed(lambda data: data[: len(data) // 2])(bench.folder / name)
                bench.refuses(READS[name], told(name))


@pytest.mark.parametrize("name", ["queries.jsonl", "essays.jsonl", "answers.jsonl"])
def test_a_row_of_17_mb_is_refused_by_its_number(bench: Bench, name: str) -> None:
    path = bench.folder / name
    path.write_bytes(path.read_bytes() + b'{"submission": "' + b"x" * 17_000_000 + b'"}\n')
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
    bench.refuses(READS["essays.json"], "1,048,576 MiB", "the maximum is 512 MiB")


def test_no_tag_of_yaml_runs_code(bench: Bench) -> None:
    content(b"a: !!python/object/apply:os.mkdir [pwned]")(bench.folder / "synth.yaml")
    bench.refuses(READS["synth.yaml"], "synth.yaml")
    assert not (bench.folder / "pwned").exists()
