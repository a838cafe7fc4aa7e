"""Names of the published AutoRubric package that are not names of this product's own.

They can be imported from `autorubric` as well, which finds them here.
"""

from autorubric.lazy_names import lazy_names, read_stub_names

NAMES = read_stub_names(__file__)
"""The module of each name."""

__all__, __dir__, __getattr__ = lazy_names(__name__, __file__)
