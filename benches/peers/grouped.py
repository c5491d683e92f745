"""Rows that are unusual for their group: one net for all groups beside a detector for each.

Every group is a cloud of its own in ten correlated, skewed columns; groups come in kinds that share their shape. Unusual
rows are those of another group. `python grouped.py [SEEDS]`, with cadet and scikit-learn installed.
"""

import sys
import time

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

from cadet.sklearn import CollaborativeDetector

GROUPS, COLUMNS, NEW = 240, 10, 40


def world(rows, seed):
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 12, GROUPS)
    shapes = random.normal(size=(12, COLUMNS, COLUMNS)) / np.sqrt(COLUMNS)
    middle = random.normal(size=(12, COLUMNS))[kinds] + 0.7 * random.normal(size=(GROUPS, COLUMNS))

    def draw(of):
        noise = random.gamma(2.0, size=(len(of), COLUMNS)) - 2.0
        return middle[of] + np.einsum("nij,nj->ni", shapes[kinds[of]], noise)

    of, new = np.repeat(np.arange(GROUPS), rows), np.repeat(np.arange(GROUPS), NEW)
    strange = np.tile(np.arange(NEW) >= NEW // 2, GROUPS)
    whose = np.where(strange, (new + random.integers(1, GROUPS, size=len(new))) % GROUPS, new)
    return draw(of), of, draw(whose), new, strange


def knn(X):
    near = NearestNeighbors(n_neighbors=min(5, len(X) - 1)).fit(X)
    return lambda rows: -near.kneighbors(rows)[0].mean(axis=1)


PEERS = {
    "isolation forest": lambda X: IsolationForest(random_state=0).fit(X).score_samples,
    "LOF": lambda X: LocalOutlierFactor(n_neighbors=min(20, len(X) - 1), novelty=True).fit(X).score_samples,
    "one-class SVM": lambda X: OneClassSVM(nu=0.1).fit(X).score_samples,
    "Gaussian": lambda X: GaussianMixture(1, reg_covar=1e-2).fit(X).score_samples,
    "KDE": lambda X: KernelDensity(bandwidth=0.7).fit(X).score_samples,
    "nearest 5": knn,
}


def auc(scores, of, strange):
    return np.mean([roc_auc_score(~strange[of == g], scores[of == g]) for g in range(GROUPS)])


def per_group(make, X, of, new, new_of):
    scores, clock = np.zeros(len(new)), 0.0
    for g in range(GROUPS):
        began = time.process_time()
        score = make((X[of == g] - X[of == g].mean(0)) / (X[of == g].std(0) + 1e-9))
        clock += time.process_time() - began
        scores[new_of == g] = score((new[new_of == g] - X[of == g].mean(0)) / (X[of == g].std(0) + 1e-9))
    return scores, clock


for rows in (10, 30, 100):
    figures = {}
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        X, of, new, new_of, strange = world(rows, seed)
        for name, make in PEERS.items():
            scores, seconds = per_group(make, X, of, new, new_of)
            figures.setdefault(name, []).append((auc(scores, new_of, strange), seconds))
        began = time.process_time()
        detector = CollaborativeDetector(random_state=seed).fit(X, tasks=of)
        seconds = time.process_time() - began
        scores = detector.score_samples(new, tasks=new_of)
        figures.setdefault("cadet", []).append((auc(scores, new_of, strange), seconds))
    print(f"{rows} rows a group:")
    for name, found in sorted(figures.items(), key=lambda one: -np.mean(one[1], axis=0)[0]):
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        print(f"  {name:18} AUC {mean[0]:.3f} ± {spread[0]:.3f}   fit {mean[1]:6.1f} CPU-s", flush=True)
