"""Unread keys of a criterion that may be meant as its weight, its scale or inner criteria."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autorubric.files.json_values import as_number, as_weight, find_unclear_number
from autorubric.rows.columns import fold_name, join_names
from autorubric.rows.record import NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS, is_sentence

if TYPE_CHECKING:
    from autorubric.core.criterion import Criterion

_SENSES = {
    # A weight in any key.
    "weight": "weight weighting weightage wt points marks pts worth importance priority 权重 比重 权值 分值 重要性 "
    "peso poids pondération gewicht gewichtung",
    # A weight in a key that has no other word, except those that say which.
    "amount": "percent percentage pct ratio share proportion credit credits multiplier coefficient w max maximum "
    "value grade score 分数 满分 占比 比例 系数",
    # The units of a weight.
    "unit": "point mark punkt punkte punto puntos punti ponto pontos балл балла баллов 分 点 점",
    "total": "total sum maximum max subtotal grand possible gesamt gesamtsumme summe zwischensumme "
    "满分 总分 小计 合计 总计",
    # What has such a name is a fault.
    "fault": "pitfall pitfalls negative penalty penalties deduction deductions deduct negate negated invert inverted "
    "inverse reverse reversed 扣分 扣分项 减分 减分项 陷阱 负面 负向",
    "merit": "positive desirable beneficial expected desired wanted 正面 正向",
    # These say whether it is a fault.
    "sign": "polarity sign effect type kind category role direction class tags tag label 极性 类型 类别 性质",
    "scale": "levels scale choices scoring range ranges rating ratings descriptors bands anchors 等级 量表 档次",
    "parts": "sub subcriteria subtasks children criteria indicators questions assert 子项 子标准",
    "level": "full partial excellent outstanding exemplary advanced accomplished proficient good satisfactory "
    "competent fair adequate developing emerging beginning novice poor inadequate unsatisfactory unacceptable "
    "mastery meets exceeds approaching 优秀 优 良好 良 中等 中 合格 及格 不合格 不及格 差 较差 一般 "
    "sehr gut befriedigend ausreichend mangelhaft ungenügend très bien assez passable insuffisant excelente bueno "
    "regular suficiente insuficiente bom ottimo buono sufficiente insufficiente 秀 優 可 不可 우수 보통 미흡",
    # A number in such a key is not a weight.
    "counted": "id ids section category group dimension no nr number num index idx order page line unnamed row rank "
    "position level year date time timestamp version turn step question count counts votes frequency agreement "
    "confidence difficulty threshold limit length depth words sentences tokens",
    "besides": "of the in for is criterion rubric item score scores grade point points pts marks credit level no not "
    "expectations standard standards sub sous",
}
"""What words in keys mean, in the languages of known files; every reader uses this table."""
_MEANT: dict[str, frozenset[str]] = {sense: frozenset(words.split()) for sense, words in _SENSES.items()}
_WORDS = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+")
_IN_WORDS = frozenset(("weight", "importance", "priority"))
_AMOUNT = _MEANT["amount"] | _MEANT["unit"]
_AMOUNTS = _MEANT["weight"] | _AMOUNT | _MEANT["total"] | _MEANT["besides"] - {"level"}
_FAULTY = _MEANT["fault"] | _MEANT["besides"] | {"criteria"}
_TAGS = frozenset(("tags",))
_RANGES = frozenset(("range", "ranges"))
_IDS = frozenset(("id", "ids"))
_SECTIONS = frozenset(("section", "category", "group", "dimension"))
_POINTS = _MEANT["weight"] | _MEANT["unit"] | {"credit", "credits"}
_GIVEN = frozenset(WEIGHT_KEYS) - {"score", "分数"}
_TEXTS = frozenset((*TEXT_KEYS, *NAME_KEYS))
_BRACKET = r"[\[(（][^\[\]()（）]*(?<!\d)\d{1,3}(?!\d)[^\[\]()（）]*[\])）]"
_MARK = re.compile(
    rf"\A\W*?{_BRACKET}|{_BRACKET}\W*\Z|\A\d{{1,3}} [-–—|:](?= )|(?<= )(?:[-–—|] |/ ?|\+)\d{{1,3}}\W*\Z"
)
"""What may be the points of a criterion in its text: "(3)", "3 - Is kind", "Is kind - 3", "Is kind /3"."""
_PERCENT = re.compile(r"\s*[(（][%％][)）]\Z")
_NUMBERED = re.compile(r"(\d+(?:\.\d+)*)\.?(?:\s|\Z)")
_VERDICTS = frozenset(("MET", "UNMET", "CANNOT_ASSESS", "True", "False"))
OF_SCORE = re.compile(
    r"((score|rating)s?[ _-]?|(level|grade|band|tier|stufe|niveau|nivel) )?\d+([-–~]\d+)?\Z"
    r"|(score|rating|level|grade|band|tier|point)s?[ _-]?\d+[ _-]?(desc\w*|text)\Z",
    re.IGNORECASE,
)
_OWN = frozenset(("metadata", "tags", "check"))
_ELSE = "or put it under 'metadata'"
_UNAPPLIED = "nothing applies it: multiply it into the weights of its criteria"
_FAULT = f"give a criterion that describes a fault a negative weight, {_ELSE}"
_NO_SCALE = (
    "but without options a criterion is met or not; "
    "write it as options, each with a label and a value from 0 to 1, as 'levels' with 'points' and 'description', "
    f"{_ELSE}"
)


def find_misread(entry: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each unread key that may be meant to change the criterion.

    Args:
        entry: the keys that are not known, with their values.
        known: the criterion's own `weight`, `options` and `tags`, where it has them.

    Example:
        >>> list(find_misread({"maxPoints": 4, "key_points": "none"}, {}))
        ["'maxPoints' is 4; rename it to 'weight' if that is the weight, else to something else"]
        >>> list(find_misread({"max_score": 4, "levels": "1 to 4"}, {"weight": 4}))
        ["'levels' is '1 to 4', but without options a criterion is met or not; write it as options, each ..."]
        >>> list(find_misread({"criteria_ids": ["c1", "c2"]}, {"weight": 4}))
        []
    """
    weight, has_options = known.get("weight"), bool(known.get("options"))
    is_pitfall = (as_weight(weight) or 0) < 0
    described = [str(key) for key, value in entry.items() if isinstance(value, str) and _is_level(str(key))]
    if not has_options and len(described) > 1:
        yield f"{join_names(described, 2)} describe a scale, {_NO_SCALE}"
    for key, value in {**entry, "tags": known.get("tags", entry.get("tags"))}.items():
        words = _split(str(key))
        if weight is None and isinstance(value, Mapping) and key not in _OWN:
            inner = {name: entry for name, entry in value.items() if _is_weight(_split(str(name)), entry)}
            yield from (f"{key}: {problem}" for problem in find_misread(inner, known))
        if problem := _find_misread_weight(str(key), words, value, weight):
            yield problem
        elif not is_pitfall and (_is_fault(words, value, weight) or _is_met_worst(key, entry, has_options)):
            yield f"{key!r} is {value!r:.60}; {_FAULT}"
        elif not has_options and _is_scale(words, value):
            yield f"{key!r} is {value!r:.60}, {_NO_SCALE}"
        elif _has_criteria(value) or _has_parts(words, value):
            yield f"{key!r} has {len(value)} more; write them as criteria of the rubric with their weights, {_ELSE}"


def _find_misread_weight(key: str, words: frozenset[str], value: Any, weight: Any) -> str:
    """Describe a key with a weight if the criterion has no weight or another one; else return an empty string."""
    if weight is None and _is_weight(words, value):
        kind = "" if as_weight(value) is not None else ", as a number,"
        advice = f"rename it to 'weight'{kind} if that is the weight, else to something else"
        return f"{key!r} is {value!r:.60}; {advice}"
    if fold_name(key) in _GIVEN and as_weight(value) not in (None, as_weight(weight)):
        return f"weight={weight!r:.60} and {key}={value!r:.60}; leave one out, or rename it"
    if words & _SECTIONS and words & _MEANT["weight"] and as_weight(value) not in (None, 1):
        return f"{key!r} is {value!r:.60}; {_UNAPPLIED}"
    return ""


def describe_unread(criteria: Sequence[Criterion]) -> list[str]:
    """Notes on texts that judges do not see (all if no criterion has a name), tags of faults, and missing weights.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> describe_unread([Criterion(requirement="Breadth", explanation="All three causes are named.")])
        ["'explanation' of the criteria is metadata, which judges do not see; join what they need ..."]
    """
    is_named = any(criterion.name for criterion in criteria)
    texts = [
        key
        for criterion in criteria
        for key, value in criterion.metadata.items()
        if is_sentence(value) or (isinstance(value, str) and not is_named)
    ]
    advice = "" if is_named else ", or call the key of their names 'name'"
    unseen = f"{join_names(dict.fromkeys(texts))} of the criteria is metadata, which judges do not see"
    note = f"{unseen}; join what they need with the requirement{advice}"
    notes = [note] if texts else []
    faults = [
        place
        for place, criterion in enumerate(criteria, 1)
        if criterion.weight > 0 and _is_fault(_TAGS, criterion.tags, 1)
    ]
    notes += [
        f"criterion {place} has the tags {criteria[place - 1].tags} and a positive weight" for place in faults[:1]
    ]
    bare = [place for place, criterion in enumerate(criteria, 1) if "weight" not in criterion.model_fields_set]
    if 0 < len(bare) < len(criteria):
        note = f"{len(bare)} of {len(criteria)} criteria have no weight and count 10"
        notes.append(f"{note}, the first is criterion {bare[0]}")
    return notes


def find_uneven_weights(entries: Sequence[Mapping[str, Any]], *, is_own: bool = False) -> Iterator[tuple[int, str]]:
    """Yield place and problem of criteria without a weight, or with a weight in another notation than the others.

    In this package's own shape, a missing weight is 10.

    Example:
        >>> [list(find_uneven_weights([{"points": one}, {"points": two}])) for one, two in ((1, None), ("60%", 0.4))]
        [[(1, 'has no weight, but others have; give it one')], [(0, "has the weight '60%', but others are ...")]]
    """
    weights = read_weights(entries)
    given = [weight for weight in weights if weight is not None]
    in_percent = [str(weight).rstrip().endswith(("%", "％")) for weight in weights]
    is_mixed, unclear = sum(in_percent) < len(given), find_unclear_number(given)
    for place, weight in enumerate(weights):
        if weight is None and given and not is_own:
            yield place, "has no weight, but others have; give it one"
        elif in_percent[place] and is_mixed:
            yield place, f"has the weight {weight!r:.60}, but others are not in percent; write all in one unit"
        elif weight is not None and weight == unclear:
            yield place, f"has the weight {weight!r:.60}, but others have a decimal comma; write it without the point"


def read_weights(entries: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the weights of entries as they are written; None where one has none.

    Example:
        >>> read_weights([{"text": "Is kind.", "points": "60%"}, {"text": "Is brief."}])
        ['60%', None]
    """
    cells = ((entry, find_usual_keys(tuple(entry), WEIGHT_KEYS)) for entry in entries)
    return [next((entry[key] for key in keys if entry[key] not in (None, "")), None) for entry, keys in cells]


@lru_cache(maxsize=4096)
def find_usual_keys(keys: tuple[str, ...], usual: tuple[str, ...]) -> list[str]:
    """Return the keys that are usual for a part, ignoring case, in order of preference.

    Example:
        >>> find_usual_keys(("Points", "Text"), ("weight", "points")), find_usual_keys(("Weight (%)",), ("weight",))
        (['Points'], ['Weight (%)'])
        >>> find_usual_keys(("Weight (%)", "Weight"), ("weight",))
        ['Weight']
    """
    first = sorted(keys, key=lambda key: bool(_PERCENT.search(str(key))))  # Weight before Weight (%)
    by_name = {fold_name(_PERCENT.sub("", str(key))): key for key in first[::-1]}
    return [by_name[name] for name in map(fold_name, usual) if name in by_name]


def find_hidden_weights(entries: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence on weights under another key, or in the texts, if no criterion has a weight.

    Numbers from 0 or 1 on, and those of ids, groups, lengths, `other_names` and a single criterion, are not weights.

    Example:
        >>> list(find_hidden_weights([{"text": "Is kind.", "Credits": 3}, {"text": "Is brief.", "Credits": 5}]))
        ["'Credits' is 3; rename it to 'weight' if that is the weight (none has one), or put it under ..."]
        >>> list(find_hidden_weights(["Is kind (3 points)", "Is brief"]))
        ["no criterion has a weight, but a text has '(3 points)'; give each criterion a weight: ..."]
    """
    rows = [entry if isinstance(entry, Mapping) else {"text": entry} for entry in entries]
    usual = WEIGHT_KEYS[:1] if any("requirement" in row for row in rows) else WEIGHT_KEYS
    if any(row[key] not in (None, "") for row in rows for key in find_usual_keys(tuple(row), usual)):
        return

    def is_count(numbers: list[Any]) -> bool:
        return len(rows) == 1 or numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])

    for key in dict.fromkeys(key for row in rows for key in row if isinstance(key, str)):
        given = [row[key] for row in rows if row.get(key) not in (None, "")]
        numbers, words = [as_weight(value) for value in given], _split(key)
        is_other: object = is_count(numbers) or fold_name(key) in _TEXTS or words & _MEANT["counted"]
        is_other = is_other or (key.isidentifier() and len(words) > 1)  # such as minimumScale
        if given and None not in numbers and (not is_other or (words & _AMOUNT and words <= _AMOUNTS)):
            yield f"{key!r} is {given[0]!r:.60}; rename it to 'weight' if that is the weight (none has one), {_ELSE}"
    texts = [str(row[key]) for row in rows for key in find_usual_keys(tuple(row), TEXT_KEYS)[:1]]
    marks = [found[0].strip() if (found := _MARK.search(text)) else "" for text in texts]
    are_all = all(marks) and not is_count([as_number(re.sub(r"\D", "", mark)) for mark in marks])
    for mark, words in zip(marks, map(_split, marks), strict=True):
        if mark and words <= _AMOUNTS and (are_all or words & _POINTS):
            yield f"no criterion has a weight, but a text has {mark!r}; give each criterion a weight: that one, or 10"
            return


def find_stray_keys(around: Mapping[str, Any], criteria: Any) -> Iterator[str]:
    """Yield a sentence for each key next to criteria that has weights or a scale for them, or more criteria.

    Example:
        >>> list(find_stray_keys({"weights": {"Tone": 0.4}, "total_weight": 1}, []))
        ["'weights' is {'Tone': 0.4}; write each weight into its criterion"]
        >>> list(find_stray_keys({"scale": "1-5"}, ["Is kind."]))
        ["'scale' is '1-5', but without options a criterion is met or not; write it as options, each with ..."]
    """
    entries = criteria if isinstance(criteria, list) else []
    has_options = any(isinstance(entry, Mapping) and entry.get("options") for entry in entries)
    for key, value in around.items():
        words = _split(str(key))
        known = {"weights", "scores"} if isinstance(value, list) and len(value) == len(entries) else {"weights"}
        if words & (_MEANT["weight"] | known) and isinstance(value, list | Mapping) and value:
            yield f"{key!r} is {value!r:.60}; write each weight into its criterion"
        elif not has_options and "scoring" not in words and _is_scale(words, value):
            yield f"{key!r} is {value!r:.60}, {_NO_SCALE}"
        elif _has_criteria(value):
            yield f"{key!r} has {len(value)} more criteria; write all criteria into one list, {_ELSE}"


def find_section_weights(around: Mapping[str, Any], weights: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence for each key around criteria with an unapplied weight or sign, or a wrong total.

    Args:
        around: the keys of the section or of the rubric.
        weights: those of its criteria as they are written; None where one has none.

    Example:
        >>> list(find_section_weights({"weight": 0.7, "total_weight": "all", "points": 5}, [2, 3]))
        ["'weight' is 0.7; nothing applies it: multiply it into the weights of its criteria"]
        >>> list(find_section_weights({"max_points": 6}, [2, 3]))
        ["'max_points' is 6, but the weights of its criteria add up to 5; correct them, or leave it out"]
    """
    numbers = [10.0 if weight is None else as_weight(weight) or 0 for weight in weights]
    added = sum(number for number in numbers if number > 0)
    for key, value in around.items():
        words, number = _split(str(key)), as_weight(value)
        if number is not None and math.isclose(number, added):
            continue
        if number is not None and words & _MEANT["total"] and words <= _AMOUNTS:
            problem = f"the weights of its criteria add up to {added:g}; correct them, or leave it out"
            yield f"{key!r} is {value!r:.60}, but {problem}"
        elif number not in (None, 1) and words & _MEANT["weight"]:
            yield f"{key!r} is {value!r:.60}; {_UNAPPLIED}"
        elif added and _is_fault(words, value, added):
            yield f"{key!r} is {value!r:.60}; give its criteria negative weights, {_ELSE}"


def find_total_rows(criteria: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield a sentence for each criterion (text and weight) that is a row of a table with a sum of the weights above.

    Example:
        >>> list(find_total_rows([("Is kind.", 3), ("Subtotal", 3), ("Is brief.", 2), ("Grand total", 5)]))[1]
        "criterion 4 is 'Grand total' and has the sum of other weights; leave it out"
    """
    added = since = 0.0
    for number, (text, weight) in enumerate(criteria, 1):
        words = _split(text) if len(text) < 40 else frozenset()
        is_total = words & _MEANT["total"] and words <= _AMOUNTS
        if number > 1 and is_total and (math.isclose(added, weight) or math.isclose(since, weight)):
            yield f"criterion {number} is {text!r} and has the sum of other weights; leave it out"
            since = 0
        else:
            added, since = added + weight, since + weight


def find_wholes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each row with a number such as 1 and the sum of the weights of its parts, 1.1 and 1.2.

    Example:
        >>> rows = [{"No": "1", "Points": "5"}, {"No": "1.1", "Points": "3"}, {"No": "1.2", "Points": "2"}]
        >>> list(find_wholes(rows))
        ['row number 1 has the sum of the weights of 1.1 and others; leave it out']
    """
    weights = [as_weight(weight) or 0 for weight in read_weights(rows)]
    texts = (" ".join(str(row[key]) for key in row if fold_name(key) not in WEIGHT_KEYS) for row in rows)
    numbers = [found[1] if (found := _NUMBERED.match(text)) else "" for text in texts]
    for number, weight in zip(numbers, weights, strict=True):
        pairs = zip(weights, numbers, strict=True)
        parts = [part for part, other in pairs if other.rpartition(".")[0] == (number or None)]
        if parts and math.isclose(sum(parts), weight):
            yield f"row number {number} has the sum of the weights of {number}.1 and others; leave it out"


@lru_cache(maxsize=4096)
def _split(key: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORDS.findall(key))


def _is_weight(words: frozenset[str], value: Any) -> bool:
    if isinstance(value, str) and value.strip() and words & _IN_WORDS:
        return True
    return bool(words & _MEANT["weight"] or words >= {"max", "score"}) and as_weight(value) is not None


def _has_criteria(value: Any) -> bool:
    """Return whether a list has criteria, by the keys of its entries."""
    entries = [entry.keys() for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    return any(keys & {*TEXT_KEYS} and keys & {"weight", "points", "requirement"} for keys in entries)


def _has_parts(words: frozenset[str], value: Any) -> bool:
    return bool(words & _MEANT["parts"] and not words & _IDS and isinstance(value, list | Mapping) and value)


def _is_fault(words: frozenset[str], value: Any, weight: Any) -> bool:
    """Return whether a key says that meeting the criterion is a fault."""
    flag = str(value).strip().casefold()
    if words & _MEANT["sign"]:
        values = [str(tag).rpartition(":")[2].strip() for tag in (value if isinstance(value, list) else [value])]
        meant = _MEANT["fault"] - {"negative"} if words == _TAGS else _MEANT["fault"]
        return any(tag in ("-", "-1") or ((inner := _split(tag)) & meant and inner <= _FAULTY) for tag in values)
    if words & _MEANT["merit"]:
        return flag in ("false", "no")
    is_number = weight is None and as_number(value) is not None
    return bool(words & _MEANT["fault"]) and (flag in ("true", "yes") or is_number)


def _is_met_worst(key: str, entry: Mapping[str, Any], has_options: bool) -> bool:
    """Return whether the choices of a criterion in a file of verifiers say that meeting it is a fault."""
    return key == "choices" and "text" in entry and entry[key] == ["MET", "UNMET"] and not has_options


def _is_scale(words: frozenset[str], value: Any) -> bool:
    ranges = words & _RANGES and words <= _AMOUNTS | _RANGES
    if not ranges and not words & (_MEANT["scale"] - _RANGES):
        return _has_scores(value)
    if isinstance(value, str):
        return "|" in value or not set(re.findall(r"\d+", value)) <= {"0", "1"}
    verdicts = _VERDICTS | {"0", "1"} if isinstance(value, list) else _VERDICTS
    return isinstance(value, list | Mapping) and len(value) > 1 and not verdicts.issuperset(map(str, value))


def _has_scores(value: Any) -> bool:
    """Return whether a value has texts by score, such as `{1: "poor", 5: "good"}`, or entries with a `score`."""
    if isinstance(value, list):
        return len(value) > 1 and all(isinstance(entry, Mapping) and "score" in entry for entry in value)
    texts = value.items() if isinstance(value, Mapping) and len(value) > 1 else [("", None)]
    return all(OF_SCORE.match(str(key)) and isinstance(text, str) for key, text in texts)


def _is_level(key: str) -> bool:
    """Return whether a key is a score, such as `score1_description`, or the name of a level, such as `Good (3)`."""
    words = _split(key)
    return bool(OF_SCORE.match(key) or (words & _MEANT["level"] and words <= _MEANT["level"] | _MEANT["besides"]))
