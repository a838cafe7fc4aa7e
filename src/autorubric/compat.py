"""Names that exist only for compatibility with the published AutoRubric package; `autorubric` has them too."""

from autorubric.lazy_names import build_lazy_names, read_stub_names

NAMES = read_stub_names(__file__)
"""The module of each name."""

__all__, __dir__, __getattr__ = build_lazy_names(__name__, __file__)
