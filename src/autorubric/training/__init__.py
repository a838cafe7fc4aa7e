"""From reports to training data and rewards."""

from autorubric.lazy_names import lazy_names

__all__, __dir__, __getattr__ = lazy_names(__name__, __file__)
