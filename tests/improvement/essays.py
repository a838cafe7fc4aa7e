"""Labelled answers, and an endpoint whose judge and writer follow a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.testing import LoopbackEndpoint

OLD = "Explains the tides well."
BETTER = "Names the pull of the moon."
RUBRIC = Rubric([Criterion(name="Tides", weight=4, requirement=OLD), Criterion(name="Kind", requirement="Is kind.")])

Judge = Callable[[str, str], str]
"""From requirement and submission to MET, UNMET or CANNOT_ASSESS."""


def answers(count: int, *, labels: Sequence[str] | None = None) -> RubricDataset:
    """Two in five name the moon, which is what people reward; one in two is kind."""
    made = RubricDataset("How do tides arise?", RUBRIC, name="tides")
    for number in range(count):
        moon = number % 5 < 2
        truth = ["MET" if moon else "UNMET", "MET" if number % 2 else "UNMET"] if labels is None else list(labels)
        text = (
            f"{'The moon pulls.' if moon else 'Wind does it.'} Answer {number}, {'dear' if number % 2 else 'fool'}."
        )
        made.add_item(text, "", truth, id=f"answer-{number}")
    return made


def judge(requirement: str, submission: str) -> str:
    """Right about kindness; right about tides under the better wording, wrong on two in five under the original."""
    if "kind" in requirement:
        return "MET" if "dear" in submission else "UNMET"
    right = "moon" in submission
    number = int(re.search(r"Answer (\d+)", submission)[1])  # type: ignore[index]
    return "MET" if right ^ (BETTER not in requirement and number % 5 in (1, 3)) else "UNMET"


def wordings(*texts: str, kind: str = "reword", **more: str) -> str:
    blank = {"second": "", "check": "", "parameters": "", "reason": "It is vague.", "kind": kind, **more}
    return json.dumps({"alternatives": [{**blank, "requirement": text} for text in texts]})


def section(prompt: str, name: str) -> str:
    found = re.findall(rf"<{name}-(\w+)>\n(.*?)\n</{name}-\1>", prompt, re.DOTALL)
    return found[-1][1] if found else ""


def endpoint(said: Judge = judge, written: str | Callable[[str], str] = "", **more: Any) -> LoopbackEndpoint:
    """An endpoint whose models `writer…` say `written`, and whose other models judge."""

    def reply(body: dict[str, Any]) -> str:
        prompt = "\n".join(message["content"] for message in body["messages"])
        if body["model"].startswith("writer"):
            return written(prompt) if callable(written) else written
        verdict = said(section(prompt, "criterion"), section(prompt, "submission"))
        return json.dumps({"explanation": f"It is {verdict}.", "criterion_status": verdict})

    return LoopbackEndpoint(replier=reply, **more)


def files(folder: Path, dataset: RubricDataset, *, only: str | None = None) -> list[str]:
    """The words of a command on this dataset's rubric, or on `only` one of its criteria, without its models."""
    folder.mkdir(exist_ok=True, parents=True)
    rubric, labels = folder / "rubric.json", folder / "labels.json"
    assert dataset.rubric is not None
    dataset.rubric.to_file(rubric)
    dataset.to_file(labels)
    chosen = ["--criterion", only] if only else []
    return ["improve", str(rubric), *chosen, "--labels", str(labels), "-o", str(folder / "out")]


def models(url: str) -> list[str]:
    return ["--judge", f"judge@{url}", "--writer", f"writer@{url}"]


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "improvement.json").read_text())
    return found
