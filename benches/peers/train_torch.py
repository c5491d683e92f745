#!/usr/bin/env python3
"""W1: trains the MovieLens ratio net with PyTorch, in one of several ways of writing the same step.

dense       nn.Module on concatenated rows, autograd, one Adam over everything
sparse      the same, embedding gradients as sparse rows with SparseAdam, fused Adam for the rest
split       first layer as Wx.x + We.e with the e part shared by the pair, epoch-wide index draws, fused Adam
hand        as split, no autograd: forward and backward written out into reused buffers, flat fused Adam
compile     torch.compile of split's loss (forward and backward), fused Adam
compile-hand  torch.compile of hand's whole step, sampling gathers and Adam included
"""

import argparse

from common import BATCH, DATA, E_DIM, HIDDEN, Stopwatch, X_DIM, pin, report

VARIANTS = ("dense", "sparse", "split", "hand", "compile", "compile-hand")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", default=DATA + "/train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, help="batches in an epoch (default: as many as hold the training exposures)")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--dropout", default="0.5,0.5,0.3")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    ARGS = arguments()
    pin(ARGS.threads)

import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class World:
    """The data as tensors: feature table, training exposures as two index columns, held-out triples."""

    def __init__(self, folder):
        load = lambda name: torch.from_numpy(np.load(os.path.join(folder, name)))
        self.x = load("x.npy")
        pairs = load("exposures.npy")
        pairs = pairs[pairs[:, 0] % 10 != 0]
        self.user, self.task = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
        self.tasks = int(self.task.max()) + 1
        self.heldout = load("heldout.npy")

    def draw(self, *shape):
        """Tasks, their instances, and population instances: two uniform exposures per positive."""
        n = len(self.user)
        a, b = torch.randint(n, shape), torch.randint(n, shape)
        return self.task[a], self.user[a], self.user[b]


class Net(nn.Module):
    """concat(x, e) -> 32 -> 32 -> 16 -> 1. Linear layers as PyTorch initialises them, e ~ 0.1 N(0, 1)."""

    def __init__(self, tasks, dropout, sparse=False):
        super().__init__()
        self.e = nn.Embedding(tasks, E_DIM, sparse=sparse)
        self.e.weight.data.mul_(0.1)
        a, b, c = HIDDEN
        self.l1, self.l2 = nn.Linear(X_DIM + E_DIM, a), nn.Linear(a, b)
        self.l3, self.l4 = nn.Linear(b, c), nn.Linear(c, 1)
        self.dropout = dropout

    def forward(self, x, task):
        h = torch.cat([x, self.e(task)], dim=1)
        for layer, p in zip((self.l1, self.l2, self.l3), self.dropout):
            h = F.dropout(F.relu(layer(h)), p, self.training)
        return self.l4(h).squeeze(1)

    def pair(self, x, task):
        """The same function of 2n rows for n tasks, the tasks' part of the first layer computed once."""
        n = len(task)
        wx, we = self.l1.weight[:, :X_DIM], self.l1.weight[:, X_DIM:]
        e = F.linear(self.e(task), we, self.l1.bias)
        h = (F.linear(x, wx).view(2, n, -1) + e).view(2 * n, -1)
        h = F.dropout(F.relu(h), self.dropout[0], self.training)
        for layer, p in zip((self.l2, self.l3), self.dropout[1:]):
            h = F.dropout(F.relu(layer(h)), p, self.training)
        return self.l4(h).squeeze(1)


def contrast(f):
    """mean( softplus(-f(x)) + softplus(f(x~)) ), first half of f positives, second half negatives."""
    pos, neg = f.chunk(2)
    return F.softplus(-pos).mean() + F.softplus(neg).mean()


class Modules:
    """dense, sparse, split, compile: autograd over a Net."""

    def __init__(self, variant, world, dropout, lr):
        sparse = variant == "sparse"
        self.world, self.net = world, Net(world.tasks, dropout, sparse)
        self.split = variant in ("split", "compile")
        self.whole_epoch = self.split
        if sparse:
            rest = [p for n, p in self.net.named_parameters() if n != "e.weight"]
            self.optimisers = [
                torch.optim.SparseAdam([self.net.e.weight], lr=lr),
                torch.optim.Adam(rest, lr=lr, fused=True),
            ]
        else:
            self.optimisers = [torch.optim.Adam(self.net.parameters(), lr=lr, fused=True if self.split else None)]
        self.loss = self._loss
        if variant == "compile":
            self.loss = torch.compile(self._loss, dynamic=False)

    def _loss(self, task, pos, neg):
        x = self.world.x.index_select(0, torch.cat([pos, neg]))
        if self.split:
            return contrast(self.net.pair(x, task))
        return contrast(self.net(x, torch.cat([task, task])))

    def step(self, task, pos, neg):
        loss = self.loss(task, pos, neg)
        for o in self.optimisers:
            o.zero_grad(set_to_none=True)
        loss.backward()
        for o in self.optimisers:
            o.step()
        return loss.detach()


# where(b > t, a, 0) in one vectorised pass; the out= form of PyTorch's ReLU gradient.
THRESHOLD = torch.ops.aten.threshold_backward.grad_input


class Hand:
    """hand, compile-hand: the step written out, parameters and gradients each in one flat tensor."""

    whole_epoch = True

    def __init__(self, variant, world, dropout, lr):
        self.world, self.lr = world, lr
        self.net = Net(world.tasks, dropout)
        self.p = dropout
        self.scale = [1 / (1 - p) for p in dropout]
        named = dict(self.net.named_parameters())
        # The first layer's weight is kept as its two halves.
        w1 = named.pop("l1.weight").detach()
        parts = {"wx": w1[:, :X_DIM], "we": w1[:, X_DIM:], **{k: v.detach() for k, v in named.items()}}
        total = sum(v.numel() for v in parts.values())
        self.flat, self.grad = torch.zeros(total), torch.zeros(total)
        self.m, self.v, self.t = torch.zeros(total), torch.zeros(total), torch.zeros(())
        self.w, self.g, at = {}, {}, 0
        for k, value in parts.items():
            for store, flat in ((self.w, self.flat), (self.g, self.grad)):
                store[k] = flat[at : at + value.numel()].view(value.shape)
            self.w[k].copy_(value)
            at += value.numel()
        rows, (a, b, c) = 2 * BATCH, HIDDEN
        self.buffers = {
            "x": torch.empty(rows, X_DIM), "e": torch.empty(BATCH, E_DIM), "ep": torch.empty(BATCH, a),
            "h1": torch.empty(rows, a), "h2": torch.empty(rows, b), "h3": torch.empty(rows, c),
            "d1": torch.empty(rows, a), "d2": torch.empty(rows, b), "d3": torch.empty(rows, c),
            "f": torch.empty(rows, 1), "dep": torch.empty(BATCH, a), "de": torch.empty(BATCH, E_DIM),
        }
        # Random 64-bit words per layer: a byte per element where p is a multiple of 1/256, else two.
        self.bits = np.random.SFC64(1)
        per = [0 if p == 0 else 8 if p * 256 % 1 == 0 else 4 for p in dropout]
        self.words = [rows * width // k if k else 0 for width, k in zip(HIDDEN, per)]
        # +1 for positives, -1 for negatives: the loss is softplus(-sign f) summed over both, over n.
        self.sign = torch.cat([torch.ones(BATCH, 1), -torch.ones(BATCH, 1)])
        if variant == "compile-hand":
            # Lets the compiler choose, product by product, between MKL and its own fused loops.
            options = {"max_autotune": True, "max_autotune_gemm_backends": "CPP,ATEN"}
            self.run = torch.compile(self.functional, dynamic=False, options=options)
            self.step = self.compiled_step

    def sync(self):
        """Copies the flat parameters back into the Net, for evaluation."""
        with torch.no_grad():
            for k, v in self.net.named_parameters():
                if k == "l1.weight":
                    v[:, :X_DIM], v[:, X_DIM:] = self.w["wx"], self.w["we"]
                else:
                    v.copy_(self.w[k])

    def chance(self):
        """The random numbers of one step's dropouts: integers from one cheap draw, widened to floats."""
        parts, at = [], 0
        words = torch.from_numpy(self.bits.random_raw(sum(self.words)).view(np.int64)) if sum(self.words) else None
        for width, n in zip(HIDDEN, self.words):
            kind = torch.int8 if n * 8 == 2 * BATCH * width else torch.int16
            parts.append(words[at : at + n].view(kind).float().view(-1, width) if n else None)
            at += n
        return parts

    def dropped_below(self, i):
        """Where layer i's random integers, taken as signed, start to be kept."""
        half = 128 if self.words[i] * 8 == 2 * BATCH * HIDDEN[i] else 32768
        return round(self.p[i] * 2 * half) - half - 0.5

    def keep(self, h, i, chance):
        if chance is not None:
            THRESHOLD(h, chance, self.dropped_below(i), grad_input=h)

    @torch.no_grad()
    def gradients(self, task, pos, neg):
        w, g, b = self.w, self.g, self.buffers
        s1, s2, s3 = self.scale
        chance = self.chance()
        x = torch.index_select(self.world.x, 0, torch.cat([pos, neg]), out=b["x"])
        e = torch.index_select(w["e.weight"], 0, task, out=b["e"])
        ep = torch.addmm(w["l1.bias"], e, w["we"].t(), out=b["ep"])
        h1 = torch.mm(x, w["wx"].t(), out=b["h1"])
        h1.view(2, BATCH, -1).add_(ep)
        self.keep(h1.relu_(), 0, chance[0])
        # Dropout's 1/(1-p) rides on the next product's alpha.
        h2 = torch.addmm(w["l2.bias"], h1, w["l2.weight"].t(), alpha=s1, out=b["h2"])
        self.keep(h2.relu_(), 1, chance[1])
        h3 = torch.addmm(w["l3.bias"], h2, w["l3.weight"].t(), alpha=s2, out=b["h3"])
        self.keep(h3.relu_(), 2, chance[2])
        f = torch.addmm(w["l4.bias"], h3, w["l4.weight"].t(), alpha=s3, out=b["f"]).mul_(self.sign)
        loss = F.softplus(-f).sum() / BATCH
        df = f.neg_().sigmoid_().mul_(self.sign).mul_(-1 / BATCH)

        mm = lambda a, c, s, out: torch.addmm(out, a, c, beta=0, alpha=s, out=out)
        mm(df.t(), h3, s3, g["l4.weight"])
        torch.sum(df, 0, out=g["l4.bias"])
        d3 = mm(df, w["l4.weight"], s3, b["d3"])
        d3 = THRESHOLD(d3, h3, 0, grad_input=d3)
        mm(d3.t(), h2, s2, g["l3.weight"])
        torch.sum(d3, 0, out=g["l3.bias"])
        d2 = mm(d3, w["l3.weight"], s2, b["d2"])
        d2 = THRESHOLD(d2, h2, 0, grad_input=d2)
        mm(d2.t(), h1, s1, g["l2.weight"])
        torch.sum(d2, 0, out=g["l2.bias"])
        d1 = mm(d2, w["l2.weight"], s1, b["d1"])
        d1 = THRESHOLD(d1, h1, 0, grad_input=d1)
        torch.mm(d1.t(), x, out=g["wx"])
        dep = torch.add(d1[:BATCH], d1[BATCH:], out=b["dep"])
        torch.mm(dep.t(), e, out=g["we"])
        torch.sum(dep, 0, out=g["l1.bias"])
        de = torch.mm(dep, w["we"], out=b["de"])
        g["e.weight"].zero_().index_add_(0, task, de)
        return loss

    def step(self, task, pos, neg):
        loss = self.gradients(task, pos, neg)
        torch._fused_adam_(
            [self.flat], [self.grad], [self.m], [self.v], [], [self.t.add_(1)],
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )
        return loss

    def functional(self, task, pos, neg, chance, flat, m, v, t, w):
        """The same step as one graph for the compiler: no buffers, Adam as plain arithmetic."""
        x = self.world.x.index_select(0, torch.cat([pos, neg]))
        e = w["e.weight"].index_select(0, task)
        ep = torch.addmm(w["l1.bias"], e, w["we"].t())
        drop = lambda h, i: h if chance[i] is None else torch.where(chance[i] > limit[i], h * self.scale[i], 0.0)
        limit = [self.dropped_below(i) for i in range(3)]
        h1 = drop((torch.mm(x, w["wx"].t()).view(2, BATCH, -1) + ep).view(2 * BATCH, -1).relu(), 0)
        h2 = drop(torch.addmm(w["l2.bias"], h1, w["l2.weight"].t()).relu(), 1)
        h3 = drop(torch.addmm(w["l3.bias"], h2, w["l3.weight"].t()).relu(), 2)
        f = (h3 * w["l4.weight"]).sum(1, keepdim=True) + w["l4.bias"]
        f = f * self.sign
        loss = F.softplus(-f).sum() / BATCH
        df = torch.sigmoid(-f) * self.sign * (-1 / BATCH)
        gate = lambda d, h, s: torch.where(h > 0, d * s, 0.0)
        g = {"l4.weight": (df * h3).sum(0, keepdim=True), "l4.bias": df.sum(0)}
        d3 = gate(df * w["l4.weight"], h3, self.scale[2])
        g["l3.weight"], g["l3.bias"] = torch.mm(d3.t(), h2), d3.sum(0)
        d2 = gate(torch.mm(d3, w["l3.weight"]), h2, self.scale[1])
        g["l2.weight"], g["l2.bias"] = torch.mm(d2.t(), h1), d2.sum(0)
        d1 = gate(torch.mm(d2, w["l2.weight"]), h1, self.scale[0])
        g["wx"] = torch.mm(d1.t(), x)
        dep = d1[:BATCH] + d1[BATCH:]
        g["we"], g["l1.bias"] = torch.mm(dep.t(), e), dep.sum(0)
        g["e.weight"] = torch.zeros_like(w["e.weight"]).index_add(0, task, torch.mm(dep, w["we"]))
        grad = torch.cat([g[k].reshape(-1) for k in w])
        t.add_(1)
        m.mul_(0.9).add_(grad, alpha=0.1)
        v.mul_(0.999).addcmul_(grad, grad, value=0.001)
        size = self.lr / (1 - 0.9**t)
        flat.sub_(size * m / (v.sqrt() / (1 - 0.999**t).sqrt() + 1e-8))
        return loss

    @torch.no_grad()
    def compiled_step(self, task, pos, neg):
        # The views are taken inside the graph's caller so that the graph sees one parameter tensor.
        return self.run(task, pos, neg, self.chance(), self.flat, self.m, self.v, self.t, self.w)


def engine(variant, world, dropout, lr):
    kind = Hand if variant in ("hand", "compile-hand") else Modules
    return kind(variant, world, dropout, lr)


@torch.no_grad()
def heldout_loss(run, world):
    if isinstance(run, Hand):
        run.sync()
    run.net.eval()
    task, pos, neg = world.heldout.t()
    f = [run.net(world.x[u], task) for u in (pos, neg)]
    run.net.train()
    return float(contrast(torch.cat(f)))


def main(args):
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    dropout = tuple(float(p) for p in args.dropout.split(","))
    world = World(args.data)
    args.batches = args.batches or -(-len(world.user) // BATCH)

    def fresh():
        torch.manual_seed(args.seed)
        return engine(args.variant, world, dropout, args.lr)

    run = fresh()
    start = heldout_loss(run, world)
    before = {k: v.clone() for k, v in run.net.state_dict().items()}
    # Warm-up, not timed: compilation, allocator, thread pool. Then back to the starting state.
    for _ in range(5):
        run.step(*world.draw(BATCH))
    reset(run, before, args)

    watch, held, train = Stopwatch(), [], []
    for _ in range(args.epochs):
        total = torch.zeros(())
        with watch:
            if run.whole_epoch:
                columns = world.draw(args.batches, BATCH)
                for i in range(args.batches):
                    total += run.step(*(c[i] for c in columns))
            else:
                for _ in range(args.batches):
                    total += run.step(*world.draw(BATCH))
        train.append(float(total) / args.batches)
        held.append(heldout_loss(run, world))
    positives = args.epochs * args.batches * BATCH
    report(
        work="train", peer="PyTorch", variant=args.variant, threads=args.threads, positives=positives,
        wall_seconds=watch.wall, cpu_seconds=watch.cpu, positives_per_second=positives / watch.wall,
        positives_per_cpu_second=positives / watch.cpu, heldout_start=start, heldout_loss=held, train_loss=train,
    )


def reset(run, before, args):
    """Undoes the warm-up steps without rebuilding the (possibly compiled) engine."""
    run.net.load_state_dict(before)
    if isinstance(run, Hand):
        for buffer in (run.m, run.v, run.t):
            buffer.zero_()
        state = run.net.state_dict()
        run.w["wx"].copy_(state["l1.weight"][:, :X_DIM])
        run.w["we"].copy_(state["l1.weight"][:, X_DIM:])
        for k in run.w:
            if k in state:
                run.w[k].copy_(state[k])
    else:
        for o in run.optimisers:
            o.state.clear()
    torch.manual_seed(args.seed + 1)


if __name__ == "__main__":
    main(ARGS)
