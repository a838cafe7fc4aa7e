"""A scene whose waits take no time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autorubric.llm.http import limiter, pace, retry
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.completion import sized_replies
from tests.faults.scene import KEY, Scene


def says(body: dict[str, Any]) -> str:
    """What fits the schema, but to a review that nothing was found: a finding has to quote the rubric."""
    if body["model"] == "writer":
        return '{"criteria": []}'
    return '{"findings": []}' if "Review " in str(body["messages"]) else str(FITTING(body))


FITTING = sized_replies()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    # The waits are what test_retry and test_pace are about; here they would take minutes.
    monkeypatch.setattr(retry.Backoff, "draw_wait", lambda *_: 0.01)
    monkeypatch.setattr(retry, "LONGEST_RETRY_AFTER", 0.1)
    monkeypatch.setattr(retry, "REFUSED_FOR", 0.0)
    monkeypatch.setattr(limiter, "PATIENCE", 0.5)
    monkeypatch.setattr(pace, "EVIDENCE", 0.1)
    monkeypatch.setattr(pace, "FIRST_GAP", 0.001)
    made = Scene(tmp_path, LoopbackEndpoint(key=KEY), lambda body: None, capsys.readouterr)
    endpoint = made.endpoint = LoopbackEndpoint(key=KEY, faults=made.fault, replier=says)
    with endpoint.in_thread():
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        yield made
