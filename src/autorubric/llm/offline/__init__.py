"""The offline model: a labelled stand-in that needs no key and no network."""

from autorubric.llm.offline.model import LABEL, OfflineModel

__all__ = ["LABEL", "OfflineModel"]
