"""Domain profiles: settings and additions to prompts for one kind of query, as data files in `domains/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from autorubric.errors import ConfigError
from autorubric.files import advice
from autorubric.prompts import PromptSet
from autorubric.prompts.template import PACKAGED, Template

DOMAINS = ("medical", "science", "instruction_following", "writing", "chat")
"""The profiles that come with the package."""


def merge_domain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over those of the domain they name.

    Raises:
        ConfigError: no domain has that name.
    """
    name = values.get("domain")
    return dict(values) if name is None else _merge(_load_profile(str(name))["settings"], values)


def add_domain(prompts: PromptSet, name: str) -> PromptSet:
    """The package's prompts with the additions of a domain; a user's own prompts stay as they are."""
    added: dict[str, Any] = {}
    for prompt, text in _load_profile(name)["additions"].items():
        template = getattr(prompts, prompt)
        if isinstance(template, Template) and template.origin == PACKAGED:
            added[prompt] = _append(template, text)
    return replace(prompts, **added)


def _append(template: Template, text: str) -> Template:
    """A template with another paragraph at the end of its system message."""
    head, tail = template.source.split("{% endblock %}", 1)
    return Template(template.name, f"{head}\n{{% raw %}}{text}{{% endraw %}}\n{{% endblock %}}{tail}")


@cache
def _load_profile(name: str) -> dict[str, Any]:
    if name not in DOMAINS:
        raise ConfigError(f"no domain is called {name!r}; {advice(name, DOMAINS)}")
    import yaml

    text = files("autorubric.synthesis").joinpath(f"domains/{name}.yaml").read_text(encoding="utf-8")
    profile: dict[str, Any] = yaml.safe_load(text)
    return profile


def _merge(under: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees of settings; the upper one wins leaf by leaf."""
    merged = dict(under)
    for key, value in upper.items():
        held = merged.get(key)
        both = isinstance(held, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(held, value) if both else value  # type: ignore[arg-type]
    return merged
