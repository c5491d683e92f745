"""A generated log as files and frames, and one model of it, trained by the command line."""

import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cadet

EPOCHS = ["--epochs", "3", "--set", "seed-epochs=3"]
FIT = {"epochs": 3, "settings": {"seed_epochs": 3}}


@pytest.fixture(scope="session")
def cli():
    """Runs the command line, which `make python-test` has built."""
    binary = os.environ["CADET_CLI"]

    def run(*words):
        words = [str(word) for word in words]
        return subprocess.run([binary, *words], check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="session")
def log():
    return pa.table(cadet.demo_log(users=400, items=30, exposures=8_000, seed=3))


@pytest.fixture(scope="session")
def place(tmp_path_factory, log, cli) -> Path:
    place = tmp_path_factory.mktemp("cadet")
    pq.write_table(log, place / "log.parquet")
    cli("train", place / "log.parquet", "--out", place / "model", *EPOCHS)
    return place


@pytest.fixture(scope="session")
def model(log):
    return cadet.fit(log, **FIT)
