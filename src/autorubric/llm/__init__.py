"""The only network IO of the package: requests in, replies or failures out.

`executor` asks (ledger first, within a `budget`), `model` is the seam to whatever answers, `request` holds what is
asked and what comes back. `http/` makes an endpoint a model, `records/` keeps every
reply, `reading/` finds the value in one.
"""

from autorubric.lazy_names import lazy_names

__all__, __dir__, __getattr__ = lazy_names(__name__, __file__)
