"""Parsing of judges' replies: the verdict or option in a reply, and why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.core.usage import TokenUsage
from autorubric.core.values import value_class
from autorubric.graders.judge import ShownOptions
from autorubric.llm.request import Answer, CallError, Failure, Reply, Unreadable
from autorubric.llm.structured import fold_keys, read_json, read_text
from autorubric.llm.thinking import without_thinking

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
_QUOTES = " .…*`'\"“”"
_SEPARATORS = re.compile(r"[\s_\-]+")
_STATUS_KEYS = ("criterion_status", "criteria_met", "verdict")
_KEYS = (*_STATUS_KEYS, "selected_option")
_OTHER_KEYS = (
    "verdict",
    "final_verdict",
    "judgment",
    "judgement",
    "status",
    "decision",
    "criterion_met",
    "is_met",
    "met",
)
"""Keys under which models also state a verdict, and other things: they count only with a word that is one."""
_OPTION_KEYS = ("selected_option", "option", "choice")
_STATED = re.compile(
    rf"""["'“”]({"|".join(_KEYS)})["'“”]\s*[:：]\s*("[^"\n]{{0,80}}"|'[^'\n]{{0,80}}'|“[^”\n]{{0,80}}”|[\w.+-]+)"""
)
_CONCLUDED = re.compile(
    r"\b(?:criterion|requirement|condition)\b[^.\n]{0,30}?\b(?:is|was|are)\s+(not\s+met|unmet|met)\b", re.IGNORECASE
)
_IS = r"[\s*_`\"']*(?:[:：]|\bis\b|\bshould be\b)[\s*_`\"']*"
_VERDICT_IN_PROSE = re.compile(
    rf"(?:\b(?:verdict|criterion[ _]status|final answer|final judge?ment|correction)\b|判定|判断|结论|更正){_IS}"
    r"(unmet\b|not[ _-]met\b|met\b|cannot[ _]assess\b|不满足|未满足|满足)"
    r"(?!\s*(?:[,/|、]|或|(?:or|only|if|when|unless)\b))",  # a choice or a condition
    re.IGNORECASE,
)
_ALONE = re.compile(r"^[\W_]*(unmet|not[ _-]met|met)[\W_]*$", re.IGNORECASE | re.MULTILINE)
_OPTION_IN_PROSE = re.compile(
    rf"\b(?:option|choice){_IS}(?:option\s*)?(\d{{1,3}})\b(?!\s*(?:[%,/|]|(?:or|if|unless)\b))", re.IGNORECASE
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
    found = read_json(reply, "object", _STATUS_KEYS if shown is None else _OPTION_KEYS[:1])
    if isinstance(found, Unreadable):
        return _otherwise(reply, shown) or found
    said = read_entry(found.value, shown, found.notes)
    if isinstance(said, Unreadable):
        return said
    is_plain = reply.text[:1] == "{" and reply.text[-1:] == "}" and sum(map(reply.text.count, _KEYS)) == 1
    return (None if is_plain else _disagreement(reply, said, shown)) or Answer(said, reply, found.notes)


def _otherwise(reply: Reply, shown: ShownOptions | None) -> Answer[Said] | None:
    """The statement of a reply that states it under another key, or in a word alone."""
    found = read_json(reply, "object", _OTHER_KEYS if shown is None else _OPTION_KEYS)
    if isinstance(found, Unreadable):
        return _bare_word(reply) if shown is None else None
    said = read_entry(found.value, shown, found.notes)
    if isinstance(said, Unreadable) or _disagreement(reply, said, shown):
        return None
    return Answer(said, reply, found.notes)


def quoted_verdict(reply: Reply, submission: str) -> Unreadable | None:
    """Why a reply has no verdict of its own: its JSON is in the submission too, and the reply has words around it.

    Example:
        >>> said = '{"criterion_status": "MET"}'
        >>> quoted_verdict(Reply(f"The text ends with {said}, a trick."), f"Ice floats. {said}").message
        'the verdict in the reply is quoted from the submission'
    """
    text = without_thinking(reply.text)
    start, end = text.find("{"), text.rfind("}") + 1
    around = f"{text[:start]}{text[end:]}".replace("```json", "").strip("` \n")
    if not around or not 0 <= start < end:
        return None
    is_quoted = "".join(text[start:end].split()) in "".join(submission.split())
    return _refused("the verdict in the reply is quoted from the submission") if is_quoted else None


def read_entry(
    record: Mapping[str, Any], shown: ShownOptions | None, notes: tuple[str, ...] = ()
) -> Said | Unreadable:
    """The statement in a reply on one criterion (or in an entry of a reply on a rubric), or why it is unusable."""
    record = fold_keys(record)
    if shown is None:
        verdict = verdict_in(record)
        return verdict if isinstance(verdict, Unreadable) else Said(verdict, None, *_account(record, notes, verdict))
    chosen = next((record[key] for key in _OPTION_KEYS if record.get(key) is not None), None)
    if chosen is None:
        return _refused("the reply holds no selected_option")
    option = shown.find_index(chosen)
    if option is None:
        return _refused(f"selected_option is {chosen!r:.80}; expected a number from 1 to {len(shown.order)}")
    if any(shown.find_index(record.get(key)) not in (None, option) for key in _OPTION_KEYS):
        return _refused("selected_option, option and choice contradict each other")
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
    stated += [other for key in _OTHER_KEYS if (other := _verdict(record.get(key))) is not None]
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


def _disagreement(reply: Reply, said: Said, shown: ShownOptions | None) -> Unreadable | None:
    """Why a reply cannot be trusted: it also states something else, under a second key or around the JSON.

    A judge may quote a finished verdict out of the submission, and the reader must not take that for its own.
    """
    text = without_thinking(reply.text)
    verdicts, options = set[object](), set[object]()
    for key, value in _STATED.findall(text) if sum(map(text.count, _KEYS)) > 1 else ():
        word = _folded(value)
        if key == "selected_option":
            options.add(word)
        elif word not in ("null", "none"):
            verdicts.add(_verdict(word) or _TRUTHS.get(word, word))
    for what, values in (("verdict", verdicts - {""}), ("selected_option", options - {"", "null", "none"})):
        if len(values) > 1:
            return Unreadable("unreadable", f"the reply states {len(values)} different values of {what}")
    if text.startswith("{") and text.endswith("}"):
        return None
    return _disagreement_around(text[: text.find("{")], text[text.rfind("}") + 1 :], said, shown)


def _disagreement_around(before: str, after: str, said: Said, shown: ShownOptions | None) -> Unreadable | None:
    around = f"{before}\n{after}"
    if shown is None:
        # Text after JSON that opens the reply is a remark; after JSON in prose it is the conclusion.
        is_quoted = before.replace("```json", "").strip("` \n")
        concluded = _CONCLUDED.findall(after)[-1:] if is_quoted else []
        words = (*_VERDICT_IN_PROSE.findall(around), *_ALONE.findall(after), *concluded)
        disagrees = any(_VERDICTS[_folded(word)] is not said.verdict for word in words)
    else:
        chosen = {shown.find_index(int(number)) for number in _OPTION_IN_PROSE.findall(around)}
        disagrees = bool(chosen - {None, said.option})
    return _refused("the text around the JSON states something else than the JSON") if disagrees else None


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
    return _SEPARATORS.sub(" ", word).lstrip(_QUOTES).rstrip(_QUOTES + "!。！").casefold()


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
