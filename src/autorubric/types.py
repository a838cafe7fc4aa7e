"""The module of AutoRubric 1.6 for data types: criteria, verdicts, votes, reports and their settings."""

from autorubric.lazy_names import build_lazy_names

__all__, __dir__, __getattr__ = build_lazy_names(__name__, __file__)
