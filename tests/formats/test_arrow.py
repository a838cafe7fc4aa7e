"""Parquet files: one schema whatever the rows hold."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric.core.criterion import Criterion
from autorubric.formats import FORMATS, Record, convert, read_records, write_records, write_release
from autorubric.formats.rubrichub import PARAMETERS, RURL

TABLES = [name for name, form in FORMATS.items() if form.schema is not None]
RULE = Criterion(
    weight=10,
    requirement="length_constraints:number_words",
    check={"name": "NumberOfWords", "parameters": {"num_words": 9, "relation": "at least"}},
)
PLAIN = Record((Criterion(weight=5, requirement="Says why."),), "Why?", domain="Medical")
FULL = Record(
    (RULE, Criterion(weight=-2.5, requirement="Lies.", tags=["axis:accuracy"], name="Lies")),
    [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "?"}, {"role": "user", "content": "So?"}],
    "q1",
    "Because.",
    "So.",
    "Instruction_Following",
    "Be strict.",
    {"split": "test", "rubric_score": 0.5, "example_tags": ["x"]},
)


@pytest.mark.parametrize("name", TABLES)
def test_the_schema_is_the_same_whatever_the_rows_hold(name: str, tmp_path: Path) -> None:
    for number, rows in enumerate([[], [PLAIN], [FULL], [FULL, PLAIN] * 300]):
        path = tmp_path / f"{number}.parquet"
        write_records(path, name, rows)
        assert pq.read_schema(path).equals(FORMATS[name].build_arrow_schema())
        assert pq.read_metadata(path).num_rows >= len(rows)


@pytest.mark.parametrize("name", [name for name in TABLES if FORMATS[name].carrier is not None] + ["ruft"])
def test_a_fraction_of_a_point_survives(name: str, tmp_path: Path) -> None:
    write_records(tmp_path / "rows.parquet", name, [FULL])
    (back,) = (record for _, record in read_records(tmp_path / "rows.parquet"))
    assert [one.weight for one in back.criteria] == [10.0, -2.5]


@pytest.mark.parametrize("name", ["rubrichub", "rurl"])
def test_where_points_are_whole_the_rounding_is_named(name: str, tmp_path: Path) -> None:
    done = write_records(tmp_path / "rows.parquet", name, [FULL])
    assert done.lost["criteria.weight"] == 1
    # Halves go away from zero.
    (back,) = (record for _, record in read_records(tmp_path / "rows.parquet"))
    assert [one.weight for one in back.criteria] == [10.0, -3.0]


def test_the_release_has_its_columns_and_all_36_parameters() -> None:
    schema = RURL.build_arrow_schema()
    assert schema.names == ["prompt", "data_source", "ability", "reward_model", "extra_info", "Rubrics"]
    model = schema.field("reward_model").type
    assert [model.field(i).name for i in range(model.num_fields)] == ["ground_truth", "rubrics", "style"]
    tags = model.field("rubrics").type.value_type.field("tags").type
    assert [tags.field(i).name for i in range(3)] == ["function", "parameters", "verifier"]
    parameters = tags.field("parameters").type
    assert [parameters.field(i).name for i in range(parameters.num_fields)] == list(PARAMETERS)
    assert len(PARAMETERS) == 36
    assert parameters.field("num_words").type == pa.float64()
    assert parameters.field("keywords").type == pa.list_(pa.string())
    assert schema.field("extra_info").type.field("reward_model").type == model


def test_domains_too_long_for_a_file_s_name_are_told_apart(tmp_path: Path) -> None:
    domains = ["剂量" * 200 + end for end in ("甲", "乙")]
    counts = write_release(tmp_path, [replace(PLAIN, domain=domain) for domain in domains])
    assert list(counts.values()) == [1, 1]
    assert all((tmp_path / name).is_file() for name in counts)


def test_a_rule_of_the_release_comes_back_as_a_check(tmp_path: Path) -> None:
    counts = write_release(tmp_path, [FULL, PLAIN, PLAIN])
    assert counts == {
        "RuRL/rurbichub_v1_Instruction_Following.parquet": 1,
        "RuRL/rurbichub_v1_Medical.parquet": 2,
    }
    path = tmp_path / "RuRL" / "rurbichub_v1_Instruction_Following.parquet"
    row = pq.read_table(path).to_pylist()[0]
    rule, judged = row["reward_model"]["rubrics"]
    assert (rule["tags"]["function"], rule["tags"]["verifier"]) == ("NumberOfWords", "rule")
    assert {k: v for k, v in rule["tags"]["parameters"].items() if v is not None} == {
        "num_words": 9.0,
        "relation": "at least",
    }
    assert (judged["tags"]["function"], judged["tags"]["verifier"]) == ("", "llm")
    assert row["extra_info"] == {"prompt": row["prompt"], "reward_model": row["reward_model"]}
    assert row["Rubrics"] == [{"criterion": e["criterion"], "points": e["points"]} for e in (rule, judged)]
    (back,) = (record for _, record in read_records(path))
    assert back.criteria[0] == RULE


def test_a_file_of_the_release_that_fails_half_way_is_not_there(tmp_path: Path) -> None:
    def rows() -> object:
        yield PLAIN
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_release(tmp_path, rows())  # type: ignore[arg-type]
    assert list((tmp_path / "RuRL").iterdir()) == []


def test_a_file_is_converted_a_row_at_a_time(tmp_path: Path) -> None:
    """A process that converts 22 MB of rows takes less than half of that."""
    record = Record((Criterion(weight=5, requirement="x" * 900),) * 20, "Why? " * 50, domain="Medical")
    with (tmp_path / "rows.jsonl").open("w") as file:
        row = FORMATS["verl"].write(record).row
        for number in range(600):
            file.write(json.dumps({**row, "extra_info": {**row["extra_info"], "id": str(number)}}) + "\n")
    assert (tmp_path / "rows.jsonl").stat().st_size > 22_000_000
    code = (
        "import resource, sys; from autorubric.formats import convert; import pyarrow.parquet;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "done = convert('rows.jsonl', 'out.jsonl', 'open-instruct');"
        "print(done.records, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 600
    assert megabytes < 11, "the file was held in memory"


def test_load_dataset_reads_all_we_write(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the library datasets")
    cache = str(tmp_path / "cache")
    write_release(tmp_path, [FULL, PLAIN])
    files = str(tmp_path / "RuRL" / "*.parquet")
    together = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    assert len(together) == 2
    assert together[0]["reward_model"]["rubrics"][0]["tags"].keys() == {"function", "parameters", "verifier"}
    for name, form in FORMATS.items():
        for kind in {".parquet", ".jsonl"} & set(form.containers):
            path = tmp_path / f"{name}{kind}"
            write_records(path, name, [PLAIN, FULL] * 300)
            reader = "parquet" if kind == ".parquet" else "json"
            read = datasets.load_dataset(reader, data_files=str(path), split="train", cache_dir=cache)
            assert len(read) >= 600, path.name


def test_a_table_goes_through_the_command_and_keeps_its_schema_without_rows(tmp_path: Path) -> None:
    write_records(tmp_path / "none.parquet", "verl", [])
    done = convert(tmp_path / "none.parquet", tmp_path / "none2.parquet", "rurl")
    assert done.records == 0
    assert pq.read_schema(tmp_path / "none2.parquet").equals(RURL.build_arrow_schema())


def test_a_release_is_written_again_and_its_long_names_are_cut_at_200_bytes(tmp_path: Path) -> None:
    for _ in range(2):
        counts = write_release(tmp_path, [replace(PLAIN, domain="x" * length) for length in (200, 201)])
    whole, cut = counts
    assert whole == f"RuRL/rurbichub_v1_X{'x' * 199}.parquet"
    assert re.fullmatch(r"RuRL/rurbichub_v1_Xx{199}_[0-9a-f]{8}\.parquet", cut)
    assert sorted((tmp_path / "RuRL").iterdir()) == sorted(tmp_path / name for name in counts)
