"""`autorubric.improve` on two real wordings of one rubric, with recorded verdicts behind an endpoint on loopback."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from autorubric import RubricDataset, improve
from autorubric.testing import LoopbackEndpoint
from benchmarks.record import Record
from benchmarks.recorded_verdicts import Recorded

FULL = "Meets the criteria for scoring of its question, read with the examples of right and wrong answers."


class Endpoint:
    """Replies of models to the judge's prompt: the recorded verdict on this answer under this wording.

    The n-th request of one kind gets the n-th recorded verdict.
    """

    def __init__(self, wordings: tuple[Recorded, Recorded], kept: list[int]) -> None:
        self.wordings = wordings
        self.places = {(wordings[0].questions[n], wordings[0].texts[n].strip()): n for n in kept}
        self.asked = Counter[tuple[str, int, bool]]()

    def __call__(self, body: dict[str, Any]) -> str:
        prompt = "\n".join(message["content"] for message in body["messages"])
        place = self.places[_section(prompt, "request"), _section(prompt, "submission").strip()]
        full = _section(prompt, "criterion") == FULL
        key = body["model"], place, full
        said = self.wordings[full].judges[body["model"]][place]
        verdict = said[self.asked[key] % len(said)]
        self.asked[key] += 1
        if verdict is None:
            return "There is no verdict."
        return json.dumps({"explanation": "Recorded.", "criterion_status": "MET" if verdict else "UNMET"})


def _section(prompt: str, name: str) -> str:
    found = re.findall(rf"<{name}-(\w+)>\n(.*?)\n</{name}-\1>", prompt, re.DOTALL)
    return found[-1][1] if found else ""


def _first_of_equal(data: Recorded) -> list[int]:
    """The items without those whose question and answer came before."""
    seen: dict[tuple[str, str], int] = {}
    for place, key in enumerate(zip(data.questions, (text.strip() for text in data.texts), strict=True)):
        seen.setdefault(key, place)
    return list(seen.values())


def _labelled(data: Recorded, kept: list[int]) -> RubricDataset:
    whole = data.dataset()
    return RubricDataset(prompt=None, rubric=data.rubric, items=[whole[n] for n in kept], name=data.title)


def improvements(record: Record, wordings: tuple[Recorded, Recorded], folder: Path, repetitions: int) -> None:
    """How often `improve` accepts the wording with examples in place of the one without, over several splits."""
    old = wordings[0]
    kept = _first_of_equal(old)
    proposals = folder / "proposals.json"
    proposals.write_text(json.dumps([{"criterion": "Criterion", "requirement": FULL, "reason": "Adds examples."}]))
    rows: list[list[object]] = []
    for name in old.judges:
        tests, calls = [], 0
        for seed in range(repetitions):
            with LoopbackEndpoint(replier=Endpoint(wordings, kept)).in_thread() as near:
                out = folder / f"improve-{len(rows)}-{seed}"
                result = improve(
                    old.rubric, labels=_labelled(old, kept), proposals=proposals, group_by="item", seed=seed,
                    judge=f"{name}@{near.base_url}", out=out, used=out.with_suffix(".used.jsonl"),
                )  # fmt: skip
                calls += near.counts.requests
            tests += result.record["tests"]
        accepted = [one for one in tests if one["accepted"]]
        gains = [one["after"] - one["before"] for one in tests]
        rows.append(
            [
                name,
                len(kept),
                f"{len(accepted)} of {repetitions}",
                f"{_share(old, name, kept):.3f}",
                f"{_share(wordings[1], name, kept):.3f}",
                f"{min(gains):+.3f} to {max(gains):+.3f}" if gains else "not tested",
                round(calls / repetitions),
            ]
        )
    header = "judge|answers|accepted|agreement under criteria, all answers|under full, all answers"
    record.table("improve", [*header.split("|"), "gain on the test sets", "calls per run"], rows)


def _share(data: Recorded, name: str, kept: list[int]) -> float:
    right = [data.judges[name][n][0] == data.labels[n] for n in kept]
    return float(sum(right) / len(right))
