"""Alternative wordings: from the writer, which sees errors on the teaching set, or from elsewhere."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any

from autorubric.checks import CHECKS
from autorubric.checks.check_registry import BUILT_IN
from autorubric.dataset.ground_truth import find_criterion
from autorubric.errors import InputError, clip, collected
from autorubric.files.strict_json import parse_json
from autorubric.graders.judge import Ask, request_again
from autorubric.improvement.changed_wording import KINDS, Wording
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.measures import list_categories
from autorubric.improvement.search import Commission, Note, WriterItem
from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Failure, Message, Model, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.structured import read_json
from autorubric.llm.thinking import Reasoning, split_reasoning
from autorubric.prompts.library import load_schema
from autorubric.prompts.template import Template
from autorubric.rows import drop_nulls, inspect_file

ROLE = "writer"
_LONGEST_SHOWN = 4000
"""Maximum characters of a submission that the writer sees."""


@cache
def load_writer_prompt() -> Template:
    """Return the prompt that asks for wordings."""
    return Template.from_package("improve")


@cache
def _load_reply_schema() -> ReplySchema:
    return ReplySchema("alternatives", load_schema("improve"))


def build_request(
    template: Template, labelled: LabelledRubric, commission: Commission, draw: int = 0, reasoning: Reasoning = "drop"
) -> Request:
    """Return the request for alternatives to a wording, with submissions as their judge sees them."""

    def show(case: WriterItem) -> dict[str, Any]:
        seen = split_reasoning(labelled.dataset[case.item].submission, reasoning)[1]
        told = {"label": case.label, "verdict": case.verdict, "reason": case.reason, "votes": list(case.votes)}
        return {"submission": clip(seen, _LONGEST_SHOWN), **told}  # these keys in this order are part of requests

    wording = commission.wording
    criterion = labelled.rubric[wording.place]
    scale = None if criterion.options is None else "\n".join(list_categories(criterion))
    turns = template.render(
        query=labelled.dataset.prompt or "",
        requirement="\n".join(wording.requirements),
        pitfall=criterion.weight < 0,
        scale=scale,
        labelled=labelled.has_labels,
        errors=[*map(show, commission.errors)],
        right=[*map(show, commission.right)],
        failed=list(commission.failed),
        checks=_list_checks(),
        count=commission.count,
    )
    messages = tuple(starmap(Message, turns))
    return Request(messages, ROLE, _load_reply_schema(), draw, room=estimate_room(entries=commission.count))


@cache
def _list_checks() -> str:
    """Return the package's own checks that need no further package, as calls."""
    # Not those that a program registers: requests must not depend on when it does.
    modules = {module.__name__ for module in BUILT_IN}
    own = [
        check
        for check in CHECKS.values()
        if check.function.__module__ in modules and not (check.needs_text or check.packages or ":" in check.name)
    ]
    return "; ".join(f"{check.name}({', '.join(_list_parameters(check.function))})" for check in own)


def _list_parameters(function: Any) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]


def read_alternatives(reply: Reply, commission: Commission, author: str) -> Answer[list[Wording]] | Unreadable:
    """Return the candidates in a reply, at most as many as were asked for.

    Example:
        >>> text = '{"alternatives": [{"kind": "reword", "requirement": "Names the heat.", "reason": "Vague."}]}'
        >>> asked = Commission(Wording("Cause", 0, ("Names causes.",)), [], [], 4, 1)
        >>> read_alternatives(Reply(text), asked, "m").value[0].name
        'Cause/1.1'
    """
    found = read_json(reply, "array", ("alternatives",), named="reason")
    if isinstance(found, Unreadable):
        return found
    wordings, notes = list[Wording](), list(found.notes)
    base = commission.wording.name.partition("/")[0]
    for number, entry in enumerate(found.value[: commission.count], start=1):
        name = f"{base}/{commission.number}.{number}"
        try:
            wordings.append(read_wording(entry, name, commission.wording, author))
        except InputError as error:
            notes.append(f"{name}: left out: {error}")
    if not wordings:
        return Unreadable("unreadable", "the reply has no alternative that can be used")
    return Answer(wordings, reply, tuple(notes))


def read_wording(entry: Any, name: str, parent: Wording, author: str) -> Wording:
    """Return the candidate in one entry of a list.

    Raises:
        InputError: it has no requirement, or what its kind needs is missing.
    """
    if not isinstance(entry, Mapping):
        raise InputError("it is not an object")
    kind = str(entry.get("kind") or "reword").strip().casefold()
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    texts = [str(entry.get(key) or "").strip() for key in ("requirement", "second")]
    if not texts[0]:
        raise InputError("it has no requirement")
    if kind == "split" and not texts[1]:
        raise InputError("a split needs a second requirement")
    requirements = tuple(texts) if kind == "split" else (texts[0],)
    check = _read_check(entry) if kind == "check" else None
    reason = str(entry.get("reason") or "").strip()
    told = next(known for known in KINDS if known == kind)
    return Wording(name, parent.place, requirements, told, check, author, reason, parent.name)


def _read_check(entry: Mapping[str, Any]) -> dict[str, Any]:
    parameters = entry.get("parameters") or {}
    if isinstance(parameters, str):
        parameters = parse_json(parameters, "parameters")
    if not isinstance(parameters, dict):
        raise InputError("the parameters of its check are not an object")
    return {"name": str(entry.get("check") or ""), "parameters": parameters}


@dataclass
class Writer:
    """Asks a model for wordings, through the run's ledger and budget.

    Attributes:
        model: the writer.
        ask: asks it.
        labelled: the labelled items.
        template: the prompt.
        draws: the first draw of this generation of replies.
        note: collects events of the log.
        reasoning: whether the judge sees the reasoning of the submissions.
    """

    model: Model
    ask: Ask
    labelled: LabelledRubric
    template: Template
    draws: int = 0
    note: Note = lambda kind, **values: None
    reasoning: Reasoning = "drop"

    async def write(self, commission: Commission) -> list[Wording] | Failure:
        """Return the candidates, or why there are none.

        Raises:
            Stopped: no call to the writer can succeed.
        """
        request = build_request(self.template, self.labelled, commission, self.draws, self.reasoning)
        answer = await self.ask(
            self.model, request, lambda reply: read_alternatives(reply, commission, self.model.name), request_again
        )
        if isinstance(answer, Failure):
            name = commission.wording.name
            self.note("writer_failed", criterion=name, problem=str(answer))
            if answer.ends_run:
                raise Stopped(answer)
            return replace(answer, message=f"the writer proposed no alternatives for {name!r} ({answer})")
        self.note("written", criterion=commission.wording.name, round=commission.number, count=len(answer.value))
        for note in answer.notes:
            self.note("writer_note", criterion=commission.wording.name, problem=note)
        return list(answer.value)


class Stopped(Exception):
    """A failure after which no call can succeed, or too many failures to decide anything."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def read_proposals(path: Path, labelled: LabelledRubric) -> list[Wording]:
    """Return the candidates in a file: a list of `{criterion, requirement, reason, …}`, in JSON, YAML or TOML.

    A second requirement is `second`, a check is `check: {name, parameters}`; entries without a requirement, such as
    findings that propose nothing, are left out. Other keys (`quote`, `severity`) are allowed.

    Raises:
        InputError: it is not such a list, or an entry names a criterion that the rubric does not have.
    """
    entries = _read_entries(path)
    if not isinstance(entries, list):
        raise InputError(f"{path}: expected a list of proposals, each with 'criterion' and 'requirement'")
    found, problems = list[Wording](), list[str]()
    for number, entry in enumerate(entries, start=1):
        with collected(problems, f"{path}: proposal {number}: "):
            if (wording := _read_proposal(entry, number, labelled, path)) is not None:
                found.append(wording)
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError(f"{path}: no proposal has a 'requirement'; there is nothing to try")
    return found


def _read_entries(path: Path) -> Any:
    source = inspect_file(path, what="Proposal file")
    if source.is_document:
        record = source.read_document()
        return record.get("proposals") if isinstance(record, Mapping) else record
    problems: list[str] = []
    rows = [drop_nulls(row.fields) for row in source.iter_rows(problems)]
    if problems:
        raise InputError(problems)
    return rows


def _read_proposal(entry: Any, number: int, labelled: LabelledRubric, path: Path) -> Wording | None:
    if not isinstance(entry, Mapping):
        raise InputError(f"expected an object, got {type(entry).__name__}")
    if not str(entry.get("requirement") or "").strip():
        return None
    if not isinstance(entry.get("criterion"), str):
        raise InputError("it has no 'criterion', the name of the criterion that it changes")
    place = find_criterion(entry["criterion"], labelled.rubric)
    name = f"{labelled.names[place]}/0.{number}"
    own: dict[str, Any] = {"kind": "split" if entry.get("second") else "reword"}
    if (check := entry.get("check")) and isinstance(check, Mapping):
        own = {"kind": "check", "check": check.get("name"), "parameters": check.get("parameters")}
    return read_wording({**entry, **own}, name, Wording(labelled.names[place], place, ("",)), str(path))


def find_places(labelled: LabelledRubric, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the places of the criteria that are named; None if none is.

    Raises:
        InputError: the rubric has no such criterion.
    """
    if not names:
        return None
    problems, found = list[str](), list[int]()
    for name in names:
        with collected(problems, "--criterion (Python: criterion=): "):
            found.append(find_criterion(name, labelled.rubric))
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(found))
