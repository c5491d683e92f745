#!/usr/bin/env python3
"""W2: trains the appendix's image net with PyTorch by Algorithm 1: positives and as many drawn negatives through the trunk.

plain          nn.Module, NCHW, fused Adam
channels-last  the same with NHWC memory
compile        torch.compile of the channels-last net
"""

import argparse

from common import DATA, Stopwatch, pin, report

VARIANTS = ("plain", "channels-last", "compile")
CLASSES, WARM_UP = 10, 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", default=DATA + "/images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="steps, or the most steps with --until")
    parser.add_argument("--until", type=float, help="stop at this mean AUC on the validation images")
    parser.add_argument("--every", type=int, default=10, help="steps from one validation to the next")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


ARGS = arguments()
pin(ARGS.threads)

import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TASKS = [(a, b) for a in range(CLASSES) for b in range(a + 1, CLASSES)]


def load(name):
    x = np.fromfile(os.path.join(ARGS.data, name + ".f32"), np.float32).reshape(-1, 32, 32, 3)
    classes = np.fromfile(os.path.join(ARGS.data, name + ".classes"), np.uint8)
    x = torch.from_numpy(x).permute(0, 3, 1, 2)
    return x if ARGS.variant != "plain" else x.contiguous(), classes


class Net(nn.Module):
    """The appendix's convolutions, FC to 256, times FC of the embedding, FC to 1. Embeddings start as active classes."""

    def __init__(self):
        super().__init__()
        layers, ins = [], 3
        for outs, shape, relu in ((64, (4, 2, 1), 1), (128, (4, 2, 1), 1), (256, (5, 1, 0), 1), (512, (4, 1, 0), 0)):
            layers += [nn.Conv2d(ins, outs, *shape, bias=False), nn.BatchNorm2d(outs)] + [nn.ReLU(inplace=True)] * relu
            ins = outs
        self.trunk = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 256))
        start = torch.tensor([[float(c in pair) for c in range(CLASSES)] for pair in TASKS])
        self.e = nn.Embedding.from_pretrained(start, freeze=False)
        self.v, self.w = nn.Linear(CLASSES, 256), nn.Linear(256, 1)

    def forward(self, x, task):
        return self.w(self.trunk(x) * self.v(self.e(task))).squeeze(1)

    @torch.no_grad()
    def all_pairs(self, x):
        u = torch.cat([self.trunk(part) for part in x.split(500)])
        return (u * self.w.weight) @ self.v(self.e.weight).T + self.w.bias


def mean_auc(net, x, classes):
    net.eval()
    scores = net.all_pairs(x).numpy()
    net.train()
    total = 0.0
    for t, pair in enumerate(TASKS):
        active = np.isin(classes, pair)
        ranks = np.empty(len(classes))
        ranks[np.argsort(scores[:, t], kind="stable")] = np.arange(1, len(classes) + 1)
        n = active.sum()
        total += (ranks[active].sum() - n * (n + 1) / 2) / (n * (len(classes) - n))
    return total / len(TASKS)


def main():
    torch.manual_seed(ARGS.seed)
    torch.set_num_threads(ARGS.threads)
    x, _ = load("train")
    task = torch.from_numpy(np.fromfile(os.path.join(ARGS.data, "train.tasks"), np.uint8).astype(np.int64))
    net = Net()
    if ARGS.variant != "plain":
        net = net.to(memory_format=torch.channels_last)
    forward = torch.compile(net) if ARGS.variant == "compile" else net
    adam = torch.optim.Adam(net.parameters(), ARGS.lr, fused=True)
    half = ARGS.precision == "bf16"

    def step():
        # An image has one exposure, so a uniform image is a uniform exposure.
        positive, negative = torch.randint(len(x), (2, ARGS.batch))
        rows = x[torch.cat([positive, negative])]
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            f = forward(rows, task[positive].repeat(2))
        f = f.float()
        loss = (F.softplus(-f[: ARGS.batch]) + F.softplus(f[ARGS.batch :])).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        return loss.item()

    if ARGS.until:
        valid = load("valid")
    if not ARGS.until or ARGS.variant == "compile":
        for _ in range(WARM_UP):
            step()
    watch, losses, curve = Stopwatch(), [], []
    for i in range(ARGS.steps):
        with watch:
            losses.append(step())
        if ARGS.until and (i + 1) % ARGS.every == 0:
            curve.append(mean_auc(net, *valid))
            if curve[-1] >= ARGS.until:
                break
    if ARGS.until and max(curve, default=0) < ARGS.until:
        raise SystemExit(f"an AUC of {ARGS.until} was not reached in {ARGS.steps} steps, only {max(curve):.3f}")
    report(
        work="images", peer="PyTorch", variant=ARGS.variant, precision=ARGS.precision,
        positives=1 if ARGS.until else len(losses) * ARGS.batch, steps=len(losses), wall_seconds=watch.wall,
        cpu_seconds=watch.cpu, seconds_per_step=watch.wall / len(losses), train_loss=float(np.mean(losses[-10:])),
        valid_auc=curve,
    )


main()
