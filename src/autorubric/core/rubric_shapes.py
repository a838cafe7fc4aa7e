"""The shapes a rubric has in files, and the one it is written in.

Read: a list of criteria (or of their texts), a list of sections (`{"name": …, "criteria": […]}`) mixed with criteria,
or a mapping with such a list under `rubric`, `sections`, `criteria` or a name of other formats, perhaps in further
mappings. A mapping may carry `guidelines`. Criteria have the keys of this package, or all of them those of other
formats. Written: the flat list, or a mapping if there are guidelines or metadata.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError

from autorubric.core.criterion import MOST_WEIGHT, Criterion, CriterionOption, with_distinct_names
from autorubric.core.described_scores import has_described_scores, read_scale, read_scored_criterion
from autorubric.core.entries import HEADINGS, USUAL, find_parts, is_foreign, read_columns, read_entries
from autorubric.core.entry_kinds import OF_ANSWERS, find_answers, read_headings
from autorubric.core.known_keys import format_errors
from autorubric.core.misread_keys import (
    find_hidden_weights,
    find_section_weights,
    find_stray_keys,
    find_total_rows,
    find_uneven_weights,
    find_usual_keys,
    read_weights,
)
from autorubric.errors import InputError, pluralize
from autorubric.files.keys import describe_unknown_key, find_nearest_key
from autorubric.files.strict_json import parse_json
from autorubric.rows.columns import ROLES, find_weight_columns, fold_name, join_names
from autorubric.rows.reading import unwrap_rows
from autorubric.rows.record import HOLDERS, find_rubric, is_blank

_KNOWN_HOLDERS = ("rubric", "sections", "criteria", *sorted({*HOLDERS} - {"rubric", "criteria"}))
_RUBRIC_KEYS = (*_KNOWN_HOLDERS, "reward_model", "guidelines", "metadata")
_HOLDERS = (*_KNOWN_HOLDERS, *ROLES["rubric"].fallback, "items")
_SECTION_KEYS = ("criteria", "name", "title")
_PLAIN = frozenset({"weight", "requirement", "name", "id", "section", "tags", "metadata"})
_CRITERIA = TypeAdapter(list[Criterion])
TREE = "a tree of criteria, as in PaperBench; convert it: autorubric convert TREE RUBRIC --to llmdc"
_QUERY = frozenset(ROLES["query"].quiet)
_OF_QUERIES = (
    "each of one query; expected one: copy its row to its own file; to grade answers to all queries, add them to "
    "the rows, or use `select --candidates`"
)
_ADVICE: dict[type, str] = {
    list: "; write groups of criteria as a list of {'name': …, 'criteria': […]}",
    dict: "; write criteria as a list of {'name': …, 'requirement': …, 'weight': …}",
    str: "; write criteria as a list of {'name': …, 'requirement': …}",
}


class Unfolded(NamedTuple):
    """A rubric's criteria in a flat list, still as read, and the other fields around them."""

    entries: list[Any]
    guidelines: Any
    metadata: dict[str, Any]


def unfold(data: Any) -> Unfolded:
    """Return the parts of a rubric in any of its shapes.

    Raises:
        InputError: it has none of the shapes.

    Example:
        >>> unfold({"sections": [{"name": "Style", "criteria": [{"requirement": "Is brief"}]}]}).entries
        [{'requirement': 'Is brief', 'section': 'Style'}]
    """
    if isinstance(data, list):
        # Rows of queries with their rubrics, as in the final files of a synthesis.
        rows = [row for row in data if isinstance(row, dict) and not _QUERY.isdisjoint(row)]
        if rubrics := sum(isinstance(find_rubric(row), list) for row in rows):
            raise InputError(f"it has {pluralize(rubrics, 'rubric')}, {_OF_QUERIES}")
        return Unfolded(_flatten(data), None, {})
    if not isinstance(data, dict):
        raise InputError(f"Invalid rubric format. Expected a list or a mapping, got {type(data).__name__}")
    rows = unwrap_rows(data)
    return _unfold_mapping(data) if rows is data else unfold(rows)


def parse_rubric(text: str, where: str = "") -> Any:
    """Return the value of a rubric that is JSON text.

    Raises:
        InputError: it is other text.

    Example:
        >>> parse_rubric('["Is brief."]')
        ['Is brief.']
    """
    try:
        return parse_json(text, f"{where}the rubric is text, and not JSON")
    except InputError as error:
        advice = 'write its criteria as a list, such as ["Is brief.", "Is kind."]'
        raise InputError(f"{problem}; {advice}" for problem in error.problems) from None


def _unfold_mapping(data: dict[str, Any], inside: str = "") -> Unfolded:
    """Return the parts of a mapping; `inside` is its place, for messages."""
    if has_described_scores(data):
        return Unfolded([read_scored_criterion(data)], None, {})
    if columns := read_columns(data):
        return Unfolded(_flatten(columns), None, {})
    holder = _find_holder(data, inside)
    outer, held = {key: value for key, value in data.items() if key != holder}, data[holder]
    if isinstance(held, str):
        held = parse_rubric(held)
    inner = _unfold_mapping(held, holder) if isinstance(held, dict) else Unfolded(_flatten(held), None, {})
    held = [entry if isinstance(entry, dict) else vars(entry) for entry in inner.entries]
    if wrong := [*find_section_weights(outer, read_weights(held))]:
        raise InputError(wrong)
    given = [text for text in (outer.get("guidelines"), inner.guidelines) if not is_blank(text)]
    if len(given) > 1:
        raise InputError("'guidelines' is given both next to and inside 'rubric'; give it once")
    if given and not isinstance(given[0], str):
        raise InputError(f"Expected 'guidelines' to be a string, got {type(given[0]).__name__}")
    return Unfolded(inner.entries, given[0] if given else None, {**_read_metadata(outer), **inner.metadata})


def read_criteria(entries: Sequence[Any]) -> list[Criterion]:
    """Return the criteria of a flat list of mappings.

    Raises:
        InputError: with one problem for each criterion that is wrong.

    Example:
        >>> read_criteria([{"requirement": "Is brief"}])
        [Criterion(requirement='Is brief')]
    """
    if not entries:
        raise InputError("No criteria found")
    plain = [read_plain_criterion(entry) for entry in entries]
    criteria = [made for made in plain if made is not None]
    if len(criteria) < len(plain):
        entries = [read_scale(entry) if isinstance(entry, dict) else entry for entry in entries]
        criteria = _read_others(entries, plain)
    problems = [*find_total_rows((criterion.requirement, criterion.weight) for criterion in criteria)]
    if type(entries[0]) is dict and "weight" not in entries[0]:
        problems += find_hidden_weights(entries)
    if problems:
        raise InputError(problems)
    return criteria


def _read_others(entries: Sequence[Any], plain: Sequence[Criterion | None]) -> list[Criterion]:
    if answers := find_answers(entries):
        raise InputError(f"its rows have submissions (in {answers!r}) and no criteria; {OF_ANSWERS}")
    entries = read_headings(entries)
    if is_foreign(entries):
        return with_distinct_names(read_entries(entries, "rubric", USUAL))
    # Tables and exporters that write all keys write an empty list of options.
    entries = [_drop_empty_options(entry) if isinstance(entry, dict) else entry for entry in entries]
    mappings = [entry if isinstance(entry, dict) else {} for entry in entries]
    if mixed := [*find_uneven_weights(mappings, is_own=True)]:
        raise InputError(f"Invalid criterion at index {place}: {problem}" for place, problem in mixed)
    try:
        return _CRITERIA.validate_python([made or entry for made, entry in zip(plain, entries, strict=True)])
    except ValidationError as error:
        raise InputError(_group_by_criterion(error)) from None


def _drop_empty_options(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "options" or value != []}


def dump_criterion(criterion: Criterion) -> dict[str, Any]:
    """Return a criterion as JSON values, without fields that have their defaults.

    Example:
        >>> dump_criterion(Criterion(name="Brief", requirement="Is brief", tags=["style"]))
        {'name': 'Brief', 'weight': 10.0, 'requirement': 'Is brief', 'tags': ['style']}
    """
    fields = criterion.__dict__
    record = {"name": fields["name"], "weight": fields["weight"], "requirement": fields["requirement"]}
    if fields["options"] is not None:
        record["scale_type"] = fields["scale_type"]
        record["options"] = [_dump_option(option) for option in fields["options"]]
    elif fields["scale_type"] != "ordinal":
        record["scale_type"] = fields["scale_type"]
    for key in ("aggregation", "id", "section", "check"):
        if fields[key] is not None:
            record[key] = fields[key]
    for key in ("tags", "metadata"):
        if fields[key]:
            record[key] = fields[key]
    return record


def _dump_option(option: CriterionOption) -> dict[str, Any]:
    record: dict[str, Any] = {"label": option.label, "value": option.value, "na": option.na}
    if option.metadata:
        record["metadata"] = option.metadata
    return record


def _find_holder(data: Mapping[str, Any], inside: str) -> str:
    """Return the key of the criteria in a mapping: the first one that is not empty, else the first one."""
    lists = [key for key in find_usual_keys(tuple(data), USUAL.text) if isinstance(data[key], list)]
    plurals = [key for key in lists if fold_name(key).startswith(HEADINGS)]  # in other languages
    for key in data:
        if isinstance(key, str) and key not in plurals and find_nearest_key(key, _RUBRIC_KEYS):
            raise InputError(describe_unknown_key(key, _RUBRIC_KEYS, "the rubric"))
    if there := [key for key in _HOLDERS if key in data] or plurals:
        holder = next((key for key in there if data[key]), there[0])
        known = (holder, "guidelines", "metadata")
        strangers = {key: value for key, value in data.items() if key not in known and value != data[holder]}
        strays = [*find_stray_keys(strangers, data[holder])] or [*find_weight_columns(strangers, data[holder])]
        if strays:
            raise InputError(strays)
        return holder
    raise InputError(_describe_missing_holder(data, inside))


def _describe_missing_holder(data: Mapping[str, Any], inside: str) -> str:
    if inside == "rubric":
        return "'rubric' must be a list, or a dict with 'sections' or 'criteria'"
    if inside:
        return f"Expected '{inside}' to be a list, got dict; {_list_keys(data)}"
    if "sub_tasks" in data:
        return TREE
    return f"Dict must contain either 'sections' or 'rubric' key, or 'criteria'; {_list_keys(data)}"


def _list_keys(data: Mapping[str, Any]) -> str:
    """Return the keys of a mapping without a list of criteria, and how to write its content, if that is clear."""
    keys = ", ".join(map(repr, data)) or "none"
    lists = [key for key, value in data.items() if isinstance(value, list) and isinstance((*value, 0)[0], dict)]
    kinds = {list} if lists else {type(value) for value in data.values()}
    advice = _ADVICE.get(kinds.pop(), "") if len(kinds) == 1 else ""
    if len(lists) == 1:
        advice = f"; if {lists[0]!r} has the criteria, rename it to 'criteria'"
    return f"its keys are {keys:.200}{advice}"


def _read_metadata(rest: dict[str, Any]) -> dict[str, Any]:
    own = {} if rest.get("metadata") is None else rest["metadata"]
    if not isinstance(own, dict):
        raise InputError(f"'metadata' must be a mapping, got {type(own).__name__}")
    return {**{k: v for k, v in rest.items() if k not in ("guidelines", "metadata")}, **own}


def as_entries(entries: Any) -> list[Any]:
    """Criteria and sections as a list of mappings; a string is the requirement of a criterion.

    Raises:
        InputError: they are not a list.

    Example:
        >>> as_entries(["Is brief", {"requirement": "Is kind", "weight": 2}])
        [{'requirement': 'Is brief'}, {'requirement': 'Is kind', 'weight': 2}]
    """
    if not isinstance(entries, list):
        raise InputError(f"The criteria of a rubric are a list, got {type(entries).__name__}")
    return [{"requirement": entry} if isinstance(entry, str) else entry for entry in entries]


def _flatten(entries: Any) -> list[Any]:
    flat: list[Any] = []
    problems: list[str] = []
    for index, entry in enumerate(as_entries(entries)):
        if _PLAIN.issuperset(entry) if type(entry) is dict else isinstance(entry, Criterion):
            flat.append(entry)
        elif not isinstance(entry, dict):
            problems.append(f"Invalid item at index {index}: expected a dictionary, got {type(entry).__name__}")
        elif not isinstance(entry.get("criteria", ""), str):
            flat += _read_section(entry, f"Invalid section at index {index}", problems)
        elif not _PLAIN.issuperset(entry) and (wrong := _find_misspelt_key(entry)) is not None:
            problem = describe_unknown_key(wrong, _SECTION_KEYS, "the section")
            problems.append(f"Invalid section at index {index}: {problem}")
        else:
            flat.append(entry)
    if problems:
        raise InputError(problems)
    if not flat:
        raise InputError("No criteria found")
    return flat


def _find_misspelt_key(entry: Mapping[Any, Any]) -> str | None:
    """Return the key of a section that is a misspelling of `criteria`; None for a criterion."""
    wrong = next((str(key) for key in entry if find_nearest_key(str(key), ("criteria",))), None)
    return None if wrong is None or "criterion" in entry or find_parts(entry)[0].text else wrong


def _read_section(section: dict[str, Any], where: str, problems: list[str]) -> list[Any]:
    entries = section["criteria"]
    if not isinstance(entries, list):
        problems.append(f"{where}: 'criteria' must be a list; the key of one criterion's text is 'criterion'")
        return []
    name = section.get("name") or section.get("title")
    if name is not None and not isinstance(name, str):
        problems.append(f"{where}: its name is {name!r}; expected a string")
        return []
    strangers = {key: value for key, value in section.items() if key not in _SECTION_KEYS}
    wrong = [str(key) for key in strangers if find_nearest_key(str(key), _SECTION_KEYS)]
    problems += (f"{where}: {describe_unknown_key(key, _SECTION_KEYS, 'the section')}" for key in wrong)
    entries = as_entries(entries)
    mappings = [entry for entry in entries if isinstance(entry, dict)]
    problems += (f"{where}: {problem}" for problem in find_section_weights(strangers, read_weights(mappings)))
    flat: list[Any] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            problem = f"Invalid item at index {index}: expected a dictionary, got {type(entry).__name__}"
            problems.append(f"{where}: {problem}")
        else:
            flat.append(_add_section(entry, name, strangers))
    return flat


def _add_section(entry: dict[str, Any], name: str | None, strangers: dict[Any, Any]) -> dict[str, Any]:
    """Return a criterion with the name of its section, and with the section's own keys in its metadata."""
    if name is not None and entry.get("section") is None:
        entry = {**entry, "section": name}
    metadata = {} if entry.get("metadata") is None else entry["metadata"]
    if strangers and isinstance(metadata, dict):
        entry = {**entry, "metadata": {"section": strangers, **metadata}}
    return entry


def _group_by_criterion(error: ValidationError) -> list[str]:
    """Return one problem for each criterion, with a line for each of its fields."""
    lines: dict[int, list[str]] = {}
    for detail, line in zip(error.errors(include_url=False), format_errors(error, inside=1), strict=True):
        lines.setdefault(int(detail["loc"][0]), []).append(line)
    messages = [f"Invalid criterion at index {index}:\n  " + "\n  ".join(found) for index, found in lines.items()]
    if "\n  requirement: missing" in messages[-1]:
        messages[-1] += f"; the text of a criterion is under {join_names(USUAL.text, 4)}"
    return messages


_ONLY_TEXT = frozenset({str})
_new = object.__new__
_set = object.__setattr__
# These bypass the model, which is frozen, and are faster than access by name.
_set_fields, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def _build_blank() -> dict[str, Any]:
    """Return the fields of a blank criterion.

    They are set one by one, so that all copies of the dict share their keys and take a third of the memory.
    """
    criterion = _new(Criterion)
    for name, value in {**vars(Criterion(requirement="-")), "requirement": ""}.items():
        _set(criterion, name, value)
    return vars(criterion)


_BLANK = _build_blank()


def read_plain_criterion(entry: Any) -> Criterion | None:
    """Return the criterion of a valid mapping that needs no conversion, equal to what pydantic would make.

    None leaves it to the model's own validation: the keys of a multi-choice criterion, the user's own keys, values of
    other types, and errors.

    Example:
        >>> read_plain_criterion({"requirement": "Is brief", "weight": 2.0})
        Criterion(weight=2.0, requirement='Is brief')
        >>> read_plain_criterion({"requirement": "Is brief", "weight": "2"}) is None
        True
    """
    if type(entry) is not dict or not _PLAIN.issuperset(entry):
        return None
    fields = _BLANK.copy()
    fields.update(entry)
    weight, requirement = fields["weight"], fields["requirement"]
    if type(requirement) is not str or not requirement or requirement.isspace():
        return None
    if type(weight) is not float or not -MOST_WEIGHT <= weight <= MOST_WEIGHT:
        return None
    for text in (fields["name"], fields["id"], fields["section"]):
        if text is not None and type(text) is not str:
            return None
    if "tags" not in entry and "metadata" not in entry:
        fields["tags"], fields["metadata"] = [], {}
    elif not _copy_containers(fields):
        return None
    criterion = _new(Criterion)
    _set_fields(criterion, fields)
    _set_fields_set(criterion, set(entry))
    _set_extra(criterion, None)
    _set_private(criterion, None)
    return criterion


def _copy_containers(fields: dict[str, Any]) -> bool:
    """Replace tags and metadata by copies, and return whether both are plain."""
    tags, metadata = fields["tags"], fields["metadata"]
    if type(tags) is not list or type(metadata) is not dict:
        return False
    fields["tags"], fields["metadata"] = tags.copy(), metadata.copy()
    return _ONLY_TEXT.issuperset(map(type, tags)) and _ONLY_TEXT.issuperset(map(type, metadata))
