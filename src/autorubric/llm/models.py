"""Models from configurations; they share connections and limits."""

import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module

from autorubric.errors import ConfigError
from autorubric.llm.batches.setting import batching
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.http.providers import is_builtin, normalize_name, resolve
from autorubric.llm.request import Model, Usage

OFFLINE = "builtin/offline"
_STAND_IN = (
    "builtin/offline is a stand-in for testing: it works from rules and word lists, calls no model,"
    " and its output is not evidence of quality."
)


@asynccontextmanager
async def open_models(configs: Mapping[str, LLMConfig], max_in_flight: int) -> AsyncIterator[dict[str, Model]]:
    """Open the model of every slot; all share one set of connections and at most `max_in_flight` calls.

    Raises:
        ConfigError: unknown providers, missing keys or bad addresses, of all slots at once.

    Example:
        >>> import asyncio
        >>> async def names():
        ...     async with open_models({"merge": LLMConfig("builtin/offline")}, 8) as models:
        ...         return {slot: model.name for slot, model in models.items()}
        >>> asyncio.run(names())
        {'merge': 'builtin/offline'}
    """
    models: dict[str, Model] = {}
    problems: dict[str, list[str]] = {}
    endpoints: Endpoints | None = None
    for slot, config in configs.items():
        try:
            if is_builtin(config.model):
                models[slot] = _build_builtin_model(config)
                continue
            if endpoints is None:
                endpoints = Endpoints(max_in_flight=max_in_flight, total=max_in_flight)
            models[slot] = _build_model(config, endpoints)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(slot)
    try:
        if problems:
            raise ConfigError(_name_slots(", ".join(slots), problem) for problem, slots in problems.items())
        yield models
    finally:
        for model in models.values():
            await model.close()


def check_priced(models: Mapping[str, Model], usd: float | None) -> None:
    """Raise a `ConfigError` that names all models without the price that a budget in dollars needs."""
    unpriced = [
        name if name == model.name else f"{name} ({model.name})"
        for name, model in models.items()
        if model.cost(Usage(1, 1)) is None
    ]
    if unpriced and usd is not None:
        raise ConfigError(
            f"no price is known for {', '.join(unpriced)}; a budget in dollars needs one: give prices "
            "(--prices FILE, LLMConfig.prices), or set a budget in tokens instead"
        )


def preload_http(models: Iterable[Model]) -> None:
    """Import the HTTP library on another thread if a model needs it; half of the time goes into certificates."""
    if any(isinstance(model, ChatModel) for model in models):
        threading.Thread(target=_import_http).start()


def _import_http() -> None:
    with suppress(ImportError, OSError):  # the first call imports it again, and reports the error
        import_module("aiohttp")


def _name_slots(slots: str, problem: str) -> str:
    named = (f"{slots}: ", f"no key for {slots}: ", f"no key for {slots} at ")
    return problem if repr(slots) in problem or problem.startswith(named) else f"{slots}: {problem}"


def collect_notes(models: Iterable[Model], *before: object) -> list[str]:
    """Return what endpoints did not accept and what was sent instead, each once, for summaries and manifests.

    Args:
        models: the models of a run.
        before: the lists in manifests of earlier sessions and shards, which come first; other values are ignored.
    """
    now = (note for model in models if isinstance(model, ChatModel) for note in model.list_notes())
    kept = (note for notes in before if isinstance(notes, list) for note in notes if isinstance(note, str))
    return list(dict.fromkeys((*kept, *now)))


def find_stand_in_note(names: Iterable[str]) -> tuple[str, ...]:
    """Return the note to show first if one of these models is a stand-in for a real one.

    Example:
        >>> find_stand_in_note(["openai/gpt-5.1"])
        ()
        >>> find_stand_in_note(["builtin/offline"])[0].startswith("builtin/offline is a stand-in")
        True
    """
    return () if all(normalize_name(name) != OFFLINE for name in names) else (_STAND_IN,)


def _build_model(config: LLMConfig, endpoints: Endpoints) -> Model:
    if batching.get() is None:
        return ChatModel(config, endpoints)
    from autorubric.llm.batches.model import BatchModel

    return BatchModel(config, endpoints)


def _build_builtin_model(config: LLMConfig) -> Model:
    name = resolve(config, {}).name  # needs no key
    if name != OFFLINE:
        raise ConfigError(f"unknown model {name!r}; the built-in model is {OFFLINE!r}")
    model: Model = import_module("autorubric.testing.offline").OfflineModel()  # imported by name from a higher layer
    return model
