"""From a log to a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _cadet
from ._frames import Frame, library, source
from ._model import Model
from ._progress import Watcher, shown
from ._questions import called


def settings(preset: Literal["default", "paper"] = "default") -> dict[str, Any]:
    """Every setting of a training, with its value where none is given.

    Parameters
    ----------
    preset
        What worked best on generated worlds with a known truth, or the paper's appendix.

    Examples
    --------
    >>> import cadet
    >>> cadet.settings()["epochs"]
    15
    """
    found: dict[str, Any] = json.loads(_cadet.default_settings(preset))
    return found


def fit(
    exposures: Frame,
    *,
    users: Frame = None,
    items: Frame = None,
    feature_cols: Sequence[str] | None = None,
    user_col: str | None = None,
    item_col: str | None = None,
    weight_col: str | None = None,
    timestamp_col: str | None = None,
    event_col: str | None = None,
    skip_bad: bool = False,
    seed: int | None = None,
    epochs: int | None = None,
    valid: float | None = None,
    test: float | None = None,
    min_exposures: int | None = None,
    half_life: float | None = None,
    factors: int | None = None,
    patience: int | None = None,
    ensemble: int | None = None,
    refit: bool | None = None,
    future: bool | None = None,
    preset: Literal["default", "paper"] = "default",
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: bool | Watcher | None = None,
) -> Model:
    """Learns from a log of who was shown what: the command ``cadet train``.

    The same rows and the same seed give the same model, down to the last bit, whether they come as a frame or as
    files, and on any number of threads. Ctrl-C stops it and raises ``KeyboardInterrupt``.

    Parameters
    ----------
    exposures
        One row an event: who, what, and where there are such columns, weight, timestamp and event id. A polars,
        pandas or pyarrow frame, or anything else with ``__arrow_c_stream__``; a dict of columns; a path or a list
        of paths.
    users
        Users' features: a column of ids beside numeric columns, or beside one column of vectors. Without it,
        features are learned from the exposures.
    items
        What items are called: columns of ids and of titles (``title``).
    feature_cols
        Which columns of `users` are features; by itself all but the ids.
    user_col, item_col, weight_col, timestamp_col, event_col
        What columns are called, where not ``user_id``, ``item_id``, ``weight``, ``timestamp`` and ``event_id``. The
        empty string reads no such column. The model remembers the names.
    skip_bad
        Leaves out bad rows of files and warns of them, instead of stopping at the first.
    seed
        Seeds everything random.
    epochs
        Most passes over the exposures.
    valid, test
        Shares of the users held out to choose the best epoch and to calibrate, and to measure on.
    min_exposures
        Leaves out items with fewer different users.
    half_life
        Days after which an exposure counts half.
    factors
        Features per user, where they are learned.
    patience
        Stops after so many epochs without a better one; 0 for never.
    ensemble
        Trains so many nets and takes the mean of what they say.
    refit
        Trains again on all users at last, held-out ones too.
    future
        Also trains on the past and measures on the last tenth of the exposures, where the log has times.
    preset
        What settings start from.
    settings
        Any other setting by name; :func:`cadet.settings` lists all of them.
    threads
        How many threads work; by itself as many as there are cores.
    progress
        Whether to show a bar, or a function ``(stage, done, of, note)`` to be called; by itself where somebody looks
        on.

    Returns
    -------
    Model
        It answers in frames of the library that `exposures` are of.

    Raises
    ------
    ValueError
        If a row, a column or a setting cannot be used.
    cadet.Error
        If training goes to infinity.

    Examples
    --------
    >>> import cadet
    >>> model = cadet.fit(cadet.demo_log(), epochs=3)
    >>> model.verdict.colour in ("green", "amber", "red")
    True
    """
    named = {
        "seed": seed, "epochs": epochs, "valid": valid, "test": test, "min_exposures": min_exposures,
        "half_life": half_life, "factors": factors, "patience": patience, "ensemble": ensemble, "refit": refit,
        "future": future,
    }  # fmt: skip
    changes = {key: value for key, value in named.items() if value is not None}
    for key, value in {**changes, **(settings or {})}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key}: must be a finite number")
    twice = sorted(changes.keys() & (settings or {}).keys())
    if twice:
        raise ValueError(f"settings: {twice[0]} is given as an argument, too")
    given = {
        "exposures": source(exposures, "exposures"),
        "users": source(users, "users"),
        "feature_cols": None if feature_cols is None else list(feature_cols),
        "items": source(items, "items"),
        "columns": called(user_col, item_col, weight_col, timestamp_col, event_col),
        "skip_bad": skip_bad,
    }
    with shown(progress) as watcher:
        text = json.dumps({**changes, **(settings or {})}, default=_plain)
        return Model(_cadet.fit(given, preset, text, threads, watcher), library(exposures))


def demo_log(users: int = 400, items: int = 40, exposures: int = 8_000, seed: int = 1) -> _cadet.Table:
    """The exposures of a generated world, to try things with.

    Examples
    --------
    >>> import cadet
    >>> cadet.demo_log().column_names
    ['user_id', 'item_id']
    """
    return _cadet.demo_log(users, items, exposures, seed)


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"settings: {value!r} is no number, word or list")
