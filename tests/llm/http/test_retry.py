from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest

from autorubric.llm.http.retry import (
    LONGEST_RETRY_AFTER,
    REFUSED_WAIT,
    Backoff,
    Retries,
    classify_error,
    classify_error_object,
    classify_response,
    mark_final_if_same,
    mark_unreachable,
    mark_wrong_address,
    read_retry_after,
)
from autorubric.llm.http.transport import HttpReply, TransportError
from tests.offenders import each


def fault(status: int, body: Any = "", headers: dict[str, str] | None = None) -> Any:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return classify_response(HttpReply(status, raw, headers or {}))


@each(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("1e999", math.inf),
        ("86400", 86400.0),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10.0),
        ("7s", 7.0),
        ("1m0.5s", 60.5),
        ("250ms", 0.25),
        ("1970-01-01T00:16:50Z", 10.0),
        ("Thu, 01 Jan 1970 00:16:41 GMT", 1.0),
        ("Thu, 01 Jan 1970 00:16:40 GMT", None),
        ("Thu, 01 Jan 1970 00:00:01 GMT", None),
        ("Thu, 01 Jan 2026 00:00:00 GMT", 1767225600.0 - 1000.0),
        ("Thu, 99 Foo 2099", None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(value: str, seconds: float | None) -> None:
    assert read_retry_after({"Retry-After": value}, now=1000.0) == seconds
    server_clock = {"Date": "Thu, 01 Jan 1970 00:16:40 GMT"}
    assert read_retry_after({"Retry-After": value, **server_clock}, now=500.0) == seconds


@each(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 20ms.", 0.02),
        ("Please retry in 24.5s.", 24.5),
        ("Try again in 2m", 120.0),
        ("Please try again in 1m2.5s. Visit the console.", 62.5),
        ("Please try again in 7m12s.", LONGEST_RETRY_AFTER),
        ("Try again in 500 milliseconds.", 0.5),
        ("Please wait 5 more seconds.", 5.0),
        ("Try again after 2026-11-29 00:00.", None),
        ("Retry after 1 minute and 30 seconds.", 90.0),
        ("Limit of 15 per 60s exceeded. Please wait 43 seconds before retrying.", 43.0),
        ("slow down", None),
    ],
)
def test_a_wait_in_the_message_counts_where_no_header_says_one(words: str, seconds: float | None) -> None:
    assert fault(429, {"error": {"message": words}}).retry_after == seconds


def test_a_wait_in_the_details_of_an_error_counts() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}]
    assert (
        fault(429, [{"error": {"message": "Resource has been exhausted.", "details": details}}]).retry_after == 17.0
    )


def test_the_header_wins_over_the_message() -> None:
    found = fault(429, {"error": {"message": "try again in 9s"}}, {"Retry-After": "3"})
    assert found.retry_after == 3.0


@each(
    ("error", "kind"),
    [
        ({"message": "You exceeded your current quota", "code": "insufficient_quota"}, "quota"),
        ({"message": "Your credit balance is too low"}, "quota"),
        ({"message": "Insufficient balance", "type": "billing_error"}, "quota"),
        ({"message": "Rate limit reached for requests per minute; see billing"}, "rate_limit"),
        ({"message": "Quota exceeded for quota metric 'requests per minute'"}, "rate_limit"),
        ({"message": "Too many requests"}, "rate_limit"),
        (
            {"message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED"},
            "rate_limit",
        ),
        ({}, "rate_limit"),
    ],
)
def test_spent_credit_is_told_from_a_passing_limit(error: dict[str, str], kind: str) -> None:
    found = fault(429, {"error": error})
    assert (found.kind, found.again) == (kind, kind == "rate_limit")


@each(
    ("body", "words"),
    [
        ({"error": {"message": "told so"}}, "told so"),
        ({"error": "told so"}, "told so"),
        ({"detail": "told so"}, "told so"),
        ({"message": "told so"}, "told so"),
        ([{"error": {"message": "told so"}}], "told so"),
        ("<html><body><h1>told</h1> so</body></html>", "told so"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "told so"}}}, "error: told so"),
        ({"detail": [{"loc": ["body", "seed"], "msg": "told so"}]}, "told so"),
        ({"code": 1211, "msg": "told so", "success": False}, ": 'told so'"),
        ({"error": {"message": {"grund": "überlastet"}}}, "überlastet"),
    ],
)
def test_the_endpoints_own_words_are_found_in_every_shape(body: Any, words: str) -> None:
    assert words in fault(422, body).message


@each(
    ("status", "message", "kind"),
    [
        (400, "The model `gpt-9` does not exist or you do not have access to it.", "no_model"),
        (400, "mistral-9 is not a valid model ID", "no_model"),
        (400, "模型不存在，请检查模型代码。", "no_model"),  # Zhipu, code 1211
        (400, "参数 model 非法", "rejected"),
        (404, "whatever", "no_model"),
        (405, "", "no_model"),
        (410, "", "no_model"),
        (401, "", "auth"),
        (402, "", "quota"),
        (403, "", "auth"),
        (400, "Unsupported parameter: 'temperature' is not supported with this model.", "rejected"),
        (400, "This model's maximum context length is 8192 tokens.", "rejected"),
        (301, "", "no_model"),
        (501, "", "server"),
    ],
)
def test_statuses_and_words_decide_the_kind(status: int, message: str, kind: str) -> None:
    found = fault(status, {"error": {"message": message}})
    assert (found.kind, found.again) == (kind, False)


def test_a_rate_limit_under_another_status_is_one_where_servers_say_so() -> None:
    found = {
        status: fault(status, {"error": {"message": "Too many requests"}}).kind for status in (400, 403, 429, 500)
    }
    assert set(found.values()) == {"rate_limit"}
    assert fault(404, {"error": {"message": "Too many requests"}}).kind == "no_model"


def test_trouble_of_the_server_is_tried_again() -> None:
    found = {status: fault(status).again for status in (408, 409, 425, 500, 502, 503, 504, 524, 529)}
    assert found == dict.fromkeys(found, True)


@each("body", ["[" * 100_000, '{"error": ' * 100_000, "\x00\x01", '{"error": {"message": "\\ud83d"}}'])
def test_hostile_error_bodies_are_quoted_in_text_that_can_be_stored(body: str) -> None:
    found = fault(400, body)
    assert found.kind == "rejected"
    assert len(found.message.encode()) < 1000


@each(
    ("status", "code", "message", "kind"),
    [
        # Alibaba
        (400, "Throttling.RateQuota", "Requests rate limit exceeded, please try again later.", "rate_limit"),
        (400, "Throttling", "Requests throttling triggered.", "rate_limit"),
        (429, "Throttling.AllocationQuota", "Allocated quota exceeded, please increase your quota.", "rate_limit"),
        (429, "limit_requests", "You exceeded your current requests list.", "rate_limit"),
        (400, "Arrearage", "Access denied, please make sure your account is in good standing.", "quota"),
        # OpenAI
        (400, "billing_hard_limit_reached", "Billing hard limit has been reached", "quota"),
        # Volcengine
        (429, "ModelAccountRpmRateLimitExceeded", "RPM limit of the model is exceeded.", "rate_limit"),
        (429, "ServerOverloaded", "The service is currently unable to handle requests.", "rate_limit"),
        (403, "AccountOverdueError", "The account has an overdue balance.", "quota"),
        # Azure
        (429, "429", "Requests have exceeded call rate limit. Please retry after 20 seconds.", "rate_limit"),
        (403, "403", "Out of call volume quota. Quota will be replenished in 8 days.", "quota"),
        # Bedrock behind a gateway, Zhipu, SiliconFlow
        (400, "ThrottlingException", "Too many tokens, please wait before trying again.", "rate_limit"),
        (403, "1113", "账户余额不足", "quota"),
        (400, "1302", "已达到速率限制", "rate_limit"),
        (403, "30001", "Sorry, your account balance is insufficient", "quota"),
        # `transformers serve` with one model
        (400, "", "Server is pinned to 'a/b'; requested 'c'.", "no_model"),
        # Further on, an error quotes the request, which may speak of limits.
        (400, "", "messages: invalid. " + "x" * 300 + " rate limit", "rejected"),
        (401, "", "rate limit", "auth"),
    ],
)
def test_providers_own_words_for_limits_and_empty_accounts_are_known(
    status: int, code: str, message: str, kind: str
) -> None:
    found = fault(status, {"error": {"code": code, "message": message}})
    assert (found.kind, found.again) == (kind, kind == "rate_limit")


def test_a_limit_that_a_200_reports_is_a_rate_limit() -> None:
    found = classify_error_object({"message": "Throttling.BurstRate: slow down", "code": "Throttling"})
    assert (found.kind, found.again, found.maybe_billed) == ("rate_limit", True, True)


def test_what_may_have_been_billed_is_told() -> None:
    assert [fault(status).maybe_billed for status in (400, 401, 429, 500, 504)] == [False, False, False, False, True]


def test_waits_stay_between_their_bounds_and_are_spread() -> None:
    backoff, rng = Backoff(1.0, 60.0), random.Random(5)
    for retry in range(12):
        waits = [backoff.draw_wait(retry, None, rng) for _ in range(200)]
        highest = min(60.0, 2.0 ** (retry + 1))
        assert 1.0 <= min(waits) <= max(waits) <= highest
        assert max(waits) - min(waits) > 0.8 * (highest - 1.0)


def test_a_wait_is_never_below_what_the_endpoint_asks_for() -> None:
    waits = [Backoff(1.0, 2.0).draw_wait(0, 30.0, random.Random(i)) for i in range(100)]
    assert 30.0 <= min(waits) <= max(waits) <= 31.0


def test_calls_that_were_refused_together_return_within_the_least_wait_or_a_second() -> None:
    for least, spread in ((0.02, 0.02), (5.0, 1.0)):
        waits = [Backoff(least, 5.0).draw_wait(0, 30.0, random.Random(i)) for i in range(100)]
        assert 30.0 <= min(waits) < 30.0 + spread / 4 and 30.0 + spread * 3 / 4 < max(waits) <= 30.0 + spread


def test_no_wait_at_all_is_possible() -> None:
    assert Backoff(0.0, 0.0).draw_wait(5, None, random.Random(1)) == 0.0


@each(
    ("body", "message"),
    [
        ([], "HTTP 500: '[]'"),
        ([{"error": {"message": "busy"}}, 7], "HTTP 500: 'busy'"),
        ([7], "HTTP 500: '7'"),
        ({}, "HTTP 500: '{}'"),
        ({"error": []}, "HTTP 500: '[]'"),
        ({"error": {"metadata": []}}, """HTTP 500: '{"metadata": []}'"""),
        (None, "HTTP 500: 'None'"),
        ("", "HTTP 500"),
    ],
)
def test_an_error_body_of_any_shape_is_quoted(body: Any, message: str) -> None:
    found = fault(500, body)
    assert (found.message, found.kind, found.again) == (message, "server", True)


class Highest(random.Random):
    """Draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_waits_double_from_the_least_one_and_end_after_the_retries_that_are_allowed() -> None:
    retries, broken = Retries(3, Backoff(1.0, 60.0)), fault(500, "")
    assert [retries.compute_wait(broken, 0.0, Highest()) for _ in range(4)] == [2.0, 4.0, 8.0, None]


def test_waits_for_a_rate_limit_start_small_and_double() -> None:
    retries, refused = Retries(1, Backoff(1.0, 60.0)), fault(429, {"error": {"message": "slow down"}})
    found = [retries.compute_wait(refused, 0.0, Highest()) for _ in range(4)]
    assert found == pytest.approx([REFUSED_WAIT * 2**n for n in (1, 2, 3, 4)])


@each(("status", "is_fault"), [(199, True), (200, False), (299, False), (300, True)])
def test_every_status_but_2xx_is_a_fault(status: int, is_fault: bool) -> None:
    assert (fault(status) is not None) == is_fault


def test_the_parameter_that_is_refused_is_known_from_any_shape_of_error() -> None:
    refusal = {"message": "Unsupported value", "param": "temperature"}
    for body in ({"error": refusal}, refusal, [{"error": refusal}]):
        assert fault(400, body).param == "temperature"
    assert fault(400, {"error": {"message": "Unsupported value", "param": None}}).param == ""


def test_a_server_that_fails_twice_in_the_same_words_is_not_asked_a_third_time() -> None:
    first, second = (fault(500, {"error": f"cannot parse the output (request {n})"}) for n in (17, 18))
    assert first.again and mark_final_if_same(None, first) == first
    last = mark_final_if_same(first, second)
    assert not last.again and last.message.endswith("(the same response twice)")
    assert mark_final_if_same(first, fault(500, "overloaded")).again


@each(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After-Ms": "20", "Retry-After": "9"}, 0.02),
        ({"retry-after-ms": "0", "Retry-After": "9"}, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "9000000"}, LONGEST_RETRY_AFTER),
        ({"Retry-After": "121"}, 120.0),
        ({"Retry-After": "119"}, 119.0),
    ],
)
def test_a_wait_in_milliseconds_comes_before_one_in_seconds_and_none_is_longer_than_two_minutes(
    headers: dict[str, str], seconds: float
) -> None:
    assert fault(429, "", headers).retry_after == seconds


@each(
    ("most", "times", "waits"),
    [
        # Five minutes of rate limits end a call, if there were more of them than retries.
        (2, (0.0, 1.0, 299.0, 299.9, 300.0), (True, True, True, True, False)),
        (3, (0.0, 400.0, 500.0, 600.0), (True, True, True, False)),
        (1, (50.0, 349.0, 350.0), (True, True, False)),
        (0, (0.0,), (False,)),
    ],
)
def test_rate_limits_end_a_call_after_five_minutes_and_more_than_the_retries(
    most: int, times: tuple[float, ...], waits: tuple[bool, ...]
) -> None:
    retries, refused = Retries(most, Backoff(0.0, 0.0)), fault(429)
    assert tuple(retries.compute_wait(refused, now) is not None for now in times) == waits


def test_rate_limits_use_up_no_retry_of_a_fault() -> None:
    retries = Retries(1, Backoff(0.0, 0.0))
    assert [retries.compute_wait(fault(status), 0.0) for status in (429, 429, 500, 429, 500)] == [
        0.0,
        0.0,
        0.0,
        0.0,
        None,
    ]
    assert retries.compute_wait(fault(401), 0.0) is None  # another attempt could not succeed


@each(
    ("error", "kind", "again"),
    [
        ({"code": 400, "message": "no such field"}, "rejected", False),
        ({"code": 401, "message": "no"}, "auth", False),
        ({"status": 402, "message": "no"}, "quota", False),
        ({"code": 502, "message": "no"}, "server", True),
        ({"code": 599, "message": "no"}, "server", True),
        # No HTTP status of an error: trouble of the server.
        ({"code": 399, "message": "no"}, "server", True),
        ({"code": 600, "message": "no"}, "server", True),
        ({"code": "invalid", "message": "no"}, "server", True),
        ("no", "server", True),
    ],
)
def test_an_error_under_status_200_has_the_kind_of_its_own_code_and_may_be_billed(
    error: Any, kind: str, again: bool
) -> None:
    found = classify_error_object(error)
    assert (found.kind, found.again, found.status, found.maybe_billed) == (kind, again, 200, True)
    assert found.message == f"HTTP 200 with an error: '{error if isinstance(error, str) else error['message']}'"


def test_an_address_where_no_endpoint_answers_is_not_asked_again_and_costs_nothing() -> None:
    refused = classify_error(TransportError("timeout", "no answer in 60 s", maybe_billed=True))
    assert (refused.kind, refused.again, refused.maybe_billed) == ("timeout", True, True)
    nobody = mark_unreachable(refused, "http://localhost:1/v1")
    assert (nobody.kind, nobody.again) == ("unreachable", False)
    page = mark_wrong_address(replace(refused, status=200), "http://localhost:1")
    assert (page.kind, page.again, page.status, page.maybe_billed) == ("unreachable", False, None, False)


@each(
    ("status", "words", "kind"),
    [
        (429, "request too large for the limit of tokens per minute", "rejected"),
        (400, "the prompt was flagged by the content_filter", "refusal"),
        (403, "your input was flagged", "refusal"),
        (422, "violates the content_policy", "refusal"),
        (404, "blocked by the content_filter", "no_model"),
        (422, "the model x does not exist", "no_model"),
        (403, "the model x does not exist", "auth"),
    ],
)
def test_what_no_wait_can_change_is_told_by_status_and_words(status: int, words: str, kind: str) -> None:
    found = fault(status, {"error": {"message": words}})
    assert (found.kind, found.again) == (kind, False)


VAGUE = [
    *("InternalServerError", "internal_error", "Unknown error", "server error", "Provider returned error"),
    *("Something went wrong.", "内部服务器错误", "系统繁忙，请稍后再试"),
]


@each(
    ("first", "second", "same"),
    [
        ((500, "cannot parse"), (500, "cannot parse"), True),
        ((500, "cannot parse"), (500, "cannot read"), False),
        ((500, "cannot parse"), (502, "cannot parse"), False),
        ((502, "cannot parse"), (502, "cannot parse"), False),  # a gateway says nothing about the request
        ((500, "temporarily out"), (500, "temporarily out"), False),
        ((500, "connection lost"), (500, "connection lost"), False),
        ((500, ""), (500, ""), False),
        ((500, "Internal Server Error"), (500, "Internal Server Error"), False),
        ((500, "<h1>500 Internal Server Error</h1> nginx"), (500, "<h1>500 Internal Server Error</h1> nginx"), False),
        ((500, "Internal error encountered."), (500, "Internal error encountered."), False),
        ((500, "Internal server error: cannot parse"), (500, "Internal server error: cannot parse"), True),
        *(((500, {"error": {"message": words}}), (500, {"error": {"message": words}}), False) for words in VAGUE),
    ],
)
def test_only_an_equal_internal_error_without_words_about_load_is_final(
    first: tuple[int, Any], second: tuple[int, Any], same: bool
) -> None:
    assert mark_final_if_same(fault(*first), fault(*second)).again is not same
