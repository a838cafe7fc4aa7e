"""Each promise of the guide names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.soak import PARTS
from tests.offenders import offenders

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "promises.md").read_text()
ROWS = [row for row in GUIDE.splitlines() if row.startswith("| ") and "Promise" not in row and "test_" in row]
VIEW = [
    row for row in (ROOT / "docs/design/view.md").read_text().splitlines() if re.match(r"\|.*`(test_|python )", row)
]
TESTS = {
    name
    for folder in ("tests", "tests_browser")
    for path in (ROOT / folder).rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}


def test_a_promise_names_tests_that_exist() -> None:
    with offenders() as case:
        for row in ROWS:
            with case(row.split("|")[1].strip()[:60]):
                named = re.findall(r"`(test_\w+)`", row)
                assert named
                assert set(named) <= TESTS


def test_a_limit_of_the_view_names_tests_and_benchmarks_that_exist() -> None:
    assert len(VIEW) == 34
    with offenders() as case:
        for row in VIEW:
            with case(row.split("|")[1].strip()[:60]):
                assert set(re.findall(r"`(test_\w+)`", row)) <= TESTS
                for name in re.findall(r"python -m benchmarks (\w+)", row):
                    assert (ROOT / "benchmarks" / f"{name}.py").is_file()


def test_every_row_of_the_tables_of_promises_names_a_test() -> None:
    tables = re.findall(r"\| Promise \| Tests \|\n\|---\|---\|\n((?:\|.*\n)+)", GUIDE)
    assert len(tables) == 3
    assert sum(table.count("\n") for table in tables) == len(ROWS)


def test_the_guide_names_every_part_of_the_soak() -> None:
    told = GUIDE.partition("two of its parts (")[2].partition(")")[0]
    assert list(PARTS) == re.findall(r"`(\w+)`", told)
