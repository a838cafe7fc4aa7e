"""Requests for a review, and the findings in replies, also as a page and in the shapes of lint."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import starmap
from typing import Any

from autorubric.charts.html import load_page_template
from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.errors import pluralize
from autorubric.linting.finding import SEVERITIES, Finding, Location, Rule
from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Message, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.structured import read_json
from autorubric.prompts.library import load_schema
from autorubric.prompts.template import Template
from autorubric.reviewing.principles import Principle, list_principles, show_criteria

ROLE = "reviewer"
_EXPECTED_FINDINGS = 4
_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """A fault that the reviewer found.

    Attributes:
        number: the number of the criterion, from 1; 0 for the rubric as a whole.
        criterion: the criterion's name; empty for the rubric as a whole.
        principle: the id of the principle.
        severity: error, warning or note.
        reason: what goes wrong.
        quote: words of the rubric, verbatim; empty where something is missing.
        requirement: the proposed wording of the criterion; empty for none.
    """

    number: int
    criterion: str
    principle: str
    severity: str
    reason: str
    quote: str
    requirement: str

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values; one with a `requirement` is a proposal for `improve`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReviewPart:
    """The subject of one request.

    Attributes:
        rubric: the rubric.
        number: the number of the criterion, from 1; 0 for the rubric as a whole.
        query: the task; empty if it is not known.
    """

    rubric: Rubric
    number: int
    query: str = ""

    @property
    def principles(self) -> tuple[Principle, ...]:
        """The principles that it is reviewed against."""
        return list_principles(in_context=bool(self.query), of="criterion" if self.number else "rubric")


def list_parts(rubric: Rubric, query: str = "") -> list[ReviewPart]:
    """Return the rubric as a whole, then each criterion that a judge reads.

    Example:
        >>> rubric = Rubric([Criterion(requirement="Is kind"), Criterion(requirement="Names the year")])
        >>> [part.number for part in list_parts(rubric)]
        [0, 1, 2]
    """
    judged = [number for number, criterion in enumerate(rubric, start=1) if criterion.check is None]
    return [ReviewPart(rubric, number, query) for number in (0, *judged)]


@cache
def load_review_prompt() -> Template:
    """Return the prompt that asks for a review."""
    return Template.from_package("review")


@cache
def _load_reply_schema(known: tuple[str, ...]) -> ReplySchema:
    body = load_schema("review")
    body["properties"]["findings"]["items"]["properties"]["principle"]["enum"] = list(known)
    return ReplySchema("findings", body)


def build_request(part: ReviewPart, draw: int = 0) -> Request:
    """Return the request for the findings on a part.

    Example:
        >>> request = build_request(ReviewPart(Rubric([Criterion(requirement="Is kind")]), 1))
        >>> request.role, request.schema.name
        ('reviewer', 'findings')
    """
    turns = load_review_prompt().render(
        query=part.query,
        guidelines=part.rubric.guidelines or "",
        criteria=show_criteria(part.rubric),
        principles=[{"id": principle.id, "fault": principle.fault} for principle in part.principles],
        quoteless=[principle.id for principle in part.principles if not principle.quote],
        number=part.number,
        requirement=part.rubric[part.number - 1].requirement if part.number else "",
    )
    schema = _load_reply_schema(tuple(principle.id for principle in part.principles))
    return Request(tuple(starmap(Message, turns)), ROLE, schema, draw, room=estimate_room(entries=_EXPECTED_FINDINGS))


def read_findings(part: ReviewPart, reply: Reply) -> Answer[list[ReviewFinding]] | Unreadable:
    """Read the findings in a reply; unreadable if one names no principle or quotes words that are not in the rubric.

    Example:
        >>> part = ReviewPart(Rubric([Criterion(name="Tone", requirement="Is kind")]), 1)
        >>> entry = '{"reason": "R", "principle": "clear", "severity": "note", "criterion": 1, "quote": "%s"}'
        >>> read_findings(part, Reply('{"findings": [%s]}' % (entry % "kind"))).value[0].quote
        'kind'
        >>> read_findings(part, Reply('{"findings": [%s]}' % (entry % "polite"))).message
        "finding 1: the quote 'polite' is not in criterion 1; copy its words letter by letter"
    """
    found = read_json(reply, "array", ("findings",))
    if isinstance(found, Unreadable):
        return found
    findings, problems = _read_entries(part, found.value)
    if problems:
        more = [f"and {len(problems) - _MOST_TOLD} more"] if len(problems) > _MOST_TOLD else []
        return Unreadable("unreadable", "; ".join([*problems[:_MOST_TOLD], *more]))
    return Answer(findings, reply, found.notes)


def read_usable_findings(part: ReviewPart, reply: Reply | None) -> list[ReviewFinding]:
    """Return the usable findings in a reply that also has unusable ones.

    Example:
        >>> part = ReviewPart(Rubric([Criterion(name="Tone", requirement="Is kind")]), 1)
        >>> entry = '{"reason": "R", "principle": "clear", "severity": "note", "quote": "%s"}'
        >>> reply = Reply('{"findings": [%s, %s]}' % (entry % "polite", entry % "kind"))
        >>> [one.quote for one in read_usable_findings(part, reply)]
        ['kind']
    """
    found = None if reply is None else read_json(reply, "array", ("findings",))
    return [] if found is None or isinstance(found, Unreadable) else _read_entries(part, found.value)[0]


def _read_entries(part: ReviewPart, entries: Sequence[Any]) -> tuple[list[ReviewFinding], list[str]]:
    """Return the findings in the entries, each once, and what is wrong with the other entries."""
    findings, problems = list[ReviewFinding](), list[str]()
    for number, entry in enumerate(entries, start=1):
        read = _read_finding(part, entry)
        if isinstance(read, str):
            problems.append(f"finding {number}: {read}")
        else:
            findings.append(read)
    return list(dict.fromkeys(findings)), problems


def _read_finding(part: ReviewPart, entry: Any) -> ReviewFinding | str:
    """Return the finding in an entry, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return f"expected an object, got {type(entry).__name__}"
    known = {principle.id: principle for principle in part.principles}
    principle, severity = (str(entry.get(key) or "").strip().lower() for key in ("principle", "severity"))
    reason, quote, proposed = (str(entry.get(key) or "").strip() for key in ("reason", "quote", "requirement"))
    number = _read_number(part, entry.get("criterion"))
    expected = part.number or f"a number from 0 to {len(part.rubric)}"
    problems = {
        f"principle {principle!r:.60} is not one of {', '.join(known)}": principle not in known,
        f"severity {severity!r:.60} is not one of {', '.join(SEVERITIES)}": severity not in SEVERITIES,
        f"criterion {entry.get('criterion')!r:.60} is not {expected}": number is None,
        "it has no reason": not reason,
    }
    if any(problems.values()) or number is None:
        return next(problem for problem, is_there in problems.items() if is_there)
    about = [part.rubric[number - 1]] if number else list(part.rubric)
    words = _find_verbatim(quote, about)
    if words is None and (quote or known[principle].quote):
        where = f"criterion {number}" if number else "the rubric"
        return f"the quote {quote!r:.200} is not in {where}; copy its words letter by letter"
    if not number or proposed == about[0].requirement.strip():
        proposed = ""
    name = name_criteria(list(part.rubric))[number - 1] if number else ""
    return ReviewFinding(number, name, principle, severity, reason, words or "", proposed)


def _read_number(part: ReviewPart, given: Any) -> int | None:
    if part.number:
        # Each request is about one criterion, so a missing number is unambiguous.
        return part.number if given in (None, "", part.number, str(part.number)) else None
    try:
        number = int(given or 0)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= len(part.rubric) else None


def _find_verbatim(quote: str, criteria: Sequence[Criterion]) -> str | None:
    """Return the quoted words as they are in a criterion; case, spaces and surrounding marks may differ."""
    bare = quote.strip("\"'“”‘’「」 .…")
    if not bare:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, bare.split())), re.IGNORECASE)
    texts = (
        text
        for criterion in criteria
        for text in (criterion.requirement, *(option.label for option in criterion.options or ()))
    )
    found = next(filter(None, map(pattern.search, texts)), None)
    return found.group() if found else None


def as_lint_finding(finding: ReviewFinding, file: str) -> Finding:
    """Return a finding in the shape of lint's, for terminals and SARIF."""
    message = f"{finding.reason.rstrip('.')} ({finding.quote!r})" if finding.quote else finding.reason.rstrip(".")
    proposed = f"Proposed: {finding.requirement.rstrip('.')}" if finding.requirement else "No wording was proposed"
    severity = next(severity for severity in SEVERITIES if severity == finding.severity)
    place = Location(file)
    return Finding(place, finding.number or None, finding.criterion, finding.principle, severity, message, proposed)


def list_review_rules() -> list[Rule]:
    """Return the principles in the shape of lint's rules, for SARIF."""
    return [
        Rule(principle.id, principle.severity, principle.fault.rstrip("."), lambda _: iter(()))
        for principle in list_principles(in_context=True)
    ]


def summarize(findings: Sequence[ReviewFinding], failures: int) -> str:
    """Return the counts in one sentence.

    Example:
        >>> summarize([], 0)
        '0 errors, 0 warnings, 0 notes'
    """
    counts = ", ".join(pluralize(sum(finding.severity == name for finding in findings), name) for name in SEVERITIES)
    return f"{counts}; {pluralize(failures, 'part')} not reviewed" if failures else counts


def render_page(record: Mapping[str, Any]) -> str:
    """Return the report of a review.

    Args:
        record: what `review.json` holds.
    """
    return load_page_template("autorubric.reviewing").render(record=record, severities=SEVERITIES)
