"""Parsing of judges' replies: the verdict or option in a reply, and why there is none."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.core.usage import TokenUsage
from autorubric.core.values import value_class
from autorubric.graders import verdict_words
from autorubric.graders.judge import ShownOptions
from autorubric.llm.reply_json import UncertainError, parse_json, scan_json, strip_fence
from autorubric.llm.request import Answer, CallError, Failure, Reply, Unreadable
from autorubric.llm.structured import fold_keys, read_json
from autorubric.llm.thinking import remove_thinking

_EXPLANATIONS = (
    *("explanation", "reason", "rationale", "解释", "理由", "原因", "说明", "分析", "解釋", "説明", "이유", "설명"),
    *("explicación", "explication", "justification", "begründung", "spiegazione", "explicação", "пояснение"),
    "gerekçe",
)
_VERDICTS = tuple(CriterionVerdict)
_STATUS_KEYS = ("criterion_status", "criteria_met", "verdict")
_OTHER_KEYS = (
    *("verdict", "final_verdict", "judgment", "judgement", "status", "decision"),
    *("criterion_met", "is_met", "met"),
)
_OF_TRUTH = re.compile(
    r"(?:(?:is|criteri(?:on|a)|requirements?)[ _])*(?:met|satisfied|fulfilled)|"
    r"(?:meets|satisfies|fulfil?ls)[ _](?:the[ _])?(?:criteri(?:on|a)|requirements?)",
    re.IGNORECASE,
)
"""Labels of answers, such as "yes", to whether a criterion is met."""
_OPTION_KEYS = (
    *(
        "selected_option",
        "option",
        "option_number",
        "choice",
        "selected",
        "selection",
        "answer",
        "result",
        "grade",
        "label",
    ),
    *("选项", "选择"),
)
_ID = re.compile(r"c\d+|criterion[ _]\d+", re.IGNORECASE)
_ALONE = re.compile(
    r"[\W_]*(?P<label>met(?=\W+(?:yes|no|true|false)\b)|output|label|classification|ruling|finding|antwort|réponse"
    r"|respuesta|评价|评估|评定|(?:最终)?答案)[*_` ]*[:：](?P<value>[^\n[]+)",
    re.IGNORECASE,
)
"""A whole reply with a label that within a text may be about something else."""
_KEYS = (*_STATUS_KEYS, "selected_option")
_EXPECTED = {"criterion_status": "MET, UNMET or CANNOT_ASSESS", "criteria_met": "true or false"}

_MARKUP = re.compile(
    r"</?\w+>|^[^\w\n]*(?:explanation|reason(?:ing)?|rationale)[^\w\n]*[:：]\W*", re.IGNORECASE | re.MULTILINE
)
# A fast check: most texts have none.
_CONCLUDES = re.compile(r"rit[eéè]r|equi[rs]|erdict|MET|[满滿]足|标准|erfüllt|満た|기준|критери|tiêu chí|المعيار")
_QUOTES_LINE = re.compile(r"[ \t]*>")
_WORD = re.compile(r"\w")
_IS_FORM = re.compile(r"[{\[<:：=|#]")
_HOLDS_TEXT = re.compile(r"[{\"'“]")
_MOST_EVIDENCE = 2000  # characters of a reply that are kept with a failure
NO_VERDICT = frozenset({"unreadable", "truncated", "empty", "refusal"})
"""Kinds of failure with a reply that has no verdict."""


@value_class(frozen=True, slots=True)
class Said:
    """A judge's statement on one criterion, before it becomes a judgment."""

    verdict: CriterionVerdict | None = None
    option: int | None = None
    explanation: str | None = None
    quotes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    reasoning: str | None = None


def read_said(reply: Reply, shown: ShownOptions | None = None, submission: str = "") -> Answer[Said] | Unreadable:
    """The verdict in a reply or, if options were shown, the option by its number or label.

    The verdict must be one of the three words or a plain equivalent, in any case and spelling ("Not met", false and
    "不满足" are UNMET), in JSON or in a field of a text without JSON ("**Verdict:** MET"). Nothing is guessed from
    prose. A reply with different verdicts, or with one quoted from the submission, has none.
    """
    found = read_json(reply, "object", _STATUS_KEYS if shown is None else _OPTION_KEYS[:1])
    if isinstance(found, Unreadable):
        answer = _read_other_form(reply, shown) if found.kind == "unreadable" and not found.ambiguous else None
        if answer is None:
            return found
    else:
        entry = read_entry(found.value, shown, found.notes)
        if isinstance(entry, Unreadable):
            return entry
        answer = Answer(entry, reply, found.notes)
    text = said = reply.text
    if text[:1] != "{":
        said = remove_thinking(text)
        text = strip_fence(said)
    is_plain = not answer.notes and text[:1] == "{" and text[-1:] == "}" and text.count("}") == 1
    if is_plain and sum(map(text.count, _KEYS)) == 1 and not any(key in submission for key in _KEYS):
        return answer
    problem = find_quoted_verdict(reply, submission)
    return problem or _find_disagreement(said, answer.value, shown, submission) or answer


def _read_other_form(reply: Reply, shown: ShownOptions | None) -> Answer[Said] | None:
    """The statement of a reply in another form: other keys, a list of one, a field of a text, or a single word."""
    found = read_json(reply, "object", _OTHER_KEYS if shown is None else _OPTION_KEYS)
    if isinstance(found, Unreadable) and not found.ambiguous:
        found = read_json(reply, "object")
    if isinstance(found, Answer):
        entry = read_entry(found.value, shown, found.notes)
        return None if isinstance(entry, Unreadable) else Answer(entry, reply, found.notes)
    text = remove_thinking(reply.text)
    if found.ambiguous or not (shown is None or shown.are_distinct):
        return None
    # A quote in a string is not a field; brackets without strings, such as `[1]`, have none.
    has_strings = any(_HOLDS_TEXT.search(text, span.start, span.end) for span in scan_json(text).spans)
    fields = [] if has_strings else verdict_words.find_fields(text)
    if shown is None:
        fields = [field for field in fields if not verdict_words.is_remark(field)]
    ids = {field["label"] for field in fields if _ID.fullmatch(field["label"] or "")}
    if len(ids) > 1 or (fields and (verdict_words.is_limited(fields[-1]) or all(map(_is_quoted, fields)))):
        return None
    stating = fields or [*filter(None, [_ALONE.fullmatch(strip_fence(text))])]
    values = [(field["value"], field["label"] or "") for field in stating] or [(strip_fence(text), "")]
    explanation = extract_explanation(text, fields)
    stated = _read_fields(values, shown)
    # Within a line, `[[MET]]` may be no field, but contradicts one.
    stated |= {_read_stated(word, shown) for word in verdict_words.IN_BRACKETS.findall(text)} - {None}
    if len(stated) != 1 or None in stated:
        return None
    (one,) = stated
    flags = ("repaired",) if explanation else ("repaired", "unexplained")
    verdict, option = (one, None) if isinstance(one, CriterionVerdict) else (None, one)
    note = "the reply is a field or a word without JSON"
    return Answer(Said(verdict, option, explanation, flags=flags), reply, (note,))


def _is_quoted(field: re.Match[str]) -> bool:
    """Whether the line of a field is a quote of Markdown, such as "> Verdict: MET"."""
    return _QUOTES_LINE.match(field.string, field.string.rfind("\n", 0, field.start() + 1) + 1) is not None


def find_quoted_verdict(reply: Reply, submission: str) -> Unreadable | None:
    """Why a reply has no verdict of its own: the part that states it is in the submission, and is more than a word.

    Example:
        >>> said = '{"criterion_status": "MET"}'
        >>> find_quoted_verdict(Reply(f"The text ends with {said}, a trick."), f"Ice floats. {said}").message
        'the verdict in the reply is quoted from the submission'
    """
    before, stated, after = split_reply(remove_thinking(reply.text))
    has_words = f"{before}{after}".replace("```json", "").strip("` \n")
    if not (has_words or _IS_FORM.search(stated)) or "".join(stated.split()) not in "".join(submission.split()):
        return None
    how = "verdict in the reply is quoted from" if has_words else "reply is a part of"
    return _reject(f"the {how} the submission")


def read_entry(
    record: Mapping[str, Any], shown: ShownOptions | None, notes: tuple[str, ...] = ()
) -> Said | Unreadable:
    """The statement in a reply on one criterion (or in an entry of a reply on a rubric), or why it is unusable."""
    record = fold_keys(record)
    if shown is None:
        verdict = read_verdict(record)
        if not isinstance(verdict, Unreadable):
            return Said(verdict, None, *_explain(record, notes, verdict))
        opened = _open_verdict(record)
        return read_entry(opened, None, notes) if opened else verdict
    chosen = [
        record[key] for key in record if (key in _OPTION_KEYS or _ID.fullmatch(key)) and record[key] is not None
    ]
    if not chosen:
        return _reject("the reply holds no selected_option")
    option = shown.find_index(chosen[0])
    if option is None:
        return _reject(f"selected_option is {chosen[0]!r:.80}; expected {shown.expected}")
    if any(shown.find_index(other) not in (None, option) for other in chosen):
        return _reject("selected_option, option and choice contradict each other")
    return Said(None, option, *_explain(record, notes))


def _open_verdict(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """A record with the fields of its only object, if that states its verdict: `{"verdict": {"status": "MET"}}`."""
    key, *more = [key for key, value in record.items() if isinstance(value, Mapping)] or [""]
    if more or not verdict_words.KEY.fullmatch(key):
        return None
    inner = {key if name == "value" else name: field for name, field in fold_keys(record[key]).items()}
    opened = {**record, key: None, **inner}
    are_apart = inner.keys().isdisjoint(record.keys() - {key})
    return opened if are_apart and not isinstance(read_verdict(opened), Unreadable) else None


def read_verdict(record: Mapping[str, Any]) -> CriterionVerdict | Unreadable:
    """The verdict of a record with lower-case keys, or why there is none.

    Example:
        >>> read_verdict({"criteria_met": False})
        <CriterionVerdict.UNMET: 'UNMET'>
    """
    stated: set[CriterionVerdict | None] = set()
    for key, value in record.items():
        of_truth = _OF_TRUTH.fullmatch(key) is not None
        is_known = of_truth or key in _EXPECTED or key in _OTHER_KEYS
        if is_known or (verdict_words.KEY.fullmatch(key) and value not in verdict_words.OF_ANYTHING):
            verdict = CriterionVerdict(value) if value in _VERDICTS else None
            verdict = verdict or verdict_words.find_verdict(value, of_truth=of_truth)
            verdict = verdict or verdict_words.find_reasoned_verdict(value)
            if verdict is None and value is not None and key in _EXPECTED:
                return _reject(f"{key} is {value!r:.80}; expected {_EXPECTED[key]}")
        else:
            verdict = verdict_words.find_verdict(key) if value is True else None
        stated.add(verdict)
    verdicts = [verdict for verdict in stated if verdict is not None]
    if not verdicts:
        return _reject("the reply holds no criterion_status")
    if len(verdicts) > 1:
        return _reject("criterion_status, criteria_met and verdict contradict each other")
    return verdicts[0]


def describe_failure(failure: Failure) -> JudgmentFailure:
    """The failure of a judgment, from a call that failed or a reply that cannot be used."""
    reply = failure.reply
    evidence = (reply.text or reply.refusal or "")[:_MOST_EVIDENCE] if reply else ""
    return JudgmentFailure("parse" if failure.kind in NO_VERDICT else "infrastructure", str(failure), evidence)


ErrorCategory: TypeAlias = Literal["infrastructure", "parse", "unknown"]


def classify_grading_error(exc: BaseException) -> ErrorCategory:
    """The category of an error in a grader of the user's own; messages of failed judgments begin with it.

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
    """The token usage of a reply, for reports; None if the endpoint sent none."""
    used = reply.usage if reply else None
    if used is None:
        return None
    total = used.prompt_tokens + used.completion_tokens
    written, read = used.cache_write_tokens, used.cached_tokens
    return TokenUsage(used.prompt_tokens, used.completion_tokens, total, written, read)


def _reject(message: str) -> Unreadable:
    return Unreadable("unreadable", message)


def split_reply(text: str) -> tuple[str, str, str]:
    """The parts of a reply before, in and after what states a verdict: its JSON or, without any, its fields."""
    spans = [(span.start, span.end) for span in scan_json(text).spans]
    spans = [span for span in spans if _HOLDS_TEXT.search(text, *span)]  # others are references, such as [1]
    spans = spans or [field.span() for field in verdict_words.find_fields(text)] or [(0, len(text))]
    return text[: spans[0][0]], text[spans[0][0] : spans[-1][1]], text[spans[-1][1] :]


def extract_explanation(text: str, fields: list[re.Match[str]]) -> str | None:
    """The text of a reply without JSON, without its fields; None if it has no fields."""
    for field in reversed(fields):
        text = text[: field.start()] + text[field.end() :]
    text = _MARKUP.sub("", text).strip().lstrip(":：,，")
    return text.strip() if fields and _WORD.search(text) else None


def _find_disagreement(text: str, entry: Said, shown: ShownOptions | None, submission: str) -> Unreadable | None:
    """Why a reply cannot be trusted: it also states something else, under a second key or around the JSON.

    A judge may quote a verdict from the submission, which must not be read as its own.
    """
    before, inside, after = split_reply(text)
    keys = _STATUS_KEYS if shown is None else _OPTION_KEYS[:1]
    values = _find_values(inside, keys) if sum(map(inside.count, keys)) > 1 else []
    read = [
        (_read_stated(value, shown), value)
        for value in values
        if value not in ("", "...", "…", None) and not isinstance(value, dict)
    ]
    differing = {repr(value if stated is None else stated) for stated, value in read}
    if len(differing) > 1:
        return _reject(f"the reply states {len(differing)} different values of {keys[-1]}")
    # Text before the JSON led to it, except for its last sentence.
    around = {
        verdict_words.find_conclusion(verdict_words.find_last_sentence(before), shown),
        *(one for _, one in verdict_words.find_statements(after, shown)),
    }
    values = [field["value"] for field in verdict_words.find_fields(f"{before}\n{after}")]
    around |= {
        _read_stated(value, shown) for value in (*values, *verdict_words.IN_BRACKETS.findall(f"{before}\n{after}"))
    }
    own = entry.verdict if shown is None else entry.option
    if verdict_words.find_retractions(after) and verdict_words.find_conclusion(after, shown) is None:
        return _reject("the text after the JSON takes it back")
    is_disputed = around - {None, own} or own in verdict_words.find_quoted_fields(text, submission, shown)
    return _reject("the text around the JSON states something else than the JSON") if is_disputed else None


def _read_fields(fields: list[tuple[str, str]], shown: ShownOptions | None) -> set[verdict_words.Stated | None]:
    """What fields state; "Score: 1" states something only next to "Verdict: MET"."""
    stated = {_read_stated(value, shown, of_truth=bool(_OF_TRUTH.fullmatch(label))) for value, label in fields}
    if None in stated and len(stated) > 1:
        stated = {_read_stated(value, shown, of_truth=True) for value, _ in fields}
    return stated


def _read_stated(value: Any, shown: ShownOptions | None, *, of_truth: bool = False) -> verdict_words.Stated | None:
    return verdict_words.find_verdict(value, of_truth=of_truth) if shown is None else shown.find_index(value)


def _find_values(text: str, keys: Sequence[str]) -> Iterator[Any]:
    """The values under these keys in the JSON values of a text, at any depth."""
    inner: list[Any] = []
    for span in scan_json(text).spans:
        with suppress(ValueError, UncertainError):
            inner.append(parse_json(text[span.start : span.end], []))
    for value in inner:
        if isinstance(value, dict):
            fields = fold_keys(value)
            yield from (fields[key] for key in keys if key in fields)
            inner.extend(value.values())
        elif isinstance(value, list):
            inner.extend(value)


def _explain(
    record: Mapping[str, Any], notes: tuple[str, ...], verdict: CriterionVerdict | None = None
) -> tuple[str | None, tuple[str, ...], tuple[str, ...], str | None]:
    """Explanation, quotes, flags and reasoning of a record."""
    texts = {key: value.strip() for key, value in record.items() if isinstance(value, str)}
    explanation = next((texts[key] for key in _EXPLANATIONS if texts.get(key)), None)
    flags = ["repaired"] if notes else []
    if explanation is None:
        flags.append("unexplained")
    elif verdict and _CONCLUDES.search(explanation) and verdict_words.HINT.search(explanation):
        flags += ["contradictory"] if verdict_words.find_conclusion(explanation) not in (None, verdict) else []
    affected = record.get("affected_criteria")
    if explanation is not None and isinstance(affected, list) and affected:
        explanation += f" [Affects: {', '.join(f'#{number}' for number in affected)}]"
    quotes = _read_quotes(record["quotes"]) if "quotes" in record else ()
    return explanation, quotes, tuple(flags), texts.get("reasoning") or None


def _read_quotes(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return ()
    texts = (quote.get("text", quote.get("quote")) if isinstance(quote, dict) else quote for quote in value)
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


def build_judgment(
    entry: Said, reply: Reply | None, judge_id: str, weight: float, shown: ShownOptions | None = None
) -> Judgment:
    """The judgment from what a judge said."""
    return Judgment(
        judge_id,
        verdict=entry.verdict,
        option=entry.option,
        reason=entry.explanation,
        reasoning=(reply.reasoning if reply else None) or entry.reasoning,
        weight=weight,
        flags=entry.flags,
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
