#!/usr/bin/env python3
"""Reads the two id columns of an exposure file, and with --times its timestamps, with Polars.

--rows goes on to what cadet's reader gives: each pair once with its count, by item and user. Ids are not numbered anew."""

import argparse
import os
import statistics

from common import DATA, Stopwatch, pin, report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default=DATA + "/read/exposures.parquet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", action="store_true", help="the timestamps as well")
    parser.add_argument("--rows", choices=("packed", "group_by"), help="how to count the pairs; without times")
    parser.add_argument("--passes", type=int, default=1, help="timed reads in this process")
    args = parser.parse_args()
    pin(args.threads)
    import polars as pl

    assert pl.thread_pool_size() == args.threads
    read = pl.read_parquet if args.file.endswith(".parquet") else pl.read_csv
    columns = ["user_id", "item_id"] + ["timestamp"] * args.times
    read(args.file, columns=columns, n_rows=1000)  # start the thread pool, not timed
    # Both ids in one number sort several times as fast as two columns, if they are small enough, as these are.
    packed = (pl.col("item_id").cast(pl.UInt64) * (1 << 32) + pl.col("user_id").cast(pl.UInt64)).alias("pair")
    rows = {
        None: lambda frame: frame.rechunk(),  # one contiguous column each, as the consumer needs
        "packed": lambda frame: frame.select(packed).sort("pair").select(pl.col("pair").rle()).unnest("pair"),
        "group_by": lambda frame: frame.group_by("item_id", "user_id").len().sort("item_id", "user_id"),
    }[args.rows]
    passes = []
    for _ in range(args.passes):
        with Stopwatch() as watch:
            frame = rows(read(args.file, columns=columns))
        passes.append((watch.wall, watch.cpu))
    if args.rows == "packed":
        item, user = pl.col("value") // (1 << 32), pl.col("value") % (1 << 32)
        frame = frame.select(item_id=item.cast(pl.Int64), user_id=user.cast(pl.Int64), len="len")
    count = pl.col("len").cast(pl.Int64) if args.rows else pl.lit(1, pl.Int64)
    both = pl.col("user_id") + pl.col("item_id")
    total = frame.select((both * count).sum()).item()
    height = frame["len"].sum() if args.rows else frame.height
    latest = int(frame["timestamp"].max()) if args.times else 0
    wall, cpu = (statistics.median(p[i] for p in passes) for i in (0, 1))
    kind = os.path.splitext(args.file)[1][1:]
    report(
        work="read", peer="Polars", variant=args.rows or kind, threads=args.threads, rows=height,
        wall_seconds=wall, cpu_seconds=cpu, checksum=total + latest,
    )


if __name__ == "__main__":
    main()
