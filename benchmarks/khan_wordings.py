"""The acceptance rule on two real wordings of one rubric, judged by five models, with the verdicts of three people.

Short answers of students to ten questions (Frohn, Burleigh and Chen 2025, CC BY 4.0; Khan/llm-saq-scoring).
`criteria` is the original wording, `full` adds examples. Every model judged each answer three times under both. The
question is whether `full` would be accepted, against the majority of three raters, for a question with Holm over all
questions. Three controls follow: the same wording against itself (its second verdict in place of the first), the
reverse direction, and half of the answers. Run as `python -m benchmarks.khan_wordings DATA`, the file
`khan_saq_responses.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typer import Argument, Option, run

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.improvement.acceptance import AcceptanceDecision, decide_all, pool
from autorubric.improvement.changed_wording import WordingOutcome
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.measures import Comparator, Measure
from autorubric.improvement.samples import group_items
from autorubric.metrics.table import FAILED

Row = dict[str, Any]


def labelled(rows: Sequence[Row]) -> LabelledRubric:
    """The answers to one question; equal answers are one group."""
    rubric = Rubric([Criterion(name="full credit", requirement="Fulfils all criteria of the question.")])
    dataset = RubricDataset("q", rubric)
    for row in rows:
        dataset.add_item(row["submission"], "")
    truth = np.array([[1 - (sum(row["human"]) >= 2)] for row in rows], dtype=np.int64)
    return LabelledRubric(
        rubric, dataset, truth, np.array(group_items(dataset), np.int64), np.full(len(rows), np.nan)
    )


def outcomes(rows: Sequence[Row], model: str, wording: str, draw: int) -> dict[int, WordingOutcome]:
    """One verdict of a model on each answer; a missing one is a failure."""
    said = [row["llm"][model][wording][draw] for row in rows]
    return {place: WordingOutcome(FAILED if one not in (0, 1) else 1 - int(one)) for place, one in enumerate(said)}


def decisions(
    questions: dict[int, list[Row]], model: str, old: tuple[str, int], new: tuple[str, int], measure: Measure
) -> tuple[dict[str, AcceptanceDecision], AcceptanceDecision]:
    """The decision of the rule on each question, and on all of them together."""
    found = {}
    for number, rows in questions.items():
        comparing = Comparator(labelled(rows), measure)
        first, second = (outcomes(rows, model, *one) for one in (old, new))
        found[str(number)] = comparing.compare_wordings(0, first, second, range(len(rows)))
    return decide_all(found), decide_all({"all": pool(list(found.values()))})["all"]


def main(
    data: Path = Argument(..., help="khan_saq_responses.jsonl"),  # noqa: B008
    measure: str = Option("agreement", help="agreement or ac1."),
) -> None:
    """Print, for each model, what would be accepted."""
    questions: dict[int, list[Row]] = {}
    for line in data.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        questions.setdefault(row["item"], []).append(row)
    models = next(iter(questions.values()))[0]["llm"]
    halves = {number: rows[::2] for number, rows in questions.items()}
    print(f"{len(questions)} questions, {sum(map(len, questions.values()))} answers; measure {measure}\n")
    runs = (
        ("criteria -> full", ("criteria", 0), ("full", 0), questions),
        ("criteria -> full, half of the answers", ("criteria", 0), ("full", 0), halves),
        ("full -> criteria", ("full", 0), ("criteria", 0), questions),
        ("criteria -> criteria, graded again", ("criteria", 0), ("criteria", 1), questions),
        ("full -> full, graded again", ("full", 0), ("full", 1), questions),
    )
    for name, old, new, rows in runs:
        print(name)
        print("  model                before   after     gain   interval of all      p      all        questions")
        for model in models:
            each, whole = decisions(rows, model, old, new, measure)  # type: ignore[arg-type]
            accepted = [number for number, one in each.items() if one.accepted]
            pairs, interval = whole.pairs, whole.interval
            shown = "-" if interval is None else f"{interval.low:+.3f} to {interval.high:+.3f}"
            print(
                f"  {model:18}  {pairs.before:7.3f} {pairs.after:7.3f}  {pairs.difference:+7.3f}   {shown:18}   "
                f"{whole.p_value:.3f}  {'accepted' if whole.accepted else 'kept old':9}  {len(accepted)}"
            )
        print()


if __name__ == "__main__":
    run(main)
