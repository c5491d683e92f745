"""Frames come back as the kind that went in, and ids keep their type."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import FIT

import cadet

PAIRS = {"user_id": [3, 4, -1], "item_id": ["item-0001", "item-0002", "item-0003"]}


def test_the_kind_that_went_in_comes_back(model):
    assert isinstance(model.score(pl.DataFrame(PAIRS)), pl.DataFrame)
    assert isinstance(model.score(pl.DataFrame(PAIRS).lazy()), pl.DataFrame)
    assert isinstance(model.score(pa.table(PAIRS)), pa.Table)
    assert isinstance(model.score(pa.RecordBatch.from_pydict(PAIRS)), (pa.Table, pa.RecordBatch))
    of_dict = model.score(PAIRS)
    assert isinstance(of_dict, dict) and isinstance(of_dict["familiarity"], np.ndarray)
    frame = pd.DataFrame(PAIRS, index=[7, 8, 9])
    of_pandas = model.score(frame)
    assert isinstance(of_pandas, pd.DataFrame) and list(of_pandas.index) == [7, 8, 9]
    assert list(of_pandas["status"]) == ["ok", "ok", "unknown_user"]
    assert str(of_pandas["last_seen"].dtype).endswith("UTC]") and np.isnan(of_pandas["familiarity"][9])
    # Others by the frame that the model was fitted from.
    assert isinstance(model.audience("item-0001"), pa.Table)


def test_every_kind_says_the_same(model):
    frames = [pl.DataFrame(PAIRS), pd.DataFrame(PAIRS), pa.table(PAIRS), PAIRS, {k: np.array(v) for k, v in PAIRS.items()},
              {k: pl.Series(v) for k, v in PAIRS.items()}, {k: pd.Series(v) for k, v in PAIRS.items()}]
    answers = [np.asarray(model.score(frame)["familiarity"], dtype=float) for frame in frames]
    for answer in answers[1:]:
        assert np.array_equal(answer, answers[0], equal_nan=True)
    assert np.isfinite(answers[0][:2]).all()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint64(), pa.int64()])
def test_integers_stay_as_they_are(model, kind):
    frame = pa.table({"user_id": pa.array([3, 4], kind), "item_id": ["item-0001", "item-0002"]})
    assert model.score(frame).schema.field("user_id").type == kind


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_strings_stay_as_they_are(model, kind):
    items = pa.array(["item-0001", "item-0002"]).cast(kind)
    found = model.score(pa.table({"user_id": [3, 4], "item_id": items}))
    assert found["item_id"].type == kind and found["item_id"].to_pylist() == ["item-0001", "item-0002"]


def test_categories_and_chunks(log):
    frame = pl.from_arrow(log).with_columns(pl.col("item_id").cast(pl.Categorical))
    chunks = pl.concat([frame[:3000], frame[3000:]], rechunk=False)
    whole = cadet.fit(log, **FIT)
    assert cadet.fit(chunks, **FIT).manifest["data"]["sha256"] == whole.manifest["data"]["sha256"]


def test_pandas_without_pyarrow(model, monkeypatch):
    expected = model.score(pd.DataFrame(PAIRS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = model.score(pd.DataFrame(PAIRS))
    assert np.array_equal(found["familiarity"], expected["familiarity"], equal_nan=True)


def test_an_index_is_no_feature(log):
    users = pd.DataFrame({"user_id": np.arange(400), "a": np.random.default_rng(0).normal(size=400)})
    found = cadet.fit(log, users=users.set_index(np.arange(400) + 7), **FIT)
    assert found.manifest["data"]["feature_names"] == ["a"]


def test_columns_of_numbers_are_not_copied():
    """What goes out is the memory that went in."""
    values = pa.array(np.arange(1_000_000))
    there = pa.table(cadet._cadet.table({"a": values}))["a"].chunk(0)
    assert there.buffers()[1].address == values.buffers()[1].address


def test_times_of_numpy_are_read():
    log = {"user_id": np.arange(300) % 60, "item_id": np.arange(300) % 7,
           "timestamp": np.datetime64("2024-01-01", "s") + np.arange(300) * np.timedelta64(60, "s")}
    model = cadet.fit(log, **FIT)
    assert model.manifest["data"]["latest"] == 1704067200 + 299 * 60
    seen = model.score({"user_id": [0], "item_id": [0]})["last_seen"]
    assert seen.dtype == np.dtype("datetime64[ms]") and seen[0] == np.datetime64("2024-01-01")
