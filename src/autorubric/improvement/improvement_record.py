"""The record of an improvement as JSON values, and the improved rubric: provenance, word diff, undo."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.dataset.ground_truth import find_criterion
from autorubric.errors import InputError, collected
from autorubric.improvement.acceptance import estimate_groups_needed
from autorubric.improvement.changed_wording import IMPROVED, Wording
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.samples import SampleSplit
from autorubric.improvement.study import WEIGHTS, Aims, Improvement, compute_test_confidence

_TOKEN = re.compile(r"\s+|[㐀-鿿぀-ヿ]|\w+|[^\w\s]")


def diff_words(old: str, new: str) -> list[tuple[str, str]]:
    """Return the words of two texts as (`same`, `old` or `new`, text), in order.

    Example:
        >>> diff_words("Names a cause.", "Names the main cause.")
        [('same', 'Names '), ('old', 'a'), ('new', 'the main'), ('same', ' cause.')]
    """
    first, second = _TOKEN.findall(old), _TOKEN.findall(new)
    found = list[tuple[str, str]]()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            found.append(("same", "".join(first[a:b])))
            continue
        found += [
            (name, text) for name, text in (("old", "".join(first[a:b])), ("new", "".join(second[c:d]))) if text
        ]
    return found


def build_record(
    labelled: LabelledRubric, split: SampleSplit, aims: Aims, found: Improvement, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the record of everything that was tried, measured and decided.

    Args:
        labelled: rubric and labels.
        split: the teaching, choosing and test sets.
        aims: the aims of the improvement.
        found: the result.
        about: further entries on the run, such as the names of the models.
    """
    return {
        **about,
        "against": aims.measure if labelled.has_labels else "panel agreement, without labels",
        "has_labels": labelled.has_labels,
        "confidence": compute_test_confidence(aims, split),
        "criteria": len(labelled.rubric),
        "items": {name: len(getattr(split, name)) for name in ("teach", "choose", "test")},
        **({"unlabelled": without} if (without := len(labelled) - len(split.items)) else {}),
        "groups": len(set(labelled.groups[split.items].tolist())),
        "split": "nested" if split.is_nested else "three",
        "folds": len(split.folds),
        "agreement": {name: _show_statistic(value, aims) for name, value in _round_numbers(found.agreement).items()},
        "noise": _round_numbers(found.noise),
        "retest": {
            name: list(_round_numbers(dict(enumerate(values))).values()) for name, values in found.retest.items()
        },
        "skipped": found.skipped,
        "tried": [trial.to_dict() for searched in found.searched for trial in searched.tried],
        "tests": [_describe_test(labelled, found, wording, aims) for wording in found.finalists.wordings],
        "weights": _describe_weights(labelled, found),
    }


def _round_numbers(numbers: Mapping[Any, float]) -> dict[Any, float | None]:
    return {name: None if np.isnan(number) else round(float(number), 12) for name, number in numbers.items()}


def _show_statistic(value: float | None, aims: Aims) -> float | None:
    """Return a statistic for display; the search maximizes the negative of the score error."""
    return -value if value is not None and aims.measure == "score_error" else value


def _describe_test(labelled: LabelledRubric, found: Improvement, wording: Wording, aims: Aims) -> dict[str, Any]:
    old, decision = labelled.rubric[wording.place], found.decisions[wording.name]
    evidence, needed = decision.to_dict(), estimate_groups_needed(decision)
    return {
        **wording.to_dict(),
        "why": wording.reason,
        "criterion": labelled.names[wording.place],
        "old": {"requirement": old.requirement, "check": old.check},
        **evidence,
        **{name: _show_statistic(evidence[name], aims) for name in ("before", "after")},
        "second": found.second.get(wording.name),
        "noise": found.noise.get(labelled.names[wording.place]),
        **({"failed": failed} if (failed := found.failed.get(wording.name)) else {}),
        **({} if needed is None else {"groups_needed": needed}),
    }


def _describe_weights(labelled: LabelledRubric, found: Improvement) -> dict[str, Any] | None:
    if WEIGHTS not in found.decisions or found.finalists.weights is None:
        return None
    changes = [
        {"criterion": name, "old": float(old), "new": float(new)}
        for name, old, new in zip(labelled.names, labelled.weights, found.finalists.weights, strict=True)
        if old != new
    ]
    evidence = found.decisions[WEIGHTS].to_dict()
    errors = {name: None if evidence[name] is None else -evidence[name] for name in ("before", "after")}
    return {"changes": changes, **evidence, **errors}


def build_improved_rubric(rubric: Rubric, record: Mapping[str, Any]) -> Rubric:
    """Return the rubric with the accepted changes, each with its provenance in the criterion's metadata.

    Args:
        rubric: the original.
        record: see `build_record`.
    """
    weights = record["weights"] if record["weights"] and record["weights"]["accepted"] else None
    reweighted = {change["criterion"]: change for change in weights["changes"]} if weights else {}
    criteria = list[Criterion]()
    by_place = {test["place"]: test for test in record["tests"] if test["accepted"]}
    for place, (name, old) in enumerate(zip(name_criteria(list(rubric)), rubric, strict=True)):
        criterion = old
        if name in reweighted:
            criterion = _add_provenance(old, old, "weight", reweighted[name], weights or {}, record)
            criterion = criterion.model_copy(update={"weight": reweighted[name]["new"]})
        test = by_place.get(place)
        if test is None:
            criteria.append(criterion)
            continue
        wording = Wording.from_dict({**{key: test[key] for key in _WORDING}, "reason": test["why"]})
        base = Rubric([*rubric[:place], criterion, *rubric[place + 1 :]]) if criterion is not old else rubric
        criteria += [
            _add_provenance(criterion, old, test["kind"], test, test, record)
            for criterion in wording.to_criteria(base)
        ]
    return _replace_criteria(rubric, criteria)


_WORDING = ("name", "place", "kind", "requirements", "check", "author", "reason", "parent")
_EVIDENCE = ("before", "after", "difference", "interval", "confidence", "p_value", "p_holm", "groups", "second")


def _add_provenance(
    criterion: Criterion, old: Criterion, kind: str, change: Mapping[str, Any], test: Mapping[str, Any],
    record: Mapping[str, Any],
) -> Criterion:  # fmt: skip
    metadata = dict(criterion.metadata)
    metadata[IMPROVED] = {
        "was": _dump_criterion(old),
        "kind": kind,
        "author": change.get("author") or record.get("writer") or "",
        "reason": change.get("why") or "",
        "against": record["against"],
        "judges": record.get("judges"),
        "items": record["items"],
        **{name: test.get(name) for name in _EVIDENCE},
        "at": record.get("at"),
    }
    return criterion.model_copy(update={"metadata": metadata})


def _replace_criteria(rubric: Rubric, criteria: Sequence[Criterion]) -> Rubric:
    document = rubric.to_dict()
    made = Rubric(list(criteria))
    return Rubric.from_dict({**document, "criteria": made.to_dict()}) if isinstance(document, dict) else made


def undo(rubric: Rubric, names: Iterable[str]) -> Rubric:
    """Return the rubric with accepted changes reverted, given the names of changed criteria.

    Args:
        rubric: an improved rubric with its provenance.
        names: the names of criteria; for a split, either half or the original name.

    Raises:
        InputError: no such criterion was changed.

    Example:
        >>> old = Criterion(name="Cause", requirement="Names causes.")
        >>> new = Criterion(name="Cause", requirement="Names two causes.",
        ...                 metadata={"improved": {"was": {"name": "Cause", "requirement": "Names causes."}}})
        >>> undo(Rubric([new]), ["Cause"])[0].requirement
        'Names causes.'
    """
    criteria, problems = list(rubric), list[str]()
    for name in names:
        with collected(problems, "--undo (Python: undo=): "):
            criteria = _revert_change(criteria, name)
    if problems:
        raise InputError(problems)
    return _replace_criteria(rubric, criteria)


def apply_undo(rubric: Rubric, record: Mapping[str, Any], names: Sequence[str]) -> tuple[Rubric, dict[str, Any]]:
    """Revert `names` in the improved rubric and the record, where reverted tests and weights get `taken_back`.

    Args:
        rubric: the original.
        record: see `build_record`.
        names: names as in `undo`; names without a change are ignored.
    """
    made, gone = build_improved_rubric(rubric, record), list[str]()
    for name in dict.fromkeys(names):
        try:
            made = undo(made, [name])
        except InputError:
            continue  # it may have been a change of another run to the same rubric
        gone.append(name)
    kept = [_find_original(criterion) for criterion in made]
    tests = [
        {**test, "taken_back": test["accepted"] and _dump_criterion(rubric[test["place"]]) not in kept}
        for test in record["tests"]
    ]
    return made, {**record, "tests": tests, "undone": gone}


def _dump_criterion(criterion: Criterion) -> dict[str, Any]:
    return criterion.model_dump(mode="json", exclude_defaults=True)


def _revert_change(criteria: list[Criterion], name: str) -> list[Criterion]:
    by_old = [place for place, criterion in enumerate(criteria) if _find_original(criterion).get("name") == name]
    places = by_old or [find_criterion(name, criteria)]
    was = _find_original(criteria[places[0]])
    if not was:
        changed = [repr(one.name or one.requirement) for one in criteria if _find_original(one)]
        raise InputError(f"criterion {name!r} was not changed; changed criteria: {', '.join(changed) or 'none'}")
    halves = [place for place, criterion in enumerate(criteria) if _find_original(criterion) == was]
    kept = [criterion for place, criterion in enumerate(criteria) if place not in halves[1:]]
    kept[halves[0]] = Criterion.model_validate(was)
    return kept


def _find_original(criterion: Criterion) -> dict[str, Any]:
    record = criterion.metadata.get(IMPROVED)
    was = record.get("was") if isinstance(record, Mapping) else None
    return dict(was) if isinstance(was, Mapping) else {}
