"""How the stored runs were written: `python -m tests.stored_runs.write FOLDER [NAME...]`.

The directories next to this file were written once and are never written again: later code has to resume them as
they are. A run that a later feature needs gets a new name.

Some requests fail with an HTTP 500 and are not retried, so failures are on record. The same command runs until a
session makes no request. Words in the texts decide what goes wrong: see `Troubled`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

from autorubric.cli.app import run
from autorubric.core.criterion import Criterion
from autorubric.formats import Record, write_records
from autorubric.testing.completion import sized_replies
from tests.improvement.essays import BETTER, judge, section, wordings
from tests.stored_runs.api import grade_in_python
from tests.stored_runs.serving import serve_and_ask
from tests.stored_runs.stand import BASE_URL, Answer, standing
from tests.synthesis.full.conftest import SLOTS, Play

FIRST_UNREADABLE = "unclear-at-first"
FIRST_CUT_OFF = "cut-off-at-first"
ALWAYS_CUT_OFF = "cut-off-always"
FIRST_500 = "down-at-first"


class Troubled:
    """Models that make trouble where a word in the request says so, and otherwise say what `says` says."""

    def __init__(self, says: Callable[[dict[str, Any]], Any]) -> None:
        self._says = says
        self._asked: Counter[str] = Counter()
        self._lock = Lock()

    def __call__(self, body: dict[str, Any]) -> Answer:
        # A re-ask adds turns; the first two are those of the question.
        question = json.dumps([body["model"], body["messages"][:2]])
        with self._lock:
            is_first = not self._asked[question]
            self._asked[question] += 1
            text = str(self._says(body))
        if FIRST_500 in question and is_first:
            return 500, {"error": {"message": "The server is overloaded."}}
        if FIRST_UNREADABLE in question and is_first and ("JSON" in question or "criterion_status" in question):
            return 200, completion(body, "I would rather not say.", "stop")
        if ALWAYS_CUT_OFF in question or (FIRST_CUT_OFF in question and is_first):
            return 200, completion(body, text[: len(text) // 2], "length")
        return 200, completion(body, text, "stop")


def completion(body: dict[str, Any], text: str, reason: str) -> dict[str, Any]:
    """A chat completion with usage at four characters a token."""
    prompt = len(json.dumps(body["messages"])) // 4
    spoken = len(text) // 4 + 1 if reason == "stop" else body.get("max_tokens", 4096)
    usage = {"prompt_tokens": prompt, "completion_tokens": spoken}
    usage["total_tokens"] = sum(usage.values())
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    kind = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**kind, "choices": [choice], "usage": usage}


_numbers = itertools.count(1)


def judged(body: dict[str, Any]) -> str:
    """A verdict, or an answer to a query, that no other call has: a reply under a wrong key changes a result."""
    number = next(_numbers)
    if "criterion" not in json.dumps(body["messages"]):
        return f"High tide number {number} comes because the moon pulls."
    verdict = "MET" if crc32(b"%d" % number) % 3 else "UNMET"
    return json.dumps({"explanation": f"Read as number {number}.", "criterion_status": verdict})


TROUBLE = (FIRST_UNREADABLE, FIRST_CUT_OFF, ALWAYS_CUT_OFF, FIRST_500)
QUESTIONS = ["How do tides arise?", *(f"How do tides arise where it is {word}?" for word in TROUBLE)]
RUBRIC = [{"criterion": "Names a cause.", "points": 2}, {"criterion": "Is short.", "points": 1}]


def rows(path: Path, *made: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")


def synthesize_basic(folder: Path) -> list[str]:
    rows(folder / "queries.jsonl", *({"id": f"q{n}", "question": text} for n, text in enumerate(QUESTIONS)))
    models = ["--models", f"vllm/writer@{BASE_URL}"]
    return ["synthesize", "queries.jsonl", "--id-column", "id", "--out", "run", "--retry", "0", "-j", "1", *models]


def synthesize_full(folder: Path) -> list[str]:
    words = synthesize_basic(folder)[:-2]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        words += [f"--{part}-model" + (f"-{letter}" if letter else ""), f"vllm/m-{slot}@{BASE_URL}"]
    return [*words, "--profile", "full", "--pool", "2"]


def grade(folder: Path) -> list[str]:
    items: list[dict[str, Any]] = [
        {"id": f"e{n}", "description": f"essay {n}", "submission": f"The moon, {'because' * (n % 2)} {word}."}
        for n, word in enumerate(("fine", *TROUBLE, "fine"))
    ]
    items[0]["ground_truth"] = items[1]["ground_truth"] = ["MET", "UNMET", "MET"]
    # Items 0 and 5 differ in "because" only; equal items are asked about twice, under another copy.
    items.append({**items[0], "id": "again"})
    rubric = [
        {"name": "Cause", "requirement": "Names a cause.", "weight": 3},
        {"name": "Brief", "requirement": "Is brief."},
        {"name": "Short", "requirement": "Contains at most 5 words."},
    ]
    made = {"name": "tides", "prompt": "Explain the tides.", "rubric": rubric, "items": items}
    (folder / "essays.json").write_text(json.dumps(made, indent=1))
    judge = ["--judge", f"vllm/strict@{BASE_URL}"]
    return ["grade", "essays.json", *judge, "-o", "run", "--retry", "0", "-j", "1", "-f", "jsonl", "-f", "csv"]


def grade_panel(folder: Path) -> list[str]:
    judges = ["--judge", f"vllm/lenient@{BASE_URL}"]
    return [*grade(folder), *judges, "--repeat", "2", "--temperature", "0.7"]


def queries_with_rubrics(folder: Path) -> None:
    made = ({"id": f"q{n}", "question": text, "rubrics": RUBRIC} for n, text in enumerate(QUESTIONS))
    rows(folder / "final.jsonl", *made)


def select(folder: Path) -> list[str]:
    queries_with_rubrics(folder)
    answers = [f"The moon pulls, {'because it is near' * (n % 2)}." for n in range(3)]
    rows(folder / "candidates.jsonl", *({"id": f"q{n}", "answers": answers} for n in range(len(QUESTIONS))))
    files = ["final.jsonl", "--candidates", "candidates.jsonl"]
    return ["select", *files, "--judge", f"vllm/strict@{BASE_URL}", "-o", "run", "--retry", "0", "-j", "1"]


def select_release(folder: Path) -> list[str]:
    """Rows of the RubricHub release, which hold the rubric twice; the answers name their queries by text."""
    criteria = tuple(Criterion(weight=one["points"], requirement=one["criterion"]) for one in RUBRIC)
    write_records(folder / "rurl.jsonl", "rurl", [Record(criteria, text, domain="Tides") for text in QUESTIONS[:2]])
    answers = [f"The moon pulls, {'because it is near' * n}." for n in range(2)]
    rows(folder / "candidates.jsonl", *({"query": text, "answers": answers} for text in QUESTIONS[:2]))
    files = ["rurl.jsonl", "--candidates", "candidates.jsonl"]
    return ["select", *files, "--judge", f"vllm/strict@{BASE_URL}", "-o", "run", "--retry", "0", "-j", "1"]


def select_sampled(folder: Path) -> list[str]:
    queries_with_rubrics(folder)
    models = ["--sample", f"vllm/writer@{BASE_URL}", "-k", "2", "--judge", f"vllm/strict@{BASE_URL}"]
    return ["select", "final.jsonl", *models, "-o", "run", "--retry", "0", "-j", "1"]


def improve(folder: Path) -> list[str]:
    """The first reply on item 0 is unreadable, that on item 1 is cut off."""
    rubric = [
        {"name": "Tides", "requirement": "Explains the tides well.", "weight": 4},
        {"name": "Kind", "requirement": "Is kind."},
    ]
    items = [
        {
            "id": f"a{n}",
            "description": "",
            "submission": f"{'The moon pulls.' if n % 5 < 2 else 'Wind does it.'} Answer {n}"
            f", {'dear' if n % 2 else 'fool'}{', ' + TROUBLE[n] if n < 2 else ''}.",
            "ground_truth": ["MET" if n % 5 < 2 else "UNMET", "MET" if n % 2 else "UNMET"],
        }
        for n in range(60)
    ]
    (folder / "answers.json").write_text(json.dumps({"prompt": "Why tides?", "rubric": rubric, "items": items}))
    (folder / "rubric.json").write_text(json.dumps(rubric))
    models = ["--judge", f"vllm/strict@{BASE_URL}", "--writer", f"vllm/writer@{BASE_URL}", "--weights"]
    second = ["--test-judge", f"vllm/other@{BASE_URL}"]
    return ["improve", "rubric.json", "--labels", "answers.json", *models, *second, "-o", "run", "-j", "1"]


def improving(body: dict[str, Any]) -> str:
    """The writer brings a wording under which the judge is right; under the original it errs on two in five."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if body["model"] == "writer":
        return wordings(BETTER, "Explains the tides in depth.")
    verdict = judge(section(prompt, "criterion"), section(prompt, "submission"))
    return json.dumps({"explanation": f"Read by {body['model']}.", "criterion_status": verdict})


def review(folder: Path) -> list[str]:
    # Each request shows the whole rubric, so every first reply is unreadable.
    rubric = [
        {"name": word, "requirement": f"Uses an appropriate tone ({word})."} for word in ("plain", FIRST_UNREADABLE)
    ]
    (folder / "rubric.json").write_text(json.dumps(rubric))
    words = ["--reviewer", f"vllm/reviewer@{BASE_URL}", "--query", "Why tides?"]
    return ["review", "rubric.json", *words, "-o", "run", "--retry", "0", "-j", "1"]


def reviewing(body: dict[str, Any]) -> str:
    number = re.search(r"Review criterion (\d+) alone", json.dumps(body["messages"]))
    found = {"reason": "Judges differ.", "principle": "clear", "severity": "warning", "quote": "appropriate"}
    asked = [{**found, "criterion": int(number[1]), "requirement": f"Uses no slang, {number[1]}."}] if number else []
    return json.dumps({"findings": asked})


RUNS: dict[str, tuple[Callable[[Path], list[str]], Callable[[dict[str, Any]], Any]]] = {
    "synthesize_basic": (synthesize_basic, sized_replies(600)),
    "synthesize_full": (synthesize_full, Play()),
    "grade": (grade, judged),
    "grade_panel": (grade_panel, judged),
    "select": (select, judged),
    "select_release": (select_release, judged),
    "select_sampled": (select_sampled, judged),
    "improve": (improve, improving),
    "review": (review, reviewing),
}


def write_command(folder: Path, name: str) -> None:
    """Write the run of a command; the folder is the current directory meanwhile."""
    words, says = RUNS[name]
    arguments = words(folder)
    with standing(Troubled(says)) as stand:
        os.environ.update(stand.environment)
        asked = -1
        while asked < len(stand.requests):
            asked = len(stand.requests)
            status = run(arguments)
            print(name, status, len(stand.requests))
    (folder / "command.json").write_text(json.dumps({"arguments": arguments, "status": status}, indent=1) + "\n")


def write_api(folder: Path, name: str) -> None:
    with standing(Troubled(judged)) as stand:
        os.environ.update(stand.environment)
        asked = -1
        while asked < len(stand.requests):
            asked = len(stand.requests)
            found = grade_in_python(folder)
            print(name, len(stand.requests))
    (folder / "reports.json").write_text(json.dumps(found, indent=1) + "\n")


def write_serve(folder: Path, name: str) -> None:
    with standing(Troubled(judged)) as stand:
        asked = -1
        while asked < len(stand.requests):
            asked = len(stand.requests)
            found = serve_and_ask(folder, stand)
            print(name, len(stand.requests))
    (folder / "answers.json").write_text(json.dumps(found, indent=1) + "\n")


def settle(folder: Path) -> None:
    """Leave one file of a ledger, without a write-ahead log."""
    for path in folder.rglob("*.sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def main(target: str, *names: str) -> None:
    here = Path.cwd()
    writers = {**dict.fromkeys(RUNS, write_command), "api": write_api, "serve": write_serve}
    for name in names or writers:
        folder = here / target / name
        folder.mkdir(parents=True)
        os.chdir(folder)
        writers[name](folder, name)
        settle(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
