"""The final files of the full method: the seed's two, and `final_full` with everything that is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.files import atomic_writer, parquet_writer
from autorubric.synthesis.export import Exported, final_schema, name_of, question_text
from autorubric.synthesis.items import cap_criteria, dedup_final_rubrics, rubrics_to_final_format
from autorubric.synthesis.remarks import Remarks
from autorubric.synthesis.settings import SynthesisSettings
from autorubric.synthesis.steps import FULL_STEP_FILES, read_rows

if TYPE_CHECKING:
    import pyarrow as pa


def export_full(directory: Path, settings: SynthesisSettings) -> Exported:
    """Write `final` and `final_full`, each as `.jsonl` and `.parquet`, from `step5_gated.jsonl`.

    The `final` files hold the criteria that give points, as the seed has them. `final_full` holds pitfalls too
    where they are kept.
    """
    rows = criteria = without = 0
    remarks = Remarks()
    with (
        atomic_writer(directory / "final.jsonl") as lines,
        parquet_writer(directory / "final.parquet", final_schema()) as add,
        atomic_writer(directory / "final_full.jsonl") as full_lines,
        parquet_writer(directory / "final_full.parquet", full_schema()) as add_full,
    ):
        for row in read_rows(directory / FULL_STEP_FILES[-1]):
            if not row.get("gated"):
                without += 1
                continue
            full = full_row(row, settings)
            final = final_row_of(full, settings.max_criteria)
            remarks.look(name_of(row), row["question"], final["rubrics"])
            lines.write(json.dumps(final, ensure_ascii=False) + "\n")
            add(final)
            full_lines.write(json.dumps(full, ensure_ascii=False) + "\n")
            add_full(full)
            rows += 1
            criteria += len(final["rubrics"])
    return Exported(rows, criteria, without, tuple(remarks.sentences()))


def final_row_of(full: Mapping[str, Any], max_criteria: int = 0) -> dict[str, Any]:
    """The seed's final row of a `final_full` row: criteria that give points, without pitfalls.

    Example:
        >>> final_row_of({"question": "Why?", "id": "q1", "criteria": [
        ...     {"title": "", "description": "Names the cause.", "weight": 7},
        ...     {"title": "", "description": "Blames the moon.", "weight": -5}]})
        {'question': 'Why?', 'id': 'q1', 'rubrics': [{'criterion': 'Names the cause.', 'points': 7}]}
    """
    gains = [item for item in full["criteria"] if item["weight"] > 0]
    rubrics = cap_criteria(dedup_final_rubrics(rubrics_to_final_format(gains)), max_criteria)
    return {"question": full["question"], "id": full["id"], "rubrics": rubrics}


def full_row(row: Mapping[str, Any], settings: SynthesisSettings) -> dict[str, Any]:
    """A row of `final_full`: the rubric with the provenance and evidence of every criterion.

    Pitfalls stand among the criteria only where they are kept, else under `pitfalls_left_out`.
    """
    gated, row_id = row["gated"], row.get("id")
    question = row["question"]
    turns = question if isinstance(question, list) else [{"role": "user", "content": question.strip()}]
    return {
        "question": question_text(question),
        "prompt": turns,
        "id": "" if row_id is None else str(row_id),
        "domain": str(row.get("domain") or settings.domain or ""),
        "criteria": [_criterion(one) for one in gated["criteria"]],
        "rejected": [_criterion(one) for one in gated["rejected"]],
        "rewritten": [_criterion(one) for one in gated["rewritten"]],
        "pitfalls_left_out": [_criterion(one) for one in gated["left_out"]],
        "merge_fates": row["merge"]["fates"],
        "evolved_dropped": gated["evolved_dropped"],
        "checks": [_check_tried(one) for one in gated["checks"]],
        "responses": _responses(row, gated["scores"]),
        "responses_left_out": row["pool"]["left_out"],
        "rank_agreement": gated["rank_agreement"],
        "compared_pairs": gated["pairs"],
        "evolved_share": gated["evolved_share"],
        "quality": gated["quality"],
    }


def full_schema() -> pa.Schema:
    """The Arrow schema of `final_full.parquet`; figures of gates and parameters of checks are JSON texts."""
    import pyarrow as pa

    from autorubric.synthesis.quality import MEASURES

    text, texts = pa.string(), pa.list_(pa.string())
    gate = pa.struct([(name, text) for name in ("gate", "outcome", "figures", "reason")])
    criterion = pa.struct(
        [
            *((name, text) for name in ("id", "title", "description")),
            ("weight", pa.int32()),
            ("origin", text),
            ("round", pa.int32()),
            ("models", texts),
            ("parents", texts),
            ("check", text),
            ("gates", pa.list_(gate)),
            ("gate", text),
            ("reason", text),
        ]
    )
    response = pa.struct([("slot", text), ("model", text), ("score", pa.float64())])
    tried = pa.struct(
        [
            *((name, text) for name in ("criterion", "check", "kind", "decision")),
            ("accepted", pa.bool_()),
            ("decided", pa.int32()),
            ("disagreements", text),
        ]
    )
    fate = pa.struct([(name, text) for name in ("id", "outcome", "into", "reason")])
    return pa.schema(
        [
            ("question", text),
            ("prompt", pa.list_(pa.struct([("role", text), ("content", text)]))),
            ("id", text),
            ("domain", text),
            ("criteria", pa.list_(criterion)),
            ("rejected", pa.list_(criterion)),
            ("rewritten", pa.list_(criterion)),
            ("pitfalls_left_out", pa.list_(criterion)),
            ("merge_fates", pa.list_(fate)),
            ("evolved_dropped", pa.list_(pa.struct([(name, text) for name in ("id", "description", "reason")]))),
            ("checks", pa.list_(tried)),
            ("responses", pa.list_(response)),
            ("responses_left_out", pa.list_(pa.struct([("slot", text), ("reason", text)]))),
            ("rank_agreement", pa.float64()),
            ("compared_pairs", pa.list_(texts)),
            ("evolved_share", pa.float64()),
            ("quality", pa.struct([(name, pa.float64()) for name in MEASURES])),
        ]
    )


def _criterion(one: Mapping[str, Any]) -> dict[str, Any]:
    check = one.get("check")
    names = ("id", "title", "description", "weight", "origin", "round", "models", "parents")
    return {
        **{name: one[name] for name in names},
        "check": json.dumps(check, ensure_ascii=False) if check else None,
        "gates": [said | {"figures": json.dumps(said["figures"], ensure_ascii=False)} for said in one["gates"]],
        "gate": one.get("gate"),
        "reason": one.get("reason"),
    }


def _check_tried(one: Mapping[str, Any]) -> dict[str, Any]:
    """A check that was proposed, with the responses on which it and the judges differ as JSON."""
    texts = {name: json.dumps(one[name], ensure_ascii=False) for name in ("check", "disagreements")}
    return {**one, **texts}


def _responses(row: Mapping[str, Any], scores: Mapping[str, float | None]) -> list[dict[str, Any]]:
    slots: Iterable[str] = row["pool"]["slots"]
    return [{"slot": slot, "model": row.get(f"response_{slot}_model", ""), "score": scores[slot]} for slot in slots]
