"""Synthesized rubrics, one of them with the lineage of its criteria, and the versions of rubrics that evolved."""

from collections.abc import Iterator, Mapping
from typing import Any

from autorubric.core.criterion import name_criteria
from autorubric.errors import InputError
from autorubric.rows.record import Prompt, as_text, as_turns, read_question
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import Source

_CHANGES = ("added", "returned", "retired")
_MOST_TEXT = 6_000


def build_rubrics_page(source: Source, query: PageQuery) -> Page:
    """Return a line for each rubric, fifty a page."""
    lines = source.open_rubrics()
    start, following = query.read_part("after", len(lines))
    rows = [_describe_rubric(number, row) for number, row in lines.read_rows(start, query.rows)]
    data = {"rubrics": rows, "count": len(lines), "next": following, "file": lines.path.name}
    return Page("rubrics", f"Rubrics of {source.name}", data, rows)


def build_rubric_page(source: Source, query: PageQuery, rubric: int) -> Page:
    """Return one rubric: the lineage of each criterion, and the verdicts on the responses."""
    from autorubric.synthesis.lineage import GATE_MEANINGS, build_verdict_table, list_dropped, trace_criteria
    from autorubric.synthesis.stages import STEP_FILES
    from autorubric.synthesis.steps import find_same

    lines = source.open_rubrics()
    row = lines.read_row(rubric)
    steps = [source.directory / name for name in reversed(STEP_FILES)]
    rows = (find_same(path, row) for path in steps if path.is_file())
    step: dict[str, Any] = next(filter(None, rows), {})
    asked = _read_question(row)
    found = trace_criteria(row, step, source.manifest)
    decided = {gate["gate"] for criterion in found for gate in criterion["gates"]}
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
        "gates": {gate: words for gate, words in GATE_MEANINGS.items() if gate in decided},
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


def _describe_rubric(number: int, row: Mapping[str, Any] | None) -> dict[str, Any]:
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


def _read_question(row: Mapping[str, Any]) -> Prompt:
    """Return the query of a rubric."""
    return read_question(str(row.get("question") or ""), "question")


def _describe_response(response: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    text = str(step.get(f"response_{response.get('slot')}") or "")
    return {
        "slot": response.get("slot"),
        "model": response.get("model") or "",
        "score": response.get("score"),
        "text": text[:_MOST_TEXT],
        "characters": len(text),
    }


def build_versions_page(source: Source, query: PageQuery) -> Page:
    """Return the versions of `evolve` or `serve --evolve`, 50 queries a page."""
    from autorubric.training.evolution.versions import VERSIONS_FILE, read_log

    if not source.has_versions:
        raise PageRefusal(404, f"{source.name} has no {VERSIONS_FILE}", "Pass a run of evolve or of serve --evolve.")
    try:
        lineages = list(read_log(source.directory / VERSIONS_FILE).lineages.values())
    except InputError as error:
        raise PageRefusal(422, str(error)) from None
    start, following = query.read_part("after", len(lineages))
    shown = [_describe_lineage(number, lineage) for number, lineage in enumerate(lineages)][start:following]
    rows = [
        {"rubric": lineage["rubric"], "query": lineage["query"], **version}
        for lineage in shown
        for version in lineage["versions"]
    ]
    changed = sum(len(lineage.versions) > 1 for lineage in lineages)
    data = {"rubrics": shown, "count": len(lineages), "changed": changed, "next": following}
    return Page("versions", f"Versions in {source.name}", data, rows)


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
            "requirements": {str(one.name): one.requirement for one in (*version.rubric, *version.inactive)},
            **{name: list(change.get(name, ())) for name in _CHANGES},
        }
