"""PaperBench: a tree of requirements, whose leaves are graded and whose weights share out that of their parent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import number, other_fields
from autorubric.errors import InputError
from autorubric.files.json_values import is_finite
from autorubric.formats.format import Format, Record, Row, only_row, read_text
from autorubric.rows.record import as_text

_KNOWN = frozenset({"id", "requirements", "weight", "sub_tasks", "task_category"})


def _read(row: Row) -> Record:
    """The record of a tree: a criterion for each leaf, the requirement of the root as query.

    Their weights add up to those of the root's children, and give the score that the tree gives. The text of a leaf
    is followed by those of its ancestors below the root, without which many leaves cannot be judged.
    """
    problems: list[str] = []
    nodes = _children(row, "", problems)
    if problems:
        raise InputError(problems)
    nodes = nodes or [(row, "")]
    above = [(node, place, Fraction(_weight(node, place, problems)), "") for node, place in nodes]
    criteria = [found for one in above for found in _leaves(*one, problems)]
    if problems:
        raise InputError(problems)
    if nodes[0][0] is row:
        return Record(tuple(criteria))
    prompt = read_text(row, "requirements") or ""
    return Record(tuple(criteria), prompt, read_text(row, "id") or "", metadata=other_fields(row, _KNOWN))


def _leaves(
    node: Mapping[str, Any], place: str, weight: Fraction, above: str, problems: list[str]
) -> Iterator[Criterion]:
    """The criteria of the leaves at or below a node."""
    text = node.get("requirements")
    if not isinstance(text, str) or not text.strip():
        problems.append(f"{place}requirements is {text!r:.60}; expected a string")
        return
    nodes = _children(node, place, problems)
    weights = [Fraction(_weight(one, where, problems)) for one, where in nodes]
    path = f"{above} > {text}" if above else text
    for (one, where), own in zip(nodes, weights, strict=True):
        yield from _leaves(one, where, weight * own / (sum(weights) or 1), path, problems)
    if not nodes and not problems:
        yield Criterion(
            weight=float(weight),
            requirement=f"{text}\n\nPart of: {above}" if above else text,
            id=read_text(node, "id"),
            tags=[category] if (category := read_text(node, "task_category")) else [],
            metadata=other_fields(node, _KNOWN),
        )


def _children(node: Mapping[str, Any], place: str, problems: list[str]) -> list[tuple[Mapping[str, Any], str]]:
    nodes = node.get("sub_tasks") or []
    if not isinstance(nodes, list) or not all(isinstance(one, Mapping) for one in nodes):
        problems.append(f"{place}sub_tasks is {nodes!r:.60}; expected a list of objects")
        return []
    return [(one, f"{place}sub_tasks[{index}].") for index, one in enumerate(nodes)]


def _weight(node: Mapping[str, Any], place: str, problems: list[str]) -> float:
    weight = node.get("weight")
    if is_finite(weight):
        return float(weight)
    problems.append(f"{place}weight is {weight!r:.60}; expected a finite number")
    return 1.0


def _write(record: Record) -> Row:
    """The tree of a record: its criteria under the root."""
    leaves = [_node(one.id or "", one.requirement, number(one.weight), _category(one)) for one in record.criteria]
    return {**_node(record.id, as_text(record.prompt), 1, None), "sub_tasks": leaves}


def _node(name: str, text: str, weight: float, category: str | None) -> Row:
    return {"id": name, "requirements": text, "weight": weight, "sub_tasks": [], "task_category": category}


def _category(criterion: Criterion) -> str | None:
    return criterion.tags[0] if len(criterion.tags) == 1 else None


PAPERBENCH = Format(
    "paperbench",
    "rubric trees of PaperBench",
    (".json", ".jsonl"),
    lambda row: {"requirements", "sub_tasks"} <= row.keys(),
    _read,
    _write,
    document=only_row,
)
