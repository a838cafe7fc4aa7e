"""Documents that contain one rubric, and the rows of Prometheus, which contain one criterion."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.described_scores import SCORES, has_described_scores, read_scored_criterion
from autorubric.core.entries import Names, as_points, pick_others, read_entries
from autorubric.core.rubric_shapes import dump_criterion, read_criteria, unfold
from autorubric.errors import InputError
from autorubric.files.json_values import is_finite
from autorubric.formats.format import Format, Record, Row, build_schema, check_only_row, read_text
from autorubric.rows.columns import ROLES
from autorubric.rows.record import as_text

# Rubrics of The LLM Data Company's `rubric`: requirements with weights, in JSON or YAML.

_KEYS = ("name", "weight", "requirement", "scale_type", "options", "aggregation")
_HOLDERS = ("rubric", "sections", "criteria")
_OF_DATA = frozenset({"submission", "items", *ROLES["query"].names})


def _read_llmdc(row: Row) -> Record:
    """Return the record of a document: a list of criteria or sections under `rubric`, `sections` or `criteria`."""
    parts = unfold(row)
    return Record(tuple(read_criteria(parts.entries)), guidelines=parts.guidelines, metadata=parts.metadata)


def _has_requirements(value: Any) -> bool:
    """Return whether a list of criteria or sections, or a mapping that contains one, has a `requirement`."""
    if isinstance(value, list):
        return any(_has_requirements(entry) for entry in value[:3])
    if not isinstance(value, dict):
        return False
    return "requirement" in value or any(_has_requirements(value[key]) for key in _HOLDERS if key in value)


def _is_llmdc(row: Row) -> bool:
    """Return whether a row is a document with requirements; not a single criterion, such as the row of a table."""
    is_criterion = isinstance(row.get("requirement"), str)
    return not is_criterion and not _OF_DATA & row.keys() and _has_requirements(row)


def _write_requirement(criterion: Criterion) -> dict[str, Any]:
    record = dump_criterion(criterion)
    record["weight"] = as_points(criterion.weight)
    return {key: record[key] for key in _KEYS if record.get(key) is not None}


LLMDC = Format(
    "llmdc",
    "rubrics of The LLM Data Company's rubric",
    (".json", ".yaml", ".yml", ".jsonl"),
    _is_llmdc,
    _read_llmdc,
    lambda record: {"rubric": [*map(_write_requirement, record.criteria)]},  # of one document, only the list
    carrier=None,
    document=lambda rows: check_only_row(rows)["rubric"],
)


# Rubric files of verifiers: named criteria with choices from worst to best, in TOML or JSON.

_ENTRY = Names(("text",), ("weight",), ("name",), default=1.0)
_DEMAND = ["UNMET", "MET"]
_PITFALL = ["MET", "UNMET"]


def _is_verifiers(row: Row) -> bool:
    """Return whether a document is a rubric of verifiers: its criteria have a `text`."""
    entries = row.get("criteria")
    return isinstance(entries, list) and bool(entries) and isinstance(entries[0], dict) and "text" in entries[0]


def _read_verifiers(row: Row) -> Record:
    """Return the record of a document: choices become options with evenly spaced values from 0 to 1.

    The choices UNMET and MET are a binary criterion; if MET is the worst, it is a pitfall, whose weight becomes
    negative.
    """
    criteria = read_entries(row.get("criteria"), "criteria", _ENTRY, _read_choices)
    pairs = zip(row["criteria"], criteria, strict=True)
    ours = tuple(_as_ours(position, entry, criterion) for position, (entry, criterion) in enumerate(pairs, 1))
    return Record(ours, metadata=pick_others(row, ("criteria",)))


def _read_choices(rest: Mapping[str, Any]) -> dict[str, Any]:
    choices = rest.get("choices")
    metadata = pick_others(rest, ("choices",))
    if choices in (None, _DEMAND, _PITFALL):
        return {"metadata": metadata}
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) for choice in choices):
        raise InputError(f"choices are {choices!r:.60}; expected at least two strings, worst to best")
    values = [index / (len(choices) - 1) for index in range(len(choices))]
    options = [{"label": label, "value": value} for label, value in zip(choices, values, strict=True)]
    return {"metadata": metadata, "options": options}


def _as_ours(position: int, entry: Mapping[str, Any], criterion: Criterion) -> Criterion:
    """Return the criterion in our conventions: no generated name, and a pitfall has a negative weight."""
    if criterion.weight < 0:
        raise InputError(f"criteria[{position - 1}].weight is {criterion.weight:g}; verifiers needs at least 0")
    name = None if criterion.name == f"c{position}" else criterion.name
    sign = -1 if entry.get("choices") == _PITFALL else 1
    return criterion.model_copy(update={"name": name, "weight": sign * criterion.weight})


def _write_entry(position: int, criterion: Criterion) -> dict[str, Any]:
    """Return the entry of a criterion: its weight is positive, and the order of the choices gives the direction."""
    entry = {"name": criterion.name or f"c{position}", "text": criterion.requirement}
    pitfall = criterion.weight < 0
    if criterion.options is None:
        choices = _PITFALL if pitfall else _DEMAND
    else:
        scored = sorted((option for option in criterion.options if not option.na), key=lambda option: option.value)
        choices = [option.label for option in (reversed(scored) if pitfall else scored)]
    return {**entry, "weight": as_points(abs(criterion.weight)), "choices": choices}


VERIFIERS = Format(
    "verifiers",
    "rubric files of verifiers",
    (".toml", ".json", ".jsonl"),
    _is_verifiers,
    _read_verifiers,
    lambda record: {"criteria": [_write_entry(number, one) for number, one in enumerate(record.criteria, 1)]},
    carrier=None,
    document=check_only_row,
)


# PaperBench: a tree of requirements, whose leaves are graded and divide the weight of their parent.

_KNOWN = frozenset({"id", "requirements", "weight", "sub_tasks", "task_category"})


def _read_paperbench(row: Row) -> Record:
    """Return the record of a tree: a criterion for each leaf, and the requirement of the root as query.

    Their weights add up to those of the root's children, and give the score of the tree. The text of a leaf is
    followed by those of its ancestors below the root, because many leaves cannot be judged without them.
    """
    problems: list[str] = []
    nodes = _list_children(row, "", problems)
    if problems:
        raise InputError(problems)
    nodes = nodes or [(row, "")]
    above = [(node, place, Fraction(_read_weight(node, place, problems)), "") for node, place in nodes]
    criteria = [found for node in above for found in _collect_leaves(*node, problems)]
    if problems:
        raise InputError(problems)
    if nodes[0][0] is row:
        return Record(tuple(criteria))
    prompt = read_text(row, "requirements") or ""
    return Record(tuple(criteria), prompt, read_text(row, "id") or "", metadata=pick_others(row, _KNOWN))


def _collect_leaves(
    node: Mapping[str, Any], place: str, weight: Fraction, above: str, problems: list[str]
) -> Iterator[Criterion]:
    """Yield the criteria of the leaves of a node, or of the node if it is a leaf."""
    text = node.get("requirements")
    if not isinstance(text, str) or not text.strip():
        problems.append(f"{place}requirements is {text!r:.60}; expected a string")
        return
    nodes = _list_children(node, place, problems)
    weights = [Fraction(_read_weight(node, where, problems)) for node, where in nodes]
    path = f"{above} > {text}" if above else text
    for (one, where), own in zip(nodes, weights, strict=True):
        yield from _collect_leaves(one, where, weight * own / (sum(weights) or 1), path, problems)
    if not nodes and not problems:
        yield Criterion(
            weight=float(weight),
            requirement=f"{text}\n\nPart of: {above}" if above else text,
            id=read_text(node, "id"),
            tags=[category] if (category := read_text(node, "task_category")) else [],
            metadata=pick_others(node, _KNOWN),
        )


def _list_children(node: Mapping[str, Any], place: str, problems: list[str]) -> list[tuple[Mapping[str, Any], str]]:
    nodes = node.get("sub_tasks") or []
    if not isinstance(nodes, list) or not all(isinstance(node, Mapping) for node in nodes):
        problems.append(f"{place}sub_tasks is {nodes!r:.60}; expected a list of objects")
        return []
    return [(node, f"{place}sub_tasks[{index}].") for index, node in enumerate(nodes)]


def _read_weight(node: Mapping[str, Any], place: str, problems: list[str]) -> float:
    weight = node.get("weight")
    if is_finite(weight):
        return float(weight)
    problems.append(f"{place}weight is {weight!r:.60}; expected a finite number")
    return 1.0


def _write_paperbench(record: Record) -> Row:
    """Return the tree of a record: its criteria are the children of the root."""
    leaves = [
        _write_node(one.id, one.requirement, as_points(one.weight), one.tags[0] if len(one.tags) == 1 else None)
        for one in record.criteria
    ]
    return {**_write_node(record.id, as_text(record.prompt), 1, None), "sub_tasks": leaves}


def _write_node(name: str | None, text: str, weight: float, category: str | None) -> Row:
    return {"id": name or "", "requirements": text, "weight": weight, "sub_tasks": [], "task_category": category}


PAPERBENCH = Format(
    "paperbench",
    "rubric trees of PaperBench",
    (".json", ".jsonl"),
    lambda row: {"requirements", "sub_tasks"} <= row.keys(),
    _read_paperbench,
    _write_paperbench,
    document=check_only_row,
)


# Prometheus and its Feedback-Collection: one criterion per row, on a scale of five described scores.

_PREFIX = "orig_"
_LEVELS = ("Not met.", "Hardly met.", "Partly met.", "Mostly met.", "Fully met.")
_PART = "part_of_rubric"


def _read_prometheus(row: Row) -> Record:
    """Return the record of a row: its criterion has the five descriptions as options with values from 0 to 1."""
    prefix = _find_prefix(row)
    criterion = read_scored_criterion(row, prefix)
    described = [f"{prefix}score{score}_description" for score in SCORES]
    own = [f"{prefix}{name}" for name in ("instruction", "response", "reference_answer", "criteria")]
    return Record(
        (criterion,),
        read_text(row, f"{prefix}instruction") or "",
        read_text(row, "id") or "",
        read_text(row, f"{prefix}reference_answer"),
        read_text(row, f"{prefix}response"),
        metadata=pick_others(row, frozenset((*own, *described, "id"))),
    )


def _write_prometheus(record: Record) -> Row:
    """Return the row of a record with one criterion; without a scale of five, met and unmet become its ends."""
    criterion = record.criteria[0]
    levels = _list_levels(criterion.options)
    row: Row = {
        "id": record.id,
        "orig_instruction": as_text(record.prompt),
        "orig_response": record.answer,
        "orig_reference_answer": record.reference,
        "orig_criteria": criterion.requirement,
    }
    row.update((f"orig_score{score}_description", text) for score, text in zip(SCORES, levels, strict=True))
    for key in ("orig_feedback", "orig_score"):
        value = record.metadata.get(key)
        row[key] = None if value is None else str(value)
    return row


def _split_criteria(record: Record) -> Sequence[Record]:
    """Return a record for each criterion, numbered if there are several."""
    most = len(record.criteria)
    if most == 1:
        return (record,)
    return [
        replace(record, criteria=(criterion,), metadata={**record.metadata, _PART: [place, most]})
        for place, criterion in enumerate(record.criteria, 1)
    ]


def _join_part(record: Record, part: Record) -> Record | None:
    """Return the record with the criterion of its next part; None if `part` is not the next part."""
    here, there = record.metadata.get(_PART), part.metadata.get(_PART)
    if (
        not here
        or not there
        or there != [here[0] + 1, here[1]]
        or (record.prompt, record.id) != (part.prompt, part.id)
    ):
        return None
    metadata = {**record.metadata, _PART: there}
    if there[0] == there[1]:
        del metadata[_PART]
    return replace(record, criteria=(*record.criteria, *part.criteria), metadata=metadata)


def _find_prefix(row: Row) -> str:
    return _PREFIX if f"{_PREFIX}criteria" in row else ""


def _list_levels(options: list[CriterionOption] | None) -> Sequence[str]:
    if options is not None and [option.value for option in options] == [index / 4 for index in range(5)]:
        return [option.label for option in options]
    return _LEVELS


_COLUMNS = (
    *("id", "orig_instruction", "orig_response", "orig_reference_answer", "orig_criteria"),
    *(f"orig_score{score}_description" for score in SCORES),
    *("orig_feedback", "orig_score"),
)
PROMETHEUS = Format(
    "prometheus",
    "Prometheus and Feedback-Collection",
    (".jsonl", ".parquet", ".json"),
    lambda row: has_described_scores(row, _find_prefix(row)),
    _read_prometheus,
    _write_prometheus,
    build_schema(dict.fromkeys(_COLUMNS, str)),
    parts=_split_criteria,
    joined=_join_part,
)
