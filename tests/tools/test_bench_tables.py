"""Figures of the guides are those of the last benchmark runs, and a missed limit is a failure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import ALL
from benchmarks.record import Record, keep, less_error
from tests.offenders import offenders
from tools.bench_tables import LAST, ROOT, filled, guides, stale

RECORD = {
    "speed": {
        "date": "2026-11-23",
        "tables": {"grading": ["| latency | ratio |", "| --- | --- |", "| none | 1.06 |"]},
        "figures": {"ratio": "1.06"},
        "missed": ["rate: 1; expected at least 2"],
        "known": ["gap: 3; expected at most 2"],
    }
}
PAGE = "Takes <!-- bench: speed/ratio -->?<!-- /bench -->.\n\n<!-- bench: speed/grading --><!-- /bench -->\n"
RIGHT = """Takes <!-- bench: speed/ratio -->1.06<!-- /bench -->.

<!-- bench: speed/grading -->
| latency | ratio |
| --- | --- |
| none | 1.06 |
<!-- /bench -->
"""


def test_the_figures_of_the_guides_are_those_of_the_last_runs() -> None:
    record = json.loads(LAST.read_text("utf-8"))
    pages = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in guides()}
    assert list(stale(record, pages)) == []
    marked = {name for name, text in pages.items() if "<!-- bench:" in text}
    assert "docs/evidence.md" in marked


def test_a_guide_that_names_a_benchmark_takes_its_values_from_the_record() -> None:
    record, overview = json.loads(LAST.read_text("utf-8")), (ROOT / "docs/benchmarks.md").read_text("utf-8")
    with offenders() as case:
        for name in ALL:
            with case(name):
                assert f"\n| `{name}`" in overview
        for page in guides():
            text = page.read_text("utf-8")
            for name in set(re.findall(r"python -m benchmarks[. ](\w+)", text)) & set(record):
                with case(f"{page.name}: {name}"):
                    assert f"<!-- bench: {name}/" in text or "benchmarks.md#from-the-record" in text


def test_a_page_is_filled_from_the_record() -> None:
    assert filled(PAGE, RECORD) == RIGHT
    assert filled(RIGHT, RECORD) == RIGHT


def test_the_table_of_missed_limits_has_those_that_do_not_fail_the_run_too() -> None:
    rows = "| `speed` | rate: 1; expected at least 2 |\n| `speed` | gap: 3; expected at most 2 |"
    header = "| benchmark | limit missed |\n| --- | --- |"
    page = "<!-- bench: all/missed -->\n{}\n<!-- /bench -->"
    assert filled(page.format(""), RECORD) == page.format(f"{header}\n{rows}")


def test_a_figure_that_differs_from_the_record_is_named() -> None:
    cases = {
        RIGHT: [],
        RIGHT.replace(">1.06<", ">1.05<"): ["p.md: speed/ratio is '1.05'; measured '1.06'"],
        RIGHT.replace("speed/ratio", "speed/lost"): ["p.md: speed/lost is not in the record of the last runs"],
        RIGHT.replace("speed/ratio", "other/ratio"): ["p.md: other/ratio is not in the record of the last runs"],
    }
    with offenders() as case:
        for page, expected in cases.items():
            with case(page):
                assert list(stale(RECORD, {"p.md": page})) == expected
    changed = list(stale(RECORD, {"p.md": RIGHT.replace("| none | 1.06 |", "| none | 1.02 |")}))
    assert len(changed) == 1 and changed[0].startswith("p.md: speed/grading is")


def test_a_value_outside_its_limits_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record()
    for value in (0.9, 1.0, 2.0, 2.1, float("nan")):
        record.limit("ratio", value, least=1, most=2)
    for value in (0.9, 2.1):
        record.limit("rate", value, least=1)
        record.limit("seconds", value, most=2)
    assert record.missed == [
        "ratio: 0.9; expected at least 1 and at most 2",
        "ratio: 2.1; expected at least 1 and at most 2",
        "ratio: nan; expected at least 1 and at most 2",
        "rate: 0.9; expected at least 1",
        "seconds: 2.1; expected at most 2",
    ]
    assert capsys.readouterr().out.count("MISSED") == 5
    record.limit("coverage", 88.0, least=less_error(95, 400), known=True)
    # 95 - 3 * sqrt(95 * 5 / 400) = 95 - 3.269
    assert record.known == ["coverage: 88; expected at least 91.7308"]
    assert len(record.missed) == 5


def test_benchmarks_that_did_not_run_keep_their_figures(tmp_path: Path) -> None:
    record, path = Record("100 items"), tmp_path / "last.json"
    record.table("grading", ["latency", "ratio"], [["none", 1.06]])
    record.figure("ratio", "1.06")
    keep({"speed": record}, path)
    keep({"coverage": Record()}, path)
    found = json.loads(path.read_text("utf-8"))
    assert sorted(found) == ["coverage", "speed"]
    assert found["speed"]["tables"] == RECORD["speed"]["tables"]
    assert found["speed"]["figures"] == RECORD["speed"]["figures"]
    assert found["speed"]["command"] == "python -m benchmarks speed"
    assert found["speed"]["conditions"] == "100 items"
