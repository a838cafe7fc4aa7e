"""One call as the ledger stores it: its key, plain columns for sums, and a sealed payload for the reply."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from json import JSONEncoder
from typing import Any, NamedTuple

from autorubric.errors import LedgerError
from autorubric.files.printable import to_utf8
from autorubric.files.strict_json import decode_json, encode_json
from autorubric.llm.billing import Bill
from autorubric.llm.request import Failure, Message, Model, Reply, Request, Usage, as_dict

KEY_BYTES = 16

# Change this with the encoding below, so that old keys miss instead of returning a wrong reply.
_ENCODING = b"1"


def compute_key(model: Model, request: Request) -> bytes:
    """Return the 16 bytes under which the ledger stores the reply to this request by this model.

    Everything that shapes a reply counts: the model's identity, messages, schema, draw, re-ask, seat, copy and the
    request's own token limit. The role and the item's id do not. Model parameters count in any order; schema keys
    count in theirs, because models fill in fields in the order shown.
    """
    messages, schema = request.messages, b"" if request.schema is None else request.schema.encoded
    asked = (encode_identity(model), request.draw, request.reask, schema, request.seat, request.copy)
    before, known, content = _latest[0]
    # A request is looked up under several limits, and then sent: its texts are read once.
    if messages is not before or asked != known:
        shared = messages[:1] if messages and messages[0].role == "system" else ()
        content = _hash_shared_part(asked[0], request.draw, request.reask, schema, shared).copy()
        content.update(_frame(*chain.from_iterable(messages[len(shared) :])))
        # Messages are pairs of parts, so one more part cannot be mistaken for a message. Defaults add no part, so
        # that keys of older ledgers stay valid.
        if request.seat or request.copy:
            content.update(_frame(b"%d.%d" % (request.seat, request.copy)))
        _latest[0] = messages, asked, content
    if request.max_tokens is None:
        return content.digest()
    digest = content.copy()
    digest.update(_frame(b"max_tokens=%d" % request.max_tokens))
    return digest.digest()


_latest: list[tuple[tuple[Message, ...], tuple[Any, ...], blake2b]] = [((), (), blake2b())]
"""The messages of the request whose key was computed last, what else the key covers, and the digest of both."""


@lru_cache(maxsize=64)
def _hash_shared_part(model: bytes, draw: int, reask: int, schema: bytes, messages: tuple[Message, ...]) -> blake2b:
    """The digest of the part of a key's content that most requests of a run share; copy it before updating it."""
    parts: tuple[str | bytes, ...] = (
        _ENCODING,
        model,
        b"%d" % draw,
        b"%d" % reask,
        schema,
        *chain.from_iterable(messages),
    )
    return blake2b(_frame(*parts), digest_size=KEY_BYTES)


def _frame(*parts: str | bytes) -> bytes:
    encoded = [part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts]
    # The length prefix distinguishes "ab" + "c" from "a" + "bc".
    return b"".join([piece for part in encoded for piece in (len(part).to_bytes(8, "little"), part)])


def encode_identity(model: Model) -> bytes:
    """Return a model's identity as it enters the key of a request."""
    identity = model.identity()
    known = _encoded.get(id(identity))
    if known is not None and known[0] is identity:
        return known[1]
    if len(_encoded) >= _MOST_ENCODED:  # a model may state its identity in a new tuple each time
        _encoded.clear()
    encoded = _any_order(identity).encode()
    _encoded[id(identity)] = identity, encoded
    return encoded


_encoded: dict[int, tuple[tuple[Any, ...], bytes]] = {}
_MOST_ENCODED = 64


_any_order = JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=as_dict).encode


_INT64_MAX = 2**63 - 1
_UNKNOWN = (None,) * 4
_SHORTEST = 256
"""Bytes up to which a text is stored as it is: compression would save fifty bytes and cost as much as the rest."""
_SHORT = 1 << 12
"""Bytes up to which a window of 4 kB loses nothing; the usual 256 kB of tables take longer than a short text."""
_ZLIB = (b"H", b"x")
"""First bytes of what `seal` makes with either window; no JSON starts with one of them."""


@dataclass(slots=True)
class CallRow:
    """One finished call: what was requested, for which item, and the outcome.

    `cost_bound` (dollars) and `token_bound` are what may have been billed beyond the outcome's own usage; None where
    unknown. `at` is when the call ended, in seconds since the epoch.
    """

    key: bytes
    item: str
    role: str
    model: str
    draw: int
    reask: int
    outcome: Reply | Failure
    cost_bound: float | None = None
    token_bound: int | None = None
    at: float = field(default_factory=time.time)

    @property
    def failure(self) -> Failure | None:
        """Why there is no usable reply; None if there is one."""
        return self.outcome if isinstance(self.outcome, Failure) else None

    @property
    def reply(self) -> Reply | None:
        """The reply, usable or not."""
        return self.outcome.reply if isinstance(self.outcome, Failure) else self.outcome

    @classmethod
    def build(cls, key: bytes, model: Model, request: Request, outcome: Reply | Failure, bill: Bill) -> CallRow:
        """Return the row of `request` to `model`, which ended with `outcome`."""
        asked_before = request.reask + request.cut_off
        names = (key, request.item, request.role, model.name, request.draw, asked_before)
        return cls(*names, outcome, bill.cost_bound, bill.token_bound)


CALL_COLUMNS = (
    "key, item, role, model, draw, reask, status, http_status, attempts, prompt_tokens, completion_tokens, "
    "cached_tokens, reasoning_tokens, cost, cost_bound, token_bound, latency, at"
)
_STATUS = CALL_COLUMNS.split(", ").index("status")
_OK = "ok"
DAMAGED = "damaged"
"""Status of a call whose reply was damaged later; its cost still counts."""


class SealedRow(NamedTuple):
    """A row as stored: values of `CALL_COLUMNS`, the compressed outcome, and a digest of it and the key."""

    key: bytes
    columns: tuple[Any, ...]
    data: bytes
    digest: bytes

    @classmethod
    def pack(cls, row: CallRow) -> SealedRow:
        """Return the stored form of a row."""
        return cls(row.key, pack_columns(row), *seal(row.key, pack_outcome(row.outcome)))

    @property
    def is_reply(self) -> bool:
        """Whether the call returned a reply."""
        return bool(self.columns[_STATUS] == _OK)


def pack_columns(row: CallRow) -> tuple[Any, ...]:
    """Return the values of `CALL_COLUMNS`."""
    outcome = row.outcome
    status: tuple[str, int | None] = (_OK, None)
    reply: Reply | None
    if isinstance(outcome, Failure):
        status, reply = (outcome.kind, outcome.status), outcome.reply
    else:
        reply = outcome
    item, role, model = row.item, row.role, row.model
    if not (item.isascii() and role.isascii() and model.isascii()):
        item, role, model = map(to_utf8, (item, role, model))
    names = (row.key, item, role, model, row.draw, row.reask)
    told: tuple[int | None, ...] = _UNKNOWN
    if reply is not None and (usage := reply.usage) is not None:
        told = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens
    # An endpoint can state any number of tokens; one too large for SQLite must not stop the run.
    *counts, bound = [
        count if count is None or -_INT64_MAX <= count <= _INT64_MAX else max(-_INT64_MAX, min(count, _INT64_MAX))
        for count in (*told, row.token_bound)
    ]
    cost, latency = (None, None) if reply is None else (reply.cost, reply.latency)
    return (*names, *status, outcome.attempts, *counts, cost, row.cost_bound, bound, latency, row.at)


def seal(name: bytes, value: Any) -> tuple[bytes, bytes]:
    """The JSON of `value`, compressed unless it is short, and a digest of it and the name it is stored under."""
    data = encode_json(value)
    if len(data) > _SHORT:
        data = zlib.compress(data, level=1)
    elif len(data) > _SHORTEST:
        short = zlib.compressobj(1, zlib.DEFLATED, 12, 4)
        data = short.compress(data) + short.flush()
    return data, compute_digest(name, data)


def is_whole(name: object, data: object, digest: object) -> bool:
    """Return whether stored values match their digest; one flipped bit makes SQLite return text for bytes."""
    return isinstance(name, bytes) and isinstance(data, bytes) and compute_digest(name, data) == digest


def unseal(name: bytes, data: bytes | None, digest: bytes | None) -> Any:
    """Return the value passed to `seal`, once the digest shows that it is intact."""
    if data is None or not is_whole(name, data, digest):
        raise LedgerError("a recorded value is damaged: it does not match its digest")
    return decode_json(zlib.decompress(data) if data.startswith(_ZLIB) else data)


def pack_outcome(outcome: Reply | Failure) -> list[Any] | dict[str, Any]:
    """Return a reply as a list in field order, or a failure as a dict with its message and reply."""
    if isinstance(outcome, Failure):
        reply = None if outcome.reply is None else pack_outcome(outcome.reply)
        return {"message": outcome.message, "reply": reply}
    counts: tuple[int, ...] | None = None
    if (usage := outcome.usage) is not None:
        counts = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens
        counts = (*counts, usage.cache_write_tokens) if usage.cache_write_tokens else counts
    fields = [
        outcome.text,
        outcome.finish_reason,
        outcome.refusal,
        outcome.reasoning,
        outcome.model,
        counts,
        outcome.cost,
        outcome.latency,
        outcome.attempts,
    ]
    return fields if outcome.limit is None else [*fields, outcome.limit]


def unpack_reply(value: list[Any], *, fresh: bool) -> Reply:
    """Return the reply that `pack_outcome` packed."""
    text, finish_reason, refusal, reasoning, model, usage, cost, latency, attempts, *rest = value
    usage = None if usage is None else Usage(*usage)
    limit = rest[0] if rest else None
    return Reply(text, finish_reason, refusal, reasoning, model, usage, cost, latency, attempts, fresh, limit)


READ_COLUMNS = "key, item, role, model, draw, reask, status, http_status, attempts, at, data, digest"
"""What `read_call` takes: columns of a call and of its payload."""


def read_call(row: Sequence[Any]) -> CallRow:
    """Return a recorded call without its bounds; a damaged part becomes a failure."""
    key, item, role, model, draw, reask, status, http_status, attempts, at, data, digest = row
    outcome: Reply | Failure
    try:
        value = unseal(key, data, digest)
        if isinstance(value, list):
            outcome = unpack_reply(value, fresh=False)
        else:
            reply = None if value["reply"] is None else unpack_reply(value["reply"], fresh=False)
            outcome = Failure(status, value["message"], http_status, attempts, reply)
    except LedgerError as error:
        if status in (_OK, DAMAGED):
            outcome = Failure("unreadable", str(error), http_status, attempts)
        else:
            outcome = Failure(status, "the endpoint's message is damaged in the ledger", http_status, attempts)
    return CallRow(key, item, role, model, draw, reask, outcome, at=at)


def compute_digest(name: bytes, data: bytes) -> bytes:
    """Return a digest of `data` and the name they are stored under."""
    return blake2b(len(name).to_bytes(8, "little") + name + data, digest_size=16).digest()
