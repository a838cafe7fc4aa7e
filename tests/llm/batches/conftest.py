"""Batches whose refused requests are soon sent again."""

from __future__ import annotations

import pytest

from autorubric.llm.http import retry


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The waits are what test_retry is about; here they would take minutes.
    monkeypatch.setattr(retry.Backoff, "draw_wait", lambda *_: 0.01)
