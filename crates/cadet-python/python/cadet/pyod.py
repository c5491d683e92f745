"""The same detector with the verbs of PyOD, which need not be installed: larger is more anomalous."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import sklearn as _sklearn


class CollaborativeDetector:
    """Finds rows that are unusual, for their group or at all.

    Parameters
    ----------
    contamination : float, default=0.1
        The share of the training rows that are taken for unusual.
    **others
        As in :class:`cadet.sklearn.CollaborativeDetector`.

    Attributes
    ----------
    decision_scores_ : array of shape (n_samples,)
        How anomalous each training row is.
    threshold_ : float
        From which score on a row is unusual.
    labels_ : array of shape (n_samples,)
        1 for unusual training rows, 0 for others.

    Examples
    --------
    >>> import numpy as np
    >>> from cadet.pyod import CollaborativeDetector
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> found = CollaborativeDetector(random_state=0).fit(np.hstack([x, x]))
    >>> int(found.labels_.sum())
    30
    """

    def __init__(self, *, contamination: float = 0.1, **others: Any) -> None:
        self.contamination = contamination
        self.detector = _sklearn.CollaborativeDetector(contamination=contamination, **others)

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> CollaborativeDetector:
        """Learns what is usual; `y` is ignored."""
        self.detector.fit(X, tasks=tasks)
        self.decision_scores_ = self.decision_function(X, tasks=tasks)
        self.threshold_ = -self.detector.offset_
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(int)
        return self

    def decision_function(self, X: Any, tasks: Any = None) -> Any:
        """How anomalous each row is: minus its familiarity."""
        return -self.detector.score_samples(X, tasks=tasks)

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """1 for unusual rows, 0 for others."""
        return (self.decision_function(X, tasks=tasks) > self.threshold_).astype(int)

    def predict_proba(self, X: Any, tasks: Any = None) -> Any:
        """The chance that each row is of its group rather than of the population, and the chance that it is not."""
        scores = self.decision_function(X, tasks=tasks)
        unusual = 1.0 / (1.0 + np.exp(-scores))
        return np.column_stack([1.0 - unusual, unusual])
