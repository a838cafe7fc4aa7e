from __future__ import annotations

import dataclasses
import logging
import pickle
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autorubric.llm.config import LLMConfig
from autorubric.llm.request import CallError

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback

KEY = "planted-secret-key-42"


async def test_the_key_goes_into_the_authorization_header_alone(endpoint: Loopback) -> None:
    await endpoint.model(api_key=KEY).complete(endpoint.ask())
    carrying = [name for name, value in endpoint.headers[0].items() if KEY in value]
    assert carrying == ["Authorization"]
    assert KEY not in repr(endpoint.bodies)


@pytest.mark.parametrize(("key", "header"), [(KEY, "api-key"), ("eyJhbGciOiJSUzI1NiJ9.planted", "Authorization")])
async def test_addresses_with_an_api_version_get_the_key_as_azure_wants_it(
    endpoint: Loopback, key: str, header: str
) -> None:
    await endpoint.model(api_base=f"{endpoint.url}?api-version=2025-04-01-preview", api_key=key).complete(
        endpoint.ask()
    )
    carrying = [name for name, value in endpoint.headers[0].items() if key in value]
    assert carrying == [header]
    assert endpoint.raw_request is not None
    assert endpoint.raw_request.path_qs == "/v1/chat/completions?api-version=2025-04-01-preview"


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
async def test_a_planted_key_shows_up_nowhere(
    endpoint: Loopback, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    other = "planted-header-secret"

    def echo_the_key(number: int, body: dict[str, Any]) -> Any:
        assert endpoint.raw_request is not None
        sent = endpoint.raw_request.headers
        return endpoint.error(
            status, f"Incorrect key {sent['Authorization']} {sent['api-key']} {KEY[:12]}*** at {endpoint.url}"
        )

    endpoint.answer = echo_the_key
    model = endpoint.model(api_key=KEY, extra_headers={"api-key": other}, max_retries=0)
    with pytest.raises(CallError) as caught:
        await model.complete(endpoint.ask())
    failure = caught.value.failure
    shown = [
        repr(failure),
        str(caught.value),
        "".join(traceback.format_exception(caught.value)),
        caplog.text,
        repr(model),
        repr(model.identity()),
        repr(model.endpoint),
        str(model.endpoint.key),
        repr(dataclasses.asdict(failure)),
        repr(pickle.dumps(failure)),
    ]
    for text in shown:
        assert KEY[:12] not in text
        assert other not in text
    assert "<hidden>" in failure.message


async def test_a_traceback_with_local_variables_shows_no_key(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.error(500, "oops")
    model = endpoint.model(api_key=KEY, max_retries=0)
    with pytest.raises(CallError) as caught:
        await model.complete(endpoint.ask())
    error = caught.value
    assert error.__traceback__ is not None
    ours = error.__traceback__.tb_next  # this test's own frame holds what the endpoint was sent
    shown = traceback.TracebackException(type(error), error, ours, capture_locals=True)
    assert KEY not in "".join(shown.format())


def test_a_configuration_shows_no_key_in_repr_or_file(tmp_path: Path) -> None:
    config = LLMConfig(
        "openai/gpt-5.1", api_key=KEY, extra_headers={"X-Title": "run", "Authorization": f"Bearer {KEY}"}
    )
    config.to_yaml(tmp_path / "model.yaml")
    text = (tmp_path / "model.yaml").read_text()
    assert KEY not in repr(config) + text
    assert "api_key=<hidden>" in repr(config)
    assert "# api_key is left out" in text
    assert LLMConfig.from_yaml(tmp_path / "model.yaml").extra_headers == {"X-Title": "run"}
