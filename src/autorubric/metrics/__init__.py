"""Judge-human agreement: how reliable a judge is, and what that means for its scores."""

from autorubric.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
