"""Shared by all judges that call a model: requests, variables of prompts, and parsing of replies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import starmap
from typing import Any, Literal, TypeAlias

from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.core.usage import TokenUsage
from autorubric.core.values import value_class
from autorubric.errors import ConfigError
from autorubric.extras import require
from autorubric.graders.few_shot import FewShot
from autorubric.graders.judge import JudgeInput, ShownOptions, as_judged, shown_order
from autorubric.llm.request import (
    Answer,
    CallError,
    Failure,
    Message,
    Model,
    Reply,
    ReplySchema,
    Request,
    Unreadable,
    ask_again,
)
from autorubric.llm.structured import fold_keys, read_json, read_text, without_thinking
from autorubric.prompts.judging import JudgePrompts, package_judge_prompts
from autorubric.prompts.library import load_schema

_VERDICTS = {
    word: verdict
    for verdict, words in {
        CriterionVerdict.MET: ("met", "true", "satisfied", "满足", "已满足", "滿足"),
        CriterionVerdict.UNMET: (
            "unmet",
            "not met",
            "false",
            "not satisfied",
            "不满足",
            "未满足",
            "不滿足",
            "未滿足",
        ),
        CriterionVerdict.CANNOT_ASSESS: ("cannot assess", "无法评估", "无法判断", "無法評估", "無法判斷"),
    }.items()
    for word in words
}
_WORDS = {verdict.value: verdict for verdict in CriterionVerdict}
# To the question whether a criterion is met, yes and no are answers; to that for its status they are not.
_TRUTHS = {"yes": CriterionVerdict.MET, "no": CriterionVerdict.UNMET}
_LABEL = re.compile(
    r"\A[\s*_`\"']*(?:final\s+)?(?:verdict|criterion[ _]status|判定|结论)[\s*_`\"']*[:：]", re.IGNORECASE
)
_EXPLANATIONS = ("explanation", "reason", "rationale")
_SEPARATORS = re.compile(r"[\s_\-]+")
_KEYS = ("criterion_status", "criteria_met", "selected_option", "verdict")
_STATED = re.compile(
    rf"""["'“”]({"|".join(_KEYS)})["'“”]\s*[:：]\s*("[^"\n]{{0,80}}"|'[^'\n]{{0,80}}'|“[^”\n]{{0,80}}”|[\w.+-]+)"""
)
_CONCLUDED = re.compile(
    r"\b(?:criterion|requirement|condition)\b[^.\n]{0,30}?\b(?:is|was|are)\s+(not\s+met|unmet|met)\b", re.IGNORECASE
)
_MOST_EVIDENCE = 2000  # characters of a reply that are kept with a failure
NO_VERDICT = frozenset({"unreadable", "truncated", "empty", "refusal"})
"""Kinds of failure in which a reply came and held no verdict."""


@value_class(frozen=True, slots=True)
class Said:
    """A judge's statement on one criterion, before it becomes a judgment."""

    verdict: CriterionVerdict | None = None
    option: int | None = None
    explanation: str | None = None
    quotes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    reasoning: str | None = None


def read_said(reply: Reply, shown: ShownOptions | None = None) -> Answer[Said] | Unreadable:
    """The verdict in a reply, or the option where options were shown: its number or its label.

    The verdict has to be one of the three words or a plain equivalent, for any case and spelling ("Not met",
    false and "不满足" are UNMET). Nothing is guessed from prose, and a reply with verdicts that differ has none.
    """
    keys = ("criterion_status", "criteria_met", "verdict") if shown is None else ("selected_option",)
    found = read_json(reply, "object", keys)
    if isinstance(found, Unreadable):
        return (_bare_word(reply) if shown is None else None) or found
    said = read_entry(found.value, shown, found.notes)
    if isinstance(said, Unreadable):
        return said
    several = sum(map(reply.text.count, _KEYS)) > 1
    return (several and _disagreement(reply)) or Answer(said, reply, found.notes)


def read_entry(
    record: Mapping[str, Any], shown: ShownOptions | None, notes: tuple[str, ...] = ()
) -> Said | Unreadable:
    """The statement in a reply on one criterion (or in an entry of a reply on a rubric), or why it is unusable."""
    record = fold_keys(record)
    if shown is None:
        verdict = verdict_in(record)
        return verdict if isinstance(verdict, Unreadable) else Said(verdict, None, *_account(record, notes, verdict))
    chosen = record.get("selected_option")
    if chosen is None:
        return _refused("the reply holds no selected_option")
    option = shown.find_index(chosen)
    if option is None:
        return _refused(f"selected_option is {chosen!r:.80}; expected a number from 1 to {len(shown.order)}")
    return Said(None, option, *_account(record, notes))


def verdict_in(record: Mapping[str, Any]) -> CriterionVerdict | Unreadable:
    """The verdict of a record with lower-case keys, or why there is none.

    Example:
        >>> verdict_in({"criteria_met": False})
        <CriterionVerdict.UNMET: 'UNMET'>
    """
    stated = []
    if (status := record.get("criterion_status")) is not None:
        verdict = _verdict(status)
        if verdict is None:
            return _refused(f"criterion_status is {status!r:.80}; expected MET, UNMET or CANNOT_ASSESS")
        stated.append(verdict)
    if (truth := record.get("criteria_met")) is not None:
        verdict = _verdict(truth) or _TRUTHS.get(_folded(str(truth)))
        if verdict is None:
            return _refused(f"criteria_met is {truth!r:.80}; expected true or false")
        stated.append(verdict)
    if (other := _verdict(record.get("verdict"))) is not None:
        stated.append(other)
    if not stated:
        return _refused("the reply holds no criterion_status")
    if len(set(stated)) > 1:
        return _refused("criterion_status, criteria_met and verdict contradict each other")
    return stated[0]


def _verdict(said: Any) -> CriterionVerdict | None:
    """The verdict that a word or truth value states, or None if that is not certain."""
    if isinstance(said, bool):
        return CriterionVerdict.MET if said else CriterionVerdict.UNMET
    if not isinstance(said, str):
        return None
    if (exact := _WORDS.get(said)) is not None:
        return exact
    return _VERDICTS.get(_folded(said)) or _VERDICTS.get(_folded(_LABEL.sub("", said, count=1)))


def describe_failure(failure: Failure) -> JudgmentFailure:
    """Why there is no judgment, of a call that failed or of replies that could not be used."""
    reply = failure.reply
    evidence = (reply.text or reply.refusal or "")[:_MOST_EVIDENCE] if reply else ""
    return JudgmentFailure("parse" if failure.kind in NO_VERDICT else "infrastructure", str(failure), evidence)


ErrorCategory: TypeAlias = Literal["infrastructure", "parse", "unknown"]


def classify_grading_error(exc: BaseException) -> ErrorCategory:
    """The category of an error in a grader of the user's own, by the words that failed judgments begin with.

    Example:
        >>> classify_grading_error(TimeoutError()), classify_grading_error(ValueError("no JSON"))
        ('infrastructure', 'parse')
    """
    if isinstance(exc, CallError):
        return "parse" if exc.failure.kind in NO_VERDICT else "infrastructure"
    if isinstance(exc, OSError):
        return "infrastructure"
    return "parse" if isinstance(exc, ValueError) else "unknown"


def read_usage(reply: Reply | None) -> TokenUsage | None:
    """The tokens of a reply as reports count them, or None if the endpoint sent none."""
    used = reply.usage if reply else None
    if used is None:
        return None
    total = used.prompt_tokens + used.completion_tokens
    written, read = used.cache_write_tokens, used.cached_tokens
    return TokenUsage(used.prompt_tokens, used.completion_tokens, total, written, read)


def _refused(message: str) -> Unreadable:
    return Unreadable("unreadable", message)


def _bare_word(reply: Reply) -> Answer[Said] | None:
    """The verdict of a reply that is one of the three words and nothing else."""
    found = read_text(reply)
    verdict = _verdict(found.value) if isinstance(found, Answer) else None
    if verdict is None:
        return None
    note = "the reply is a word without JSON"
    return Answer(Said(verdict, flags=("repaired", "unexplained")), reply, (note,))


def _disagreement(reply: Reply) -> Unreadable | None:
    """Why a reply with several of the keys cannot be trusted: their values contradict each other.

    A judge may quote a finished verdict out of the submission, and the reader must not take that for its own.
    """
    verdicts, options = set[object](), set[object]()
    for key, value in _STATED.findall(without_thinking(reply.text)):
        word = _folded(value)
        if key == "selected_option":
            options.add(word)
        elif word not in ("null", "none"):
            verdicts.add(_verdict(word) or _TRUTHS.get(word, word))
    for what, values in (("verdict", verdicts), ("selected_option", options - {"null", "none"})):
        if len(values) > 1:
            return Unreadable("unreadable", f"the reply states {len(values)} different values of {what}")
    return None


def _account(
    record: Mapping[str, Any], notes: tuple[str, ...], verdict: CriterionVerdict | None = None
) -> tuple[str | None, tuple[str, ...], tuple[str, ...], str | None]:
    """Explanation, quotes, flags and reasoning of a record."""
    texts = {key: value.strip() for key, value in record.items() if isinstance(value, str)}
    explanation = next((texts[key] for key in _EXPLANATIONS if texts.get(key)), None)
    flags = ["repaired"] if notes else []
    if explanation is None:
        flags.append("unexplained")
    elif (
        verdict is not None
        and (concluded := _CONCLUDED.findall(explanation))
        and _VERDICTS[_folded(concluded[-1])] is not verdict
    ):
        flags.append("contradictory")
    affected = record.get("affected_criteria")
    if explanation is not None and isinstance(affected, list) and affected:
        explanation += f" [Affects: {', '.join(f'#{number}' for number in affected)}]"
    quotes = _quotes(record["quotes"]) if "quotes" in record else ()
    return explanation, quotes, tuple(flags), texts.get("reasoning") or None


def _quotes(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return ()
    texts = (_text(quote.get("text", quote.get("quote")) if isinstance(quote, dict) else quote) for quote in value)
    return tuple(text for text in texts if text)


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _folded(word: str) -> str:
    return _SEPARATORS.sub(" ", word).strip(" .!*`'\"“”。！").casefold()


@dataclass(frozen=True, slots=True)
class Unsupported(Unreadable):
    """A reply with quotes that are not in the submission: requested again once, then accepted with a flag.

    Attributes:
        quotes: the quotes that were not found; empty where MET came without any.
    """

    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How a judge asks.

    Attributes:
        shuffle_options: show the options of multi-choice criteria in a mixed order, recorded in each judgment.
        auto_na_option: add an option for "not applicable" where a multi-choice criterion has none.
        seed: of the orders and the choice of examples; fixed by default, so that the same submission gives the same
            prompts in every run.
        evidence: ask for quotes, and look for them in the submission.
        few_shot: labelled examples, or None.
        prompts: the templates.
        binary_schema: the shape of replies on binary criteria, where it is not the package's.
        choice_schema: likewise on multi-choice criteria.

    Raises:
        ConfigError: the seed is not a whole number.
        MissingPackageError: `evidence` is set and its package is not installed.
    """

    shuffle_options: bool = True
    auto_na_option: bool = True
    seed: int = 0
    evidence: bool = False
    few_shot: FewShot | None = None
    prompts: JudgePrompts = field(default_factory=package_judge_prompts)
    binary_schema: ReplySchema | None = None
    choice_schema: ReplySchema | None = None

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigError(f"seed={self.seed!r}; expected a whole number")
        if self.evidence:
            require(("rapidfuzz",), "evidence", "evidence=True (--evidence)")

    def follow_up(self, request: Request, reply: Reply, problem: Unreadable) -> Request:
        """The request after an unusable reply: the reply, and what is wrong with it."""
        unfound = list(problem.quotes) if isinstance(problem, Unsupported) else []
        turns = self.prompts.reask.render(problem=problem.message, unfound=unfound)
        return ask_again(request, reply, problem, tuple(starmap(Message, turns)))


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """A judge that asks one model.

    Attributes:
        model: who is asked.
        judge_id: what its judgments are called.
        weight: how much it counts in a panel.
        draw: which independent sample of its replies it takes.
        options: how it asks.
    """

    model: Model
    judge_id: str = "default"
    weight: float = 1.0
    draw: int = 0
    options: JudgeOptions = field(default_factory=JudgeOptions)

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Its own id."""
        return (self.judge_id,)


def shared_values(inputs: JudgeInput, evidence: bool) -> dict[str, Any]:
    """What every prompt on a submission is given."""
    return {
        "query": inputs.query,
        "reference": inputs.reference,
        "guidelines": inputs.guidelines,
        "thinking": inputs.thinking,
        "submission": inputs.submission,
        "evidence": evidence,
    }


def show_options(inputs: JudgeInput, index: int, judge_id: str, options: JudgeOptions) -> ShownOptions:
    """The options of a multi-choice criterion as this judge is shown them."""
    criterion = inputs.criteria[index]
    if options.auto_na_option:
        criterion = as_judged(criterion)
    if not options.shuffle_options:
        return ShownOptions(criterion, tuple(range(len(criterion.options or ()))), shuffled=False)
    return ShownOptions(criterion, shown_order(criterion, options.seed, inputs.submission, index, judge_id))


def build_judgment(
    said: Said, reply: Reply | None, judge_id: str, weight: float, shown: ShownOptions | None = None
) -> Judgment:
    """What a judge said, as its judgment."""
    return Judgment(
        judge_id,
        verdict=said.verdict,
        option=said.option,
        reason=said.explanation,
        reasoning=(reply.reasoning if reply else None) or said.reasoning,
        weight=weight,
        flags=said.flags,
        shuffle_order=shown.order if shown is not None and shown.shuffled else None,
        usage=read_usage(reply),
        cost=reply.cost if reply else None,
    )


def failed(judge_id: str, weight: float, failure: Failure) -> Judgment:
    """The failed judgment of a call that failed or returned no usable reply.

    Example:
        >>> failed("default", 1.0, Failure("timeout", "no reply after 60 s")).failure.category
        'infrastructure'
    """
    reply = failure.reply
    cost = reply.cost if reply else None
    return Judgment(judge_id, failure=describe_failure(failure), weight=weight, usage=read_usage(reply), cost=cost)


@cache
def judgment_schema(kind: Literal["binary", "choice"], evidence: bool) -> ReplySchema:
    """The shape of a reply on one criterion: quotes where asked for, then the explanation, then the verdict."""
    name = f"judge_{kind}"
    body = load_schema(name)
    if not evidence:
        del body["properties"]["quotes"]
        body["required"].remove("quotes")
    shape: Mapping[str, Any] = body
    return ReplySchema(name, shape)
