#!/usr/bin/env python3
"""Do the peers compute the same thing? Exits 1 if not.

- every PyTorch training variant: same loss on the same batch, same parameters after three steps (dropout off)
- the hand-written dropout drops the share it should
- every PyTorch and ONNX Runtime scoring variant: same scores to 1e-4
- the parquet files hold what the .npy files hold
"""

import argparse
import sys

from common import BATCH, DATA, HIDDEN, pin

pin(len(__import__("os").sched_getaffinity(0)))

import numpy as np
import pyarrow.parquet as pq
import torch

import score_ort
import score_torch
import train_torch

FAILED = []


def check(name, ok, detail=""):
    print("ok  " if ok else "FAIL", name, detail)
    if not ok:
        FAILED.append(name)


def training(world):
    torch.manual_seed(3)
    batches = [world.draw(BATCH) for _ in range(3)]
    reference = None
    for variant in train_torch.VARIANTS:
        torch.manual_seed(1)
        run = train_torch.engine(variant, world, (0.0, 0.0, 0.0), 1e-3)
        losses = [float(run.step(*b)) for b in batches]
        held = train_torch.heldout_loss(run, world)
        state = {k: v.clone() for k, v in run.net.state_dict().items()}
        if reference is None:
            reference = losses, held, state
        gap = max(abs(a - b) for a, b in zip(losses, reference[0]))
        check(f"train {variant}: loss of three steps", gap < 2e-6, f"{losses[0]:.6f} {losses[2]:.6f} gap {gap:.1e}")
        # SparseAdam leaves untouched rows alone where Adam keeps moving them, so its rows are not compared.
        skip = {"e.weight"} if variant == "sparse" else set()
        # Adam's first steps have size lr whatever the gradient's size: a gradient near 0 may flip, and how many do differs
        # from processor to processor. Wrong gradients would put most parameters a step of 1e-3 apart.
        moved = torch.cat([(state[k] - reference[2][k]).abs().flatten() for k in state if k not in skip])
        detail = f"median {moved.median():.1e}, above 1e-4: {(moved > 1e-4).float().mean():.2%}"
        check(f"train {variant}: parameters", moved.median() < 2e-5 and (moved > 1e-4).float().mean() < 0.05, detail)
        check(f"train {variant}: held-out loss", abs(held - reference[1]) < 1e-4, f"{held:.6f}")


def dropout(world):
    run = train_torch.Hand("hand", world, (0.5, 0.5, 0.3), 1e-3)
    seen = np.zeros(3)
    for _ in range(50):
        for i, chance in enumerate(run.chance()):
            h = torch.ones(2 * BATCH, HIDDEN[i])
            run.keep(h, i, chance)
            seen[i] += float((h == 0).float().mean()) / 50
    check("hand: dropout shares", np.allclose(seen, (0.5, 0.5, 0.3), atol=2e-3), str(seen.round(4)))


@torch.inference_mode()
def scoring(folder):
    x, w = score_torch.load(folder)
    x = x[:80]
    wanted = score_torch.concat(x, w, 8)
    for name in ("split", "onednn"):
        gap = (getattr(score_torch, name)(x, w, 8) - wanted).abs().max()
        check(f"score PyTorch {name}", gap < 1e-4, f"gap {gap:.1e}")
    gap = (score_torch.compiled(w, 8)(x, w, 8) - wanted).abs().max()
    check("score PyTorch compile", gap < 1e-4, f"gap {gap:.1e}")
    nx, nw = score_ort.load(folder)
    for variant in score_ort.VARIANTS:
        run = score_ort.session(variant, nw, 8, 1)
        gap = np.abs(score_ort.score(run, variant, nx[:80], nw, 8) - wanted.numpy()).max()
        check(f"score ONNX Runtime {variant}", gap < 1e-4, f"gap {gap:.1e}")


def files(folder):
    users, held = pq.read_table(folder + "/users.parquet"), pq.read_table(folder + "/heldout.parquet")
    x = np.array(users["x"].combine_chunks().values).reshape(len(users), -1)
    check("users.parquet", np.array_equal(x, np.load(folder + "/x.npy")))
    columns = np.stack([held[c].to_numpy() for c in ("item_id", "user_id", "negative_user_id")], 1)
    check("heldout.parquet", np.array_equal(columns, np.load(folder + "/heldout.npy")))
    table = pq.read_table(folder + "/exposures.parquet")
    pairs = np.stack([table[c].to_numpy() for c in ("user_id", "item_id")], 1)
    check("exposures.parquet", np.array_equal(pairs, np.load(folder + "/exposures.npy")))
    check("exposures are distinct", len(np.unique(pairs, axis=0)) == len(pairs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA + "/train")
    args = parser.parse_args()
    torch.set_num_threads(1)
    files(args.data)
    world = train_torch.World(args.data)
    training(world)
    dropout(world)
    scoring(args.data)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
