"""What is told of each attempt: the log's lines and OpenTelemetry's spans."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import InputError
from autorubric.llm import attempts
from autorubric.llm.attempts import Attempt, attempt_log, find_span_attributes
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.request import CallError, Message, Reply, ReplySchema, Request
from autorubric.testing import LoopbackEndpoint

SECRET = "a prompt that no log may hold"
KEY = "sk-planted-key-of-the-log"


def asked(**fields: Any) -> Request:
    return Request((Message("user", SECRET),), "judge", item="e7", **fields)


async def call(endpoint: LoopbackEndpoint, request: Request | None = None, **config: Any) -> None:
    settings = {"api_base": endpoint.base_url, "api_key": KEY, "retry_min_wait": 0.0, "retry_max_wait": 0.0}
    prices = {"input": 1.0, "output": 2.0}
    async with aclosing(Endpoints()) as endpoints:
        model = ChatModel(LLMConfig("served", prices=prices, **{**settings, **config}), endpoints, environ={})
        try:
            await model.complete(request or asked())
        except CallError:
            pass
        finally:
            await model.close()


def logged(path: Path, endpoint: LoopbackEndpoint, *, prompts: bool = False, **config: Any) -> list[dict[str, Any]]:
    with endpoint.in_thread(), attempt_log(path, "run-1", prompts=prompts):
        asyncio.run(call(endpoint, **config))
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_attempt_has_its_line_and_a_retry_says_when_it_comes(tmp_path: Path) -> None:
    endpoint = LoopbackEndpoint(replier=lambda body: "four", faults=["429", None])
    first, second = logged(tmp_path / "calls.jsonl", endpoint)
    assert (first["attempt"], first["status"], first["http_status"]) == (1, "rate_limit", 429)
    assert first["retry_in"] >= 0.0
    assert first["cost"] is None and first["prompt_tokens"] is None
    assert (second["attempt"], second["status"], second["http_status"]) == (2, "ok", None)
    assert second["retry_in"] is None
    assert (second["run"], second["item"], second["role"]) == ("run-1", "e7", "judge")
    assert second["endpoint"] == endpoint.url.removeprefix("http://")
    # $1 and $2 per million tokens, as the model's prices above say.
    assert second["cost"] == pytest.approx((second["prompt_tokens"] + 2 * second["completion_tokens"]) / 1e6)
    assert second["seconds"] > 0.0


def test_no_prompt_reply_or_key_is_in_the_log_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    logged(path, LoopbackEndpoint(replier=lambda body: "a reply to hide"))
    assert SECRET not in path.read_text() and "a reply to hide" not in path.read_text()
    lines = logged(path, LoopbackEndpoint(replier=lambda body: "a reply to hide"), prompts=True)
    assert lines[-1]["messages"] == [{"role": "user", "content": SECRET}]
    assert lines[-1]["reply"] == "a reply to hide"
    assert KEY not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_final_failure_has_a_line_with_its_kind(tmp_path: Path) -> None:
    [line] = logged(tmp_path / "calls.jsonl", LoopbackEndpoint(key="another"))
    assert (line["status"], line["http_status"], line["retry_in"]) == ("auth", 401, None)


def test_a_parameter_that_is_sent_again_in_another_form_counts_as_an_attempt(tmp_path: Path) -> None:
    endpoint = LoopbackEndpoint(replier=lambda body: "four", rejects=["max_tokens"])
    lines = logged(tmp_path / "calls.jsonl", endpoint, max_tokens=5)
    assert [(line["attempt"], line["status"]) for line in lines] == [(1, "rejected"), (2, "ok")]
    assert lines[0]["retry_in"] == 0.0


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--log-json .*: cannot be written: Is a directory"), attempt_log(tmp_path):
        pass


def test_a_full_disk_ends_the_log_and_not_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with LoopbackEndpoint(replier=lambda body: "four").in_thread() as endpoint, attempt_log(full):
        asyncio.run(call(endpoint))
        asyncio.run(call(endpoint))
    told = capsys.readouterr().err
    assert told.count("the log of attempts ends here") == 1


def test_a_line_counts_every_reask_and_a_span_says_the_form_of_the_reply(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with LoopbackEndpoint(replier=lambda body: "four").in_thread() as endpoint, attempt_log(path, "run-1"):
        asyncio.run(call(endpoint, asked(reask=1, cut_off=2, draw=3)))
    [line] = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (line["reask"], line["draw"]) == (3, 3)
    forms = {}
    for schema in (None, ReplySchema("verdict", {"type": "object"})):
        made = Attempt(asked(schema=schema), "openai/m", "m", "http://localhost:80/v1", 2, 0.0, 0.2, Reply("MET"))
        found = find_span_attributes(made)
        forms[schema is None] = found["gen_ai.output.type"]
        assert (found["http.request.resend_count"], found["server.port"]) == (1, 80)
    assert forms == {True: "text", False: "json"}


def test_nothing_is_made_for_an_attempt_that_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "watchers", [])
    monkeypatch.setattr(attempts, "trace_calls", lambda: False)
    monkeypatch.setattr(attempts, "Attempt", None)  # calling it would raise
    with LoopbackEndpoint(replier=lambda body: "four").in_thread() as endpoint:
        asyncio.run(call(endpoint))
    assert endpoint.counts.requests == 1


@pytest.fixture
def exported() -> Iterator[Any]:
    """The spans that an SDK of the user's would export."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="OpenTelemetry's SDK is not installed")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, sdk.TracerProvider):
        provider = sdk.TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    attempts.watchers.clear()  # of models that earlier tests have opened
    yield exporter
    attempts.watchers.clear()


def test_every_attempt_is_a_client_span_inside_the_span_of_the_caller(exported: Any) -> None:
    from opentelemetry import trace

    with LoopbackEndpoint(replier=lambda body: "four", faults=["500", None]).in_thread() as endpoint:
        with trace.get_tracer("test").start_as_current_span("training step") as parent:
            asyncio.run(call(endpoint))
        first, second, outer = exported.get_finished_spans()
    assert outer.name == "training step"
    assert {first.parent.span_id, second.parent.span_id} == {parent.get_span_context().span_id}
    assert (first.name, first.kind.name, first.status.status_code.name) == ("chat served", "CLIENT", "ERROR")
    assert (first.attributes["error.type"], first.attributes["http.response.status_code"]) == ("server", 500)
    assert second.attributes["gen_ai.operation.name"] == "chat"
    assert second.attributes["gen_ai.usage.output_tokens"] > 0
    assert second.attributes["http.request.resend_count"] == 1
    assert second.attributes["server.port"] == int(endpoint.url.rpartition(":")[2])
    assert second.start_time < second.end_time
    assert SECRET not in str([dict(span.attributes) for span in (first, second)])


def test_tracing_needs_the_api_and_a_provider(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    assert attempts.trace_calls() and attempts.trace_calls()
    [record] = attempts.watchers
    made = Attempt(asked(), "openai/m", "m", "http://localhost:80/v1", 1, 102.5, 2.5, Reply("MET"))
    record(made)
    [span] = exported.get_finished_spans()
    assert (span.end_time, span.end_time - span.start_time) == (102_500_000_000, 2_500_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
        record(made)
    assert len(exported.get_finished_spans()) == 1
    attempts.watchers.clear()
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert not attempts.trace_calls()
