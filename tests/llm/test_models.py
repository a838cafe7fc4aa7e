"""Models of the slots of a run."""

from __future__ import annotations

import sys
import threading

import pytest

from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.models import load_ahead


def test_an_import_ahead_of_its_use_that_fails_is_left_to_the_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    before = set(threading.enumerate())
    load_ahead([ChatModel(LLMConfig("judge", api_base="http://127.0.0.1:9/v1"))])
    # What a thread raises would be printed between the lines of a command; here it fails the test.
    for started in set(threading.enumerate()) - before:
        started.join()
