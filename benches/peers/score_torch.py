#!/usr/bin/env python3
"""W3: scores every user against every task with PyTorch, into one 6,040 x 1,629 float32 matrix.

concat    rows of concat(x, e), nn.functional.linear
split     Wx.x + b and We.e once, then broadcast sum and the small layers into reused buffers
onednn    as split, with oneDNN's linear+ReLU as one call
compile   torch.compile (weights frozen) of split's block
"""

import argparse

from common import DATA, TASKS, USERS, X_DIM, Stopwatch, pin, report

VARIANTS = ("concat", "split", "onednn", "compile")
BLOCKS = (1, 2, 4, 8, 16, 40)  # users per block; the best is chosen before timing
PASSES = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", default=DATA + "/train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--block", type=int, help="users per block (default: try several)")
    parser.add_argument("--passes", type=int, default=PASSES)
    return parser.parse_args()


if __name__ == "__main__":
    ARGS = arguments()
    pin(ARGS.threads)

import os
import statistics

import numpy as np
import torch
import torch.nn.functional as F


def load(folder):
    weights = {k: torch.from_numpy(v) for k, v in np.load(os.path.join(folder, "net.npz")).items()}
    return torch.from_numpy(np.load(os.path.join(folder, "x.npy"))), weights


def tail(h, w):
    """Layers two to four of rows whose first layer is done."""
    h = F.relu(F.linear(h, w["w2"], w["b2"]))
    h = F.relu(F.linear(h, w["w3"], w["b3"]))
    return F.linear(h, w["w4"], w["b4"])


def halves(x, w):
    """The users' and the tasks' part of the first layer."""
    hx = torch.addmm(w["b1"], x, w["w1"][:, :X_DIM].t())
    return hx, w["e"] @ w["w1"][:, X_DIM:].t()


def concat(x, w, block):
    out = torch.empty(len(x), len(w["e"]))
    tasks = len(w["e"])
    for i in range(0, len(x), block):
        part = x[i : i + block]
        n = len(part)
        rows = torch.cat(
            [part[:, None].expand(n, tasks, -1), w["e"][None].expand(n, tasks, -1)], dim=2
        ).view(n * tasks, -1)
        out[i : i + n] = tail(F.relu(F.linear(rows, w["w1"], w["b1"])), w).view(n, tasks)
    return out


def split(x, w, block):
    out = torch.empty(len(x), len(w["e"]))
    hx, he = halves(x, w)
    tasks = len(he)
    h1 = torch.empty(block, tasks, 32)
    h2, h3 = torch.empty(block * tasks, 32), torch.empty(block * tasks, 16)
    w2, w3, w4 = w["w2"].t(), w["w3"].t(), w["w4"].t()
    for i in range(0, len(x), block):
        part = hx[i : i + block]
        rows = len(part) * tasks
        a = torch.add(part[:, None], he, out=h1[: len(part)]).relu_().view(rows, 32)
        b = torch.addmm(w["b2"], a, w2, out=h2[:rows]).relu_()
        c = torch.addmm(w["b3"], b, w3, out=h3[:rows]).relu_()
        torch.addmm(w["b4"], c, w4, out=out[i : i + block].view(rows, 1))
    return out


def onednn(x, w, block):
    out = torch.empty(len(x), len(w["e"]))
    hx, he = halves(x, w)
    fused = torch.ops.mkldnn._linear_pointwise
    h1 = torch.empty(block, len(he), 32)
    w4 = w["w4"].t()
    for i in range(0, len(x), block):
        part = hx[i : i + block]
        a = torch.add(part[:, None], he, out=h1[: len(part)]).relu_().view(-1, 32)
        c = fused(fused(a, w["w2"], w["b2"], "relu", [], ""), w["w3"], w["b3"], "relu", [], "")
        torch.addmm(w["b4"], c, w4, out=out[i : i + block].view(-1, 1))
    return out


class Block(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = torch.nn.ParameterDict({k: torch.nn.Parameter(v, requires_grad=False) for k, v in w.items()})

    def forward(self, hx, he):
        h = F.relu(hx[:, None] + he)
        h = F.relu(F.linear(h.view(-1, 32), self.w["w2"], self.w["b2"]))
        h = F.relu(F.linear(h, self.w["w3"], self.w["b3"]))
        # One output column: a sum fuses with what comes before, a product does not.
        return ((h * self.w["w4"]).sum(1) + self.w["b4"]).view(len(hx), -1)


def compiled(w, block):
    import torch._inductor.config as config

    config.freezing = True
    torch._dynamo.reset()
    options = {"max_autotune": True, "max_autotune_gemm_backends": "CPP,ATEN"}
    run = torch.compile(Block(w).eval(), dynamic=False, options=options)

    def score(x, w, block):
        out = torch.empty(len(x), len(w["e"]))
        hx, he = halves(x, w)
        for i in range(0, len(x), block):
            out[i : i + block] = run(hx[i : i + block], he)
        return out

    return score


@torch.inference_mode()
def main(args):
    torch.set_num_threads(args.threads)
    x, w = load(args.data)
    plain = {"concat": concat, "split": split, "onednn": onednn}
    # Only blocks that divide the users, so that a compiled block has one shape.
    blocks = [args.block] if args.block else [b for b in BLOCKS if USERS % b == 0]
    if args.variant == "compile" and not args.block:
        blocks = [4, 40]
    trials = []
    for block in blocks:
        score = plain.get(args.variant) or compiled(w, block)
        score(x[: block * 10], w, block)
        part = x[: len(x) // 16 // block * block]
        cost = []
        for _ in range(2 if len(blocks) > 1 else 0):
            with Stopwatch() as watch:
                score(part, w, block)
            cost.append((watch.cpu if args.threads == 1 else watch.wall) / len(part))
        trials.append((min(cost, default=0.0), block, score))
    _, block, score = min(trials, key=lambda t: t[0])
    score(x, w, block)
    passes = []
    for _ in range(args.passes):
        with Stopwatch() as watch:
            out = score(x, w, block)
        passes.append((watch.wall, watch.cpu))
    wall, cpu = (statistics.median(p[i] for p in passes) for i in (0, 1))
    report(
        work="score", peer="PyTorch", variant=args.variant, threads=args.threads, pairs=USERS * TASKS,
        wall_seconds=wall, cpu_seconds=cpu, checksum=float(out.double().sum()), block=block, passes=passes,
    )


if __name__ == "__main__":
    main(ARGS)
