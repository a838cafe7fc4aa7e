"""Hostile text in what others render: dataset cards, plots, Markdown tables, SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autorubric.charts.svg import plot_bars
from autorubric.cli.agreement_report import TableReport
from autorubric.cli.app import run
from autorubric.files.strict_yaml import parse_yaml
from autorubric.synthesis.card import count_facts, read_run_facts, render_card

HOSTILE = "a | b\n# c <script>alert(1)</script> ![x](http://evil.example/x.png) </title>\"'& \x00\x1b[2J ]]> ---"


def test_a_card_shows_hostile_names_as_text() -> None:
    rows = [{"question": "Why?", "domain": HOSTILE, "rubrics": [{"criterion": HOSTILE, "points": 3}]}]
    manifest = {"models": {"merge": HOSTILE}, "stand_ins": [HOSTILE]}
    text = render_card(count_facts(rows, read_run_facts(manifest, HOSTILE, HOSTILE, {"default": "final.parquet"})))
    assert text.startswith("---\n")
    front, body = text[4:].split("\n---\n", 1)
    assert "<script" not in body
    assert "![x](" not in body
    assert not [line for line in body.splitlines() if line.startswith(("# c", "|")) and line.count(" | ") > 12]
    assert next(line for line in body.splitlines() if "alert(1)" in line).startswith("# a \\| b # c")
    held = parse_yaml(front, "README.md")
    assert isinstance(held, dict)
    assert held["size_categories"] == ["n<1K"]


def test_a_plot_is_xml_whatever_its_labels_say() -> None:
    drawn = ElementTree.fromstring(plot_bars(HOSTILE, [(HOSTILE, 1.0)], HOSTILE, HOSTILE))
    names = {element.tag.rpartition("}")[2] for element in drawn.iter()}
    assert names <= {"svg", "title", "desc", "rect", "text", "line", "g"}
    assert not [name for element in drawn.iter() for name in element.keys() if name.startswith("on")]  # noqa: SIM118


def test_a_cell_of_a_markdown_table_stays_one_cell() -> None:
    lines = TableReport([{"name": HOSTILE, "n": 1}], {}).render("md").splitlines()
    assert len(lines) == 3
    assert lines[2].replace("\\|", "").count("|") == 3
    assert "<script" not in lines[2]
    assert "![" not in lines[2]


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_findings_about_hostile_text_are_json_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = tmp_path / "a b|%3Cscript%3E<i>.json"
    path.write_text(json.dumps([{"name": HOSTILE, "requirement": f"Is good {HOSTILE}"}]))
    assert run(["lint", str(path), "--format", form, "--fail-on", "never"]) == 0
    found = json.loads(capsys.readouterr().out)
    if form == "sarif":
        place = found["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("/a%20b%7C%253Cscript%253E%3Ci%3E.json")
