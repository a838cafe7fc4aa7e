"""One item: its texts next to its verdicts, and a page with the calls behind them."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autorubric.charts.html import cut_part
from autorubric.core.criterion import Criterion
from autorubric.errors import AutorubricError, pluralize
from autorubric.graders.judge import ShownOptions, as_judged, order_options
from autorubric.llm.thinking import split_reasoning
from autorubric.prompts.judging import ask_for_own_numbers, package_judge_prompts
from autorubric.runs.cells import list_entries, list_votes
from autorubric.view import figures
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.pages.items_page import find_neighbours
from autorubric.view.sources import Source

MOST_TEXT = 16_000
"""Characters of one text on a page; the rest is a click away."""


def build_item_page(source: Source, query: PageQuery, item: int) -> Page:
    """Build the page of an item: query, submission, reference, and each criterion with verdict, reason and votes."""
    with source.reading() as connection:
        row = connection.execute("SELECT start, size FROM items WHERE item = ?", (item,)).fetchone()
        damage = connection.execute("SELECT line, start, size FROM damaged WHERE item = ?", (item,)).fetchone()
        unread = [line for (line,) in connection.execute("SELECT line FROM damaged WHERE item IS NULL LIMIT 5")]
        around = find_neighbours(source, connection, query, item)
        labels = figures.read_item_labels(connection, item)
        record = None if row is None else _read_record(source, *row)
        stored = {**_read_stored_item(source, item), **labels}
        entries = list_entries(record, stored)
        _number_criteria(connection, entries)
    if row is None and damage is None:
        lines = f", or its line in items.jsonl is damaged (line {', '.join(map(str, unread))})" if unread else ""
        raise PageRefusal(404, f"item {item} has not been graded in this run{lines}")
    focus = query.read_whole("focus")
    start, following = query.read_part("criteria", len(entries))
    quotes = [] if focus is None or not 0 < focus <= len(entries) else entries[focus - 1]["quotes"]
    report = (record or {}).get("report") or {}
    data = {
        "item": item,
        "id": str(stored.get("id") or ""),
        "description": str(stored.get("description") or ""),
        "texts": list(_cut_texts(stored, query, quotes)),
        "score": report.get("score") if record and record.get("error") is None else None,
        "judge_scores": report.get("judge_scores") or {},
        "seconds": (record or {}).get("duration_seconds"),
        "error": (record or {}).get("error"),
        "flags": list(report.get("flags") or ()),
        "criteria": entries[start:following],
        "criteria_count": len(entries),
        "criteria_from": start,
        "criteria_next": following,
        "focus": focus,
        "unfound": [quote["text"] for quote in quotes if quote.get("start") is None],
        "damaged_line": None if damage is None or row is not None else damage["line"],
        **around,
    }
    return Page("item", f"Item {data['id'] or item} of {source.name}", data, [_flatten(entry) for entry in entries])


def _number_criteria(connection: sqlite3.Connection, entries: Sequence[dict[str, Any]]) -> None:
    """Set the number that each criterion of an item has in the run; other items' criteria may share its name."""
    wanted = json.dumps([entry["requirement"] for entry in entries])
    query = """SELECT name, requirement, min(criterion) FROM criteria
        WHERE requirement IN (SELECT value FROM json_each(?)) GROUP BY name, requirement"""
    numbers = {(name, words): number for name, words, number in connection.execute(query, (wanted,))}
    for entry in entries:
        entry["criterion"] = numbers.get((entry["name"], entry["requirement"]))


def build_calls_page(source: Source, query: PageQuery, item: int) -> Page:
    """Build the page of the calls behind one verdict: the rebuilt prompt, and the raw replies in the ledger."""
    number = query.read_whole("focus", 1) or 1
    with source.reading() as connection:
        row = connection.execute("SELECT start, size, id FROM items WHERE item = ?", (item,)).fetchone()
    if row is None:
        raise PageRefusal(404, f"item {item} has not been graded in this run")
    record = _read_record(source, row["start"], row["size"])
    found = list((record["report"] or {}).get("criterion_reports") or ())
    if not 0 < number <= len(found):
        raise PageRefusal(
            404, f"item {item} has {pluralize(len(found), 'criterion')}; criterion {number} does not exist"
        )
    entry = found[number - 1]
    replies = figures.read_replies(source, row["id"] or str(item))
    reasons = [json.dumps(text, ensure_ascii=False)[1:-1] for text in _list_reasons(entry)]
    for call in replies["calls"]:
        call["own"] = any(reason in (call["reply"] or "") for reason in reasons)
    replies["calls"].sort(key=lambda call: not call["own"])
    data = {
        "item": item,
        "id": row["id"],
        "criterion": number,
        "name": str(entry.get("criterion", entry).get("name") or f"C{number}"),
        "prompt": rebuild_prompt(source, item, number - 1),
        **replies,
    }
    return Page("calls", f"Calls on {row['id'] or item}: {data['name']}", data, replies["calls"])


def _read_record(source: Source, start: int, size: int) -> dict[str, Any]:
    try:
        with source.items.open("rb") as file:
            file.seek(start)
            record: dict[str, Any] = json.loads(file.read(size))
    except FileNotFoundError:
        raise PageRefusal(410, f"{source.name}: the run directory was deleted") from None
    except ValueError:
        raise PageRefusal(503, "the file of the items was just replaced; reload the page") from None
    return record


def _read_stored_item(source: Source, item: int) -> Mapping[str, Any]:
    """Return the item in the dataset, with the fields that items share filled in."""
    dataset = source.open_dataset()
    if dataset is None or not 0 <= item < len(dataset):
        return {}
    record = dataset.read_item(item)
    shared = {name: dataset.find_field(record, name) for name in ("prompt", "reference_submission")}
    return {**record, **shared, "criteria": dataset.list_criteria(record)}


def _cut_texts(
    stored: Mapping[str, Any], query: PageQuery, quotes: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    for name, key in (("Query", "prompt"), ("Submission", "submission"), ("Reference", "reference_submission")):
        text = stored.get(key)
        if not isinstance(text, str) or not text:
            continue
        start = query.read_whole(key, 0) or 0
        if key == "submission" and quotes and not query.read_whole(key):
            first = min((quote["start"] for quote in quotes if quote.get("start") is not None), default=0)
            start = first // MOST_TEXT * MOST_TEXT
        part, parts = cut_part(text, start, MOST_TEXT)
        spans = [(q["start"] - start, q["end"] - start) for q in quotes if q.get("start") is not None]
        yield {
            "name": name,
            "key": key,
            "text": part,
            "start": start,
            "characters": len(text),
            "parts": [] if len(parts) < 2 else [part for part, _ in parts][:200],
            "marks": spans if key == "submission" else [],
        }


def _list_reasons(found: Mapping[str, Any]) -> Iterator[str]:
    for vote in list_votes(found):
        for one in (vote, *(vote.get("repeats") or ())):
            if one.get("reason"):
                yield one["reason"]


def _flatten(entry: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("votes", "quotes", "flags")
    row = {name: value for name, value in entry.items() if name not in left_out}
    return row | {f"verdict of {vote['judge']}": vote["verdict"] for vote in entry["votes"]}


def rebuild_prompt(source: Source, item: int, place: int) -> dict[str, Any]:
    """Rebuild the messages that a judge was sent about one criterion, as far as possible.

    `notes` say where they may differ: a template of another version or a custom one, examples, a whole rubric.
    """
    config = source.manifest.get("grader_config") or {}
    dataset = source.open_dataset()
    if dataset is None:
        return {"messages": [], "notes": ["dataset.json is missing, so the prompt cannot be rebuilt"]}
    prompts = package_judge_prompts()
    try:
        alone = dataset.extract_item(item)
        rubric = alone.get_item_rubric(0)
        submission = split_reasoning(alone[0].submission, config.get("reasoning", "drop"))[1]
        criterion = rubric.rubric[place]
        if criterion.check is not None:
            return {"messages": [], "notes": ["a check decides this criterion, so no judge was asked"]}
        kind = "binary" if criterion.options is None else "choice"
        values: dict[str, Any] = {
            "query": alone.get_item_prompt(0),
            "reference": alone.get_item_reference_submission(0),
            "guidelines": rubric.guidelines,
            "thinking": None,
            "submission": submission,
            "evidence": bool(config.get("evidence")),
        }
        own: dict[str, Any] = {
            "requirement": criterion.requirement,
            "pitfall": criterion.weight < 0,
            "examples": [],
        }
        template = prompts.binary
        if criterion.options is not None:
            shown = _order_options(criterion, config, submission, place)
            own["options"] = shown.text
            template = ask_for_own_numbers(prompts.choice) if shown.scale else prompts.choice
        turns = template.begin(**values).finish(**own)
    except (AutorubricError, IndexError, ValueError) as error:
        return {"messages": [], "notes": [f"the prompt cannot be rebuilt: {error}"]}
    notes = list(_explain_differences(config, kind))
    return {"messages": [{"role": role, "content": text} for role, text in turns], "notes": notes}


def _order_options(criterion: Criterion, config: dict[str, Any], submission: str, place: int) -> ShownOptions:
    """Return the options as the first judge saw them."""
    if config.get("auto_na_option", True):
        criterion = as_judged(criterion)
    if not config.get("shuffle_options", True):
        return ShownOptions(criterion, tuple(range(len(criterion.options or ()))), shuffled=False)
    judge = next(
        (judge.get("judge_id") for judge in config.get("judges") or () if isinstance(judge, dict)), "default"
    )
    seed = config["seed"] if isinstance(config.get("seed"), int) else 0
    return ShownOptions(criterion, order_options(criterion, seed, submission, place, str(judge)))


def _explain_differences(config: dict[str, Any], kind: str) -> list[str]:
    notes = []
    recorded = (config.get("templates") or {}).get(kind)
    now = package_judge_prompts().fingerprints()[kind]
    if recorded is None:
        notes.append("the run did not record its templates, so the prompt may have been another one")
    elif recorded != now:
        notes.append(
            f"the run used template {recorded} and this version has {now}: the text below differs from what was sent"
        )
    if config.get("few_shot"):
        notes.append("the run showed the judge labelled examples, which are left out here")
    if config.get("llm_calls") == "per_item":
        notes.append("the run asked about the whole rubric in one call; this is the prompt on the criterion alone")
    if kind == "choice" and config.get("shuffle_options", True):
        notes.append("options are in the order that the first judge saw")
    return notes
