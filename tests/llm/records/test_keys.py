from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from itertools import product
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.llm.records.call_rows import compute_key
from autorubric.llm.request import Message, Reply, ReplySchema, Request, Usage
from tests.offenders import each


class Named:
    """A model that is nothing but its identity."""

    name = "test/named"

    def __init__(self, *identity: Any) -> None:
        self._identity = identity

    def identity(self) -> tuple[Any, ...]:
        return self._identity

    def ceiling(self, request: Request) -> Usage | None:
        return None

    def cost(self, usage: Usage) -> float | None:
        return None

    async def complete(self, request: Request) -> Reply:
        return Reply("")

    async def close(self) -> None: ...


MODEL = Named("http://localhost/v1", "tiny", {"temperature": 0.0, "top_p": 1.0})
SCHEMA = ReplySchema("verdict", {"properties": {"reason": {}, "verdict": {}}})
REQUEST = Request((Message("system", "You judge."), Message("user", "Is it so?")), "judge", schema=SCHEMA)

SHAPES_A_REPLY: dict[str, Callable[[Request], Request]] = {
    "the text": lambda r: replace(r, messages=(r.messages[0], Message("user", "Is it so!"))),
    "who says it": lambda r: replace(r, messages=(Message("user", "You judge."), r.messages[1])),
    "the order": lambda r: replace(r, messages=r.messages[::-1]),
    "one turn less": lambda r: replace(r, messages=r.messages[:1]),
    "no schema": lambda r: replace(r, schema=None),
    "the schema's name": lambda r: replace(r, schema=ReplySchema("vote", SCHEMA.body)),
    "the schema's body": lambda r: replace(r, schema=ReplySchema("verdict", {"properties": {"verdict": {}}})),
    "the order of fields": lambda r: replace(
        r, schema=ReplySchema("verdict", {"properties": {"verdict": {}, "reason": {}}})
    ),
    "the draw": lambda r: replace(r, draw=1),
    "the re-ask": lambda r: replace(r, reask=1),
    "which judge asks": lambda r: replace(r, seat=1),
    "which equal item it is for": lambda r: replace(r, copy=1),
    "both": lambda r: replace(r, seat=1, copy=1),
}


@each("change", SHAPES_A_REPLY.values())
def test_everything_of_a_request_that_shapes_its_reply_changes_the_key(
    change: Callable[[Request], Request],
) -> None:
    assert compute_key(MODEL, change(REQUEST)) != compute_key(MODEL, REQUEST)


def test_all_parts_of_a_key_are_told_apart() -> None:
    parts = [replace(REQUEST, draw=d, reask=r, seat=s, copy=c) for d, r, s, c in product((0, 1, 11), repeat=4)]
    assert len({compute_key(MODEL, request) for request in parts}) == 3**4


def test_the_first_judge_and_item_have_the_keys_of_ledgers_that_know_neither_seats_nor_copies() -> None:
    # The encoding of version 1, written out: each part with its length in 8 bytes, little-endian, in front.
    parts = [
        b"1",
        b'["http://localhost/v1","tiny",{"temperature":0.0,"top_p":1.0}]',
        b"2",
        b"1",
        b'["verdict",{"properties":{"reason":{},"verdict":{}}}]',
        *(b"system", b"You judge.", b"user", b"Is it so?"),
    ]
    told = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    assert compute_key(MODEL, replace(REQUEST, draw=2, reask=1)) == blake2b(told, digest_size=16).digest()


def test_a_draw_is_not_a_reask() -> None:
    assert compute_key(MODEL, replace(REQUEST, draw=1)) != compute_key(MODEL, replace(REQUEST, reask=1))


@each(
    "other",
    [
        Named("http://localhost:8000/v1", "tiny", {"temperature": 0.0, "top_p": 1.0}),
        Named("http://localhost/v1", "small", {"temperature": 0.0, "top_p": 1.0}),
        Named("http://localhost/v1", "tiny", {"temperature": 0.7, "top_p": 1.0}),
        Named("http://localhost/v1", "tiny", {"temperature": 0.0}),
        Named("http://localhost/v1", "tiny", {"temperature": 0.0, "top_p": None}),
    ],
)
def test_endpoint_model_and_parameters_change_the_key(other: Named) -> None:
    assert compute_key(other, REQUEST) != compute_key(MODEL, REQUEST)


def test_where_a_request_belongs_does_not_change_the_key() -> None:
    elsewhere = replace(REQUEST, role="augment", item="q9")
    assert compute_key(MODEL, elsewhere) == compute_key(MODEL, REQUEST)


def test_the_order_and_kind_of_mapping_of_parameters_do_not_change_the_key() -> None:
    same = Named("http://localhost/v1", "tiny", MappingProxyType({"top_p": 1.0, "temperature": 0.0}))
    assert compute_key(same, REQUEST) == compute_key(MODEL, REQUEST)


def test_text_cannot_move_across_the_boundary_of_two_messages() -> None:
    one = replace(REQUEST, messages=(Message("user", "ab"), Message("user", "c")))
    two = replace(REQUEST, messages=(Message("user", "a"), Message("user", "bc")))
    assert compute_key(MODEL, one) != compute_key(MODEL, two)


def test_a_lone_surrogate_has_a_key_of_its_own() -> None:
    broken = replace(REQUEST, messages=(Message("user", "\ud83d"),))
    other = replace(REQUEST, messages=(Message("user", "\ud83e"),))
    assert compute_key(MODEL, broken) != compute_key(MODEL, other)


def test_an_identity_that_is_not_json_is_refused_with_its_type() -> None:
    with pytest.raises(TypeError, match="object is not a JSON value"):
        compute_key(Named(object()), REQUEST)


turns = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=5)), max_size=4)


@given(turns, turns, st.integers(0, 3), st.integers(0, 3))
def test_two_requests_share_a_key_exactly_when_they_are_the_same(
    one: list[Any], two: list[Any], draw: int, other_draw: int
) -> None:
    first = Request(tuple(Message(*turn) for turn in one), "judge", draw=draw)
    second = Request(tuple(Message(*turn) for turn in two), "judge", draw=other_draw)
    same = one == two and draw == other_draw
    assert (compute_key(MODEL, first) == compute_key(MODEL, second)) == same


def test_the_key_of_a_request_stays_what_it_is() -> None:
    # A key that changes makes every recorded reply a miss. This value is blake2b-128 over the parts listed,
    # each with its length in eight little-endian bytes in front, computed apart from our code:
    #   1 | ["e"] | 0 | 0 | (empty) | user | hi
    from hashlib import blake2b

    parts = [b"1", b'["e"]', b"0", b"0", b"", b"user", b"hi"]
    wire = b"".join(bytes([len(part)]) + bytes(7) + part for part in parts)
    expected = blake2b(wire, digest_size=16).digest()
    assert compute_key(Named("e"), Request((Message("user", "hi"),), "judge")) == expected


@each("value", [float("nan"), float("inf")])
def test_a_parameter_that_is_no_number_has_no_key(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        compute_key(Named("http://localhost/v1", "tiny", {"temperature": value}), REQUEST)
