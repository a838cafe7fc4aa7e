"""How often finished rubrics rank three models in their known order, on real queries with real answers.

The queries and answers are those of Arena-Hard: gpt-3.5-turbo-0125 < gpt-4-0613 < gpt-4-0314 by human preference.
The rubrics are made by the offline model unless AUTORUBRIC_MODEL names another one, and the offline model reads
no meaning: its figure shows that the method runs on real rows, and says nothing about the method's worth. So the
claim, more pairs in known order than by the length of the answers, holds for real models only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from autorubric.metrics.intervals import wilson_interval
from benchmarks.record import Record

DATA = Path(__file__).parents[2] / "shared" / "data" / "arena_hard_150_with_answers.jsonl"
ORDER = ("gpt-3.5-turbo-0125", "gpt-4-0613", "gpt-4-0314")


@dataclass(frozen=True, slots=True)
class Recovery:
    """How finished rubrics ranked the models.

    Attributes:
        queries: rubrics that score every model's answer.
        ordered: those that rank all of them in the known order, without a tie.
        pairs: pairs of models of known order in these queries.
        right: pairs that the rubrics rank in that order.
        tied: pairs with equal scores.
    """

    queries: int
    ordered: int
    pairs: int
    right: int
    tied: int


def recovery(rows: Iterable[Mapping[str, Any]], order: tuple[str, ...] = ORDER) -> Recovery:
    """Count how often the scores of `final_full` rows follow a known order of models."""
    counts: Counter[str] = Counter()
    for row in rows:
        scores = {one["model"]: one["score"] for one in row["responses"]}
        ranked = [scores.get(model) for model in order]
        known = [score for score in ranked if score is not None]
        if len(known) < len(order):
            continue
        pairs = list(combinations(known, 2))
        counts["queries"] += 1
        counts["pairs"] += len(pairs)
        counts["right"] += sum(low < high for low, high in pairs)
        counts["tied"] += sum(low == high for low, high in pairs)
        counts["ordered"] += all(low < high for low, high in pairwise(known))
    return Recovery(**{name: counts[name] for name in Recovery.__dataclass_fields__})


def run() -> Record | None:
    """Run the full method on the rows and record how often the order was found again."""
    if not DATA.exists():
        print(f"left out: {DATA} is not there")
        return None
    model = os.environ.get("AUTORUBRIC_MODEL", "builtin/offline")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = ["synthesize", str(DATA), "--out", str(out), "--id-column", "id", "--profile", "full"]
        words += ["--responses-column", "answers", "--models", model, "--pitfalls", "keep"]
        done = subprocess.run(
            [sys.executable, "-m", "autorubric", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        print(done.stdout)
        with (out / "final_full.jsonl").open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    with DATA.open(encoding="utf-8") as lines:
        answers = {row["id"]: row["answers"] for row in map(json.loads, lines)}
    found, floor = recovery(rows), recovery(_longer_is_better(row, answers[row["id"]]) for row in rows)
    record = Record(f"{model}, {found.queries} queries whose answers all have a score; floor: the longer, the better")
    record.table("order", ["scores", "queries", "known order", "95 % interval", "pairs", "tied pairs"], [
        ["a drawn order", found.queries, "16.7%", "–", "50.0%", "0.0%"],
        ["length of the answer", *_cells(floor)],
        ["finished rubrics", *_cells(found)],
    ])  # fmt: skip
    is_offline = model == "builtin/offline"
    least = floor.right / max(1, floor.pairs)
    record.limit("queries whose answers all have a score", found.queries, least=len(answers))
    record.limit("pairs in known order", found.right / max(1, found.pairs), least=least, known=is_offline)
    record.figure("known", "; ".join(record.known) or "none")
    return record


def _longer_is_better(row: Mapping[str, Any], answers: Mapping[str, str]) -> dict[str, Any]:
    """The row with the length of each answer for its score, where the rubric gave one."""
    models = [one["model"] for one in row["responses"] if one["score"] is not None]
    return {"responses": [{"model": model, "score": len(answers[model])} for model in models]}


def _cells(found: Recovery) -> list[object]:
    """No interval for pairs: the three of one query are not independent."""
    interval = wilson_interval(found.ordered, found.queries)
    if interval is None:
        return [0, "–", "–", "–", "–"]
    ends = f"{interval.low:.1%} – {interval.high:.1%}"
    shares = [f"{one:.1%}" for one in (found.right / found.pairs, found.tied / found.pairs)]
    return [found.queries, f"{found.ordered / found.queries:.1%}", ends, *shares]
