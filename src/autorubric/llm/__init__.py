"""The only network access of the package: requests in, replies or failures out.

`executor` answers requests from the ledger or a model, within a `budget`. `request` has requests, replies and the
protocol of models; `http/` implements it, `records/` stores every reply, `structured` finds the value in one.
"""

from autorubric.lazy_names import build_lazy_names

__all__, __dir__, __getattr__ = build_lazy_names(__name__, __file__)
