"""Collaborative anomaly detection: how familiar is every user with every item?

From a log of who was shown what, one small net learns for every item how much more likely a user is in its
audience than in the population, ``log q(x)/p(x)``. High is common, low is fresh.

>>> import cadet
>>> log = cadet.demo_log()                       # or a polars, pandas or pyarrow frame, a dict of columns, paths
>>> model = cadet.fit(log, epochs=3)
>>> rows = model.score({"user_id": [3, 4], "item_id": ["item-0001", "no such item"]})
>>> list(rows["status"])
['ok', 'unknown_item']
"""

from ._answers import Added, Evaluation, Explanation, Verdict
from ._cadet import Error, Table, __version__
from ._fit import demo_log, fit, settings
from ._model import Model, load

#: The same as :func:`fit`, by the name of the command.
train = fit

__all__ = [
    "Added",
    "Error",
    "Evaluation",
    "Explanation",
    "Model",
    "Table",
    "Verdict",
    "__version__",
    "demo_log",
    "fit",
    "load",
    "settings",
    "train",
]
