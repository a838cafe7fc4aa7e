"""The dataset card: figures counted by hand, front matter that YAML reads, plots that XML reads."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from autorubric.charts.svg import HEIGHT, WIDTH, plot_bars
from autorubric.errors import InputError
from autorubric.synthesis.card import (
    RunFacts,
    build_front_matter,
    count_facts,
    draw_plots,
    read_facts,
    read_run_facts,
    render_card,
    write_card,
)
from autorubric.synthesis.quality import MEASURES
from autorubric.synthesis.run_summary import OUTCOMES
from tests.offenders import each

SVG = "{http://www.w3.org/2000/svg}"


def criterion(weight: int, origin: str = "merged", *gates: tuple[str, str], check: Any = None) -> dict[str, Any]:
    said = [{"gate": gate, "outcome": outcome} for gate, outcome in gates]
    return {"title": "T", "description": "D", "weight": weight, "origin": origin, "check": check, "gates": said}


ROWS: list[dict[str, Any]] = [
    {
        "question": "What is the highest dose of paracetamol that is safe for an adult?",
        "id": "q1",
        "domain": "medical",
        "criteria": [criterion(6, "merged", ("licensed", "kept")), criterion(2, "evolved"), criterion(-2)],
        "rejected": [criterion(9, "evolved", ("licensed", "rejected"))],
        "rewritten": [criterion(4, "merged", ("agreement", "rewrite"))],
        "quality": {"clarity": 0.5, "number": 3.0, "stability": None},
    },
    {
        "question": "成年人每天最多可以服用多少对乙酰氨基酚？",
        "id": "q2",
        "domain": "medical",
        "criteria": [criterion(10, "merged", ("licensed", "kept"), check={"name": "word_count"})],
        "quality": {"clarity": 1.0, "number": 1.0, "stability": 0.75},
    },
    {
        "question": "When was the general strike in Britain, and who called for it?",
        "id": "q3",
        "domain": "history | <b>",
        "criteria": [criterion(5, "evolved"), criterion(5, "evolved")],
        "quality": None,
    },
]
RUN = RunFacts(
    "strikes", "apache-2.0", models={"merge": "openai/a|b"}, templates={"merge": "dd4088"}, cost_usd=1.5, calls=7
)


def test_figures_are_counted_by_domain_and_over_all_rows() -> None:
    facts = count_facts(iter(ROWS), RUN)
    assert list(facts.domains) == ["medical", "history | <b>"]
    medical, total = facts.domains["medical"], facts.total
    assert (medical.rows, medical.criteria, medical.pitfalls, medical.checks) == (2, 4, 1, 1)
    # 6 + 2 + 10 points, of which 2 evolved; the pitfall has none; over all rows 10 more, all evolved.
    assert (medical.points, medical.evolved_points, medical.evolved_share) == (18, 2, 2 / 18)
    assert (total.rows, total.criteria, total.points, total.evolved_share) == (3, 6, 28, 12 / 28)
    assert total.quality == {"clarity": (0.75, 2), "number": (2.0, 2), "stability": (0.75, 1)}


def test_distributions_gates_and_languages_are_counted() -> None:
    facts = count_facts(ROWS, RUN)
    assert facts.lengths == {1: 1, 2: 1, 3: 1}
    assert facts.weights == {-2: 1, 2: 1, 5: 2, 6: 1, 10: 1}
    # 2 of 8 points, 0 of 10, 10 of 10.
    assert facts.evolved_shares == {0: 1, 2: 1, 10: 1}
    nothing = dict.fromkeys(OUTCOMES, 0)
    assert facts.total.gates == {
        "licensed": nothing | {"kept": 2, "rejected": 1},
        "agreement": nothing | {"rewrite": 1},
    }
    assert facts.languages == {"en": 2, "zh": 1}


class Row(dict[str, Any]):
    """A row that can be watched."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_rows_are_taken_one_at_a_time() -> None:
    alive: weakref.WeakSet[Row] = weakref.WeakSet()
    most = 0

    def rows() -> Iterator[Row]:
        nonlocal most
        for number in range(100):
            row = Row(question="Why?", id=str(number), rubrics=[{"criterion": "Says why.", "points": 3}])
            alive.add(row)
            most = max(most, len(alive))
            yield row

    facts = count_facts(rows(), RUN)
    assert (facts.total.rows, facts.weights, facts.domains, facts.evolved_shares) == (100, {3: 100}, {}, {})
    # The one that is counted, and the next one on its way.
    assert most <= 2


@each(("rows", "size"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (9_999, "1K<n<10K"), (10_000, "10K<n<100K")])
def test_the_size_category_is_that_of_hugging_face(rows: int, size: str) -> None:
    facts = count_facts(({"question": "", "rubrics": []} for _ in range(rows)), RUN)
    assert build_front_matter(facts)["size_categories"] == [size]


def test_the_front_matter_is_yaml_with_the_fields_of_a_dataset_card() -> None:
    _, matter, body = render_card(count_facts(ROWS, RUN)).split("---\n", 2)
    held = yaml.safe_load(matter)
    assert held["license"] == "apache-2.0"
    assert held["language"] == ["en", "zh"]
    assert held["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "final_full.parquet"}]}
    ]
    assert body.strip().startswith("# strikes")


def test_the_tables_hold_the_figures_and_no_cell_ends_early() -> None:
    text = render_card(count_facts(ROWS, RUN))
    lines = text.splitlines()
    assert "| medical | 2 | 4 | 2.0 | 1 | 1 | 6.0 | 11.1% |" in lines
    assert "| history \\| &lt;b> | 1 | 2 | 2.0 | 0 | 0 | 5.0 | 100.0% |" in lines
    assert "| all | 3 | 6 | 2.0 | 1 | 1 | 5.6 | 42.9% |" in lines
    assert "| clarity | no vague words, no open comparison | 2 | 0.75 | 0.75 | – |" in lines
    # A measure that no row has evidence for is named all the same.
    assert "| consistency | judges agree on the verdict | 0 | – | – | – |" in lines
    measured = lines[lines.index("## Quality") :]
    assert [name for name in MEASURES if any(line.startswith(f"| {name} |") for line in measured)] == list(MEASURES)
    assert "| licensed | 2 | 0 | 1 | 0 |" in lines
    assert "| merge | openai/a\\|b |" in lines
    assert "7 calls for $1.50." in lines


def test_gates_stand_in_the_order_in_which_they_look_and_pitfalls_that_are_left_out_count() -> None:
    manifest = {"settings": {"full": {"gates": {"order": ["agreement", "surface", "licensed"]}}}}
    rows = [ROWS[0] | {"pitfalls_left_out": [criterion(-3, "merged", ("licensed", "kept"))]}]
    facts = count_facts(rows, read_run_facts(manifest, "strikes"))
    assert list(facts.total.gates) == ["agreement", "licensed"]
    assert facts.total.gates["licensed"] == {"kept": 2, "rewrite": 0, "rejected": 1, "undecided": 0}
    assert facts.total.left_out == 1


def test_an_unknown_price_is_unknown_and_no_zero() -> None:
    assert "7 calls of unknown cost." in render_card(count_facts([], RunFacts("n", calls=7)))


def test_a_stand_in_is_named_before_anything_else_is_said() -> None:
    text = render_card(count_facts(ROWS, RunFacts("n", stand_ins=("builtin/offline is a stand-in",))))
    assert text.index("stand-in") < text.index("## Statistics")


def test_the_plots_are_xml_and_their_bars_lie_inside() -> None:
    plots = draw_plots(count_facts(ROWS, RUN))
    assert list(plots) == ["criteria", "weights", "evolved_share", "quality"]
    for chart in plots.values():
        background, *bars = ElementTree.fromstring(chart).iter(f"{SVG}rect")
        assert (background.get("width"), background.get("height")) == (str(WIDTH), str(HEIGHT))
        for bar in bars:
            left, top, width, height = (float(bar.get(name, "nan")) for name in ("x", "y", "width", "height"))
            assert left >= 0
            assert left + width <= WIDTH
            assert top >= 0
            assert top + height <= HEIGHT


def test_a_bar_is_as_high_as_its_share_of_the_highest() -> None:
    bars = list(ElementTree.fromstring(plot_bars("t", [("a", 4), ("b", 1), ("c", 0)], "x", "y")).iter(f"{SVG}rect"))[
        1:
    ]
    heights = [float(bar.get("height", "nan")) for bar in bars]
    assert heights[1] * 4 == pytest.approx(heights[0], abs=0.4)
    assert heights[2] == 0


def test_text_in_a_plot_is_escaped_whatever_it_holds() -> None:
    nasty = 'a<b> & "c" \x00 ]]> 剂量'
    root = ElementTree.fromstring(plot_bars(nasty, [(nasty, 1)], nasty, nasty))
    assert root.findtext(f"{SVG}title") == nasty.replace("\x00", "\ufffd")


def test_a_card_without_rows_has_no_plots(tmp_path: Path) -> None:
    write_card(tmp_path, count_facts([], RUN))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_a_card_is_written_beside_the_files_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "strikes"
    run.mkdir()
    (run / "final_full.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (run / "final.jsonl").write_text("")
    usage = [{"role": "merge", "model": "m", "calls": 4, "cost": 0.25, "unpriced": 0}]
    manifest = {"models": {"merge": "m"}, "usage": usage, "versions": {"autorubric": "9.9"}, "templates": {}}
    manifest |= {"models": {"reference": "unused", "merge": "m"}, "stages": {"merge": {"slots": ["merge"]}}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    text = write_card(run, read_facts(run, license="mit")).read_text()
    assert "# strikes" in text
    assert "4 calls for $0.25." in text
    assert "| merge | m |" in text and "unused" not in text
    assert "made by `autorubric` 9.9." in text
    held = yaml.safe_load(text.split("---\n")[1])
    assert [one["config_name"] for one in held["configs"]] == ["full", "default"]
    for name in ("criteria", "weights", "evolved_share", "quality"):
        assert f"](plots/{name}.svg)" in text
        assert (run / "plots" / f"{name}.svg").exists()


def test_a_directory_without_final_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no final_full\.jsonl"):
        read_facts(tmp_path)
