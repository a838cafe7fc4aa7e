"""What an endpoint turned out not to take, learned from its refusals and then left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from autorubric.llm.http.allowed import allowed_tokens
from autorubric.llm.http.gate import Gate
from autorubric.llm.http.retry import Fault
from autorubric.llm.request import Request

TokenField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
SchemaForm: TypeAlias = Literal["json_schema", "json_object", "none"]

_NEXT_FORM: dict[SchemaForm, SchemaForm] = {"json_schema": "json_object", "json_object": "none"}
_OTHER_FIELD: dict[TokenField, TokenField] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
DISPENSABLE: tuple[str, ...] = ("temperature", "top_p", "seed", "reasoning_effort", "thinking", "reasoning")
"""Parameters without which an answer is still an answer to the question."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The form of a request that one model at one endpoint takes, as far as is known.

    Attributes:
        token_field: the name under which `max_tokens` is sent.
        swapped: whether the other name was refused before.
        left_out: parameters that are not sent.
        schema_form: how a reply's schema is sent; `none` leaves it to the prompt.
        most_tokens: the highest limit on completion tokens that the endpoint takes; None where it refused none.
    """

    token_field: TokenField = "max_tokens"
    swapped: bool = False
    left_out: frozenset[str] = frozenset()
    schema_form: SchemaForm = "json_schema"
    most_tokens: int | None = None

    def limit_of(self, wanted: int | None) -> int | None:
        """The limit that is sent where `wanted` is: the endpoint's own highest if that is lower.

        Example:
            >>> Terms(most_tokens=4096).limit_of(8192), Terms(most_tokens=4096).limit_of(None)
            (4096, None)
        """
        return wanted if wanted is None or self.most_tokens is None else min(wanted, self.most_tokens)


_REASONING_NAME = re.compile(r"(?:o[1-9]|gpt-[5-9])(?![0-9])")


def first_terms(base_url: str, model: str) -> Terms:
    """The terms to start with.

    Example:
        >>> first_terms("https://api.openai.com/v1", "gpt-5.1").token_field
        'max_completion_tokens'
        >>> first_terms("http://localhost:8000/v1", "gpt-5.1").token_field
        'max_tokens'
    """
    if urlsplit(base_url).hostname == "api.openai.com" and _REASONING_NAME.match(model):
        return Terms("max_completion_tokens")
    return Terms()


_NOT_TAKEN = re.compile(
    r"unsupported|n[o']t (?:\w+ )?(?:support|allowed|permitted|available|compatible|recogni[sz]ed)|"
    r"unrecogni[sz]ed|unknown|unexpected|unavailable|deprecated|extra (?:inputs|fields)|extra_forbidden|"
    r"cannot both|instead",
    re.IGNORECASE,
)
_ABOUT_FORMAT = re.compile(
    r"response_format|json_schema|json_object|structured.?output|json.?mode|guided|grammar|"
    r"must contain the word .?json",
    re.IGNORECASE,
)
_FORMAT_REFUSED = re.compile(r"must|invalid|required|only|fail", re.IGNORECASE)


def revised(terms: Terms, body: Mapping[str, Any], fault: Fault) -> Terms | None:
    """Terms under which the request may be taken, or None where the refusal is about something else.

    Args:
        terms: the terms under which `body` was sent.
        body: the refused request.
        fault: the refusal, a 400 or 422.

    Example:
        >>> fault = Fault("rejected", "", 400, text="Unsupported parameter: 'max_tokens'. "
        ...     "Use 'max_completion_tokens' instead.", param="max_tokens")
        >>> revised(Terms(), {"max_tokens": 100}, fault).token_field
        'max_completion_tokens'
        >>> too_many = Fault("rejected", "", 400, text="max_tokens is too large: 99999.", param="max_tokens")
        >>> revised(Terms(), {"max_tokens": 99999}, too_many) is None
        True
    """
    allowed = allowed_tokens(fault.text, sent_limit(body))
    if allowed is not None:
        return replace(terms, most_tokens=allowed.tokens) if allowed.always else None
    refused = _NOT_TAKEN.search(fault.text) is not None
    if refused and terms.token_field in body and not terms.swapped and _names(fault, terms.token_field):
        return replace(terms, token_field=_OTHER_FIELD[terms.token_field], swapped=True)
    if refused and (name := _refused_parameter(body, fault)):
        return replace(terms, left_out=terms.left_out | {name})
    if "response_format" in body and terms.schema_form in _NEXT_FORM and _is_about_format(fault, refused):
        return replace(terms, schema_form=_NEXT_FORM[terms.schema_form])
    return None


def sent_limit(body: Mapping[str, Any]) -> int:
    """The limit on completion tokens in a request's body; 0 where there is none.

    Example:
        >>> sent_limit({"max_completion_tokens": 500})
        500
    """
    found = body.get("max_completion_tokens", body.get("max_tokens"))
    return found if isinstance(found, int) else 0


def shortened(request: Request, body: Mapping[str, Any], fault: Fault) -> Request | None:
    """The request with the limit that its prompt leaves of the context; None where the refusal names no such.

    Example:
        >>> words = "maximum context length is 4096 tokens and your request has 96 input tokens"
        >>> shortened(Request((), "judge"), {"max_tokens": 8192}, Fault("rejected", "", 400, text=words)).max_tokens
        4000
    """
    allowed = allowed_tokens(fault.text, sent_limit(body))
    return None if allowed is None or allowed.always else replace(request, max_tokens=allowed.tokens)


def _names(fault: Fault, parameter: str) -> bool:
    if fault.param:
        return fault.param == parameter
    return re.search(rf"(?<!\w){parameter}(?!\w)", fault.text) is not None


def _refused_parameter(body: Mapping[str, Any], fault: Fault) -> str | None:
    sent = [name for name in DISPENSABLE if name in body]
    return next((name for name in sent if _names(fault, name)), None)


def _is_about_format(fault: Fault, refused: bool) -> bool:
    if fault.param.startswith("response_format"):
        return True
    about = _ABOUT_FORMAT.search(fault.text) is not None
    return about and (refused or _FORMAT_REFUSED.search(fault.text) is not None)


class Dialect:
    """What is known about one model at one endpoint, shared by all calls to it.

    Attributes:
        terms: the present terms.
        notes: one sentence for each thing that was given up.
        miscounts: whether a reply had no token counts that can be right.
        gates: one for plain requests, one for those with a schema.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self.terms = first_terms(base_url, model)
        self.notes: list[str] = []
        self.miscounts = False
        self.gates = (Gate(), Gate())
        self._subject = (base_url, model)

    def learn(self, sent: Terms, body: Mapping[str, Any], fault: Fault) -> bool:
        """Whether the refused request should be sent again, under the present terms.

        What another call has learned in the meantime is used, not learned again.
        """
        if self.terms != sent:
            return True
        found = revised(sent, body, fault)
        if found is None:
            return False
        self.terms = found
        self.notes.append(self._note(sent, found))
        return True

    def _note(self, before: Terms, after: Terms) -> str:
        what, instead = f"a {before.schema_form} response_format", "asked for JSON without a schema"
        for name in after.left_out - before.left_out:
            what, instead = name, "left out"
        if after.token_field != before.token_field:
            what, instead = before.token_field, f"sent as {after.token_field}"
        elif after.schema_form != before.schema_form and after.schema_form == "none":
            instead = "only the prompt asks for the format"
        if after.most_tokens != before.most_tokens:
            what, instead = "so large a limit on tokens", f"asked for at most {after.most_tokens:,}"
        base_url, model = self._subject
        return f"{base_url} does not take {what} for {model}; {instead}"
