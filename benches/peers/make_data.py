#!/usr/bin/env python3
"""Generates every file the comparison reads, once, from fixed seeds.

cifar10/ as images/, of real images (with --cifar10)
images/  train.f32, valid.f32 (32 x 32 x 3 float32 rows, height-width-channel), .classes, train.tasks
train/   users.parquet, exposures.parquet, heldout.parquet and the same as .npy; net.safetensors
read/    exposures.csv, exposures.parquet (10M rows), and quick.csv, quick.parquet (1M rows)
"""

import argparse
import json
import os
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from common import DATA, E_DIM, HIDDEN, TASKS, USERS, X_DIM

EXPOSURES = 1_000_000
HELDOUT = 50_000


def users(rng):
    """A mixture of 24 Gaussians with unit overall scale per feature."""
    centres = rng.normal(size=(24, X_DIM))
    which = rng.choice(24, size=USERS, p=rng.dirichlet(np.full(24, 2.0)))
    x = centres[which] * 0.8 + rng.normal(size=(USERS, X_DIM)) * 0.6
    return (x / x.std(0)).astype(np.float32)


def sizes(rng):
    """Power-law audience sizes between 10 and 3,400 that sum to EXPOSURES, in random order."""
    rank = np.arange(1, TASKS + 1)
    low, high = 1.0, 1e9
    for _ in range(200):  # the scale at which the clipped power law has the right sum
        mid = (low * high) ** 0.5
        total = np.clip(mid * (rank + 30.0) ** -1.0, 10, 3400).sum()
        low, high = (mid, high) if total < EXPOSURES else (low, mid)
    size = np.clip(low * (rank + 30.0) ** -1.0, 10, 3400).astype(np.int64)
    size[300 : 300 + EXPOSURES - size.sum()] += 1
    assert size.sum() == EXPOSURES
    return rng.permutation(size)


def exposures(rng, x):
    """Task t takes m_t distinct users with q_t(u) ~ exp(activity_u + w_t . phi(x_u))."""
    phi = np.tanh(x @ rng.normal(size=(X_DIM, 12)) / np.sqrt(X_DIM) * 1.5)
    groups = rng.normal(size=(20, 12))
    taste = groups[rng.integers(20, size=TASKS)] * 0.8 + rng.normal(size=(TASKS, 12)) * 0.5
    activity = rng.normal(size=USERS) * 0.7
    pairs = []
    for t, m in enumerate(sizes(rng)):
        key = activity + phi @ taste[t] + rng.gumbel(size=USERS)  # Gumbel top-m: weighted, no repeats
        chosen = np.argpartition(-key, m)[:m]
        pairs.append(np.stack([chosen, np.full(m, t)], axis=1))
    return rng.permutation(np.concatenate(pairs)).astype(np.int64)


def heldout(rng, pairs):
    """(item, user, negative user): an exposure of a held-out user, and the user of another such exposure."""
    held = pairs[pairs[:, 0] % 10 == 0]
    a, b = rng.integers(len(held), size=(2, HELDOUT))
    return np.stack([held[a, 1], held[a, 0], held[b, 0]], axis=1)


def net(rng):
    """Weights for scoring: PyTorch's default initialisation, embeddings N(0, 1)."""
    out, ins = {}, X_DIM + E_DIM
    for i, outs in enumerate((*HIDDEN, 1), start=1):
        bound = ins**-0.5
        out[f"w{i}"] = rng.uniform(-bound, bound, size=(outs, ins)).astype(np.float32)
        out[f"b{i}"] = rng.uniform(-bound, bound, size=outs).astype(np.float32)
        ins = outs
    out["e"] = rng.normal(size=(TASKS, E_DIM)).astype(np.float32)
    return out


def save_safetensors(path, tensors):
    header, offset = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for a in tensors.values():
            f.write(a.tobytes())


def make_train(folder):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(20220328)
    path = lambda name: os.path.join(folder, name)
    x = users(rng)
    pairs = exposures(rng, x)
    held = heldout(rng, pairs)
    weights = net(rng)
    np.save(path("x.npy"), x)
    np.save(path("exposures.npy"), pairs)
    np.save(path("heldout.npy"), held)
    np.savez(path("net.npz"), **weights)
    save_safetensors(path("net.safetensors"), weights)
    flat = pa.array(x.reshape(-1), pa.float32())
    rows = pa.ListArray.from_arrays(pa.array(np.arange(0, x.size + 1, X_DIM), pa.int32()), flat)
    pq.write_table(pa.table({"user_id": pa.array(np.arange(USERS), pa.int64()), "x": rows}), path("users.parquet"))
    pq.write_table(pa.table({"user_id": pairs[:, 0], "item_id": pairs[:, 1]}), path("exposures.parquet"))
    names = ("item_id", "user_id", "negative_user_id")
    pq.write_table(pa.table({n: held[:, i] for i, n in enumerate(names)}), path("heldout.parquet"))


def make_read(folder):
    import polars as pl

    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(7)
    rows = 10_000_000
    table = pl.DataFrame(
        {
            "user_id": (rng.beta(0.8, 2.0, size=rows) * 1_000_000).astype(np.int64),
            "item_id": (rng.random(rows) ** 3 * 100_000).astype(np.int64),
            "timestamp": np.sort(rng.integers(1_600_000_000, 1_700_000_000, size=rows)),
        }
    )
    for name, part in (("exposures", table), ("quick", table.head(1_000_000))):
        part.write_csv(os.path.join(folder, name + ".csv"))
        part.write_parquet(os.path.join(folder, name + ".parquet"), compression="zstd")


def make_images(folder):
    """10 classes: a coarse pattern, moved about, under another pattern that says nothing, and noise."""
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(10)
    coarse = lambda n: np.kron(rng.normal(size=(n, 4, 4, 3)), np.ones((1, 8, 8, 1)))
    patterns = coarse(10)
    for name, count in (("train", 10_000), ("valid", 2_000)):
        classes = rng.integers(10, size=count)
        x = 0.35 * patterns[classes] + 0.7 * coarse(count) + 0.6 * rng.normal(size=(count, 32, 32, 3))
        moves = rng.integers(-3, 4, size=(count, 2))
        x = np.stack([np.roll(image, tuple(move), (0, 1)) for image, move in zip(x, moves)])
        write_images(folder, name, x / x.std(), classes, rng)


def make_cifar10(folder, source):
    """CIFAR10's training images, normalised by colour: 45,000 to train on, the last 2,000 to validate."""
    os.makedirs(folder, exist_ok=True)
    files = [os.path.join(source, f"data_batch_{i}.bin") for i in range(1, 6)]
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    x = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32)
    x = (x - x.mean((0, 1, 2))) / x.std((0, 1, 2))
    rng = np.random.default_rng(11)
    for name, part in (("train", slice(0, 45_000)), ("valid", slice(48_000, 50_000))):
        write_images(folder, name, x[part], rows[part, 0], rng)


def write_images(folder, name, x, classes, rng):
    """Images and their classes; where they are trained on, each is exposed to one of the nine pairs its class is in."""
    x.astype(np.float32).tofile(os.path.join(folder, name + ".f32"))
    classes.astype(np.uint8).tofile(os.path.join(folder, name + ".classes"))
    if name == "train":
        pairs = [(a, b) for a in range(10) for b in range(a + 1, 10)]
        of_class = [[t for t, pair in enumerate(pairs) if c in pair] for c in range(10)]
        tasks = np.array([of_class[c][rng.integers(9)] for c in classes], np.uint8)
        tasks.tofile(os.path.join(folder, "train.tasks"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--cifar10", metavar="DIR", help="the folder of CIFAR10's binary files")
    parser.add_argument("--force", action="store_true", help="write again even if present")
    args = parser.parse_args()
    makes = {"train": make_train, "images": make_images, "read": make_read}
    if args.cifar10:
        makes["cifar10"] = lambda folder: make_cifar10(folder, args.cifar10)
    for name, make in makes.items():
        folder = os.path.join(args.data, name)
        done = os.path.join(folder, "done")
        if args.force or not os.path.exists(done):
            make(folder)
            open(done, "w").close()
            print("made", folder)


if __name__ == "__main__":
    main()
