"""Synthesized rubrics, one of them with the lineage of its criteria, and the versions of rubrics that evolved."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from autorubric.core.criterion import name_criteria
from autorubric.errors import InputError
from autorubric.rows.record import Prompt, as_text, as_turns, read_question
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import Source

_Row: TypeAlias = Mapping[str, Any]
_PROPOSED = re.compile(r"(p?)([a-z]+)(\d{1,6})")
_OUTCOMES = {
    "criteria": "kept",
    "rejected": "rejected",
    "rewritten": "rewritten",
    "pitfalls_left_out": "pitfall left out",
}

# The figures that decide each gate: name, group and name of the setting with the threshold, and what passes.
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
    """The criteria of a rubric, each with the criteria it was made from and each gate's decision.

    Args:
        final: a row of `final_full.jsonl`.
        step: the row of the last step file on the same query, which has the texts that were merged; may be empty.
        manifest: of the run, which has the thresholds.
    """
    fates = {fate["id"]: fate for fate in final.get("merge_fates") or ()}
    gates = ((manifest.get("settings") or {}).get("full") or {}).get("gates") or {}
    found = [
        _describe_criterion(criterion, outcome, fates, step, gates)
        for part, outcome in _OUTCOMES.items()
        for criterion in final.get(part) or ()
    ]
    by_id = {criterion["id"]: criterion for criterion in found}
    for criterion in found:
        # A rewritten wording has the proposals of the original.
        if criterion["origin"] == "merged" and criterion["rewritten_from"] in by_id:
            criterion["proposals"] = by_id[criterion["rewritten_from"]]["proposals"]
    return found


def list_dropped(final: _Row, step: _Row) -> list[dict[str, Any]]:
    """Proposals that went into no criterion: dropped by the merge, or evolved and dropped."""
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
    """Verdicts of criterion × response: how many judges found each criterion met by each response."""
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
    """The responses that an evolved criterion was drawn from."""
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
    """The figures of a gate; those that decide have their thresholds."""
    decisive = {name: (group, setting, sign) for name, group, setting, sign in _THRESHOLDS.get(gate, ())}
    for name, value in figures.items():
        if value is None or value == "":
            continue
        shown = f"{value:.2f}" if isinstance(value, float) else str(value)
        threshold = None
        if name in decisive:
            group, setting, sign = decisive[name]
            limit = (settings.get(group) or {}).get(setting)
            threshold = None if limit is None else f", passes {sign} {limit:g}"
        yield f"{name.replace('_', ' ')} {shown}{threshold or ''}"


def _parse_json(value: Any) -> Any:
    """A value that final files contain as a JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


_CHANGES = ("added", "returned", "retired")
_MOST_TEXT = 6_000


def build_rubrics_page(source: Source, query: PageQuery) -> Page:
    """A line for each rubric, fifty a page."""
    lines = source.open_rubrics()
    start, following = query.read_part("after", len(lines))
    rows = [_describe_rubric(number, row) for number, row in lines.read_rows(start, query.rows)]
    data = {"rubrics": rows, "count": len(lines), "next": following, "file": lines.path.name}
    return Page("rubrics", f"Rubrics of {source.name}", data, rows)


def build_rubric_page(source: Source, query: PageQuery, rubric: int) -> Page:
    """One rubric: the lineage of each criterion, and the verdicts on the responses."""
    from autorubric.synthesis.stages import STEP_FILES
    from autorubric.synthesis.steps import find_same

    lines = source.open_rubrics()
    row = lines.read_row(rubric)
    steps = [source.directory / name for name in reversed(STEP_FILES)]
    rows = (find_same(path, row) for path in steps if path.is_file())
    step: dict[str, Any] = next(filter(None, rows), {})
    asked = _read_question(row)
    found = trace_criteria(row, step, source.manifest) if "criteria" in row else _list_basic_criteria(row, step)
    start, following = query.read_part("criteria", len(found))
    data = {
        "rubric": rubric,
        "id": str(row.get("id") or ""),
        "question": as_text(asked),
        "turns": [] if isinstance(asked, str) else as_turns(asked),
        "domain": str(row.get("domain") or ""),
        "criteria": found[start:following],
        "criteria_count": len(found),
        "criteria_next": following,
        "dropped": list_dropped(row, step),
        "verdicts": build_verdict_table(row, step),
        "responses": [_describe_response(response, step) for response in row.get("responses") or ()],
        "quality": {name: value for name, value in (row.get("quality") or {}).items() if value is not None},
        "previous": rubric - 1 if rubric else None,
        "next": rubric + 1 if rubric + 1 < len(lines) else None,
        "has_steps": bool(step),
    }
    flat = [
        {key: value for key, value in criterion.items() if not isinstance(value, list | dict)} for criterion in found
    ]
    return Page("rubric", f"Rubric {data['id'] or rubric + 1} of {source.name}", data, flat)


def _describe_rubric(number: int, row: _Row | None) -> dict[str, Any]:
    if row is None:
        return {"rubric": number, "id": "", "question": "(damaged line)", "criteria": 0, "points": 0, "rejected": 0}
    criteria = list(row.get("criteria") or row.get("rubrics") or ())
    points = [criterion.get("weight", criterion.get("points")) or 0 for criterion in criteria]
    return {
        "rubric": number,
        "id": str(row.get("id") or ""),
        "question": as_text(_read_question(row))[:200],
        "criteria": len(criteria),
        "points": sum(points),
        "rejected": len(row.get("rejected") or ()),
    }


def _read_question(row: _Row) -> Prompt:
    """The query of a rubric."""
    return read_question(str(row.get("question") or ""), "question")


def _list_basic_criteria(row: _Row, step: _Row) -> list[dict[str, Any]]:
    """The criteria of the basic method, which records only the writer of each part."""
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


def _describe_response(response: _Row, step: _Row) -> dict[str, Any]:
    text = str(step.get(f"response_{response.get('slot')}") or "")
    return {
        "slot": response.get("slot"),
        "model": response.get("model") or "",
        "score": response.get("score"),
        "text": text[:_MOST_TEXT],
        "characters": len(text),
    }


def build_versions_page(source: Source, query: PageQuery) -> Page:
    """The versions of `evolve` or `serve --evolve`, 50 queries a page."""
    from autorubric.training.evolution.versions import VERSIONS_FILE, read_log

    path = source.directory / VERSIONS_FILE
    if not path.is_file():
        raise PageRefusal(404, f"{source.name} has no {VERSIONS_FILE}", "Pass a run of evolve or of serve --evolve.")
    try:
        lineages = list(read_log(path).lineages.values())
    except InputError as error:
        raise PageRefusal(500, str(error)) from None
    start, following = query.read_part("after", len(lineages))
    shown = [_describe_lineage(number, lineage) for number, lineage in enumerate(lineages)][start:following]
    rows = [
        {"rubric": lineage["rubric"], "query": lineage["query"], **_flatten_version(version)}
        for lineage in shown
        for version in lineage["versions"]
    ]
    changed = sum(len(lineage.versions) > 1 for lineage in lineages)
    data = {"rubrics": shown, "count": len(lineages), "changed": changed, "next": following}
    return Page("versions", f"Versions in {source.name}", data, rows)


def _flatten_version(version: dict[str, Any]) -> dict[str, Any]:
    return {name: "; ".join(value) if isinstance(value, list) else value for name, value in version.items()}


def _describe_lineage(number: int, lineage: Any) -> dict[str, Any]:
    asked = lineage.newest.query
    return {
        "rubric": number,
        "query": asked if isinstance(asked, str) else "" if asked is None else str(asked),
        "versions": list(_list_versions(lineage)),
        "rejected": [dict(one) for change in lineage.changes for one in change["rejected"]],
        "notes": [change["note"] for change in lineage.changes if change["note"]],
    }


def _list_versions(lineage: Any) -> Iterator[dict[str, Any]]:
    made_by = {change["version"]: change for change in lineage.changes if any(map(change.get, _CHANGES))}
    for version in lineage.versions:
        change = made_by.get(version.number, {})
        yield {
            "version": version.number,
            "from_step": version.from_step,
            "criteria": name_criteria(list(version.rubric)),
            **{name: list(change.get(name, ())) for name in _CHANGES},
        }
