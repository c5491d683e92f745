#!/usr/bin/env python3
"""Reads the two id columns of an exposure file, and with --times its timestamps, with Polars."""

import argparse
import os
import statistics

from common import DATA, Stopwatch, pin, report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default=DATA + "/read/exposures.parquet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", action="store_true", help="the timestamps as well")
    parser.add_argument("--passes", type=int, default=1, help="timed reads in this process")
    args = parser.parse_args()
    pin(args.threads)
    import polars as pl

    assert pl.thread_pool_size() == args.threads
    read = pl.read_parquet if args.file.endswith(".parquet") else pl.read_csv
    columns = ["user_id", "item_id"] + ["timestamp"] * args.times
    read(args.file, columns=columns, n_rows=1000)  # start the thread pool, not timed
    passes = []
    for _ in range(args.passes):
        with Stopwatch() as watch:
            frame = read(args.file, columns=columns)
            frame = frame.rechunk()  # one contiguous column each, as the consumer needs
        passes.append((watch.wall, watch.cpu))
    latest = int(frame["timestamp"].max()) if args.times else 0
    wall, cpu = (statistics.median(p[i] for p in passes) for i in (0, 1))
    kind = os.path.splitext(args.file)[1][1:]
    report(
        work="read", peer="Polars", variant=kind, threads=args.threads, rows=frame.height,
        wall_seconds=wall, cpu_seconds=cpu, checksum=int(frame["user_id"].sum()) + int(frame["item_id"].sum()) + latest,
    )


if __name__ == "__main__":
    main()
