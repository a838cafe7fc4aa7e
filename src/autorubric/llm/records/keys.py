"""The name under which the ledger keeps a reply: a hash of everything that shapes it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from json import JSONEncoder
from typing import Any

from autorubric.llm.model import Model
from autorubric.llm.request import Request

KEY_BYTES = 16

# A change of the encoding below must change this, so that old keys can only miss, never mislead.
_ENCODING = b"1"


def request_key(model: Model, request: Request) -> bytes:
    """The 16 bytes that stand for this request to this model.

    Two requests share a key exactly when nothing tells their replies apart: the model's identity, the
    messages, the schema, the draw, the re-ask, the seat, the copy and a limit of the request's own. The role,
    the item's id, what the prompt was made from (`inputs`) and how much room the reply needs do not count.
    Parameters of the model count in any order; the keys of a schema count in theirs, because models fill in fields
    in the order they are shown.

    Example:
        >>> from autorubric.llm.request import Message
        >>> class Echo:
        ...     def identity(self):
        ...         return ("http://localhost:8000/v1", "echo", {"temperature": 0.0})
        >>> question = Request(messages=(Message("user", "Why is the sky blue?"),), role="response")
        >>> len(request_key(Echo(), question))
        16
        >>> again = Request(messages=question.messages, role="judge", item="q7")
        >>> request_key(Echo(), question) == request_key(Echo(), again)
        True
    """
    schema = request.schema
    parts = [
        _ENCODING,
        model_key(model),
        b"%d" % request.draw,
        b"%d" % request.reask,
        b"" if schema is None else schema.encoded,
    ]
    for role, content in request.messages:
        parts.append(role.encode())
        parts.append(content.encode("utf-8", "surrogatepass"))
    # Messages come in pairs of parts, so one part more cannot be mistaken for a message. Without it the key is
    # the one that ledgers written before seats and copies have.
    if request.seat or request.copy:
        parts.append(b"%d.%d" % (request.seat, request.copy))
    if request.max_tokens is not None:
        # Last, and only where it is set: requests under the model's own limit keep the keys they always had.
        parts.append(b"max_tokens=%d" % request.max_tokens)
    # The length in front keeps "ab" + "c" apart from "a" + "bc".
    framed = [piece for part in parts for piece in (len(part).to_bytes(8, "little"), part)]
    return blake2b(b"".join(framed), digest_size=KEY_BYTES).digest()


def model_key(model: Model) -> bytes:
    """A model's identity as it enters the key of a request.

    Example:
        >>> from autorubric.testing import ScriptedModel
        >>> model_key(ScriptedModel({}, "tiny"))
        b'["scripted","tiny"]'
    """
    return _any_order(model.identity()).encode()


def _as_dict(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value and cannot be part of a request's key")


_any_order = JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_as_dict).encode
