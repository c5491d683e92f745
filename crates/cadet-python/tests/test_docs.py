"""Examples in docstrings run, and the types hold."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import cadet
import cadet.pyod
import cadet.sklearn
from cadet import _fit, _model, _questions


def test_examples_run():
    for module in (cadet, _fit, _model, _questions, cadet.sklearn, cadet.pyod):
        failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert failed == 0 and tried > 0, module


def test_everything_public_is_documented():
    for name, member in inspect.getmembers(cadet.Model):
        if not name.startswith("_"):
            assert member.__doc__, name
    for name in cadet.__all__:
        assert name == "__version__" or getattr(cadet, name).__doc__, name


def test_types_hold(tmp_path):
    config = Path(__file__).parent.parent / "pyproject.toml"
    words = ["-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path)]
    found = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
