"""The agreement page has the numbers and intervals of `autorubric agree`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from autorubric import agree, report
from autorubric.core.criterion import CANONICAL_NA_OPTION
from autorubric.metrics.per_criterion import measure_pairs
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.runs.cells import list_entries
from autorubric.view import figures
from autorubric.view.index.schema import FINAL, HUMAN, reading
from autorubric.view.index.tally import build_scaled_criterion
from tests.offenders import offenders
from tests.view.test_index import indexed
from tests.view.viewing import item, judged, line, viewing, vote, write_run

LEVELS = [{"label": "Two", "value": 1}, {"label": "None", "value": 0}, {"label": "Some", "value": 0.3}]
NA = {"label": "Not applicable", "value": 0, "na": True}
ADDED = CANONICAL_NA_OPTION.model_dump(exclude={"metadata"})
RUBRIC: list[dict[str, Any]] = [
    {"name": "Cause", "requirement": "Names a cause.", "weight": 3.0},
    {"name": "Moon", "requirement": "Names the moon.", "weight": -1.0},
    {"name": "Depth", "requirement": "How many causes?", "weight": 2.0, "options": [*LEVELS, NA]},
    {"name": "Tone", "requirement": "Which tone?", "weight": 1.0, "scale_type": "nominal", "options": [*LEVELS, NA]},
    {"name": "Ease", "requirement": "How easy?", "weight": 1.0, "options": LEVELS},
]


def write_verdicts(folder: Path, seed: int, items: int) -> Path:
    """A run in which each criterion is labelled, judged, abstained on and failed at random."""
    draw = random.Random(seed)
    lines, stored = [], []
    for number in range(items):
        labels, entries = [], []
        for criterion in RUBRIC:
            if "options" not in criterion:
                words = ["MET", "UNMET", "CANNOT_ASSESS"]
                labels.append(draw.choices(words, [6, 3, 1])[0])
                said = labels[-1] if draw.random() < 0.7 else draw.choice(words)
                entry = judged(criterion, said, [vote("a", said)])
            else:
                option, other = draw.choice(criterion["options"]), draw.choice(criterion["options"])
                labels.append(option["label"])
                chosen = option if draw.random() < 0.6 else other
                if NA not in criterion["options"] and draw.random() < 0.3:
                    chosen = ADDED  # the report has it only on the items where a judge chose it
                asked = {**criterion, "options": [*LEVELS, ADDED]} if chosen is ADDED else criterion
                choice = {"selected_label": chosen["label"], "value": chosen["value"], "na": "na" in chosen}
                entry = judged(asked, None, final_multi_choice_verdict=choice)
            failed = draw.random() < 0.1
            entries.append(judged(criterion, None, [], error="parse: no verdict") if failed else entry)
        lines.append(line(number, None, entries))
        stored.append(item(number, *(labels if number < 2 or draw.random() < 0.9 else [])))
    return write_run(folder, stored, lines, rubric=RUBRIC)


def ends(interval: ConfidenceInterval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.lower, interval.upper)


def test_numbers_and_intervals_are_those_of_agree(tmp_path: Path) -> None:
    with offenders() as case:
        for seed, items in enumerate((2, 3, 12, 30, 60, 200)):
            with case(f"{items} items"):
                compare_with_agree(write_verdicts(tmp_path / f"run{seed}", seed, items))


def compare_with_agree(run: Path) -> None:
    expected = agree(run)
    with reading(indexed(run)) as connection:
        assert connection is not None
        whole = figures.measure_against_labels(connection)
        rows = connection.execute("SELECT criterion, name, scale FROM criteria").fetchall()
        shown = {
            name: measure_pairs(
                build_scaled_criterion(scale), figures.read_pairs(connection, number).get((HUMAN, FINAL), [])
            )
            for number, name, scale in rows
        }
    assert whole.value == pytest.approx(expected.criterion_accuracy)
    assert whole.interval == pytest.approx(ends(expected.accuracy_ci))
    for one in expected.per_criterion:
        found = shown[one.name]
        ours = [found.n, found.share, found.interval, found.kappa, found.kappa_interval, found.statistics.get("AC")]
        theirs = [one.n_samples, one.accuracy, ends(one.accuracy_ci), one.kappa, ends(one.kappa_ci), one.gwet]
        assert all(a == pytest.approx(b) for a, b in zip(ours, theirs, strict=True)), (one.name, ours, theirs)
    stored = json.loads((run / "dataset.json").read_text())["items"]
    records = map(json.loads, (run / "items.jsonl").read_text().splitlines())
    entries = [entry for pair in zip(records, stored, strict=True) for entry in list_entries(*pair)]
    differing = sum(one.n_samples - round(one.n_samples * (one.accuracy or 0)) for one in expected.per_criterion)
    assert sum(entry["differs"] for entry in entries) == differing


def test_the_baseline_counts_the_criteria_of_all_pages(tmp_path: Path) -> None:
    rubrics = [[{"name": f"C{n}", "requirement": f"{r}.{n}", "weight": 1.0} for n in range(5)] for r in range(12)]
    whole = [criterion | {"name": criterion["requirement"]} for rubric in rubrics for criterion in rubric]
    # Of 60 criteria, 50 have the label MET twice; ten have both labels.
    halves = [["MET"] * 60, ["MET"] * 50 + ["UNMET"] * 10]
    one = [item(n, *labels) for n, labels in enumerate(halves)]
    # With rubrics of their own, all criteria count as one: of 120 labels, 12 x 5 + 12 are MET.
    own = [item(n, *(["MET"] * 5 if n < 12 else ["UNMET"] * 4 + ["MET"]), rubric=rubrics[n // 2]) for n in range(24)]
    # The same criteria with other weights are rubrics of their own too: half of the labels are MET.
    weighted = [
        item(n, *["MET"] * 30, *["UNMET"] * 30, rubric=[criterion | {"weight": 1.0 + n} for criterion in whole])
        for n in range(2)
    ]
    cases: dict[str, tuple[list[Any], Any, float]] = {
        "one rubric": (one, whole, 110 / 120),
        "own rubrics": (own, None, 72 / 120),
        "own weights": (weighted, None, 0.5),
    }
    with offenders() as case:
        for name, (items, rubric, expected) in cases.items():
            lines = [
                line(n, 1.0, [judged(c, "MET") for c in one.get("rubric", rubric)]) for n, one in enumerate(items)
            ]
            run = write_run(tmp_path / name, items, lines, rubric=rubric)
            with case(name), viewing(run) as view:
                shown = [view.indexed().data(f"/r/0/agreement?after={after}") for after in ("", 49)]
                assert [len(page["criteria"]) for page in shown] == [50, 10]
                assert [page["majority"] for page in shown] == [expected, expected]
                assert agree(run).majority_baseline == pytest.approx(expected)
                assert "Agreement with the labels, first 25 of the table<" in view.page("/r/0/agreement").text
                assert "Mean value of the first 25 criteria<" in view.page("/r/0/").text


def test_equal_names_of_different_rubrics_are_told_apart(tmp_path: Path) -> None:
    rubrics = [[{"name": "Right", "requirement": f"Is {answer}.", "weight": 1.0}] for answer in ("4", "Paris")]
    items = [item(n, "MET", rubric=rubrics[n % 2]) for n in range(8)]
    verdicts = ["MET", "MET", "UNMET", "UNMET"] * 2
    lines = [line(n, 1.0, [judged(rubrics[n % 2][0], word)]) for n, word in enumerate(verdicts)]
    run, other = (
        write_run(tmp_path / name, items, found, rubric=None) for name, found in (("a", lines), ("b", lines))
    )
    names = ["Right (Is 4.)", "Right (Is Paris.)"]
    with viewing(run, other) as view, offenders() as case:
        view.indexed(0, 1)
        for path, table in {"/": "drivers", "/agreement": "criteria", "/compare": "criteria"}.items():
            with case(path):
                assert [row["name"] for row in view.data(f"/r/0{path}")[table]] == names
        assert view.data("/r/0/label")["criteria"] == names
        for path in ("/", "/agreement"):
            with case(f"charts of {path}"):
                assert all(f'text-anchor="start">{name}</text>' in view.page(f"/r/0{path}").text for name in names)
    assert [f"| `{name}` |" in report(run, format="md").text for name in names] == [True, True]
    bare = report(run, no_text=True, against=other).text  # names stay, the requirements do not
    assert "Right 2" in bare and "Paris" not in bare
