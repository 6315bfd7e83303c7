#!/usr/bin/env python3
"""LeNet, batch 64, forward + backward: kinet against PyTorch on the CPU, in one interleaved run.

usage: bench/compare_torch.py [--kinet build/kinet] [--threads 1] [--rounds 5] [--iterations 200]

The two programs alternate, so that a slow spell of a shared machine hits both; what counts is the
ratio. Wall time: median over the passes of a round. CPU time: of all threads, an iteration, which a
busy machine disturbs least when --threads is 1. For kinet it is the difference between a long and a
short run of `kinet time`, so that set-up does not count; data reading does (PyTorch gets its images
in memory). PyTorch runs as it is fastest: OpenMP and OpenBLAS held to the same number of threads, the
heap kept by malloc. Needs PyTorch (Debian: python3-torch; then run with /usr/bin/python3).
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time


def torch_round(threads, iterations):
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2, ceil_mode=True), nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2, 2, ceil_mode=True), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
        nn.Linear(500, 10)).train()
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    walls, cpu = [], 0.0
    for i in range(iterations + 5):
        net.zero_grad(set_to_none=True)
        wall0, cpu0 = time.perf_counter(), time.process_time()
        nn.functional.cross_entropy(net(images), labels).backward()
        if i >= 5:  # the first passes warm up
            walls.append((time.perf_counter() - wall0) * 1e3)
            cpu += (time.process_time() - cpu0) * 1e3
    return {"wall": statistics.median(walls), "cpu": cpu / iterations}


def torch_environment(threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                MALLOC_MMAP_THRESHOLD_="1073741824", MALLOC_TRIM_THRESHOLD_="2147483647",
                MALLOC_TOP_PAD_="268435456")


def run(command, environment=None):
    """Output and CPU seconds (user + system) of a finished command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                         env=environment).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kinet_round(kinet, net, threads, iterations):
    command = [kinet, "time", net, "--json", "--threads", str(threads), "--iterations"]
    short, short_cpu = run(command + ["10"])
    out, long_cpu = run(command + [str(iterations + 10)])
    return {"wall": json.loads(out)["forward_backward_ms"],
            "cpu": (long_cpu - short_cpu) / iterations * 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--kinet", default=os.path.join(top, "build", "kinet"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--torch-round", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.torch_round:
        print(json.dumps(torch_round(a.threads, a.iterations)))
        return
    net = os.path.join(top, "models", "lenet", "net.prototxt")
    rounds = []
    for i in range(a.rounds):
        ours = kinet_round(a.kinet, net, a.threads, a.iterations)
        out, _ = run([sys.executable, os.path.abspath(__file__), "--torch-round", "--threads",
                      str(a.threads), "--iterations", str(a.iterations)],
                     torch_environment(a.threads))
        theirs = json.loads(out)
        rounds.append((ours, theirs))
        print("round %d: kinet %.2f ms wall, %.2f ms CPU; PyTorch %.2f ms wall, %.2f ms CPU" % (
            i + 1, ours["wall"], ours["cpu"], theirs["wall"], theirs["cpu"]), flush=True)
    for kind in ("wall", "cpu"):
        ratio = statistics.median(t[kind] / k[kind] for k, t in rounds)
        print("%s time, PyTorch / kinet: %.2f (median of %d pairs, %d thread%s)" % (
            kind, ratio, len(rounds), a.threads, "" if a.threads == 1 else "s"))


if __name__ == "__main__":
    main()
