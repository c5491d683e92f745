"""The detector keeps to scikit-learn's rules, and finds what is unusual."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from cadet.pyod import CollaborativeDetector as PyodDetector
from cadet.sklearn import CollaborativeDetector


@parametrize_with_checks([CollaborativeDetector()])
def test_rules_of_scikit_learn(estimator, check):
    check(estimator)


def grouped(groups=40, rows=60, seed=0):
    """Groups with centres of their own: rows, groups, and for new rows whether they are of another group."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(groups, 6)) * 1.5
    of = np.repeat(np.arange(groups), rows)
    X = centres[of] + random.normal(size=(len(of), 6))
    new = np.repeat(np.arange(groups), 20)
    strange = np.tile(np.arange(20) >= 10, groups)
    from_group = np.where(strange, (new + random.integers(1, groups, size=len(new))) % groups, new)
    return X, of, centres[from_group] + random.normal(size=(len(new), 6)), new, strange


def test_what_is_unusual_for_its_group_is_found():
    X, of, new, new_of, strange = grouped()
    detector = CollaborativeDetector(random_state=0).fit(X, tasks=of)
    scores = detector.score_samples(new, tasks=new_of)
    truth = np.mean([roc_auc_score(~strange[new_of == g], scores[new_of == g]) for g in range(40)])
    assert truth > 0.9
    # One row is as good as many, down to the last bit.
    one = [detector.score_samples(new[i : i + 1], tasks=new_of[i : i + 1])[0] for i in range(5)]
    assert np.array_equal(one, scores[:5])
    p = detector.p_values(new, tasks=new_of)
    assert ((p > 0) & (p <= 1)).all()
    assert 0.05 < np.mean(p[~strange] <= 0.1) < 0.15 and np.mean(p[strange] <= 0.1) > 0.8
    flagged = detector.flag(new, tasks=new_of, fdr=0.1)
    assert np.mean(strange[flagged]) > 0.8 and np.mean(flagged[strange]) > 0.7
    with pytest.raises(ValueError, match="fdr: must be between"):
        detector.flag(new, tasks=new_of, fdr=1.5)
    assert set(detector.predict(new, tasks=new_of)) == {-1, 1}


def test_groups_may_have_names_and_must_be_known():
    X, of, *_ = grouped(groups=5)
    names = np.array([f"tenant {g}" for g in of])
    detector = CollaborativeDetector(random_state=0).fit(X, tasks=names)
    assert np.array_equal(
        detector.score_samples(X, tasks=names),
        CollaborativeDetector(random_state=0).fit(X, tasks=of).score_samples(X, tasks=of),
    )
    with pytest.raises(ValueError, match="'nobody' was not there in training"):
        detector.predict(X[:1], tasks=["nobody"])
    with pytest.raises(ValueError, match="give the group of each row"):
        detector.predict(X)
    with pytest.raises(ValueError, match="a group for each of"):
        detector.predict(X, tasks=names[:3])


def test_without_groups_data_are_beside_a_base():
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 1))
    X = np.hstack([x, x + 0.2 * random.normal(size=(600, 1))])
    detector = CollaborativeDetector(random_state=0).fit(X)
    along, across = detector.score_samples([[1.0, 1.0], [1.0, -1.0]])
    assert along > 0 > across
    base = random.uniform(-3, 3, size=(600, 2))
    against = CollaborativeDetector(base=base, random_state=0).fit(X)
    assert against.score_samples([[0.0, 0.0]]) > 0 > against.score_samples([[2.5, -2.5]])


def test_pickling_cloning_and_names():
    X, of, *_ = grouped(groups=5)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    detector = CollaborativeDetector(random_state=0, contamination=0.1).fit(frame, tasks=of)
    assert list(detector.feature_names_in_) == list("abcdef")
    again = pickle.loads(pickle.dumps(detector))
    assert np.array_equal(again.decision_function(frame, tasks=of), detector.decision_function(frame, tasks=of))
    assert not hasattr(clone(detector), "model_")
    assert np.mean(detector.predict(frame, tasks=of) == -1) == pytest.approx(0.1, abs=0.01)


def test_verbs_of_pyod():
    X, of, *_ = grouped(groups=5)
    detector = PyodDetector(contamination=0.2, random_state=0).fit(X, tasks=of)
    assert detector.labels_.mean() == pytest.approx(0.2, abs=0.02)
    assert np.array_equal(detector.labels_, detector.predict(X, tasks=of))
    chances = detector.predict_proba(X, tasks=of)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert (np.argsort(chances[:, 1]) == np.argsort(detector.decision_scores_)).mean() > 0.9
