"""The interpreter stays free while work goes on, and Ctrl-C stops it."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import FIT

import cadet

LONG = {"epochs": 10_000, "patience": 0, "future": False}


def test_the_lock_is_free_and_ctrl_c_stops(log, model):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    stages = []
    threading.Timer(1.5, stop.set).start()
    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        cadet.fit(log, progress=lambda *standing: stages.append(standing), **LONG)
    thread.join()
    assert time.monotonic() - began < 10.0
    assert len(ticks) > 50
    assert "ratio net" in {stage for stage, *_ in stages}
    # The interpreter is as usable as before.
    assert cadet.fit(log, **FIT).manifest["data"]["sha256"] == model.manifest["data"]["sha256"]


def test_an_exception_of_progress_stops_too(log):
    def fail(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        cadet.fit(log, progress=fail, **LONG)


def test_two_fits_and_ten_scorers(log, model):
    pairs = log.slice(0, 2000)
    expected = model.score(pairs)
    found, errors = [], []

    def go(work):
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)

    works = [lambda: cadet.fit(log, **FIT).score(pairs)] * 2 + [lambda: model.score(pairs)] * 10
    threads = [threading.Thread(target=go, args=[work]) for work in works]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors and len(found) == 12
    assert all(answer.equals(expected) for answer in found)


def test_pickled_models_are_data(model):
    packed = pickle.dumps(model)
    again = pickle.loads(packed)
    pairs = {"user_id": [3], "item_id": ["item-0001"]}
    assert again.score(pairs)["familiarity"] == model.score(pairs)["familiarity"]
    assert cadet.Model.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    import io
    import zipfile

    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as files:
        files.writestr("../out", "x")
    with pytest.raises(ValueError, match="is no file of a model"):
        cadet.Model.from_bytes(evil.getvalue())


def test_a_bar_of_our_own(capsys, monkeypatch):
    from cadet._progress import shown

    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with shown(True) as bar:
        bar("ratio net", 3, 10, "loss 1.2")
    assert "ratio net" in capsys.readouterr().err
    with shown(False) as bar:
        assert bar is None


def test_import_is_quick():
    """Without numpy, pyarrow or anything else; in seconds of work, since other processes may be busy, too."""
    code = (
        "import time; a = time.process_time(); import cadet; b = time.process_time(); import sys;"
        "print(b - a, any(m in sys.modules for m in ('numpy', 'pyarrow', 'pandas', 'polars')))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
            for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) < 0.1
    assert {others for _, others in runs} == {"False"}
