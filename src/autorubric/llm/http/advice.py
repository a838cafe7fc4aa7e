"""What a user can do about a fault of an endpoint, added to its message."""

from __future__ import annotations

from dataclasses import replace

from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.retry import Fault, same_refusal


def unreachable(fault: Fault) -> Fault:
    """`fault` of an address at which nothing has answered yet."""
    message = f"{fault.message}; nothing has answered there yet: is the address right, and the server running?"
    return replace(fault, kind="unreachable", message=message, again=False)


def wrong_address(fault: Fault) -> Fault:
    """`fault` of an address that answers with a web page."""
    message = f"{fault.message}: is the base URL right? It usually ends in /v1"
    # Without a status, since no endpoint has answered: there is nobody who could have billed.
    return replace(fault, kind="unreachable", message=message, status=None, again=False, maybe_billed=False)


def not_found(fault: Fault, endpoint: Endpoint) -> Fault:
    """A 404 with the URL that was asked, and what is usually wrong with such a URL."""
    hint = "" if endpoint.is_versioned else " (base URLs usually end in /v1)"
    asked = endpoint.url("/chat/completions")
    message = f"{fault.message}; the URL was {asked}: check the base URL and the model's name{hint}"
    return replace(fault, message=message)


def final_if_same(before: Fault | None, fault: Fault) -> Fault:
    """`fault`, which ends the call where the attempt before met the same refusal."""
    if not same_refusal(before, fault):
        return fault
    return replace(fault, message=f"{fault.message} (the same answer twice)", again=False)
