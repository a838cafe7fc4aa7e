"""One paid call as the ledger keeps it: plain columns for sums, a sealed payload for the reply."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from autorubric.errors import LedgerError
from autorubric.files.quick_json import json_bytes, json_value
from autorubric.llm.request import Failure, FailureKind, Reply, Request, Usage

_INT64_MAX = 2**63 - 1
_ZSTD = b"\x28\xb5\x2f\xfd"
"""Starts what earlier versions compressed."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """One finished call: what was asked, for whom, and what came of it.

    Attributes:
        key: the request's key (`autorubric.llm.records.keys`).
        item: the record or dataset row that the call was made for.
        role: the part the model played.
        model: the model's canonical `provider/model` string.
        draw: which independent sample of the question this is.
        reask: how often the draw was asked before.
        outcome: the reply, or the failure with its evidence.
        cost_bound: dollars that may have been billed beyond the outcome's own cost; None where unknown.
        token_bound: the same in tokens.
        at: seconds since the epoch when the call ended.
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

    @classmethod
    def of(cls, key: bytes, model: str, request: Request, outcome: Reply | Failure) -> CallRow:
        """The row of `request`, answered by the model called `model` with `outcome`."""
        asked_before = request.reask + request.cut_off
        return cls(key, request.item, request.role, model, request.draw, asked_before, outcome)


CALL_COLUMNS = (
    "key, item, role, model, draw, reask, status, http_status, attempts, prompt_tokens, completion_tokens, "
    "cached_tokens, reasoning_tokens, cost, cost_bound, token_bound, latency, at"
)
_STATUS = CALL_COLUMNS.split(", ").index("status")
_OK = "ok"
DAMAGED = "damaged"
"""Status of a call whose reply was damaged later; what it cost still counts."""


class SealedRow(NamedTuple):
    """A row in the form in which it is kept.

    Attributes:
        columns: the values of `CALL_COLUMNS`, each one that SQLite takes.
        data: the sealed reply or failure.
        digest: what shows that the data are those of this key.

    Example:
        >>> row = SealedRow.of(CallRow(b"k", "q1", "judge", "local/tiny", 0, 0, Reply("MET"), at=1.0))
        >>> SealedRow.from_bytes(b"k", row.to_bytes()) == row
        True
    """

    columns: tuple[Any, ...]
    data: bytes
    digest: bytes

    @classmethod
    def of(cls, row: CallRow) -> SealedRow:
        """The sealed form of a row."""
        return cls(columns(row), *seal(row.key, packed(row.outcome)))

    @property
    def key(self) -> bytes:
        """The key of the request."""
        key: bytes = self.columns[0]
        return key

    @property
    def at(self) -> float:
        """Seconds since the epoch when the call ended."""
        at: float = self.columns[-1]
        return at

    @property
    def is_reply(self) -> bool:
        """Whether the call brought a reply."""
        return bool(self.columns[_STATUS] == _OK)

    def to_bytes(self) -> bytes:
        """All but the key: one line of JSON, and the data."""
        return json_bytes(self.columns[1:]) + b"\n" + self.data

    @classmethod
    def from_bytes(cls, key: bytes, content: bytes) -> SealedRow:
        """The row whose bytes `to_bytes` gave."""
        line, _, data = content.partition(b"\n")
        return cls((key, *json_value(line)), data, digest_of(key, data))


def columns(row: CallRow) -> tuple[Any, ...]:
    """The values of `CALL_COLUMNS` for one row, each one that SQLite takes."""
    outcome = row.outcome
    reply = outcome.reply if isinstance(outcome, Failure) else outcome
    usage = reply.usage if reply is not None else None
    tokens = (None,) * 4 if usage is None else tuple(_int64(count) for count in _counts(usage)[:4])
    return (
        row.key,
        _text(row.item),
        _text(row.role),
        _text(row.model),
        row.draw,
        row.reask,
        outcome.kind if isinstance(outcome, Failure) else _OK,
        outcome.status if isinstance(outcome, Failure) else None,
        outcome.attempts,
        *tokens,
        reply.cost if reply is not None else None,
        row.cost_bound,
        None if row.token_bound is None else _int64(row.token_bound),
        reply.latency if reply is not None else None,
        row.at,
    )


def seal(name: bytes, value: Any) -> tuple[bytes, bytes]:
    """The compressed JSON of `value`, and a digest over it and the name that it is kept under.

    Example:
        >>> data, digest = seal(b"q1", {"verdict": "MET"})
        >>> unseal(b"q1", data, digest)
        {'verdict': 'MET'}
        >>> unseal(b"q2", data, digest)
        Traceback (most recent call last):
        autorubric.errors.LedgerError: ...
    """
    data = zlib.compress(json_bytes(value), level=1)
    return data, digest_of(name, data)


def unseal(name: bytes, data: bytes | None, digest: bytes | None) -> Any:
    """The value that `seal` was given, once the digest shows that not a bit of it has changed."""
    if data is None or digest_of(name, data) != digest:
        raise LedgerError("a recorded value is damaged: it does not match its digest")
    return json_value(_expanded(data))


def packed(outcome: Reply | Failure) -> list[Any] | dict[str, Any]:
    """The JSON value of a reply (a list in field order) or of a failure (a dict with its words and reply)."""
    if isinstance(outcome, Failure):
        reply = None if outcome.reply is None else packed(outcome.reply)
        return {"message": outcome.message, "reply": reply}
    fields = [
        outcome.text,
        outcome.finish_reason,
        outcome.refusal,
        outcome.reasoning,
        outcome.model,
        None if outcome.usage is None else _counts(outcome.usage),
        outcome.cost,
        outcome.latency,
        outcome.attempts,
    ]
    return fields if outcome.limit is None else [*fields, outcome.limit]


def unpacked_reply(value: list[Any], *, fresh: bool) -> Reply:
    """The reply that `packed` was given."""
    text, finish_reason, refusal, reasoning, model, usage, cost, latency, attempts, *rest = value
    usage = None if usage is None else Usage(*usage)
    limit = rest[0] if rest else None
    return Reply(text, finish_reason, refusal, reasoning, model, usage, cost, latency, attempts, fresh, limit)


def unpacked_failure(value: dict[str, Any], kind: FailureKind, status: int | None, attempts: int) -> Failure:
    """The failure that `packed` was given; its kind, status and attempts are columns of the row."""
    reply = None if value["reply"] is None else unpacked_reply(value["reply"], fresh=False)
    return Failure(kind, value["message"], status, attempts, reply)


def _counts(usage: Usage) -> tuple[int, ...]:
    """The counts in the order of the fields; the first four have columns of their own."""
    counts = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens
    return (*counts, usage.cache_write_tokens) if usage.cache_write_tokens else counts


def _int64(number: int) -> int:
    # An endpoint can claim any number of tokens; one that SQLite cannot hold must not stop the run.
    return max(-_INT64_MAX, min(number, _INT64_MAX))


def _text(value: str) -> str:
    # SQLite takes UTF-8 only, and ids can hold lone surrogates.
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def digest_of(name: bytes, data: bytes) -> bytes:
    """What shows that `data` are those that were sealed under `name`."""
    return blake2b(len(name).to_bytes(8, "little") + name + data, digest_size=16).digest()


def _expanded(data: bytes) -> bytes:
    if not data.startswith(_ZSTD):
        return zlib.decompress(data)
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        expanded: bytes = stream.read()
    return expanded
