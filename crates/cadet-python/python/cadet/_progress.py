"""A bar for long work: tqdm's where it is installed, else a plain one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Called with the stage, how many of its steps are done, of how many (0 where nobody knows), and a note.
Watcher = Callable[[str, int, int, str], None]


@contextmanager
def shown(progress: bool | Watcher | None) -> Iterator[Watcher | None]:
    """What shows progress: by itself where somebody looks on."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        bar: _Bar | _Tqdm = _Bar()
    else:
        bar = _Tqdm(tqdm)
    try:
        yield bar
    finally:
        bar.close()


class _Tqdm:
    def __init__(self, make: Any) -> None:
        self.make, self.bar, self.stage = make, None, ""

    def __call__(self, stage: str, done: int, of: int, note: str) -> None:
        if stage != self.stage:
            self.close()
            self.stage, self.bar = stage, self.make(total=of or None, desc=stage, leave=False)
        if self.bar is not None:
            self.bar.total = of or None
            self.bar.n = done
            self.bar.set_postfix_str(note)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        self.bar = None


class _Bar:
    width = 30

    def __init__(self) -> None:
        self.last, self.length = 0.0, 0

    def __call__(self, stage: str, done: int, of: int, note: str) -> None:
        now = time.monotonic()
        if now - self.last < 0.2:
            return
        self.last = now
        share = min(done / of, 1.0) if of else 0.0
        filled = round(share * self.width)
        bar = "█" * filled + "░" * (self.width - filled)
        line = f"{stage:>12} {bar} {100 * share:3.0f} %  {note}" if of else f"{stage:>12} …  {note}"
        sys.stderr.write("\r" + line.ljust(self.length))
        sys.stderr.flush()
        self.length = len(line)

    def close(self) -> None:
        if self.length:
            sys.stderr.write("\r" + " " * self.length + "\r")
            sys.stderr.flush()
