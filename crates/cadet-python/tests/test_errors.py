"""Bad input is a clear exception that speaks of arguments, never an abort and never a leak."""

import resource

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import FIT

import cadet

GOOD = {"user_id": [1, 2], "item_id": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"user_id": [1.5], "item_id": ["a"]}, ValueError, "column user_id holds floats: ids are integers or strings"),
        ({"user_id": [1, None], "item_id": ["a", "b"]}, ValueError, "row 2: user_id is null"),
        ({"user_id": [1, 2], "item_id": ["a"]}, ValueError, "column item_id has 1 values, the first column 2"),
        ({"reader": [1], "item_id": ["a"]}, ValueError, "user_col"),
        ({"user_id": [], "item_id": []}, ValueError, "no rows"),
        ({**GOOD, "weight": [1.0, np.nan]}, ValueError, "row 2: weight is NaN"),
        ({"user_id": [object()], "item_id": ["a"]}, TypeError, "column user_id: expected"),
        (7, TypeError, "exposures: expected a frame"),
        ("no/such/file.parquet", FileNotFoundError, "no/such/file.parquet"),
        (pa.table({"user_id": [[1]], "item_id": ["a"]}), ValueError, "column user_id is nested"),
        (pl.DataFrame({"user_id": [True], "item_id": ["a"]}), ValueError, "user_id"),
    ],
)
def test_rows_that_will_not_do(given, kind, said):
    with pytest.raises(kind) as found:
        cadet.fit(given, **FIT)
    assert said in str(found.value) and "--" not in str(found.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"epochs": 0}, "epochs: must be at least 1"),
        ({"epochs": "many"}, "epochs is \"many\": expected"),
        ({"settings": {"hiden": [3]}}, "there is no setting \"hiden\""),
        ({"settings": {"epochs": 3}, "epochs": 3}, "epochs is given as an argument, too"),
        ({"preset": "papers"}, "preset: expected"),
        ({"skip_bad": True}, "skip_bad: goes with paths"),
        ({"feature_cols": ["a"]}, "feature_cols: goes with users"),
        ({"half_life": float("nan")}, "half_life"),
    ],
)
def test_arguments_that_will_not_do(log, words, said):
    with pytest.raises(ValueError) as found:
        cadet.fit(log, **words)
    assert said in str(found.value) and "--" not in str(found.value)


def test_users_that_will_not_do(log):
    users = {"user_id": np.arange(400), "a": np.arange(400.0)}
    twice = {"user_id": np.zeros(400, dtype=int), "a": np.arange(400.0)}
    with pytest.raises(ValueError, match="stands twice"):
        cadet.fit(log, users=twice, **FIT)
    with pytest.raises(ValueError, match="row 4: a is "):
        cadet.fit(log, users={**users, "a": np.where(np.arange(400) == 3, np.nan, 1.0)}, **FIT)
    with pytest.raises(ValueError, match="users"):
        cadet.fit(log, users={name: column[:10] for name, column in users.items()}, **FIT)


def test_questions_without_an_answer(model):
    with pytest.raises(KeyError, match="the nearest name is"):
        model.audience("item-00003")
    with pytest.raises(KeyError, match="unknown user"):
        model.user(123456)
    with pytest.raises(ValueError, match="mode: expected"):
        model.audience("item-0001", mode="freshest")
    with pytest.raises(ValueError, match="one of fdr, quantile and below"):
        model.fresh("item-0001", fdr=0.1, below=0.0)
    with pytest.raises(ValueError, match="lambda"):
        model.rerank({"user_id": [1], "item_id": ["item-0001"], "relevance": [1.0]}, lam=2.0)
    with pytest.raises(ValueError, match="twice"):
        model.rerank({"user_id": [1, 1], "item_id": ["item-0001"] * 2, "relevance": [1.0, 0.5]})
    with pytest.raises(ValueError, match="learned its features"):
        model.score({"user_id": [1], "item_id": ["item-0001"]}, users={"user_id": [1], "a": [0.5]})
    with pytest.warns(UserWarning, match="the first would be at fdr="):
        assert len(model.fresh("item-0001", fdr=1e-6)) == 0


def test_models_that_are_none(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        cadet.load(tmp_path / "none")
    model.save(tmp_path / "model")
    manifest = tmp_path / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 2', '"version": 99'))
    with pytest.raises(cadet.Error, match="manifest.json"):
        cadet.load(tmp_path / "model")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(cadet.Error, match="choose another folder"):
        model.save(tmp_path / "file")


def test_a_thousand_failures_leave_nothing_behind(model):
    bad = pd.DataFrame({"user_id": np.arange(20_000.0), "item_id": "item-0001"})

    def fail(times):
        for _ in range(times):
            with pytest.raises(ValueError):
                cadet.fit(bad)
            with pytest.raises(KeyError):
                model.user(123456)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = fail(100)
    # Kilobytes; each of the frames has more than 300.
    assert fail(900) - before < 30_000
