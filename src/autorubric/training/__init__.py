"""Training data and rewards built from reports."""

from autorubric.lazy_names import build_lazy_names

__all__, __dir__, __getattr__ = build_lazy_names(__name__, __file__)
