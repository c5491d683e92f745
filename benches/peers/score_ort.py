#!/usr/bin/env python3
"""W3: the same scores with ONNX Runtime, graphs written with onnx.helper.

concat    input concat(x, e) rows, built by numpy inside the timed loop
split     inputs Wx.x + b and We.e; broadcast sum, ReLU and the small layers in the graph; output bound in place
"""

import argparse

from common import DATA, TASKS, USERS, X_DIM, Stopwatch, pin, report

VARIANTS = ("concat", "split")
BLOCKS = (1, 2, 4, 8, 16, 40)
PASSES = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", default=DATA + "/train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--block", type=int)
    parser.add_argument("--passes", type=int, default=PASSES)
    return parser.parse_args()


if __name__ == "__main__":
    ARGS = arguments()
    pin(ARGS.threads)

import os
import statistics

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def load(folder):
    return np.load(os.path.join(folder, "x.npy")), dict(np.load(os.path.join(folder, "net.npz")))


def graph(variant, w, block):
    gemm = lambda i, a, out: helper.make_node("Gemm", [a, f"w{i}", f"b{i}"], [out], transB=1)
    relu = lambda a, out: helper.make_node("Relu", [a], [out])
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    tasks = len(w["e"])
    rows = block * tasks
    constants = {k: w[k] for k in ("w2", "b2", "w3", "b3", "w4", "b4")}
    if variant == "concat":
        inputs = [info("rows", rows, w["w1"].shape[1])]
        constants.update(w1=w["w1"], b1=w["b1"])
        head = [gemm(1, "rows", "z1"), relu("z1", "h1")]
    else:
        inputs = [info("hx", block, 1, 32), info("he", 1, tasks, 32)]
        constants["flat"] = np.array([rows, 32], np.int64)
        head = [
            helper.make_node("Add", ["hx", "he"], ["z"]),
            relu("z", "h0"),
            helper.make_node("Reshape", ["h0", "flat"], ["h1"]),
        ]
    nodes = head + [
        gemm(2, "h1", "z2"), relu("z2", "h2"), gemm(3, "h2", "z3"), relu("z3", "h3"), gemm(4, "h3", "f"),
    ]
    initialisers = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    body = helper.make_graph(nodes, "ratio", inputs, [info("f", rows, 1)], initialisers)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def session(variant, w, block, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return ort.InferenceSession(graph(variant, w, block), options, providers=["CPUExecutionProvider"])


def score(run, variant, x, w, block):
    out = np.empty((len(x), len(w["e"])), np.float32)
    binding, tasks = run.io_binding(), len(w["e"])

    def bind(put, name, a):
        put(name, "cpu", 0, np.float32, a.shape, a.ctypes.data)

    if variant == "concat":
        rows = np.empty((block, tasks, w["w1"].shape[1]), np.float32)
        rows[:, :, X_DIM:] = w["e"]
        bind(binding.bind_input, "rows", rows.reshape(block * tasks, -1))
    else:
        hx = (x @ w["w1"][:, :X_DIM].T + w["b1"]).astype(np.float32)
        he = np.ascontiguousarray(w["e"] @ w["w1"][:, X_DIM:].T)
        bind(binding.bind_input, "he", he[None])
    for i in range(0, len(x), block):
        if variant == "concat":
            rows[:, :, :X_DIM] = x[i : i + block, None]
        else:
            bind(binding.bind_input, "hx", hx[i : i + block, None])
        bind(binding.bind_output, "f", out[i : i + block].reshape(-1, 1))
        run.run_with_iobinding(binding)
    return out


def main(args):
    x, w = load(args.data)
    blocks = [args.block] if args.block else [b for b in BLOCKS if USERS % b == 0]
    trials = []
    for block in blocks:
        run = session(args.variant, w, block, args.threads)
        score(run, args.variant, x[: block * 10], w, block)
        part = x[: len(x) // 16 // block * block]
        cost = []
        for _ in range(2 if len(blocks) > 1 else 0):
            with Stopwatch() as watch:
                score(run, args.variant, part, w, block)
            cost.append((watch.cpu if args.threads == 1 else watch.wall) / len(part))
        trials.append((min(cost, default=0.0), block, run))
    _, block, run = min(trials, key=lambda t: t[0])
    score(run, args.variant, x, w, block)
    passes = []
    for _ in range(args.passes):
        with Stopwatch() as watch:
            out = score(run, args.variant, x, w, block)
        passes.append((watch.wall, watch.cpu))
    wall, cpu = (statistics.median(p[i] for p in passes) for i in (0, 1))
    report(
        work="score", peer="ONNX Runtime", variant=args.variant, threads=args.threads, pairs=USERS * TASKS,
        wall_seconds=wall, cpu_seconds=cpu, checksum=float(out.sum(dtype=np.float64)), block=block, passes=passes,
    )


if __name__ == "__main__":
    main(ARGS)
