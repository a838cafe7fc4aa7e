"""Every command that calls a model, as one row each: how it is typed and where its rows end up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset
from autorubric.runs.items_file import read_items

ROWS = 3
BAD = "item-2-of-the-table"
"""What only one row of the input holds, so that an endpoint can choose its requests."""

Flags = Sequence[str]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that calls a model.

    Attributes:
        name: as it is typed.
        words: the command line, given a folder for its input and more flags.
        calls: calls that a whole run makes.
        whole: ids of the rows that came through without a failure, given the run directory.
        failed: ids of the rows that are listed with a failure.
        scores: the score of each row, where rows have one; None where there is none.
        asks_about_bad: whether a request is about the row `BAD`.
    """

    name: str
    words: Callable[[Path, Flags], list[str]]
    calls: int
    whole: Callable[[Path], list[str]]
    failed: Callable[[Path], list[str]]
    scores: Callable[[Path], dict[str, float | None]]
    asks_about_bad: Callable[[str], bool] = lambda prompt: BAD in prompt


def names(rows: int = ROWS) -> list[str]:
    return [f"item-{number}-of-the-table" for number in range(rows)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def _synthesize(folder: Path, flags: Flags) -> list[str]:
    source = folder / "queries.jsonl"
    rows = [{"id": name, "question": f"How do tides arise? ({name})"} for name in names()]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fixed = ["--id-column", "id", "--models", "openai/m", "--out", str(folder / "out")]
    return ["synthesize", str(source), *fixed, *flags]


def _grade(folder: Path, flags: Flags) -> list[str]:
    rubric = Rubric([Criterion(name="a", requirement="Names a cause"), Criterion(name="b", requirement="Is short")])
    made = RubricDataset("Explain the tides.", rubric, name="tides")
    for name in names():
        made.add_item(f"The moon pulls. ({name})", name, id=name)
    source = folder / "essays.json"
    made.to_file(source)
    return ["grade", str(source), "--judge", "openai/m", "-o", str(folder / "out"), *flags]


def _graded(out: Path, *, failed: bool) -> list[str]:
    found = read_items(out / "items.jsonl")
    return [names()[row["item_idx"]] for row in found if bool(row["error"]) is failed]


def _grades(out: Path) -> dict[str, float | None]:
    return {names()[row["item_idx"]]: row["report"]["score"] for row in read_items(out / "items.jsonl")}


def _select(folder: Path, flags: Flags, *answers: str) -> list[str]:
    source = folder / "final.jsonl"
    rubric = [{"criterion": "Names a cause.", "points": 2}, {"criterion": "Is short.", "points": 1}]
    rows = [{"id": name, "question": f"How do tides arise? ({name})", "rubrics": rubric} for name in names()]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["select", str(source), *answers, "--judge", "openai/m", "-o", str(folder / "out"), *flags]


def _select_given(folder: Path, flags: Flags) -> list[str]:
    given = folder / "candidates.jsonl"
    rows = [{"id": name, "answer": f"The moon pulls. ({name})"} for name in names()]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return _select(folder, flags, "--candidates", str(given))


def _select_sampled(folder: Path, flags: Flags) -> list[str]:
    return _select(folder, flags, "--sample", "openai/m", "-k", "1")


def _selected(out: Path, *, failed: bool) -> list[str]:
    found = lines(out / "decisions.jsonl")
    return [row["id"] for row in found if any(one["failure"] for one in row["candidates"]) is failed]


def _candidates(out: Path) -> dict[str, float | None]:
    return {row["id"]: one["score"] for row in lines(out / "decisions.jsonl") for one in row["candidates"]}


def _review(folder: Path, flags: Flags) -> list[str]:
    source = folder / "rubric.json"
    source.write_text(json.dumps([{"requirement": f"Names a cause of {name}."} for name in names()]))
    return ["review", str(source), "--reviewer", "openai/m", "-o", str(folder / "out"), *flags]


def _reviewed(out: Path, *, failed: bool) -> list[str]:
    if not (out / "review.json").exists():
        return []
    lost = {one["part"] for one in json.loads((out / "review.json").read_text())["failures"]}
    return [name for number, name in enumerate(names(), start=1) if (f"criterion {number}" in lost) is failed]


ITEMS = 12


def _improve(folder: Path, flags: Flags) -> list[str]:
    """The row that fails is what the writer is asked for: without alternatives nothing is decided."""
    asked = Rubric([Criterion(name="a", requirement="Names a cause")])
    made = RubricDataset("Explain the tides.", asked)
    for number in range(ITEMS):  # the endpoint says MET to all
        verdict = CriterionVerdict.MET if number % 2 else CriterionVerdict.UNMET
        made.add_item(f"The moon pulls, {number}.", "", [verdict])
    source, rubric = folder / "essays.json", folder / "rubric.json"
    made.to_file(source)
    asked.to_file(rubric)
    models = ["--judge", "openai/m", "--writer", "openai/m", "--candidates", "1"]
    return ["improve", str(rubric), "--labels", str(source), *models, "-o", str(folder / "out"), *flags]


def _improved(out: Path, *, failed: bool) -> list[str]:
    if (out / "improvement.json").exists():
        return [] if failed else names()
    manifest = json.loads((out / "manifest.json").read_text()) if (out / "manifest.json").exists() else {}
    return [BAD] if failed and "the writer proposed no alternatives" in str(manifest.get("error")) else []


COMMANDS = (
    Command(
        "synthesize",
        _synthesize,
        ROWS * 7,  # reference, two responses, two candidate rubrics, merge, augment
        lambda out: [row["id"] for row in lines(out / "final.jsonl")],
        lambda out: [row["record_id"] for row in lines(out / "unfinished.jsonl")],
        lambda out: {},
    ),
    Command(
        "grade",
        _grade,
        ROWS * 2,
        lambda out: _graded(out, failed=False),
        lambda out: _graded(out, failed=True),
        _grades,
    ),
    *(
        Command(
            name,
            words,
            ROWS * calls,
            lambda out: _selected(out, failed=False),
            lambda out: _selected(out, failed=True),
            _candidates,
        )
        for name, words, calls in (("select", _select_given, 2), ("select --sample", _select_sampled, 3))
    ),
    Command(
        "review",
        _review,
        ROWS + 1,  # each criterion, then the rubric as a whole
        lambda out: _reviewed(out, failed=False),
        lambda out: _reviewed(out, failed=True),
        lambda out: {},
        lambda prompt: f"Review criterion {ROWS} alone" in prompt,
    ),
    Command(
        "improve",
        _improve,
        ITEMS + 9 + ITEMS + 1,  # the original, again on the nine that test, the alternative, and the writer
        lambda out: _improved(out, failed=False),
        lambda out: _improved(out, failed=True),
        lambda out: {},
        lambda prompt: "alternative" in prompt,
    ),
)
