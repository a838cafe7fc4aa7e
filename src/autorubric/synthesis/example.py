"""A row as it may look when its later stages are built, for what has to be known before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autorubric.synthesis.plan import Inquiry, Plan
from autorubric.synthesis.queries import Query

REPLY_TOKENS = {
    "reference": 750,
    "response": 750,
    "rubric": 1050,
    "pitfall": 500,
    "merge": 1500,
    "augment": 350,
    "judge": 900,
    "licence": 900,
    "rewrite": 250,
}
"""Assumed length of a reply by role, in tokens, where a directory has no replies yet to measure."""

MERGED, EVOLVED, DISPUTED = 12, 3, 1
"""How many criteria the example row has of each kind; calls depend on that only with one call a criterion."""


def example_fields(query: Query, plan: Plan, lengths: Mapping[str, float] = REPLY_TOKENS) -> dict[str, Any]:
    """A query's row with texts of the expected lengths, on which every condition of a plan holds.

    Example:
        >>> from autorubric.prompts import package_prompts
        >>> from autorubric.synthesis.stages import basic_plan
        >>> row = example_fields(Query(0, "q", {"question": "Why?"}), basic_plan(package_prompts()))
        >>> row["question"], len(row["merged_rubrics"])
        ('Why?', 30)
    """

    def text(role: str, mark: str = "") -> str:
        return f"{mark} " + "word " * int(lengths[role] * 4 / 5)

    def items(role: str) -> list[dict[str, Any]]:
        count = max(1, int(lengths[role] / 50))
        return [{"title": "Title of it", "description": f"{n} " + "word " * 30, "weight": 5} for n in range(count)]

    fields: dict[str, Any] = {**query.fields, "question": query.fields["question"], "reference": text("reference")}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        fields.setdefault(f"response_{letter}", text("response", letter))
        fields[f"own_{letter}"] = text("reference", letter)
        fields[f"rubrics_{letter}"] = items("rubric")
        fields[f"pitfalls_{letter}"] = [item | {"weight": -5} for item in items("pitfall")]
    fields["merged_rubrics"] = items("merge")
    return fields | _graded(plan)


def _graded(plan: Plan) -> dict[str, Any]:
    """What only the full method has: a graded pool, a round that adds criteria, a criterion judges split on."""
    stages = {stage.name: stage for stage in plan.stages}
    if "merged_verdicts" not in stages:
        return {}
    verdicts = stages["merged_verdicts"]
    slots = [name.removeprefix("response_") for name in verdicts.reads if name.startswith("response_")]
    judges = len(verdicts.slots)
    held = "".join(stage.name for stage in plan.stages if isinstance(stage, Inquiry))
    made: dict[str, list[dict[str, Any]]] = {"merge": _criteria("m", MERGED)}
    for number in range(1, 5):
        if f"round_{number}" in held:
            made[f"round_{number}"] = _criteria(f"e{number}.", EVOLVED, number)
    fields: dict[str, Any] = {"pool": {"slots": slots, "left_out": []}}
    for name, criteria in made.items():
        pair = {"pair": slots[:2]} if name != "merge" else {}
        fields[name] = {"criteria": criteria, "fates": [], "dropped": []} | pair
        field = "merged_verdicts" if name == "merge" else f"verdicts_{name.removeprefix('round_')}"
        fields[field] = {"votes": {one["id"]: _votes(judges, len(slots)) for one in criteria}, "reasons": {}}
    # The judges split on the first merged criterion, response by response.
    split = [[judge % 2 == 0] * len(slots) for judge in range(judges)]
    fields["merged_verdicts"]["votes"]["m1"] = split
    licences = {one["id"]: {"need": "implicit"} for criteria in made.values() for one in criteria}
    fields |= {f"licences_{number}": licences for number in range(5)}
    old = made["merge"][0]
    rewritten = old | {"id": "m1.r", "parents": ["m1"], "rewritten": True}
    return fields | {"rewriting": {"criteria": [rewritten]}}


def _votes(judges: int, responses: int) -> list[list[bool]]:
    """The better half of the responses meets it, by all judges."""
    return [[place < (responses + 1) // 2 for place in range(responses)]] * judges


def _criteria(prefix: str, count: int, number: int = 0) -> list[dict[str, Any]]:
    """Criteria without a word in common, so that none repeats another."""
    return [
        {
            "id": f"{prefix}{n}",
            "title": "Title of it",
            "description": " ".join(f"{prefix}{n}w{word}" for word in range(25)).replace(".", "x"),
            "weight": 9,
            "origin": "evolved" if number else "merged",
            "round": number,
            "models": [],
            "parents": [],
        }
        for n in range(1, count + 1)
    ]
