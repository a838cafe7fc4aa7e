"""The loopback endpoint as a process: `python -m autorubric.testing.endpoint --latency fixed:0.2`."""

import argparse
import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence

from autorubric.background import on_shutdown
from autorubric.errors import ConfigError
from autorubric.testing.completion import sized_replies
from autorubric.testing.endpoint.endpoint_limits import RateWindow
from autorubric.testing.endpoint.loopback_server import LoopbackEndpoint


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m autorubric.testing.endpoint",
        description="Serve chat completions on 127.0.0.1. The first line printed is the base URL.",
    )
    add = parser.add_argument
    add("--port", type=int, default=0, help="port to listen on; 0 means any free port")
    add(
        "--latency",
        default="fixed:0",
        help="fixed:SECONDS or lognormal:MEDIAN,SIGMA, either with +SHARE@SECONDS",
    )
    add("--fault", action="append", default=[], metavar="NAME=RATE", help="share of calls that fail in this way")
    add("--reply-chars", type=int, default=1200, help="approximate length of replies")
    add("--requests-per-second", type=float, help="answer 429 above this rate")
    add(
        "--window",
        metavar="SECONDS",
        type=float,
        help="length of the windows of --window-requests and --window-tokens",
    )
    add("--window-requests", type=int, metavar="N", help="answer 429 after this many requests in a window")
    add("--window-tokens", type=int, metavar="N", help="the same for tokens, counting prompts and max_tokens")
    add("--window-slides", action="store_true", help="use a sliding window instead of consecutive ones")
    add("--retry-after", action="store_true", help="send Retry-After with a window's 429")
    add("--ratelimit-headers", action="store_true", help="send x-ratelimit-* headers with every answer")
    add("--reject", action="append", default=[], metavar="PARAMETER", help="answer 400 if this parameter is sent")
    add("--key-env", metavar="VARIABLE", help="accept only the key in this environment variable")
    add("--prefix-cache", action="store_true", help="count cached prompt tokens")
    add("--model", action="append", default=[], help="a name to list under /v1/models")
    add("--seed", type=int, default=0)
    add(
        "--until-stdin-closes",
        action="store_true",
        help="exit when the process that started this one ends",
    )
    return parser


def _parse_rates(pairs: Sequence[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for pair in pairs:
        name, _, rate = pair.partition("=")
        try:
            rates[name] = float(rate)
        except ValueError:
            raise ConfigError(f"--fault {pair!r} has no rate; write for example 500=0.02") from None
    return rates


def _parse_window(options: argparse.Namespace) -> RateWindow | None:
    if options.window_requests is None and options.window_tokens is None:
        return None
    return RateWindow(
        requests=options.window_requests,
        tokens=options.window_tokens,
        seconds=60.0 if options.window is None else options.window,
        kind="sliding" if options.window_slides else "fixed",
        retry_after=options.retry_after,
        ratelimit_headers=options.ratelimit_headers,
    )


def make_endpoint(arguments: Sequence[str]) -> LoopbackEndpoint:
    """Return the endpoint that command-line options describe, not started.

    Raises:
        ConfigError: an option is wrong.

    Example:
        >>> make_endpoint(["--latency", "fixed:0.2"]).base_url
        ''
    """
    return _build_endpoint(_build_parser().parse_args(arguments))


def _build_endpoint(options: argparse.Namespace) -> LoopbackEndpoint:
    if options.key_env and not os.environ.get(options.key_env):
        raise ConfigError(f"the environment variable {options.key_env} is empty; --key-env needs a key in it")
    return LoopbackEndpoint(
        replier=sized_replies(options.reply_chars),
        latency=options.latency,
        faults=_parse_rates(options.fault),
        key=os.environ[options.key_env] if options.key_env else None,
        requests_per_second=options.requests_per_second,
        window=_parse_window(options),
        rejects=options.reject,
        prefix_cache=options.prefix_cache,
        models=options.model or ("loopback",),
        seed=options.seed,
        port=options.port,
        keep=0,
    )


async def _serve(endpoint: LoopbackEndpoint, *, until_stdin_closes: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    if until_stdin_closes:
        # A daemon thread, because one of an executor would keep the process alive until stdin closes. It bypasses
        # Python's buffer, whose lock the interpreter needs at exit.
        def watch() -> None:
            while os.read(sys.stdin.fileno(), 4096):
                pass
            loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=watch, daemon=True).start()
    with on_shutdown(ended.set):
        async with endpoint:
            print(endpoint.base_url, flush=True)
            await ended.wait()
            print(json.dumps(endpoint.counts.summarize()), flush=True)


def serve_endpoint(make: Callable[[Sequence[str]], LoopbackEndpoint], arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM, then print the counts; returns 2 if an option is wrong."""
    try:
        endpoint = make(arguments)
    except ConfigError as problem:
        print(problem, file=sys.stderr)
        return 2
    asyncio.run(_serve(endpoint, until_stdin_closes="--until-stdin-closes" in arguments))
    return 0


if __name__ == "__main__":
    sys.exit(serve_endpoint(make_endpoint, sys.argv[1:]))
