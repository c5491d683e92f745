"""A model, and every question one can put to it."""

from __future__ import annotations

import html
import io
import json
import math
import os
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _cadet
from ._frames import Frame, back, library, source
from ._progress import Watcher, shown

Id = int | str
Path_ = str | os.PathLike[str]
#: The files of a model folder.
_FILES = (
    "manifest.json", "weights.safetensors", "users.safetensors", "items.safetensors", "exposures.safetensors",
    "SHA256SUMS",
)  # fmt: skip


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
        "columns": _called(user_col, item_col, weight_col, timestamp_col, event_col),
        "skip_bad": skip_bad,
    }
    with shown(progress) as watcher:
        text = json.dumps({**changes, **(settings or {})}, default=_plain)
        return Model(_cadet.fit(given, preset, text, threads, watcher), library(exposures))


def load(folder: Path_) -> Model:
    """Reads a model folder that ``cadet train`` or :meth:`Model.save` left.

    Raises
    ------
    FileNotFoundError
        If there is none.
    cadet.Error
        If it is damaged, foreign, or of a newer version.

    Examples
    --------
    >>> import cadet, tempfile
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> cadet.fit(cadet.demo_log(), epochs=3).save(folder)
    >>> cadet.load(folder).has_signal
    True
    """
    return Model(_cadet.load(folder), "arrow")


def demo_log(users: int = 400, items: int = 40, exposures: int = 8_000, seed: int = 1) -> _cadet.Table:
    """The exposures of a generated world, to try things with.

    Examples
    --------
    >>> import cadet
    >>> cadet.demo_log().column_names
    ['user_id', 'item_id']
    """
    return _cadet.demo_log(users, items, exposures, seed)


@dataclass(frozen=True)
class Verdict:
    """Whether a model can be trusted: "green", "amber" or "red", and why."""

    colour: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.colour.upper(), *self.reasons])


class Evaluation(dict[str, Any]):
    """What ``cadet eval --json`` prints, and, as `by_item`, a frame of how well each item's audience is told."""

    by_item: Any


class Explanation(dict[str, Any]):
    """What ``cadet explain --json`` prints; a notebook shows it as a page."""

    page: str

    def _repr_html_(self) -> str:
        return _framed(self.page, 600)


class Added(dict[str, Any]):
    """What came after training, as ``cadet items add --json`` prints it."""


class Model:
    """A trained model, which never changes.

    :func:`fit` and :func:`load` make it. Questions about pairs and lists are answered in frames of the library that
    the question came in, others in frames of the library that the model was fitted from; a model that was loaded, or
    fitted from files, answers in :class:`cadet.Table`, which ``polars.DataFrame``, ``pyarrow.table`` and every other
    reader of ``__arrow_c_stream__`` takes.

    Where users beside the model's own are asked about, give their features as `users`, or, where the model learns
    features from exposures, what they saw as `exposures`.
    """

    def __init__(self, inner: _cadet.Model, kind: str) -> None:
        self._inner = inner
        self._kind = kind
        self._manifest: dict[str, Any] | None = None
        #: What was added by :meth:`add`, in the model that it returns.
        self.added: Added | None = None

    # --- what it is

    @property
    def manifest(self) -> dict[str, Any]:
        """Everything that is recorded of the model: settings, data, history, measures."""
        if self._manifest is None:
            self._manifest = json.loads(self._inner.manifest())
        return self._manifest

    @property
    def verdict(self) -> Verdict:
        """Whether the model can be trusted, and why."""
        found = self.manifest["verdict"] or {"colour": "red", "reasons": ["It was never judged."]}
        return Verdict(found["colour"], tuple(found["reasons"]))

    @property
    def metrics(self) -> dict[str, Any] | None:
        """What was measured on held-out users; ``None`` where nobody was held out."""
        found: dict[str, Any] | None = self.manifest["metrics"]
        return found

    @property
    def has_signal(self) -> bool:
        """Whether the model found anything in its log: otherwise every familiarity is 0."""
        return self._inner.has_signal

    @property
    def users(self) -> Any:
        """The ids of the users, as a frame."""
        return back(self._inner.users(), self._kind)

    @property
    def items(self) -> Any:
        """The ids of the items, and their titles where there are any, as a frame."""
        return back(self._inner.items(), self._kind)

    def __repr__(self) -> str:
        data = self.manifest["data"]
        return f"<cadet.Model: {self.verdict.colour}, {data['users']:,} users, {data['items']:,} items>"

    def _repr_html_(self) -> str:
        return _framed(_cadet.in_brief(self._inner), 700)

    def report(self, path: Path_ | None = None) -> str:
        """The report of ``cadet train --report``: one page with plots.

        Parameters
        ----------
        path
            A file to write it to.

        Returns
        -------
        str
            The page.
        """
        page = _cadet.report(self._inner)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    # --- where it is kept

    def save(self, folder: Path_, *, keep_previous: bool = False) -> None:
        """Writes a model folder, in one step: at every moment the old model or the new one is there.

        Parameters
        ----------
        folder
            Where to; a model that is there is replaced, anything else is not.
        keep_previous
            Whether the model that is replaced stays, as ``<folder>.previous``.
        """
        _cadet.save(self._inner, folder, keep_previous)

    def to_bytes(self) -> bytes:
        """The model folder as the bytes of a zip file, which :meth:`from_bytes` reads."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            self.save(folder)
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as files:
                for file in sorted(folder.iterdir()):
                    # A fixed date, so that the same model gives the same bytes.
                    files.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
        return packed.getvalue()

    @classmethod
    def from_bytes(cls, packed: bytes) -> Model:
        """The model of :meth:`to_bytes`; nothing in the bytes is run."""
        return _unpickled(packed, "arrow", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_bytes(), self._kind, self.added)

    # --- what it answers

    def score(
        self,
        pairs: Frame = None,
        *,
        top: int | None = None,
        per: Literal["user", "item"] = "user",
        order: Literal["familiarity", "propensity"] = "familiarity",
        mode: Literal["fresh", "common"] = "common",
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """How familiar is every user with every item of these pairs: the command ``cadet score``.

        Parameters
        ----------
        pairs
            Columns of users and items; without it, every user with every item.
        top
            Without `pairs`: only so many rows of each user or item.
        per
            With `top`: the top items of each user, or the top users of each item.
        order
            With `top`: by how typical the user is for the item, or by how likely it is the user's next exposure.
        mode
            With `top`: the least or the most familiar.
        users, exposures
            Users beside the model's own: their features, or what they saw.
        user_col, item_col
            What columns are called; by itself as in training.
        skip_bad
            Leaves out bad rows of files and warns of them.

        Returns
        -------
        frame
            A row for each pair, in order: ``familiarity``, ``quantile``, ``p_value``, ``propensity``, ``times_seen``,
            ``last_seen`` and ``status``. Unknown ids do not fail: their status says so.

        Examples
        --------
        >>> import cadet
        >>> model = cadet.fit(cadet.demo_log(), epochs=3)
        >>> rows = model.score({"user_id": [3], "item_id": ["item-0001"]})
        >>> sorted(rows)[:3]
        ['familiarity', 'item_id', 'last_seen']
        """
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        if pairs is None:
            kept = {"top": top, "per": per, "order": order, "mode": mode}
            table = _cadet.score_all(self._inner, kept, reading)
            return back(table, self._kind)
        if top is not None:
            raise ValueError("top: goes without pairs, for every user with every item")
        table = _cadet.score(self._inner, source(pairs, "pairs"), reading)
        return back(table, library(pairs), pairs)

    def propensity(
        self,
        pairs: Frame,
        *,
        clip: float | None = None,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """How likely is each pair's item its user's next exposure? Over all items these add up to 1 for a user.

        Parameters
        ----------
        pairs
            Columns of users and items.
        clip
            The largest weight.
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Returns
        -------
        frame
            ``propensity``, and ``weight``, which is one over it, as inverse propensity scoring takes it.
        """
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        table = _cadet.propensity(self._inner, source(pairs, "pairs"), clip, reading)
        return back(table, library(pairs), pairs)

    def audience(
        self,
        item: Id | None,
        *,
        n: int = 20,
        mode: Literal["fresh", "common"] = "fresh",
        exclude_seen: bool = False,
        min_exposures: int = 0,
        filter: Frame = None,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """The freshest or the most common users of an item: the command ``cadet audience``.

        Parameters
        ----------
        item
            Its id or its title; ``None`` for every item.
        n
            How many users.
        mode
            Least or most familiar first.
        exclude_seen
            Leaves out users who have seen the item.
        min_exposures
            Leaves out users with fewer exposures in all: little is known of them.
        filter
            Chooses among the users of this frame only.
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Raises
        ------
        KeyError
            If the model does not know the item.
        cadet.Error
            If the model found no signal, so that there is no order.

        Examples
        --------
        >>> import cadet
        >>> model = cadet.fit(cadet.demo_log(), epochs=3)
        >>> len(model.audience("item-0007", n=5))
        5
        """
        among = {
            "mode": mode, "number": n, "exclude_seen": exclude_seen, "min_exposures": min_exposures,
            "filter": source(filter, "filter"),
        }  # fmt: skip
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        return back(_cadet.audience(self._inner, item, among, reading), self._kind)

    def fresh(
        self,
        item: Id | None,
        *,
        fdr: float | None = None,
        quantile: float | None = None,
        below: float | None = None,
        exclude_seen: bool = False,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """The fresh users of an item, with a bound on how many of those flagged are not: ``cadet fresh``.

        Parameters
        ----------
        item
            Its id or its title; ``None`` for every item, each by itself.
        fdr
            Bounds the expected share of the item's own audience among the flagged; 0.1 where nothing is given.
        quantile
            Or flags the users whose quantile is at most this.
        below
            Or flags the users whose familiarity is at most this, in nats.
        exclude_seen
            Leaves out users who have seen the item.
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Returns
        -------
        frame
            The flagged, freshest first. Where nobody is, a warning says which rate would flag the first.
        """
        flags = {"fdr": fdr, "quantile": quantile, "below": below, "exclude_seen": exclude_seen}
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        table, note = _cadet.fresh(self._inner, item, flags, reading)
        if len(table) == 0:
            said = json.loads(note)
            if said["first_rate"] is not None and "false_discovery" in said["rule"]:
                warnings.warn(f"nobody is flagged; the first would be at fdr={said['first_rate']:.3g}", stacklevel=2)
        return back(table, self._kind)

    def user(
        self,
        user: Id,
        *,
        n: int = 10,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """What a user is tired of, and what is fresh: the command ``cadet user``.

        Parameters
        ----------
        user
            The user's id.
        n
            How many items at either end.
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Returns
        -------
        frame
            ``end`` says whether the user is "tired" of the item or it is "fresh".
        """
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        return back(_cadet.user(self._inner, user, n, reading), self._kind)

    def similar(self, item: Id, *, n: int = 10) -> Any:
        """The items whose audiences are most like an item's: the command ``cadet similar``.

        Examples
        --------
        >>> import cadet
        >>> model = cadet.fit(cadet.demo_log(), epochs=3)
        >>> len(model.similar("item-0007", n=3))
        3
        """
        return back(_cadet.similar(self._inner, item, n), self._kind)

    def explain(
        self,
        user: Id,
        item: Id,
        *,
        n: int = 6,
        report: Path_ | None = None,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Explanation:
        """Why is a user this familiar with an item: the command ``cadet explain``.

        Parameters
        ----------
        user, item
            Their ids; an item may be called by its title.
        n
            Parts to show of each kind; the others are added up.
        report
            A file to write a page with plots to.
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Returns
        -------
        Explanation
            The parts under ``"parts"`` add up to the familiarity.
        """
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        said, page = _cadet.explain(self._inner, user, item, n, reading)
        found = Explanation(json.loads(said))
        found.page = page
        if report is not None:
            Path(report).write_text(page, encoding="utf-8")
        return found

    def rerank(
        self,
        lists: Frame,
        *,
        lam: float = 0.3,
        method: Literal["fresh", "mmr"] = "fresh",
        scale: Literal["standard", "rank"] = "standard",
        max_seen: int | None = None,
        explore: float = 0.0,
        top: int | None = None,
        seed: int = 1,
        relevance_col: str = "relevance",
        list_col: str | None = None,
        users: Frame = None,
        exposures: Frame = None,
        user_col: str | None = None,
        item_col: str | None = None,
        skip_bad: bool = False,
    ) -> Any:
        """Balances the relevance of lists with freshness: the command ``cadet rerank``.

        Parameters
        ----------
        lists
            Columns of users, items and relevance.
        lam
            Weight of freshness, 0 to 1: 0 leaves the order of relevance, 1 ignores relevance.
        method
            Balances relevance with freshness, or with unlikeness to the items before (maximal marginal relevance).
        scale
            Compares at mean 0 and spread 1 within the list, or by ranks in it.
        max_seen
            Items that the user saw so often or more go below all others.
        explore
            Share of the places that go to an item drawn by lot.
        top
            Keeps only so many places of each list.
        seed
            Seeds the lots.
        relevance_col, list_col
            The caller's relevance, and what tells several lists of a user apart (``list_id`` where there is one).
        users, exposures, user_col, item_col, skip_bad
            As in :meth:`score`.

        Examples
        --------
        >>> import cadet
        >>> model = cadet.fit(cadet.demo_log(), epochs=3)
        >>> lists = {"user_id": [3, 3], "item_id": ["item-0001", "item-0002"], "relevance": [0.9, 0.8]}
        >>> list(model.rerank(lists, lam=0.0)["item_id"])
        ['item-0001', 'item-0002']
        """
        balance = {
            "lam": lam, "method": method, "scale": scale, "max_seen": max_seen, "explore": explore, "top": top,
            "seed": seed, "relevance_col": relevance_col, "list_col": list_col,
        }  # fmt: skip
        reading = _reading(user_col, item_col, skip_bad, users, exposures)
        table = _cadet.rerank(self._inner, source(lists, "lists"), balance, reading)
        return back(table, library(lists))

    # --- what comes after training

    def add(
        self,
        exposures: Frame = None,
        *,
        users: Frame = None,
        items: Frame = None,
        fine_tune: int | None = None,
        user_col: str | None = None,
        item_col: str | None = None,
        weight_col: str | None = None,
        timestamp_col: str | None = None,
        event_col: str | None = None,
        skip_bad: bool = False,
        progress: bool | Watcher | None = None,
    ) -> Model:
        """The model with what came after training, without training again: the command ``cadet items add``.

        Parameters
        ----------
        exposures
            Exposures of new items, or of any.
        users
            Features of users that the model has never seen: all of them join it.
        items
            Items that join it, exposed or not, and their titles.
        fine_tune
            Refines the embeddings of added items by up to so many passes over their exposures.
        user_col, item_col, weight_col, timestamp_col, event_col, skip_bad, progress
            As in :func:`cadet.fit`; names by themselves as in training.

        Returns
        -------
        Model
            A new one, whose `added` says what came; this one stays as it is.
        """
        if exposures is None and users is None and items is None:
            raise ValueError("exposures: give exposures, users or items")
        coming = {
            "exposures": source(exposures, "exposures"),
            "users": source(users, "users"),
            "items": source(items, "items"),
            "fine_tune": fine_tune,
            "columns": _called(user_col, item_col, weight_col, timestamp_col, event_col),
            "skip_bad": skip_bad,
        }
        with shown(progress) as watcher:
            inner, said = _cadet.add(self._inner, coming, watcher)
        model = Model(inner, self._kind)
        model.added = Added(json.loads(said))
        return model

    def evaluate(
        self,
        exposures: Frame,
        *,
        users: Frame = None,
        seed: int | None = None,
        user_col: str | None = None,
        item_col: str | None = None,
        weight_col: str | None = None,
        timestamp_col: str | None = None,
        event_col: str | None = None,
        skip_bad: bool = False,
    ) -> Evaluation:
        """How good is the model on users it was never trained on: the command ``cadet eval``.

        Parameters
        ----------
        exposures
            What to measure on; only users that the model was not trained on count.
        users
            Features of users that the model has never seen.
        seed
            Seeds what is drawn; by itself as in training.
        user_col, item_col, weight_col, timestamp_col, event_col, skip_bad
            As in :func:`cadet.fit`; names by themselves as in training.
        """
        called = _called(user_col, item_col, weight_col, timestamp_col, event_col)
        data, others = source(exposures, "exposures"), source(users, "users")
        said, table = _cadet.evaluate(self._inner, data, others, called, skip_bad, seed)
        found = Evaluation(json.loads(said))
        found.by_item = back(table, library(exposures))
        return found


def _unpickled(packed: bytes, kind: str, added: Added | None) -> Model:
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(io.BytesIO(packed)) as files:
            for name in files.namelist():
                if name not in _FILES:
                    raise ValueError(f"packed: {name!r} is no file of a model")
                (Path(place) / name).write_bytes(files.read(name))
        model = Model(_cadet.load(place), kind)
    model.added = added
    return model


def _called(
    user: str | None = None,
    item: str | None = None,
    weight: str | None = None,
    timestamp: str | None = None,
    event: str | None = None,
) -> dict[str, str | None]:
    return {"user": user, "item": item, "weight": weight, "timestamp": timestamp, "event": event}


def _reading(
    user: str | None, item: str | None, skip_bad: bool, users: Frame, exposures: Frame
) -> dict[str, Any]:
    return {
        "columns": _called(user, item),
        "skip_bad": skip_bad,
        "users": source(users, "users"),
        "exposures": source(exposures, "exposures"),
    }


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"settings: {value!r} is no number, word or list")


def _framed(page: str, height: int) -> str:
    """A page within a notebook's, neither of which changes how the other looks."""
    quoted = html.escape(page, quote=True)
    return f'<iframe srcdoc="{quoted}" style="width:100%;height:{height}px;border:0"></iframe>'
