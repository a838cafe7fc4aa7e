"""How long checks take: the 834 official verdicts of IFEval, and the price of one check."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

from autorubric.checks import CheckOutcome, run_check

DATA = Path(__file__).parents[2] / "shared" / "data"
TEXT = "The train leaves at nine, Dr. Fox said. We took it; it was late again! " * 20
ONE_OF_EACH: list[tuple[str, dict[str, Any]]] = [
    ("contains", {"phrases": ["train", "late"]}),
    ("regex", {"pattern": r"\bnine\b"}),
    ("word_count", {"at_most": 500}),
    ("NumberOfSentences", {"num_sentences": 9, "relation": "at least"}),
    ("CapitalWordFrequencyChecker", {"capital_frequency": 3, "capital_relation": "less than"}),
    ("language", {"code": "en"}),
]


# What checks load when they first need it. In this environment nltk brings the test oracles along.
LIBRARIES = ("langdetect", "nltk.tokenize.destructive", "nltk.tokenize.punkt", "regex")


def run() -> None:
    """Print the times; the target is 834 verdicts in 2 s after import."""
    for name in LIBRARIES:
        importlib.import_module(name)
    _ifeval()
    # A new text each time, so that nothing is answered from a cache.
    for name, parameters in ONE_OF_EACH:
        texts = [f"{TEXT}{number}" for number in range(50)]
        started = time.perf_counter()
        for text in texts:
            run_check(name, parameters, text)
        each = (time.perf_counter() - started) / len(texts)
        print(f"checks: {name:<28} {each * 1e6:8.0f} µs for {len(TEXT):,} characters")


def _ifeval() -> None:
    try:
        prompts = {row["prompt"]: row for row in _rows("ifeval_prompts.jsonl")}
        rows = _rows("ifeval_verdicts_strict.jsonl")
    except FileNotFoundError:
        print("checks: IFEval's data is not beside this checkout; skipped")
        return
    started, agreed, total = time.perf_counter(), 0, 0
    for row in rows:
        calls = zip(
            row["instruction_id_list"],
            prompts[row["prompt"]]["kwargs"],
            row["follow_instruction_list"],
            strict=True,
        )
        for instruction, parameters, official in calls:
            said = run_check(instruction, parameters, row["response"])
            agreed += isinstance(said, CheckOutcome) and said.passed is official
            total += 1
    print(f"checks: {total} IFEval verdicts in {time.perf_counter() - started:.2f} s (target 2), {agreed} agree")


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


if __name__ == "__main__":
    run()
