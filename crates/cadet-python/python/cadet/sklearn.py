"""One detector for every group, with the verbs of scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from . import _cadet
from ._model import Model

_DATA, _BASE = 0, 1
#: No familiarity is known more exactly than to so many nats.
_LEAST = 1e-3
#: Rows are few beside exposures of users, so passes over them may be many. Rows of one group only are told apart by
#: the net alone: the closed form that it starts from takes for granted that the same users are in several audiences.
_GROUPED = {"axes": 0, "epochs": 60, "patience": 15, "seed_epochs": 60}
#: Two groups, the data and the base, say nothing of each other's embeddings, and are too few to temper scores by.
_ALONE = {"axes": 0, "normalise": False, "init": "random", "epochs": 200, "patience": 30, "learning_rate": 0.01}


class CollaborativeDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds rows that are unusual: for their group, or, without groups, at all.

    With `tasks`, one net learns for every group how much more likely a row is in it than in all groups together,
    ``log q(x)/p(x)``; groups with few rows learn from those that are like them. Without, it learns how much more
    likely a row is in the data than in a base distribution.

    As everywhere in scikit-learn, larger is more normal, in :meth:`score_samples` and in :meth:`decision_function`;
    :class:`cadet.pyod.CollaborativeDetector` has PyOD's verbs, where larger is more anomalous.

    Parameters
    ----------
    base : "marginals" or array of shape (n_base, n_features), default="marginals"
        What data without groups are compared with: the same columns made independent of each other, or a sample.
    contamination : "auto" or float, default="auto"
        The share of the training rows that are taken for unusual. By itself those are that are less likely in their
        group than in the population (or in the data than in the base): whose familiarity is below 0.
    settings : mapping, default=None
        Settings of the training by name; :func:`cadet.settings` lists all of them.
    random_state : int, RandomState or None, default=None
        Seeds everything random.
    n_jobs : int or None, default=None
        How many threads work; by itself, or below 0, as many as there are cores.

    Attributes
    ----------
    model_ : cadet.Model
        What was learned.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    held_out_ : array
        How the rows that were held out of training stand in their groups, ascending: what p-values rest on.
    tasks_ : array of shape (n_tasks,)
        The groups; ``None`` where there are none.
    n_features_in_ : int
        How many columns rows have.
    feature_names_in_ : array of shape (n_features_in_,)
        What they are called, where they had names.

    Examples
    --------
    >>> import numpy as np
    >>> from cadet.sklearn import CollaborativeDetector
    >>> rng = np.random.default_rng(0)
    >>> centre = np.repeat(np.arange(8.0), 50)
    >>> X = rng.normal(size=(400, 2)) + centre[:, None]
    >>> found = CollaborativeDetector(random_state=0).fit(X, tasks=centre)
    >>> usual, unusual = found.score_samples([[0.0, 0.0], [7.0, 7.0]], tasks=[0.0, 0.0])
    >>> bool(usual > unusual)
    True
    """

    def __init__(
        self,
        *,
        base: Literal["marginals"] | Any = "marginals",
        contamination: float | Literal["auto"] = "auto",
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.base = base
        self.contamination = contamination
        self.settings = settings
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> CollaborativeDetector:
        """Learns what is usual.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows of numbers.
        y : ignored
            Here since scikit-learn passes it.
        tasks : array of shape (n_samples,), default=None
            The group of each row: numbers or strings.
        """
        X = validate_data(self, X, dtype="numeric", ensure_min_samples=2)
        if self.contamination != "auto" and not 0.0 < self.contamination <= 0.5:
            raise ValueError(f"contamination: must be \"auto\" or in (0, 0.5], found {self.contamination}")
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        if tasks is None:
            base = self._base(X, random)
            self.tasks_: Any = None
            rows = np.concatenate([X, base])
            codes = np.repeat(np.array([_DATA, _BASE], dtype=np.int64), [len(X), len(base)])
        else:
            rows = X
            self.tasks_, codes = np.unique(self._column(tasks, len(X)), return_inverse=True)
            if len(self.tasks_) < 2:
                raise ValueError("tasks: at least two groups are needed, what is usual in one is seen beside others")
        self.model_, held_out = self._learn(_ready(rows), codes.astype(np.int64), seed)
        codes = codes[: len(X)]
        scores = self._familiarity(X, None if tasks is None else codes)
        self._calibrate(scores, codes, held_out[: len(X)])
        if self.contamination == "auto":
            self.offset_ = 0.0
        else:
            self.offset_ = float(np.percentile(scores, 100.0 * self.contamination))
        return self

    def fit_predict(self, X: Any, y: Any = None, tasks: Any = None) -> Any:
        """Learns what is usual, and says of each row whether it is: :meth:`fit`, then :meth:`predict`."""
        return self.fit(X, y, tasks=tasks).predict(X, tasks=tasks)

    def score_samples(self, X: Any, tasks: Any = None) -> Any:
        """The familiarity of each row: ``log q(x)/p(x)``, in nats. Below 0 is unusual."""
        X, codes = self._rows(X, tasks)
        return self._familiarity(X, codes)

    def decision_function(self, X: Any, tasks: Any = None) -> Any:
        """The familiarity of each row over `offset_`: below 0 is unusual."""
        return self.score_samples(X, tasks=tasks) - self.offset_

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """1 for usual rows, -1 for unusual ones."""
        return np.where(self.decision_function(X, tasks=tasks) >= 0.0, 1, -1)

    def p_values(self, X: Any, tasks: Any = None) -> Any:
        """How rare rows as unusual as each are among those that were held out of training.

        Rows are compared across groups by how far their familiarity is below what is usual in their group, so that
        held-out rows of all groups count together: the smallest p-value is one over their number.
        """
        X, codes = self._rows(X, tasks)
        standing = self._standing(self._familiarity(X, codes), np.zeros(len(X), int) if codes is None else codes)
        lower = np.searchsorted(self.held_out_, standing, side="right")
        return (1.0 + lower) / (1.0 + len(self.held_out_))

    def flag(self, X: Any, tasks: Any = None, *, fdr: float = 0.1) -> Any:
        """The rows that are unusual beyond chance: at most a share of `fdr` of them is expected to be usual.

        Parameters
        ----------
        X, tasks
            Rows and their groups, all of which are tested together.
        fdr
            The false-discovery rate.

        Returns
        -------
        array of bool, of shape (n_samples,)
        """
        if not 0.0 < fdr < 1.0:
            raise ValueError(f"fdr: must be between 0 and 1, found {fdr}")
        return _cadet.adjusted(self.p_values(X, tasks=tasks).astype(np.float32)) <= fdr

    def _base(self, X: Any, random: Any) -> Any:
        if isinstance(self.base, str):
            if self.base != "marginals":
                raise ValueError(f"base: expected \"marginals\" or a sample, found {self.base!r}")
            return np.column_stack([random.permutation(column) for column in X.T])
        base = check_array(self.base, dtype="numeric")
        if base.shape[1] != X.shape[1]:
            raise ValueError(f"base: expected {X.shape[1]} features, found {base.shape[1]}")
        return base

    def _learn(self, rows: Any, codes: Any, seed: int) -> tuple[Model, Any]:
        usual = _ALONE if self.tasks_ is None else _GROUPED
        settings = {"test": 0.0, "seed": seed, "future": False, **usual, **(self.settings or {})}
        threads = None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
        model, held_out = _cadet.fit_rows(rows, codes, json.dumps(settings), threads, None)
        return Model(model, "dict"), np.asarray(held_out)

    def _calibrate(self, scores: Any, codes: Any, held_out: Any) -> None:
        """Learns what is usual in each group from the rows of training, and how held-out rows stand to that."""
        trained = ~np.asarray(held_out, dtype=bool)
        usual, spread = np.percentile(scores[trained], [50, 16]) if trained.any() else (0.0, -1.0)
        groups = 1 if self.tasks_ is None else len(self.tasks_)
        self._usual, self._spread = np.full(groups, usual), np.full(groups, max(usual - spread, _LEAST))
        for group in range(groups):
            own = scores[trained & (codes == group)]
            if len(own) > 0:
                middle, low = np.percentile(own, [50, 16])
                # Of few rows, the spread is mostly that of all.
                self._usual[group] = middle
                self._spread[group] = (len(own) * (middle - low) + 10.0 * self._spread[group]) / (len(own) + 10.0)
        self._spread = np.maximum(self._spread, _LEAST)
        self.held_out_ = np.sort(self._standing(scores[~trained], codes[~trained]))

    def _standing(self, scores: Any, codes: Any) -> Any:
        return (scores - self._usual[codes]) / self._spread[codes]

    def _rows(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype="numeric", reset=False)
        if (tasks is None) != (self.tasks_ is None):
            said = "was fitted with tasks: give the group of each row" if tasks is None else "was fitted without tasks"
            raise ValueError(f"tasks: the detector {said}")
        if tasks is None:
            return X, None
        tasks = self._column(tasks, len(X))
        codes = np.searchsorted(self.tasks_, tasks).clip(max=len(self.tasks_) - 1)
        known = self.tasks_[codes] == tasks
        if not np.all(known):
            unknown = tasks[np.flatnonzero(~np.asarray(known))[0]]
            raise ValueError(f"tasks: {str(unknown)!r} was not there in training")
        return X, codes.astype(np.int64)

    @staticmethod
    def _column(tasks: Any, rows: int) -> Any:
        tasks = column_or_1d(tasks)
        if len(tasks) != rows:
            raise ValueError(f"tasks: expected a group for each of {rows} rows, found {len(tasks)}")
        return tasks

    def _familiarity(self, X: Any, codes: Any) -> Any:
        rows, inner = _ready(X), self.model_._inner
        if codes is not None:
            return _cadet.score_rows(inner, rows, codes.astype(np.int64))[0].astype(np.float64)
        # log q/p - log b/p = log q/b, whatever the population p of data and base together.
        data, base = (
            _cadet.score_rows(inner, rows, np.full(len(rows), task, dtype=np.int64))[0].astype(np.float64)
            for task in (_DATA, _BASE)
        )
        return data - base


def _ready(X: Any) -> Any:
    """Rows as the net takes them."""
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise ValueError("X: a value is too large for 32 bits")
    return rows
