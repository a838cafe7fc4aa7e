"""The only network IO of the package: requests in, replies or failures out.

`executor` asks (ledger first, within a `budget`), `model` is the seam to whatever answers, `request` holds what is
asked and what comes back. `http/` makes an endpoint a model, `records/` keeps every
reply, `reading/` finds the value in one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.llm.config import LLMConfig, ThinkingConfig, ThinkingLevel
    from autorubric.llm.http.providers import Provider

__all__ = ["LLMConfig", "Provider", "ThinkingConfig", "ThinkingLevel"]


def __getattr__(name: str) -> Any:
    """The published name, loaded on first use: the modules of this package are imported one by one."""
    if name not in __all__:
        raise AttributeError(f"module 'autorubric.llm' has no attribute {name!r}")
    home = "autorubric.llm.http.providers" if name == "Provider" else "autorubric.llm.config"
    return getattr(import_module(home), name)
