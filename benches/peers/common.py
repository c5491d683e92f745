"""What every child shares: the net's shape, the stop-watch, the one JSON line on stdout."""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")

USERS, TASKS, X_DIM, E_DIM = 6040, 1629, 100, 16
HIDDEN = (32, 32, 16)
BATCH = 1024


def pin(threads):
    """Keeps this process and its threads on `threads` cores. Call before importing torch."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cores)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(DATA, "inductor"))  # compile once, not per sample


class Stopwatch:
    """Wall seconds, and CPU seconds over all threads of this process; adds up over `with` blocks."""

    def __init__(self):
        self.wall = self.cpu = 0.0

    def __enter__(self):
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.wall += time.perf_counter() - self._wall
        self.cpu += time.process_time() - self._cpu


def report(**fields):
    print(json.dumps(fields))
    sys.stdout.flush()
