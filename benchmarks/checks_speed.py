"""How long checks take: the 834 official verdicts of IFEval, and the cost of one check."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autorubric.checks import CheckOutcome, run_check
from benchmarks.record import Record

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


MOST = 4.0
"""Seconds of CPU for 834 verdicts, once the libraries are loaded: twice the target, for a busy machine."""


def run() -> Record:
    """The times of IFEval's verdicts and of single checks, against counting the words of the same texts."""
    record = Record("CPU, after import; floor: the words of the same text, found by a regular expression")
    for name in LIBRARIES:
        importlib.import_module(name)
    _ifeval(record)
    # A new text each time, so that nothing is answered from a cache.
    rows = []
    for name, parameters in ONE_OF_EACH:
        texts = [f"{TEXT}{number}" for number in range(50)]
        started = time.process_time()
        for text in texts:
            run_check(name, parameters, text)
        each = (time.process_time() - started) / len(texts)
        floor = _floor(texts) / len(texts)
        rows.append([name, f"{len(TEXT):,}", f"{floor * 1e6:.0f}", f"{each * 1e6:.0f}", f"{each / floor:.1f}"])
    record.table("checks", ["check", "characters", "floor µs", "µs", "ratio"], rows)
    return record


def _floor(texts: Sequence[str]) -> float:
    """Seconds to find the words of these texts, without a cache."""
    words = re.compile(r"\w+")
    started = time.process_time()
    for text in texts:
        len(words.findall(text))
    return time.process_time() - started


def _ifeval(record: Record) -> None:
    try:
        prompts = {row["prompt"]: row for row in _rows("ifeval_prompts.jsonl")}
        rows = _rows("ifeval_verdicts_strict.jsonl")
    except FileNotFoundError:
        print("checks: IFEval's data is not beside this checkout; skipped")
        return
    started, agreed, total = time.process_time(), 0, 0
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
    took = time.process_time() - started
    floor = _floor([row["response"] for row in rows for _ in row["instruction_id_list"]])
    cells = [total, agreed, f"{floor:.2f}", f"{took:.2f}", f"{took / floor:.1f}"]
    record.table("ifeval", ["verdicts", "agree", "floor s", "s", "ratio"], [cells])
    record.limit("checks: seconds of CPU for IFEval's verdicts", took, most=MOST)
    record.limit("checks: share of IFEval's verdicts that agree", agreed / total, least=0.99)


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


if __name__ == "__main__":
    run()
