"""The final files: `final`, the seed's rows, and in the full profile `final_full` with provenance and evidence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.errors import format_first, shorten
from autorubric.files import atomic_writer, parquet_writer
from autorubric.files.parquet import build_final_schema
from autorubric.rows.dialogues import read_tools
from autorubric.synthesis.items import cap_criteria, dedup_final_rubrics, read_items
from autorubric.synthesis.query_file import Query, find_messages
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES
from autorubric.synthesis.steps import format_asked, format_question, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from autorubric.formats.format import Record

Export: TypeAlias = dict[str, Any]
"""The export of a row: its `name`, the names of `remarks` on it, and its `rows` by file, if any."""

FINAL_FILES = ("final.jsonl", "final.parquet")
FULL_FILES = ("final_full.jsonl", "final_full.parquet")
RELEASE_FOLDER = "rubrichub"

# The fields of a criterion in `final_full`, in addition to its check and gates.
_CRITERION = ("id", "title", "description", "weight", "origin", "round", "models", "parents")
# The lists of criteria in `final_full`, and the fields of `gated` that they come from.
_LISTS = {"criteria": "criteria", "rejected": "rejected", "rewritten": "rewritten", "pitfalls_left_out": "left_out"}
_ABILITIES = {
    "medical": "Medical",
    "science": "Science",
    "writing": "Writing",
    "instruction_following": "Instruction_Following",
}

_TURNS = 64
"""Turns of the event loop; far more than are needed to open the first connection and send the first call."""

_MOST_NAMED = 3
_TOOLS = "tools"
_POINTLESS = "no criterion with positive points; left out of the final files"


@dataclass(frozen=True, slots=True)
class Exported:
    """The counts and remarks of an export.

    Attributes:
        rows: rows in the final files.
        criteria: criteria in these rows.
        remarks: unusual properties of the rubrics, a sentence each.
    """

    rows: int
    criteria: int
    remarks: tuple[str, ...] = ()


def find_other_queries(directory: Path, queries: Iterable[Query]) -> list[str]:
    """Return a sentence if the input has none of the queries in a directory; else an empty list.

    A run may add, remove and edit queries; only what has changed is requested again.
    """
    paths = (directory / name for name in (*STEP_FILES, *HIDDEN_STEP_FILES, FINAL_FILES[0]))
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return []
    questions = {hash(format_asked(row.get("question"))) for row in read_rows(path)}
    if not questions or any(hash(format_question(query.fields["question"])) in questions for query in queries):
        return []
    first = shorten(format_question(next(read_rows(path)).get("question")), 80)
    return [f"the input has none of the queries in the directory, such as {first!r}"]


async def preload_export() -> None:
    """Import the packages for the final files after the first call is sent, while the run waits for replies."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    for name in ("pyarrow.parquet", "autorubric.linting.records", "autorubric.linting.rules.form"):
        await asyncio.to_thread(import_module, name)
    await asyncio.to_thread(import_module("pyarrow").array, [])  # imports pandas where that is installed


def export_row(row: Mapping[str, Any], most: int = 0, *, full: bool = False, domain: str = "") -> Export:
    """Return the export of a row of the last step file, with the `most` best criteria (0 for all)."""
    final = build_final_row(row, most) if row.get("gated") or not full else None
    made: Export = {"name": str(row.get("id") or row.get("__record_id__") or ""), "remarks": [], "rows": {}}
    if final is not None:
        # The linter is needed only at the end of a run.
        from autorubric.linting.finding import RawCriterion, RawRubric
        from autorubric.linting.records import read_query
        from autorubric.linting.rules.form import LANGUAGE, MOST

        criteria = [RawCriterion(rubric["criterion"]) for rubric in final["rubrics"]]
        foreign = next(LANGUAGE.find(RawRubric(criteria, read_query(row.get("question")))), None) is not None
        made["remarks"] = ["language"] * foreign + ["length"] * (len(criteria) > MOST)
        made["rows"] = {"final": final, **({"final_full": _build_full_row(row, domain)} if full else {})}
    elif row.get("merged_rubrics") and not full:
        made["remarks"] = ["points"]
    return made


def export_final(directory: Path, made: Iterable[Mapping[str, Any]], *, full: bool = False) -> Exported:
    """Write the final files from the exports of `export_row`, each file atomically."""
    rows = criteria = 0
    has_tools = False
    remarks: dict[str, list[str]] = {}
    with ExitStack() as stack:
        stems = {"final": build_final_schema(), **({"final_full": _build_full_schema()} if full else {})}
        lines = {stem: stack.enter_context(atomic_writer(directory / f"{stem}.jsonl")) for stem in stems}
        tables = {
            stem: stack.enter_context(parquet_writer(directory / f"{stem}.parquet", schema))
            for stem, schema in stems.items()
        }
        for row in made:
            for remark in row["remarks"]:
                remarks.setdefault(remark, []).append(row["name"])
            if not row["rows"]:
                continue
            for stem, value in row["rows"].items():
                lines[stem].write(json.dumps(value, ensure_ascii=False) + "\n")
                tables[stem](value)
            rows += 1
            has_tools = has_tools or _TOOLS in row["rows"]["final"]
            criteria += len(row["rows"]["final"]["rubrics"])
    for stem, schema in stems.items() if has_tools else ():
        with parquet_writer(directory / f"{stem}.parquet", _add_tools(schema)) as add:
            for row in read_rows(directory / f"{stem}.jsonl"):
                add(row)
    return Exported(rows, criteria, tuple(_describe(remarks)) if remarks else ())


def _add_tools(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return schema.append(pa.field(_TOOLS, pa.string()))


def build_final_row(row: Mapping[str, Any], max_criteria: int = 0) -> dict[str, Any] | None:
    """Return the exported form of a row of the last step file; None if it has no rubric.

    It has the merged and evolved criteria, or those that passed the gates, without pitfalls and invalid entries. Of
    duplicates (same words, ignoring case and spacing), the one with more points is kept. `max_criteria` > 0 keeps
    those with the most points, ties in order.

    Example:
        >>> build_final_row({"question": " Why? ", "id": "q1", "augmented_rubrics": [],
        ...     "merged_rubrics": [{"title": "Cause", "description": "Names the cause.", "weight": 7}]})
        {'question': 'Why?', 'id': 'q1', 'rubrics': [{'criterion': 'Names the cause.', 'points': 7}]}
    """
    question = format_question(find_messages(row) or row.get("question"))
    if row.get("gated"):
        items = [item for item in row["gated"]["criteria"] if item["weight"] > 0]
    else:
        merged = row.get("merged_rubrics")
        items = [*merged, *(row.get("augmented_rubrics") or [])] if merged else []
    read = read_items(items).items
    rubrics = dedup_final_rubrics(
        [{"criterion": criterion["description"], "points": criterion["weight"]} for criterion in read]
    )
    if max_criteria:
        rubrics = cap_criteria(rubrics, max_criteria)
    if not question or not any(item["points"] > 0 for item in rubrics):
        return None
    own_id = "" if row.get("id") is None else str(row["id"])
    return {"question": question, "id": own_id, "rubrics": rubrics, **_dump_tools(row)}


def _dump_tools(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the definitions of tools in the input row as JSON text, so that their column always has one type."""
    tools = read_tools(row)
    return {_TOOLS: json.dumps(tools, ensure_ascii=False)} if tools else {}


def _build_full_row(row: Mapping[str, Any], domain: str) -> dict[str, Any]:
    """Build a row of `final_full`: the rubric with the provenance and evidence of every criterion.

    Pitfalls are among the criteria only if they are kept; else they are under `pitfalls_left_out`.
    """
    gated, question, slots = row["gated"], row["question"], row["pool"]["slots"]
    return {
        "question": format_question(find_messages(row) or question),
        "prompt": question if isinstance(question, list) else [{"role": "user", "content": question.strip()}],
        "id": "" if row.get("id") is None else str(row["id"]),
        "domain": str(row.get("domain") or domain),
        **{name: [_show_criterion(criterion) for criterion in gated[field]] for name, field in _LISTS.items()},
        "merge_fates": row["merge"]["fates"],
        "evolved_dropped": gated["evolved_dropped"],
        "checks": [
            check | {name: _to_json(check[name]) for name in ("check", "disagreements")} for check in gated["checks"]
        ],
        "responses": [
            {"slot": slot, "model": row.get(f"response_{slot}_model", ""), "score": gated["scores"][slot]}
            for slot in slots
        ],
        "responses_left_out": row["pool"]["left_out"],
        "rank_agreement": gated["rank_agreement"],
        "compared_pairs": gated["pairs"],
        "evolved_share": gated["evolved_share"],
        "quality": gated["quality"],
        **_dump_tools(row),
    }


def _show_criterion(criterion: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: criterion[name] for name in _CRITERION},
        "check": _to_json(criterion["check"]) if criterion.get("check") else None,
        "gates": [decision | {"figures": _to_json(decision["figures"])} for decision in criterion["gates"]],
        "gate": criterion.get("gate"),
        "reason": criterion.get("reason"),
    }


_to_json = partial(json.dumps, ensure_ascii=False)


def _build_full_schema() -> pa.Schema:
    """Return the Arrow schema of `final_full.parquet`; figures of gates and parameters of checks are JSON texts."""
    import pyarrow as pa

    from autorubric.synthesis.quality import MEASURES

    def make_texts(*names: str) -> list[tuple[str, pa.DataType]]:
        return [(name, pa.string()) for name in names]

    def make_rows(fields: Sequence[tuple[str, pa.DataType]]) -> pa.DataType:
        return pa.list_(pa.struct(list(fields)))

    texts = pa.list_(pa.string())
    kinds = {"weight": pa.int32(), "round": pa.int32(), "models": texts, "parents": texts}
    gates = make_rows(make_texts("gate", "outcome", "figures", "reason"))
    criterion = [(name, kinds.get(name, pa.string())) for name in _CRITERION]
    criteria = make_rows([*criterion, *make_texts("check"), ("gates", gates), *make_texts("gate", "reason")])
    counts = [("accepted", pa.bool_()), ("decided", pa.int32())]
    checks = make_rows([*make_texts("criterion", "check", "kind", "decision"), *counts, *make_texts("disagreements")])
    return pa.schema(
        [
            *make_texts("question"),
            ("prompt", make_rows(make_texts("role", "content"))),
            *make_texts("id", "domain"),
            *((name, criteria) for name in _LISTS),
            ("merge_fates", make_rows(make_texts("id", "outcome", "into", "reason"))),
            ("evolved_dropped", make_rows(make_texts("id", "description", "reason"))),
            ("checks", checks),
            ("responses", make_rows([*make_texts("slot", "model"), ("score", pa.float64())])),
            ("responses_left_out", make_rows(make_texts("slot", "reason"))),
            ("rank_agreement", pa.float64()),
            ("compared_pairs", pa.list_(texts)),
            ("evolved_share", pa.float64()),
            ("quality", pa.struct([(name, pa.float64()) for name in MEASURES])),
        ]
    )


def publish(directory: Path, manifest: Mapping[str, Any], license: str) -> None:
    """Write the files next to `final_full`: the layout of the RubricHub release, and the dataset card with plots."""
    from autorubric.formats.containers import write_release
    from autorubric.synthesis.card import count_facts, read_run_facts, write_card

    path = directory / FULL_FILES[0]
    released = write_release(directory / RELEASE_FOLDER, map(_build_release_record, read_rows(path)))
    files = {"default": FULL_FILES[1]}
    if released:
        files["rubrichub"] = f"{RELEASE_FOLDER}/RuRL/*.parquet"
    run = read_run_facts(manifest, directory.resolve().name, license, files)
    write_card(directory, count_facts(read_rows(path), run))


def _build_release_record(row: Mapping[str, Any]) -> Record:
    """Return the rubric of a `final_full` row, with the release's name of its domain."""
    from autorubric.core.entries import USUAL, read_entries
    from autorubric.formats.format import Record

    criteria = read_entries(row["criteria"], "criteria", USUAL)
    domain = _ABILITIES.get(row["domain"], row["domain"])
    return Record(criteria, list(row["prompt"]), row["id"], domain=domain)


def _describe(remarks: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each unusual property, with the rows that have it."""
    from autorubric.linting.rules.form import MOST

    sentences = {
        "language": (
            "rubric is not in the language of its query",
            "rubrics are not in the language of their queries",
        ),
        "length": (f"rubric has more than {MOST} criteria", f"rubrics have more than {MOST} criteria"),
        "points": (f"rubric has {_POINTLESS}", f"rubrics have {_POINTLESS}"),
    }
    for name, (one, several) in sentences.items():
        if names := remarks.get(name):
            listed = format_first([*map(repr, names)], _MOST_NAMED)
            yield f"{len(names)} {one if len(names) == 1 else several} ({listed})"
