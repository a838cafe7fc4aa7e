"""The lineage of synthesized criteria: their sources, and the gates' decisions."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

_Row: TypeAlias = Mapping[str, Any]
_PROPOSED = re.compile(r"(p?)([a-z]+)(\d{1,6})")
_OUTCOMES = {
    "criteria": "kept",
    "rejected": "rejected",
    "rewritten": "rewritten",
    "pitfalls_left_out": "pitfall left out",
}

GATE_MEANINGS = {
    "answerable": "The query and one submission are enough to decide the criterion.",
    "licensed": "The query asks for it, in words or by an implicit need.",
    "surface": "It demands no set phrase, heading, count or layout that the query does not ask for.",
    "agreement": "Judges come to the same verdicts. Split: the probability that they do not.",
    "separates": "Some responses meet it and some do not, and better ones more often.",
    "redundant": "No weightier criterion demands the same. Same: the probability that one does.",
    "share": "Criteria that evolved from responses keep to their share of the points.",
}
"""What a criterion must fulfil to pass a gate, with the numbers of the gate."""

# The numbers that decide each gate: name, group and name of the setting with the threshold, and what passes.
_THRESHOLDS = {
    "agreement": (("split", "agreement", "least_split", "<"),),
    "separates": (
        ("separating", "separates", "least_separating", ">="),
        ("reversed", "separates", "least_reversed", "<"),
    ),
    "redundant": (("same", "redundant", "least_same", "<"),),
    "share": (("share", "share", "most", "<="),),
}


def trace_criteria(final: _Row, step: _Row, manifest: _Row) -> list[dict[str, Any]]:
    """Return the criteria of a rubric, each with its source criteria and each gate's decision.

    Args:
        final: a row of `final_full.jsonl`, or of `final.jsonl`, which has only the writer of each criterion.
        step: the row of the last step file for the same query, which has the merged texts; may be empty.
        manifest: the manifest of the run, which has the thresholds.
    """
    if "criteria" not in final:
        return _list_basic_criteria(final, step)
    fates = {fate["id"]: fate for fate in final.get("merge_fates") or ()}
    gates = ((manifest.get("settings") or {}).get("full") or {}).get("gates") or {}
    found = [
        _describe_criterion(criterion, outcome, fates, step, gates)
        for part, outcome in _OUTCOMES.items()
        for criterion in final.get(part) or ()
    ]
    by_id = {criterion["id"]: criterion for criterion in found}
    for criterion in found:
        # A rewritten criterion keeps the proposals of the original.
        if criterion["origin"] == "merged" and criterion["rewritten_from"] in by_id:
            criterion["proposals"] = by_id[criterion["rewritten_from"]]["proposals"]
    return found


def list_dropped(final: _Row, step: _Row) -> list[dict[str, Any]]:
    """List the proposals that were not used: dropped by the merge, or evolved and dropped."""
    fates = [fate for fate in final.get("merge_fates") or () if not fate.get("into")]
    merged = [_find_proposal(fate["id"], fate, step) for fate in fates]
    evolved = [
        {
            "id": criterion["id"],
            "model": "",
            "text": criterion.get("description") or "",
            "fate": "dropped",
            "why": criterion.get("reason"),
        }
        for criterion in final.get("evolved_dropped") or ()
    ]
    return [*merged, *evolved]


def build_verdict_table(final: _Row, step: _Row) -> dict[str, Any]:
    """Build the table of criteria × responses: the number of judges that found each criterion met."""
    slots = [response["slot"] for response in final.get("responses") or ()]
    rows = []
    named = {criterion["id"]: criterion for part in _OUTCOMES for criterion in final.get(part) or ()}
    for field in sorted(
        name for name in step if name.startswith(("merged_verdicts", "verdicts_", "rewritten_verdicts"))
    ):
        value = step.get(field)
        for criterion, votes in (value.get("votes") or {}).items() if isinstance(value, dict) else ():
            columns = list(zip(*votes, strict=False)) if votes else []
            cells = [{"met": column.count(True), "of": len(column) - column.count(None)} for column in columns]
            title = named.get(criterion, {}).get("title") or criterion
            rows.append({"id": criterion, "title": title, "cells": cells})
    return {"responses": slots, "rows": rows}


def _describe_criterion(
    criterion: _Row, outcome: str, fates: Mapping[str, _Row], step: _Row, settings: _Row
) -> dict[str, Any]:
    parents = list(criterion.get("parents") or ())
    proposals = [
        _find_proposal(parent, fates.get(parent) or {}, step) for parent in parents if _PROPOSED.fullmatch(parent)
    ]
    return {
        "id": criterion.get("id") or "",
        "title": criterion.get("title") or "",
        "description": criterion.get("description") or "",
        "weight": criterion.get("weight"),
        "origin": criterion.get("origin") or "",
        "round": criterion.get("round") or 0,
        "models": list(criterion.get("models") or ()),
        "outcome": outcome,
        "reason": criterion.get("reason") or "",
        "rejected_by": criterion.get("gate") or "",
        "rewritten_from": parents[0] if parents and str(criterion.get("id")) == f"{parents[0]}.r" else "",
        "proposals": proposals,
        "pair": _find_pair(criterion, step),
        "check": _parse_json(criterion.get("check")),
        "gates": [_describe_gate(gate, settings) for gate in criterion.get("gates") or ()],
    }


def _find_pair(criterion: _Row, step: _Row) -> list[str]:
    """Return the pair of responses from which an evolved criterion was derived."""
    if criterion.get("origin") != "evolved":
        return []
    pair = step.get(f"round_{criterion.get('round')}")
    return list(pair.get("pair") or ()) if isinstance(pair, dict) else []


def _find_proposal(name: str, fate: _Row, step: _Row) -> dict[str, Any]:
    found = _PROPOSED.fullmatch(name)
    text, model = "", ""
    if found is not None:
        field = f"{'pitfalls' if found[1] else 'rubrics'}_{found[2]}"
        listed, place = step.get(field), int(found[3]) - 1
        if isinstance(listed, list) and 0 <= place < len(listed) and isinstance(listed[place], dict):
            text = str(listed[place].get("description") or "")
        model = str(step.get(f"{field}_model") or "")
    return {
        "id": name,
        "model": model,
        "text": text,
        "fate": fate.get("outcome") or "",
        "why": fate.get("reason") or "",
    }


def _describe_gate(gate: _Row, settings: _Row) -> dict[str, Any]:
    figures = _parse_json(gate.get("figures")) or {}
    return {
        "gate": gate.get("gate") or "",
        "outcome": gate.get("outcome") or "",
        "reason": gate.get("reason") or "",
        "figures": figures,
        "told": "; ".join(_format_measures(str(gate.get("gate")), figures, settings)),
    }


def _format_measures(gate: str, figures: _Row, settings: _Row) -> Iterator[str]:
    """Yield the numbers of a gate, with thresholds for those that decide."""
    decisive = {name: (group, setting, sign) for name, group, setting, sign in _THRESHOLDS.get(gate, ())}
    for name, value in figures.items():
        if value is None or value == "":
            continue
        shown = f"{value:.2f}" if isinstance(value, float) else str(value)
        group, setting, sign = decisive.get(name, ("", "", ""))
        limit = (settings.get(group) or {}).get(setting)
        threshold = "" if limit is None else f", passes {sign} {limit:g}"
        yield f"{name.replace('_', ' ')} {shown}{threshold}"


def _parse_json(value: Any) -> Any:
    """Return a value that final files contain as a JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _list_basic_criteria(row: _Row, step: _Row) -> list[dict[str, Any]]:
    """List the criteria of the basic method, which records only the writer of each part."""
    parts = [("merged", step.get("merged_rubrics"), str(step.get("merged_rubrics_model") or ""))]
    parts.append(("evolved", step.get("augmented_rubrics"), str(step.get("augmented_rubrics_model") or "")))
    origins = {
        str(criterion.get("description") or "").strip(): (origin, model, str(criterion.get("title") or ""))
        for origin, listed, model in parts
        for criterion in listed or ()
        if isinstance(criterion, dict)
    }
    made = []
    for number, rubric in enumerate(row.get("rubrics") or (), start=1):
        words = str(rubric.get("criterion") or "")
        origin, model, title = origins.get(words.strip(), ("", "", ""))
        known = {"id": str(number), "title": title, "description": words, "weight": rubric.get("points")}
        known |= {"origin": origin, "models": filter(None, [model])}
        made.append(_describe_criterion(known, "kept", {}, {}, {}))
    return made
