"""Keys of requests, as ledgers on disk have them: a key that changes makes a user pay again."""

from __future__ import annotations

from typing import Any

from autorubric import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.records.call_rows import compute_key
from autorubric.llm.request import Message, ReplySchema, Request

ASKED = (Message("system", "You are a judge."), Message("user", "Is it kind?"))
SCHEMA = ReplySchema("verdict", {"type": "object", "properties": {"status": {"type": "string"}, "why": {}}})
TURNED = ReplySchema("verdict", {"type": "object", "properties": {"why": {}, "status": {"type": "string"}}})

Fields = dict[str, Any]

KEYS: tuple[tuple[Fields, Fields, str], ...] = (
    # settings of the model, fields of the request, key
    ({}, {}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"role": "reference"}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"item": "q7"}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"room": 900}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"cut_off": 2}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"constrained": False}, "b38e310c8b543a08ca1406dbebb86645"),
    ({}, {"draw": 1}, "013919ee797d3151e330e87f26d1a064"),
    ({}, {"reask": 1}, "ac2493406897d9aa788f6c075080285d"),
    ({}, {"draw": 2, "reask": 1}, "7c3d6515fe4ca9ce7f07c8c554d16de1"),
    ({}, {"draw": 1, "reask": 2}, "373fe7012515585624f6cda340e13856"),
    ({}, {"draw": 12, "reask": 3}, "bf4484136e739b17b7c95317faf9a29c"),
    ({}, {"max_tokens": 4096}, "9f7e73765735c169b1542efea7d9bf62"),
    ({}, {"draw": 1, "reask": 1, "max_tokens": 4096, "cut_off": 1}, "899c004c0e057cb32b8570a817781c54"),
    ({}, {"schema": SCHEMA}, "dae728c96aab55e9fcfe8f900ae222da"),
    ({}, {"schema": TURNED}, "4efaa06fd8f01fa259c253903c9bdf53"),
    ({}, {"schema": SCHEMA, "draw": 3, "reask": 2}, "a482d6c28741c1e02f5d1ab1b41f8ed9"),
    ({}, {"seat": 1}, "6f627305385e57741f7f50c4a3bba38d"),
    ({}, {"copy": 1}, "026124816b6e27e0e19ccaffebdb027d"),
    ({}, {"seat": 2, "copy": 1}, "f15864671d9022203ef0dfcb2a780be4"),
    ({}, {"seat": 1, "copy": 2}, "fc83cbaa7e8e57248895eda67250f753"),
    (
        {},
        {"seat": 1, "copy": 1, "draw": 1, "reask": 1, "schema": SCHEMA, "max_tokens": 8192},
        "8eb6bc059823c92ab8b90091122f7b78",
    ),
    (
        {},
        {"messages": (*ASKED, Message("assistant", "Yes."), Message("user", "As JSON.")), "reask": 1},
        "5c579345393380df46077759f06564b1",
    ),
    ({}, {"messages": (Message("user", "Ist es freundlich – ja? 你好 \ud800"),)}, "24f51ba3092dd0e28122537dd08ba4cb"),
    ({"temperature": 0.7}, {}, "b4ce2ffcef3b79bb65ee88cbb6e6e94f"),
    ({"temperature": None, "max_tokens": None}, {}, "6fdfa6739ebb98a41b57b83921fd0a04"),
    ({"model": "vllm/other"}, {}, "ff810ed7ca6adc86424a9c88394b9a27"),
    ({"api_base": "http://models.example/v2/"}, {}, "8a92e291e1d72e278253a645ea2d1d33"),
    ({"extra_params": {"top_k": 20, "seed": 7}}, {}, "386eb3a00fc1ee290f43202a52573687"),
    ({"extra_params": {"seed": 7, "top_k": 20}}, {}, "386eb3a00fc1ee290f43202a52573687"),
    (
        {"model": "openai/gpt-5", "api_base": "https://models.example/v1", "api_key": "sk-x", "thinking": "low"},
        {},
        "168bc4cdba9e0fdf0086a173fc131bbf",
    ),
    ({"max_retries": 9, "timeout": 1.0, "max_parallel_requests": 2}, {}, "b38e310c8b543a08ca1406dbebb86645"),
)


def key(settings: Fields, fields: Fields) -> str:
    given = {"model": "vllm/tiny", "api_base": "http://models.example/v1", "temperature": 0.0, "max_tokens": 512}
    model = ChatModel(LLMConfig(**{**given, **settings}), environ={})
    return compute_key(model, Request(**{"messages": ASKED, "role": "judge", **fields})).hex()


def test_requests_keep_the_keys_that_ledgers_have() -> None:
    assert [key(settings, fields) for settings, fields, _ in KEYS] == [pinned for _, _, pinned in KEYS]
