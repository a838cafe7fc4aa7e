"""The benchmark that counts how often finished rubrics rank known models."""

from __future__ import annotations

from typing import Any

from benchmarks.rank_recovery import ORDER, Recovery, recovery


def row(*scores: float | None) -> dict[str, Any]:
    return {"responses": [{"model": model, "score": score} for model, score in zip(ORDER, scores, strict=True)]}


def test_ties_count_against_the_order_and_a_missing_score_leaves_the_row_out() -> None:
    rows = [row(0.1, 0.2, 0.3), row(0.1, 0.1, 0.3), row(0.3, 0.2, 0.1), row(0.1, None, 0.3)]
    # Three rows with all scores, three pairs each; in order: 3 of the first, 2 of the second; one tie.
    assert recovery(rows) == Recovery(queries=3, ordered=1, pairs=9, right=5, tied=1)
