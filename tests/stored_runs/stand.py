"""An HTTP proxy that plays every model, so that stored runs name an address that no port is part of."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

BASE_URL = "http://models.example/v1"
"""The address in the commands and in the request keys of all stored runs; only the proxy answers for it."""

Answer: TypeAlias = tuple[int, dict[str, Any]]
"""An HTTP status and a JSON body."""


@dataclass
class Stand:
    """A proxy that runs.

    Attributes:
        address: what `HTTP_PROXY` is set to.
        requests: bodies of all requests so far; None for one without a body.
    """

    address: str
    requests: list[Any] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that send every request for `BASE_URL` to the proxy."""
        names = ("HTTP_PROXY", "http_proxy")
        return {**dict.fromkeys(names, self.address), "NO_PROXY": "", "no_proxy": ""}


def refuse(body: Any) -> Answer:
    """The answer of a model that nobody should ask."""
    return 500, {"error": {"message": "a stored run asked a model"}}


@contextmanager
def standing(answer: Callable[[Any], Answer] = refuse) -> Iterator[Stand]:
    """A proxy on a free port that gives `answer` to each request body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            stand.requests.append(body)
            status, value = answer(body)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_CONNECT = _reply

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        stand = Stand(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield stand
        finally:
            server.shutdown()
            thread.join()
