"""Every verb says what its command says, down to the last bit."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import FIT

import cadet

MODEL_FILES = ["weights.safetensors", "users.safetensors", "items.safetensors", "exposures.safetensors"]


def same(frame, path):
    """As the same columns with the same bits."""
    table, read = pa.table(frame), pq.read_table(path)
    assert table.column_names == read.column_names
    for name in read.column_names:
        found, expected = (t[name].combine_chunks().cast(read.schema.field(name).type) for t in (table, read))
        assert found.equals(expected), name
    assert read.num_rows > 0


def test_a_frame_gives_the_model_that_a_file_gives(model, place, tmp_path):
    model.save(tmp_path / "model")
    for name in MODEL_FILES:
        assert (tmp_path / "model" / name).read_bytes() == (place / "model" / name).read_bytes(), name


def test_paths_and_threads_give_it_too(place, tmp_path):
    cadet.fit(place / "log.parquet", threads=1, **FIT).save(tmp_path / "model")
    for name in MODEL_FILES:
        assert (tmp_path / "model" / name).read_bytes() == (place / "model" / name).read_bytes(), name


@pytest.fixture(scope="module")
def pairs(log):
    some = log.slice(100, 500)
    strange = pa.table({"user_id": [-1, 3], "item_id": ["item-0001", "none"]}, schema=log.schema)
    return pa.concat_tables([some, strange])


def test_score(model, pairs, place, cli, tmp_path):
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    cli("score", place / "model", tmp_path / "pairs.parquet", "-o", tmp_path / "out.parquet")
    same(model.score(pairs), tmp_path / "out.parquet")
    same(model.score(tmp_path / "pairs.parquet"), tmp_path / "out.parquet")
    found = model.propensity(pairs, clip=50.0)
    assert found["propensity"].combine_chunks().equals(model.score(pairs)["propensity"].combine_chunks())
    assert pc.max(found["weight"]).as_py() <= 50.0


def test_propensities_of_a_user_add_up_to_one(model):
    items = model.items["item_id"]
    for user in (3, 4, 5):
        found = model.propensity({"user_id": [user] * len(items), "item_id": items})
        assert found["propensity"].sum(dtype=float) == pytest.approx(1.0, abs=1e-4)
        assert np.allclose(found["weight"] * found["propensity"], 1.0, rtol=1e-5)


@pytest.mark.parametrize("words", [{}, {"top": 3}, {"top": 2, "per": "item", "mode": "fresh"}, {"top": 3, "order": "propensity"}])
def test_score_all(model, place, cli, tmp_path, words):
    flags = [flag for key, value in words.items() for flag in (f"--{key}", value)]
    cli("score", place / "model", "--all", *flags, "-o", tmp_path / "out.parquet")
    same(model.score(**words), tmp_path / "out.parquet")


def test_audience(model, place, cli, tmp_path, log):
    out = tmp_path / "out.parquet"
    cli("audience", place / "model", "--item", "item-0003", "-n", 7, "--mode", "common", "-o", out)
    same(model.audience("item-0003", n=7, mode="common"), out)
    cli("audience", place / "model", "--all", "-n", 5, "--exclude-seen", "--min-exposures", 3, "-o", out)
    same(model.audience(None, n=5, exclude_seen=True, min_exposures=3), out)
    few = pa.table({"user_id": pc.unique(log["user_id"]).slice(0, 50)})
    pq.write_table(few, tmp_path / "few.parquet")
    cli("audience", place / "model", "--item", "item-0003", "--filter", tmp_path / "few.parquet", "-o", out)
    same(model.audience("item-0003", filter=few), out)


@pytest.mark.parametrize("words", [{"quantile": 0.05}, {"below": -1.0}, {"fdr": 0.9}])
def test_fresh(model, place, cli, tmp_path, words):
    [(key, value)] = words.items()
    cli("fresh", place / "model", "--all", f"--{key}={value}", "-o", tmp_path / "out.parquet")
    same(model.fresh(None, **words), tmp_path / "out.parquet")


def test_user_and_similar(model, place, cli, tmp_path):
    cli("user", place / "model", "--user", 7, "-n", 4, "-o", tmp_path / "out.parquet")
    same(model.user(7, n=4), tmp_path / "out.parquet")
    cli("similar", place / "model", "--item", "item-0003", "-o", tmp_path / "out.parquet")
    same(model.similar("item-0003"), tmp_path / "out.parquet")


def test_explain(model, place, cli, tmp_path):
    said = cli("explain", place / "model", "--user", 7, "--item", "item-0003", "--report", tmp_path / "r.html", "--json")
    found = model.explain(7, "item-0003")
    assert found == json.loads(said)
    assert found.page == (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("words", [{}, {"lambda": 0.8, "scale": "rank", "top": 3}, {"method": "mmr", "explore": 0.3}])
def test_rerank(model, place, cli, tmp_path, words):
    random = np.random.default_rng(0)
    lists = pa.table({
        "user_id": np.repeat(np.arange(20), 10),
        "item_id": [f"item-{i:04}" for _ in range(20) for i in random.permutation(30)[:10]],
        "relevance": random.random(200),
    })
    pq.write_table(lists, tmp_path / "lists.parquet")
    flags = [f"--{key}={value}" for key, value in words.items()]
    cli("rerank", place / "model", tmp_path / "lists.parquet", "-o", tmp_path / "out.parquet", *flags)
    words = {("lam" if key == "lambda" else key): value for key, value in words.items()}
    same(model.rerank(lists, **words), tmp_path / "out.parquet")
    same(model.rerank(tmp_path / "lists.parquet", **words), tmp_path / "out.parquet")


def test_add(model, log, place, cli, tmp_path):
    later = pa.table({"user_id": [1, 2, 3, 4, 900], "item_id": ["new"] * 4 + ["item-0001"]})
    items = pa.table({"item_id": ["new", "other"], "title": ["New", "Other"]})
    pq.write_table(later, tmp_path / "later.parquet")
    pq.write_table(items, tmp_path / "items.parquet")
    out = tmp_path / "added"
    said = cli("items", "add", place / "model", tmp_path / "later.parquet", "--items", tmp_path / "items.parquet",
               "--out", out, "--json")
    added = model.add(later, items=items)
    expected = json.loads(said)
    assert added.added == {key: expected[key] for key in added.added}
    added.save(tmp_path / "own")
    for name in MODEL_FILES:
        assert (tmp_path / "own" / name).read_bytes() == (out / name).read_bytes(), name
    assert len(model.items) == 30 and len(added.items) == 32
    assert added.similar("New", n=2).num_rows == 2


def test_evaluate(model, log, place, cli, tmp_path):
    said = json.loads(cli("eval", place / "model", place / "log.parquet", "-o", tmp_path / "out.parquet", "--json"))
    found = model.evaluate(log)
    assert found == {"verdict": said["verdict"], "evaluation": said["evaluation"]}
    same(found.by_item, tmp_path / "out.parquet")


def test_users_with_features(log, cli, tmp_path):
    random = np.random.default_rng(1)
    users = pa.table({"user_id": np.arange(400), "a": random.normal(size=400), "b": random.normal(size=400)})
    pq.write_table(users, tmp_path / "users.parquet")
    pq.write_table(log, tmp_path / "log.parquet")
    cli("train", tmp_path / "log.parquet", "--users", tmp_path / "users.parquet", "--out", tmp_path / "model",
        "--epochs", 3, "--set", "seed-epochs=3")
    model = cadet.fit(log, users=users, **FIT)
    model.save(tmp_path / "own")
    for name in MODEL_FILES:
        assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "model" / name).read_bytes(), name
    new = pa.table({"user_id": [1000, 1001], "a": [0.5, -1.0], "b": [0.0, 2.0]})
    pairs = pa.table({"user_id": [1000, 1001, 5], "item_id": ["item-0001", "item-0002", "item-0003"]})
    pq.write_table(new, tmp_path / "new.parquet")
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    cli("score", tmp_path / "model", tmp_path / "pairs.parquet", "--users", tmp_path / "new.parquet",
        "-o", tmp_path / "out.parquet")
    same(model.score(pairs, users=new), tmp_path / "out.parquet")


def test_users_by_what_they_saw(model, place, cli, tmp_path):
    saw = pa.table({"user_id": [5000] * 6, "item_id": [f"item-{i:04}" for i in range(6)]})
    pairs = pa.table({"user_id": [5000, 5000], "item_id": ["item-0001", "item-0020"]})
    pq.write_table(saw, tmp_path / "saw.parquet")
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    cli("score", place / "model", tmp_path / "pairs.parquet", "--exposures", tmp_path / "saw.parquet",
        "-o", tmp_path / "out.parquet")
    same(model.score(pairs, exposures=saw), tmp_path / "out.parquet")


def test_verdict_manifest_and_report(model, log, place, cli, tmp_path):
    said = json.loads(cli("inspect", place / "model", "--json"))
    assert model.verdict.colour == said["verdict"]["colour"].lower()
    assert list(model.verdict.reasons) == said["verdict"]["reasons"]
    assert model.metrics == said["metrics"]
    cli("train", place / "log.parquet", "--out", tmp_path / "model", "--report", tmp_path / "r.html",
        "--epochs", 3, "--set", "seed-epochs=3")
    page, own = (tmp_path / "r.html").read_text(), model.report(tmp_path / "own.html")
    svgs = [part.split("</svg>")[0] for part in page.split("<svg")[1:]]
    assert len(svgs) > 3 and all(svg in own for svg in svgs)
    brief = model._repr_html_()
    assert brief.startswith("<iframe") and "Calibration of the ratio" in brief
