"""Models of the slots of a run."""

from __future__ import annotations

import sys
import threading

import pytest

from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.models import preload_http


class WithoutHttp:
    """An import of aiohttp waits, and fails."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def find_spec(self, name: str, *_: object) -> None:
        if name == "aiohttp":
            self.go.wait()
            raise ModuleNotFoundError(name)


def test_an_import_ahead_of_its_use_neither_outlives_the_process_nor_prints_why_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent, before = WithoutHttp(), set(threading.enumerate())
    monkeypatch.delitem(sys.modules, "aiohttp", raising=False)
    monkeypatch.setattr(sys, "meta_path", [absent, *sys.meta_path])
    preload_http([ChatModel(LLMConfig("judge", api_base="http://127.0.0.1:9/v1"))])
    [started] = set(threading.enumerate()) - before
    # A daemon that still imports while the interpreter ends can crash the process.
    assert not started.daemon
    absent.go.set()
    started.join()  # what it raised would be printed between the lines of a command; here it would fail the test
