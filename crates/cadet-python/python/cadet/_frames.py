"""Frames in, frames out: answers come back as the kind that went in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _cadet

#: A polars, pandas or pyarrow frame, or anything else with ``__arrow_c_stream__``; a mapping of column names to
#: arrays or lists; a path or a list of paths.
Frame = Any


def library(frame: Frame) -> str:
    """What a frame is of: "polars", "pandas", "pyarrow", "dict", or "arrow" for everything else."""
    if isinstance(frame, Mapping):
        return "dict"
    name = type(frame).__module__.partition(".")[0]
    return name if name in ("polars", "pandas", "pyarrow") else "arrow"


def source(frame: Frame, argument: str) -> Any:
    """What the compiled part reads: a list of paths, or an object with ``__arrow_c_stream__``."""
    if frame is None:
        return None
    if isinstance(frame, (str, os.PathLike)):
        return [os.fspath(frame)]
    if isinstance(frame, (list, tuple)) and frame and all(isinstance(p, (str, os.PathLike)) for p in frame):
        return [os.fspath(path) for path in frame]
    if isinstance(frame, Mapping):
        return _cadet.table({name: _column(values) for name, values in frame.items()})
    if library(frame) == "pandas":
        return _of_pandas(frame)
    if library(frame) == "polars" and hasattr(frame, "collect"):
        frame = frame.collect()
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        return frame
    raise TypeError(
        f"{argument}: expected a frame (polars, pandas, pyarrow, or anything else with __arrow_c_stream__), a dict "
        f"of columns, a path or a list of paths, found {type(frame).__name__}"
    )


def _column(values: Any) -> Any:
    """Arrays of strings and of objects are read as lists."""
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "__array_interface__") and getattr(dtype, "kind", "") in "OSU":
        return values.tolist()
    if hasattr(values, "__array_interface__") and not values.dtype.isnative:
        return values.astype(values.dtype.newbyteorder("="))
    if type(values).__module__.startswith("pandas."):
        return _column(values.to_numpy())
    arrays = ("__arrow_c_array__", "__arrow_c_stream__", "__array_interface__")
    return values if any(hasattr(values, name) for name in arrays) else list(values)


def _of_pandas(frame: Any) -> Any:
    """A pandas frame without its index, which is no column."""
    try:
        import pyarrow
    except ImportError:
        return _cadet.table({str(name): _column(frame[name].to_numpy()) for name in frame.columns})
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


def back(table: _cadet.Table, kind: str, like: Frame = None) -> Any:
    """A table as a frame of this kind; the rows of ``like``, where there is one, are its rows."""
    if kind == "polars":
        import polars

        return polars.DataFrame(table)
    if kind == "pyarrow":
        import pyarrow

        return pyarrow.table(table)
    if kind == "pandas":
        import pandas

        frame = pandas.DataFrame(table.to_numpy())
        if "last_seen" in frame:
            frame["last_seen"] = frame["last_seen"].dt.tz_localize("UTC")
        if like is not None:
            frame.index = like.index
        return frame
    if kind == "dict":
        return table.to_numpy()
    return table
