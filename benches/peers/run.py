#!/usr/bin/env python3
"""Runs cadet beside PyTorch, ONNX Runtime and Polars on this machine and writes a table of ratios.

Every sample is a fresh process, pinned to as many cores as it has threads. A peer's variants fall into kinds
(PyTorch with autograd, PyTorch with a backward pass derived by hand, ...). First the heats: every variant once.
Then the rounds: cadet and the best variant of each kind in turn, A B C A B C ..., and the ratio is taken within
each round. Standard library only; the children use what requirements.txt pins.
"""

import argparse
import datetime
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(HERE, "data")
BINARY = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "cadet-bench")
WORKS = ("train", "threads", "images", "score", "read", "scale")
OURS = "cadet"
CHANCE = 2 * math.log(2)
WORSE_BY = 0.005  # a mean held-out loss this much above the peer's is flagged, where the seeds' noise is smaller

CALM = 0.3  # cores
TIMEOUT = 1800  # seconds for one child

# name, learning rate, dropout, epochs in full and quick runs, timed or only compared by loss
SETTINGS = (
    ("paper: Adam 1e-4, dropout .5/.5/.3", "1e-4", "0.5,0.5,0.3", 2, 1, True),
    ("plain: Adam 1e-3, no dropout", "1e-3", "0,0,0", 2, 1, True),
    ("loss only: Adam 1e-3, dropout .5/.5/.3", "1e-3", "0.5,0.5,0.3", 8, 0, False),
)
LOSS_ROUNDS = 10  # with dropout the net leaves chance after 2 to 6 epochs, by seed: a few runs say nothing
HEAT = ["--batches", "150"]
SHORT = ["--batches", "300"]  # rounds on several threads: enough for a rate, while losses are compared on one
PASSIVE, SLEEPING = ", passive wait", ["env", "OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=0"]

# kind -> its variants; the best of each kind is measured in every round
TRAIN_KINDS = {
    "PyTorch, autograd": ("dense", "sparse", "split", "compile"),
    "PyTorch, hand-derived backward": ("hand", "compile-hand"),
}
IMAGE_VARIANTS = ("plain", "channels-last", "compile")
IMAGE_STEPS, QUICK_STEPS = 12, 3
GOAL = 0.93  # mean AUC on the validation images that are generated
CIFAR_GOAL = 0.80  # and on those of CIFAR10
# oneDNN's AMX code stops with an illegal instruction on some virtual machines; this is the best it has beside it.
NO_AMX, WITHOUT_AMX = ", no AMX", ["env", "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"]
SCORE_KINDS = {
    "PyTorch, concatenated rows": ("concat",),
    "PyTorch, split first layer": ("split", "onednn", "compile"),
    "ONNX Runtime, concatenated rows": ("concat",),
    "ONNX Runtime, split first layer": ("split",),
}
SCORE_SCRIPT = {"PyTorch": "score_torch.py", "ONNX Runtime": "score_ort.py"}

# exposures, users and items (both; None: a hundredth of the exposures), threads (None: all of --threads)
SCALES = ((1_000_000, None, None), (10_000_000, None, None), (10_000_000, 1_000_000, 2), (100_000_000, 1_000_000, 2))


def say(*words, sep=" "):
    print(*words, sep=sep, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- one sample


def busy_seconds():
    """CPU seconds the whole machine has spent working since it started."""
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


class Runner:
    def __init__(self, python, ours, patience=0):
        self.python, self.ours, self.patience = python, ours, patience
        self.cores = sorted(os.sched_getaffinity(0))
        self.samples, self.failures = [], []
        self.seeded = None

    def wait_for_calm(self):
        """Waits, out of a budget for the whole run, until others use less than CALM cores."""
        while self.patience > 0:
            before = busy_seconds()
            time.sleep(1)
            self.patience -= 1
            if busy_seconds() - before < CALM:
                return

    def run(self, argv, threads, **labels):
        """Runs one child and keeps its JSON line, with what the kernel says it used. None if it failed."""
        cores = self.cores[:threads]
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(DATA, "inductor"))
        for name in ("OMP", "MKL", "OPENBLAS", "RAYON"):
            env[name + "_NUM_THREADS"] = str(threads)
        env["POLARS_MAX_THREADS"] = str(threads)
        self.wait_for_calm()
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        load, busy = os.getloadavg()[0], busy_seconds()
        try:
            child = subprocess.run(
                argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
        except subprocess.TimeoutExpired:
            say(f"    FAILED (more than {TIMEOUT} s): {' '.join(argv)}")
            self.failures.append({"argv": argv, "problem": "timeout", "stderr": [], **labels})
            return None
        after, busy, wall = resource.getrusage(resource.RUSAGE_CHILDREN), busy_seconds() - busy, time.perf_counter() - start
        try:
            if child.returncode != 0:
                raise ValueError(f"exit {child.returncode}")
            sample = json.loads([l for l in child.stdout.splitlines() if l.startswith("{")][-1])
        except (ValueError, IndexError) as problem:
            lines = child.stderr.strip().splitlines()[-3:]
            say(f"    FAILED ({problem}): {' '.join(argv)}", *lines, sep="\n      ")
            self.failures.append({"argv": argv, "problem": str(problem), "stderr": lines, **labels})
            return None
        sample.update(labels, threads=threads, load_before=load, process_wall_seconds=wall)
        sample["process_cpu_seconds"] = sum(
            getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime")
        )
        sample["others_cores"] = max(0.0, busy - sample["process_cpu_seconds"]) / wall
        self.samples.append(sample)
        amount = sample.get("positives") or sample.get("pairs") or sample.get("rows") or sample.get("exposures")
        sample["amount"] = amount
        cpu = sample.get("cpu_seconds") or sample["process_cpu_seconds"]
        sample["per_wall"], sample["per_cpu"] = amount / sample["wall_seconds"], amount / cpu
        say(f"    {labels['who']:28} {threads} thread(s)  {human(sample['per_wall'])}/s"
            f"  {human(sample['per_cpu'])}/cpu-s  others use {sample['others_cores']:.1f} cores")
        return sample

    def takes_seed(self):
        """Whether the Rust program can vary its seed (then rounds use different seeds on both sides)."""
        if self.seeded is None:
            text = subprocess.run([BINARY, "train", "--help"], capture_output=True, text=True)
            self.seeded = "--seed" in text.stdout + text.stderr
        return self.seeded


def human(x):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if x >= size:
            return f"{x / size:.3g} {unit}" if x / size < 1000 else f"{x / size:.0f} {unit}"
    return f"{x:.3g} "


def kind_of(who):
    """'PyTorch, autograd' of 'PyTorch, autograd: split, passive wait'."""
    return who.split(":")[0]


def winners(runner, key, threads, whos):
    """Of each kind the variant with the best rate in its heat."""
    measure = "per_cpu" if threads == 1 else "per_wall"
    heat = {s["who"]: s[measure] for s in runner.samples
            if (s["key"], s["threads"], s["phase"]) == (key, threads, "heat") and s["who"] in whos}
    best = {}
    for who in sorted(heat, key=heat.get, reverse=True):
        best.setdefault(kind_of(who), who)
    return [best[kind] for kind in dict.fromkeys(map(kind_of, whos)) if kind in best]


def heats_and_rounds(runner, key, ours, peers, threads, args):
    """`ours` and each of `peers` (label -> argv from (heat, seed)) in turn. Labels are 'kind: variant'."""
    if threads > 1:
        # What won its heat on one thread, with spinning and with sleeping OpenMP threads; all, if there was no heat.
        peers = {w: peers[w] for w in winners(runner, key, 1, peers) or peers}
        for who, argv in list(peers.items()):
            if who.startswith("PyTorch"):
                peers[who + PASSIVE] = lambda *a, argv=argv: [*SLEEPING, *argv(*a)]
    alone = len(peers) == len(set(map(kind_of, peers)))  # nothing to choose: no heats
    for who, argv in peers.items() if not alone else ():
        runner.run(argv(True, 1), threads, who=who, key=key, phase="heat", round=-1)
    chosen = peers if alone or args.all_variants else winners(runner, key, threads, peers)
    field = ([(OURS, ours)] if runner.ours else []) + [(w, peers[w]) for w in chosen]
    start = time.perf_counter()
    for r in range(args.rounds):
        for who, argv in field[r % len(field) :] + field[: r % len(field)]:
            runner.run(argv(False, r + 1), threads, who=who, key=key, phase="round", round=r)
        if time.perf_counter() - start > args.group_seconds:
            say(f"    {r + 1} rounds took more than {args.group_seconds} s: no more of {key}")
            break


# ---------------------------------------------------------------- the works


def train(runner, args):
    folder = os.path.join(DATA, "train")
    for name, lr, dropout, epochs, quick_epochs, timed in SETTINGS:
        epochs = quick_epochs if args.quick else args.epochs or epochs
        if not epochs:
            continue
        key = "train, " + name
        say(key)

        def common(threads, epochs, seed=None):
            argv = ["--data", folder, "--threads", str(threads), "--epochs", str(epochs), "--lr", lr, "--dropout", dropout]
            return argv + (["--seed", str(seed)] if seed else [])

        for threads in args.threads if timed else args.threads[:1]:
            ours = lambda _, seed: [BINARY, "train", *common(threads, epochs, seed if runner.takes_seed() else None)]
            script = [runner.python, os.path.join(HERE, "train_torch.py"), "--variant"]
            peers = {
                f"{kind}: {v}": lambda heat, seed, v=v: [
                    *script, v, *common(threads, 1 if heat or threads > 1 else epochs, seed),
                    *(HEAT if heat else SHORT if threads > 1 else []),
                ]
                for kind, variants in TRAIN_KINDS.items()
                for v in variants
            }
            if timed:
                heats_and_rounds(runner, key, ours, peers, threads, args)
                continue
            peer = "PyTorch, hand-derived backward: hand"
            for r in range(LOSS_ROUNDS):
                for who, argv in ([(OURS, ours)] if runner.ours else []) + [(peer, peers[peer])]:
                    runner.run(argv(False, r + 1), threads, who=who, key=key, phase="loss", round=r)


def has_amx():
    return "amx_bf16" in open("/proc/cpuinfo").read()


def images(runner, args):
    """The image net: time per step with Algorithm 1's negatives on both sides, then time to a validation AUC, cadet with the
    shared trunk beside PyTorch and cadet itself running Algorithm 1. Like precisions only."""
    script = os.path.join(HERE, "images_torch.py")
    generated, cifar = os.path.join(DATA, "images"), os.path.join(DATA, "cifar10")
    for precision in ("f32", "bf16") if has_amx() else ("f32",):

        def peers(threads, steps, folder, *more):
            common = ["--data", folder, "--threads", str(threads), "--precision", precision, "--steps", str(steps), *more]
            found = {}
            for v in IMAGE_VARIANTS:
                argv = lambda heat, seed, v=v: [runner.python, script, "--variant", v, *common, "--seed", str(seed)]
                found[f"PyTorch {precision}: {v}"] = argv
                if precision == "bf16":
                    found[f"PyTorch {precision}: {v}{NO_AMX}"] = lambda *a, argv=argv: [*WITHOUT_AMX, *argv(*a)]
            return common, found

        for threads in args.threads:
            key = f"image net, {precision}"
            say(key)
            common, found = peers(threads, QUICK_STEPS if args.quick else IMAGE_STEPS, generated)
            ours = lambda _, seed: [BINARY, "images", *common, "--seed", str(seed)]
            heats_and_rounds(runner, key, ours, found, threads, args)
        if args.quick:
            continue
        best = winners(runner, f"image net, {precision}", args.threads[0], peers(1, 1, generated)[1])
        threads = args.threads[-1]
        goals = [(generated, GOAL, "", 10)] + [(cifar, CIFAR_GOAL, " on CIFAR10", 25)] * bool(args.cifar10)
        for folder, goal, where, every in goals:
            key = f"image net to an AUC of {goal}{where}, {precision}"
            say(key)
            common, found = peers(threads, 5000, folder, "--until", str(goal), "--every", str(every))
            own = lambda seed, negatives: [BINARY, "images", *common, "--seed", str(seed), "--negatives", negatives]
            rivals = {w: found[w] for w in best}
            if runner.ours:
                rivals[f"cadet {precision}, Algorithm 1: drawn"] = lambda _, seed: own(seed, "drawn")
            heats_and_rounds(runner, key, lambda _, seed: own(seed, "batch"), rivals, threads, args)


def score(runner, args):
    folder = os.path.join(DATA, "train")
    for threads in args.threads:
        say("score")
        common = ["--data", folder, "--threads", str(threads)]
        # A heat's process measures as a round's does: trials of block sizes, then passes.
        passes = lambda heat: ["--passes", "2"] if args.quick or heat else []
        peers = {
            f"{kind}: {v}": lambda heat, _, script=SCORE_SCRIPT[kind.split(",")[0]], v=v: [
                runner.python, os.path.join(HERE, script), "--variant", v, *common, *passes(heat)
            ]
            for kind, variants in SCORE_KINDS.items()
            for v in variants
        }
        heats_and_rounds(runner, "score", lambda *_: [BINARY, "score", *common, "--passes", "3"], peers, threads, args)


def read(runner, args):
    for kind in ("csv", "parquet"):
        file = os.path.join(DATA, "read", ("quick." if args.quick else "exposures.") + kind)
        with open(file, "rb") as f:  # into the page cache
            while f.read(1 << 24):
                pass
        for threads, times in [(t, times) for t in args.threads for times in ([], ["--times"])]:
            key = f"read {kind}" + (" with times" if times else "")
            say(key)
            common = ["--file", file, "--threads", str(threads), *times]
            polars = [runner.python, os.path.join(HERE, "read_polars.py"), *common]
            peers = {"Polars, columns: read_" + kind: lambda *_: polars}
            for how in () if times else ("packed", "group_by"):
                peers["Polars, sorted into rows: " + how] = lambda *_, how=how: [*polars, "--rows", how]
            heats_and_rounds(runner, key, lambda *_: [BINARY, "read", *common], peers, threads, args)


def several_threads(runner, args):
    """Training on one thread and on as many as there are, in turn."""
    if not runner.ours or max(args.threads) == 1:
        return
    _, lr, dropout, *_ = SETTINGS[0]
    argv = [BINARY, "train", "--data", os.path.join(DATA, "train"), "--epochs", "1" if args.quick else "6"]
    argv += ["--lr", lr, "--dropout", dropout]
    say("threads")
    for r in range(args.rounds * (1 if args.quick else 5)):
        for count in sorted({1, max(args.threads)}, reverse=r % 2 == 1):
            runner.run([*argv, "--threads", str(count)], count, who=OURS, key="threads", phase="round", round=r)


def scale(runner, args):
    if not runner.ours:
        return
    for exposures, sides, only in SCALES[: 1 if args.quick else None]:
        for threads in args.threads if only is None else [t for t in args.threads if t == only]:
            say(f"scale {exposures:,}")
            argv = [BINARY, "scale", "--exposures", str(exposures), "--threads", str(threads), "--batch", "1024,8192"]
            argv += ["--users", str(sides), "--items", str(sides)] if sides else []
            runner.run(argv, threads, who=OURS, key="scale", phase="round", round=0)


# ---------------------------------------------------------------- the report


def median_of(samples, field):
    return statistics.median(s[field] for s in samples)


def ratios(samples, who, field):
    """cadet's rate over `who`'s, round by round."""
    by_round = {}
    for s in samples:
        if s["phase"] == "round" and s["who"] in (OURS, who):
            by_round.setdefault(s["round"], {})[s["who"]] = s[field]
    return [r[OURS] / r[who] for r in by_round.values() if len(r) == 2]


def spread(values):
    if not values:
        return "–"
    text = f"{statistics.median(values):.2f}×"
    return text + (f" ({min(values):.2f}–{max(values):.2f})" if len(values) > 1 else "")


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return lines + ["| " + " | ".join(r) + " |" for r in rows]


def summarise(runner, args):
    """(markdown lines, summary for the JSON file)"""
    out, summary, headline = [], [], []
    groups = dict.fromkeys((s["key"], s["threads"]) for s in runner.samples if s["phase"] in ("heat", "round"))
    for key, threads in groups:
        if key in ("threads", "scale"):
            continue
        mine = [s for s in runner.samples if (s["key"], s["threads"]) == (key, threads)]
        field = "per_cpu" if threads == 1 else "per_wall"
        out += ["", f"### {key}, {threads} thread{'s' * (threads > 1)}", ""]
        rows, best = [], {}
        for who in dict.fromkeys(s["who"] for s in mine):
            own = [s for s in mine if s["who"] == who]
            rounds = [s for s in own if s["phase"] == "round"]
            used = rounds or own
            note = f"{len(rounds)} rounds" if rounds else "heat only"
            extra = f", block {used[-1]['block']}" if "block" in used[-1] else ""
            wall, cpu = ratios(mine, who, "per_wall"), ratios(mine, who, "per_cpu")
            if who == OURS:
                wall = cpu = []
            else:
                peer = kind_of(who)
                rate = median_of(used, field)
                if rounds and (peer not in best or rate > best[peer][0]):
                    best[peer] = (rate, who, wall, cpu)
            rows.append([
                who, human(median_of(used, "per_wall")) + "/s", human(median_of(used, "per_cpu")) + "/s",
                spread(wall), spread(cpu), note + extra,
            ])
            summary.append({
                "key": key, "threads": threads, "who": who, "samples": len(used), "per_wall": median_of(used, "per_wall"),
                "per_cpu": median_of(used, "per_cpu"), "ratios_wall": wall, "ratios_cpu": cpu,
            })
        out += table(["", "per second", "per CPU-second", "cadet ÷ it, wall", "cadet ÷ it, CPU", ""], rows)
        for peer, (rate, who, wall, cpu) in best.items():
            # On several threads a peer that had to share its cores is not a peer: its ratio is shown, but not to quote.
            shared = [s for s in mine if s["phase"] == "round" and s["who"] in (who, OURS) and s["others_cores"] > CALM]
            headline.append([
                f"{key}, {threads} thread{'s' * (threads > 1)}", who, human(rate) + "/s",
                f"**{spread(cpu)}**" if threads == 1 else "–",
                spread(wall) if threads == 1 else "disturbed: " + spread(wall) if shared else f"**{spread(wall)}**",
            ])
    top = ["", "## cadet ÷ the best variant of each kind of peer", ""]
    top += table(["work", "kind: its best variant", "its rate", "cadet ÷ it, by CPU-second", "cadet ÷ it, by wall clock"], headline)
    top += ["", "Bold: the figure to quote (1 thread by CPU-second, more by wall clock). Disturbed: others used the cores meanwhile, not to quote. Median of the rounds' ratios, lowest–highest. Above 1: cadet is faster."]
    return top + losses(runner, summary) + scores(runner) + logs_read(runner) + speed_up(runner) + scaling(runner) + ["", "## Every variant"] + out, summary


def losses(runner, summary):
    rows, flags = [], []
    # On several threads the peers' rounds are shorter than an epoch.
    groups = dict.fromkeys((s["key"], s["threads"]) for s in runner.samples if "heldout_loss" in s and s["threads"] == 1)
    for key, threads in groups:
        mine = [s for s in runner.samples if (s["key"], s["threads"]) == (key, threads) and s["phase"] != "heat"]
        last = lambda own: [s["heldout_loss"][-1] for s in own]
        ours = last([s for s in mine if s["who"] == OURS])
        theirs = last([s for s in mine if s["who"] != OURS])
        if not theirs:
            continue
        show = lambda v: f"{statistics.mean(v):.4f} ({min(v):.4f}–{max(v):.4f}, {len(v)} seeds)" if v else "–"
        verdict = "–"
        if ours:
            mean = statistics.mean(theirs)
            gap = statistics.mean(ours) / mean - 1
            several = len(ours) > 1 and len(theirs) > 1
            noise = 2 * math.sqrt(sum(statistics.variance(v) / len(v) for v in (ours, theirs))) / mean if several else 0.0
            worse = gap > max(WORSE_BY, noise)
            verdict = f"{gap:+.2%}" + (f" ± {noise:.2%}" if several else "") + (" **WORSE**" if worse else "")
            if worse:
                flags.append(f"{key}, {threads} thread(s): cadet's held-out loss is {gap:.2%} above PyTorch's")
        epochs = max(len(s["heldout_loss"]) for s in mine)
        rows.append([f"{key}, {threads} thread{'s' * (threads > 1)}", str(epochs), show(ours), show(theirs), verdict])
        summary.append({"key": key, "threads": threads, "epochs": epochs, "heldout_ours": ours, "heldout_pytorch": theirs})
    if not rows:
        return []
    lines = ["", "## Held-out loss after equal epochs", ""]
    lines += table(["setting", "epochs", "cadet", "PyTorch, all its runs", "cadet's excess"], rows)
    lines += ["", f"Chance is 2·ln 2 = {CHANCE:.4f}; a setting still at chance says nothing. Same 50,000 held-out triples. "
              f"Mean (lowest–highest); behind ± two standard errors of the difference. "
              f"WORSE marks an excess above {WORSE_BY:.1%} and above these."]
    for flag in flags:
        say("WARNING:", flag)
    return lines


def scores(runner):
    sums = {s["who"]: s["checksum"] for s in runner.samples if s["key"] == "score" and "checksum" in s}
    if OURS not in sums or len(sums) < 2:
        return []
    theirs = statistics.median(v for k, v in sums.items() if k != OURS)
    same = abs(sums[OURS] - theirs) <= 1e-4 * abs(theirs)
    return ["", f"Sum of all scores: cadet {sums[OURS]:.1f}, peers {theirs:.1f}: "
            + ("the same weights, the same scores." if same else "**not the same** (cadet used other weights, or is wrong).")]


def logs_read(runner):
    lines = []
    for key in dict.fromkeys(s["key"] for s in runner.samples if s["key"].startswith("read") and "checksum" in s):
        sums = {s["who"]: s["checksum"] for s in runner.samples if s["key"] == key}
        if OURS in sums and set(sums.values()) != {sums[OURS]}:
            lines.append(f"- {key}: **not the same rows**: " + ", ".join(f"{who} {v}" for who, v in sums.items()))
        elif OURS in sums and len(sums) > 1:
            lines.append(f"- {key}: the same rows, checksum {sums[OURS]}")
    return ["", *lines] if lines else []


def speed_up(runner):
    by_round = {}
    for s in (s for s in runner.samples if s["key"] == "threads"):
        by_round.setdefault(s["round"], {})[s["threads"]] = s
    pairs = [(r[1], r[max(r)]) for r in by_round.values() if len(r) == 2]
    if not pairs:
        return []
    rate = lambda side: human(median_of([pair[side] for pair in pairs], "per_wall")) + "/s"
    gain = spread([many["per_wall"] / one["per_wall"] for one, many in pairs])
    busy = max(s["others_cores"] for pair in pairs for s in pair)
    count = pairs[0][1]["threads"]
    row = [f"train, the paper's dropout, {len(pairs)} pairs", rate(0), rate(1), "disturbed: " + gain if busy > CALM else f"**{gain}**", f"{busy:.1f}"]
    header = ["work", "1 thread", f"{count} threads", f"{count} threads ÷ 1, by wall clock", "most cores used by others"]
    return ["", "## Several threads beside one (cadet alone)", ""] + table(header, [row]) + ["", "In turn. Median of the pairs' ratios, lowest–highest."]


def scaling(runner):
    mine = [s for s in runner.samples if s["key"] == "scale"]
    if not mine:
        return []
    rows = [[f"{s['exposures']:,}", f"{s['users']:,}", f"{s['items']:,}", str(s["threads"]),
             *(human(r["positives_per_second"]) + "/s" for r in s["runs"]),
             f"{s['generate_seconds']:.1f} s", f"{s['build_seconds']:.1f} s", f"{s['train_seconds']:.1f} s",
             f"{s['peak_rss_bytes'] / 2**20:,.0f} MiB", f"{s['others_cores']:.1f}"] for s in mine]
    header = ["exposures", "users", "items", "threads", "positives, batch 1,024", "batch 8,192", "generate", "sort into rows",
              "one epoch, batch 1,024", "peak memory", "cores used by others"]
    note = "32 features, net 32-32-16 without dropout. One sample each. Batch 8,192 over at most 10M positives."
    return ["", "## Scale (cadet alone)", ""] + table(header, rows) + ["", note]


def command(*argv, cwd=ROOT):
    try:
        return subprocess.run(argv, cwd=cwd, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def environment(python, args):
    cpuinfo = open("/proc/cpuinfo").read()
    flags = set(re.search(r"^flags\s*: (.*)$", cpuinfo, re.M).group(1).split()) if "flags" in cpuinfo else set()
    found = json.loads(command(python, "-c", (
        "import json, importlib.metadata as m;"
        "print(json.dumps({n: m.version(n) for n in ('torch','onnxruntime','onnx','polars','pyarrow','numpy')}))"
    )) or "{}")
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": (re.search(r"model name\s*: (.*)", cpuinfo) or ["", platform.processor()])[1],
        "cores": len(os.sched_getaffinity(0)),
        "simd": [f for f in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16") if f in flags],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(), "python": command(python, "-V"), "versions": found,
        "rustc": command("rustc", "-V"), "commit": command("git", "rev-parse", "--short", "HEAD"),
        "dirty": bool(command("git", "status", "--porcelain", "--untracked-files=no")),
        "load_average_before": os.getloadavg(),
        "settings": {k: v for k, v in vars(args).items() if k not in ("python", "out")},
    }


def write(runner, args, env, ours):
    body, summary = summarise(runner, args)
    env["load_average_after"] = os.getloadavg()
    loads = [s["load_before"] for s in runner.samples]
    others = [s["others_cores"] for s in runner.samples]
    disturbed = sum(s["others_cores"] > CALM and s["threads"] > 1 for s in runner.samples)
    head = [
        f"# cadet beside its peers, {env['date'][:10]}", "",
        f"- machine: {env['cpu']}, {env['cores']} cores, {env['memory_gib']} GiB, {' '.join(env['simd'])}",
        f"- versions: " + ", ".join(f"{k} {v}" for k, v in env["versions"].items()) + f"; {env['python']}; {env['rustc']}",
        f"- cadet: commit {env['commit']}{' + local changes' if env['dirty'] else ''}",
        f"- load average while measuring: {min(loads):.1f} to {max(loads):.1f} (median {statistics.median(loads):.1f})",
        f"- cores used by other programs meanwhile: {min(others):.1f} to {max(others):.1f} (median {statistics.median(others):.1f})"
        + (f"; **{disturbed} of the samples on several threads were disturbed (more than {CALM} cores): "
           "read those by wall clock with care**" if disturbed else ""),
        f"- settings: {args.rounds} rounds, threads {args.threads}" + (f", {env['seconds']} s in all" if "seconds" in env else "")
        + (", **quick run: not for quoting**" if args.quick else ""),
    ]
    if not ours:
        head += ["", "**The Rust program `target/release/cadet-bench` was missing: peers only, no ratios.**"]
    if runner.failures:
        head += ["", f"**{len(runner.failures)} children failed**; see `failures` in the JSON file."]
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, env["date"][:10] + ("-quick" if args.quick else ""))
    text = "\n".join(head + body) + "\n"
    with open(stem + ".md", "w") as f:
        f.write(text)
    with open(stem + ".json", "w") as f:
        root = ROOT + os.sep
        record = {"environment": env, "summary": summary, "samples": runner.samples, "failures": runner.failures}
        f.write(json.dumps(record, indent=1).replace(root, ""))
        f.write("\n")
    return text, stem


# ---------------------------------------------------------------- setting up


def drop_broken_cache():
    """Removes libraries that a torch.compile left empty when it was stopped: they would fail every later run."""
    for folder, _, names in os.walk(os.path.join(DATA, "inductor")):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".so") and os.path.getsize(path) == 0:
                os.remove(path)


def environment_python(args):
    if args.python:
        return args.python
    folder = os.path.join(HERE, ".env")
    python, done = os.path.join(folder, "bin", "python"), os.path.join(folder, "installed.txt")
    wanted = open(os.path.join(HERE, "requirements.txt")).read()
    if not os.path.exists(done) or open(done).read() != wanted:
        say("installing the pinned peers into", folder)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", os.path.join(HERE, "requirements.txt")], check=True)
        with open(done, "w") as f:
            f.write(wanted)
    return python


def rust_binary(args):
    """Whether the Rust side is there, building it first unless told not to."""
    if not args.no_build:
        say("cargo build --release --bin cadet-bench")
        built = subprocess.run(["cargo", "build", "--release", "--bin", "cadet-bench"], cwd=ROOT)
        if built.returncode:
            say("cargo build failed")
            return False
    return os.path.exists(BINARY)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WORKS), help="some of " + ",".join(WORKS))
    parser.add_argument("--rounds", type=int, help="rounds after the heats (default 3, quick 1; of `threads` five times as many)")
    parser.add_argument("--group-seconds", type=int, default=60, help="no further round of a comparison after so long")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--epochs", type=int, help="epochs of every training setting (default: 2, loss only 8)")
    parser.add_argument("--quick", action="store_true", help="1 epoch, 1 round, small files: does it run?")
    parser.add_argument("--all-variants", action="store_true", help="every variant in every round")
    parser.add_argument("--out", default=os.path.join(HERE, "results"))
    parser.add_argument("--python", help="an interpreter that has the peers (default: a venv in .env)")
    parser.add_argument("--no-build", action="store_true", help="use target/release/cadet-bench as it is")
    parser.add_argument("--patience", type=int, default=0, help="seconds, in all, to wait for a calm machine before samples")
    parser.add_argument("--cifar10", metavar="DIR", help="CIFAR10's binary files: time to an AUC on them as well")
    parser.add_argument("--no-check", action="store_true", help="skip check.py")
    args = parser.parse_args()
    args.only = args.only.split(",")
    unknown = set(args.only) - set(WORKS)
    if unknown:
        parser.error(f"unknown work {sorted(unknown)}, choose from {','.join(WORKS)}")
    args.threads = [int(t) for t in args.threads.split(",")]
    if max(args.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"{max(args.threads)} threads on {len(os.sched_getaffinity(0))} cores would not be honest")
    args.rounds = args.rounds if args.rounds is not None else 1 if args.quick else 3

    start = time.perf_counter()
    python = environment_python(args)
    ours = rust_binary(args)
    if not ours:
        say("*" * 78, f"MISSING: {BINARY}", "Only the peers will be measured; there will be no ratios.", "*" * 78, sep="\n")
    make_data = [python, os.path.join(HERE, "make_data.py")] + (["--cifar10", args.cifar10] if args.cifar10 else [])
    subprocess.run(make_data, check=True, stdout=sys.stderr)
    drop_broken_cache()
    if not args.no_check:
        say("check.py")
        checked = subprocess.run([python, os.path.join(HERE, "check.py")], capture_output=True, text=True)
        if checked.returncode:
            sys.exit("the peers disagree with each other:\n" + checked.stdout + checked.stderr[-2000:])
    env = environment(python, args)
    runner = Runner(python, ours, args.patience)
    try:
        for work in args.only:
            {"train": train, "threads": several_threads, "images": images, "score": score, "read": read, "scale": scale}[work](runner, args)
            say(f"{work}: done after {time.perf_counter() - start:.0f} s")
            if runner.samples:
                write(runner, args, env, ours)
    except KeyboardInterrupt:
        say("interrupted: writing what there is")
    if not runner.samples:
        sys.exit("nothing was measured")
    env["seconds"] = round(time.perf_counter() - start)
    text, stem = write(runner, args, env, ours)
    print(text)
    say("wrote", stem + ".md and .json")


if __name__ == "__main__":
    main()
