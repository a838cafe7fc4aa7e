"""Requests, replies, usage and failures as values."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from autorubric.llm.request import (
    Failure,
    FailureKind,
    Message,
    Reply,
    ReplySchema,
    Request,
    Unreadable,
    Usage,
    build_reask,
)
from tests.offenders import offenders

ENDING: tuple[FailureKind, ...] = ("auth", "quota", "no_model", "unreachable", "budget", "stopped")
PASSING: tuple[FailureKind, ...] = (
    *("timeout", "server", "network", "rate_limit", "rejected", "refusal", "truncated", "empty", "unreadable"),
    "missing_input",
)


def test_every_count_of_a_usage_is_added() -> None:
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)
    assert Usage(1, 2, 3, 4, 5).total_tokens == 3
    assert Usage() == Usage(0, 0, 0, 0, 0)


def test_a_schema_is_encoded_with_its_mappings_and_nothing_that_is_not_json() -> None:
    body = MappingProxyType({"type": "object", "properties": MappingProxyType({"met": {"type": "boolean"}})})
    encoded = b'["verdict",{"type":"object","properties":{"met":{"type":"boolean"}}}]'
    assert ReplySchema("verdict", body).encoded == encoded
    assert "encoded" not in repr(ReplySchema("verdict", {}))
    for value, told in (({1, 2}, "set is not a JSON value"), (float("nan"), "Out of range float")):
        with pytest.raises((TypeError, ValueError), match=told):
            ReplySchema("verdict", {"type": value})


def test_a_failure_that_every_later_request_would_meet_ends_the_run() -> None:
    with offenders() as case:
        for kind in ENDING:
            with case(kind):
                assert Failure(kind, "").ends_run is True
        for passing in PASSING:
            with case(passing):
                assert Failure(passing, "").ends_run is False


def test_what_is_not_said_of_a_request_a_reply_and_a_failure() -> None:
    request, reply, failure = Request((), "judge"), Reply(""), Failure("server", "HTTP 500")
    numbers = (request.draw, request.reask, request.room, request.cut_off, request.cut_at, request.seat, request.copy)
    assert numbers == (0,) * 7
    assert (request.item, request.max_tokens, request.constrained) == ("", None, True)
    assert (reply.attempts, reply.fresh, reply.latency, reply.usage, reply.cost) == (1, True, 0.0, None, None)
    assert (failure.attempts, failure.sent, failure.status, str(failure)) == (0, True, None, "server: HTTP 500")


def test_a_reask_quotes_the_start_of_an_unreadable_reply_and_repeats_a_request_that_got_none() -> None:
    request, correction = Request((Message("user", "Is it met?"),), "judge"), [Message("user", "Reply as JSON.")]
    problem = Unreadable("unreadable", "no JSON")
    assert problem.again is True
    again = build_reask(request, Reply("x" * 9000), problem, correction)
    assert again.messages == (request.messages[0], Message("assistant", "x" * 8000), *correction)
    assert build_reask(request, Reply(""), Unreadable("empty", "nothing"), correction) is request
