"""Every question one can put to a model."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, Literal

from . import _cadet
from ._answers import Explanation
from ._frames import Frame, back, library, source

Id = int | str
Path_ = str | os.PathLike[str]


class Questions:
    """What a :class:`cadet.Model` answers."""

    _inner: _cadet.Model
    _kind: str

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


def called(
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
        "columns": called(user, item),
        "skip_bad": skip_bad,
        "users": source(users, "users"),
        "exposures": source(exposures, "exposures"),
    }
