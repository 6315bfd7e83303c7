#!/usr/bin/env python3
"""Processor time that communication and synchronisation cost, beside what the same gradients and
updates take without.

Compared are two workers, and two processes that train alone at the same time: both compute as many
gradients and updates, on two cores that are equally busy. (One process alone has the caches and the
memory for itself, and a core whose neighbour rests runs faster: against it two processes that know
nothing of each other already seem to cost something; --alone shows how much.) Of each, a short run is
subtracted from a long one, so that start and end do not count. The processor time of all ranks
together is compared, waiting is none. Rounds of runs are interleaved; the median of the ratios
counts. No tests are made.

usage: bench/sync_overhead.py [--models bsp momentum_k_sync] [--rounds 5] [--kinet build/kinet]
                              [--alone] [--set field=value ...]
"""

import argparse
import os
import statistics
import subprocess
import tempfile


def processor_seconds(options, extra, iterations, copies=1):
    """Of `copies` runs at the same time, together."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        processes = []
        for copy in range(copies):
            command = [options.kinet, "train", options.solver, "--out", f"{folder}/run{copy}",
                       "--quiet", "--seed", "1", "--threads", "1", "--set",
                       f"max_iter={iterations}", "--set", "test_interval=0", "--set", "display=0",
                       "--set", "snapshot_after_train=false", "--set", "snapshot=0"] + extra
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment))
        seconds = 0
        for process in processes:
            _, status, usage = os.wait4(process.pid, 0)
            if status != 0:
                raise SystemExit(f"{' '.join(process.args)} ended with status {status}")
            seconds += usage.ru_utime + usage.ru_stime
        return seconds


def per_iteration(options, extra, copies=1):
    long, short = options.iterations, options.iterations // 5
    return (processor_seconds(options, extra, long, copies) -
            processor_seconds(options, extra, short, copies)) / (long - short)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["bsp", "momentum_k_sync"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    parser.add_argument("--alone", action="store_true", help="one process, iter_size 2, as well")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    apart, ratios = [], {model: [] for model in options.models}
    if options.alone:
        ratios["one process, iter_size 2"] = []
    for _ in range(options.rounds):
        apart.append(per_iteration(options, [], copies=2))
        for model in ratios:
            extra = ["--workers", "2", "--sync", model, "--transport", options.transport]
            if model not in options.models:
                extra = ["--set", "iter_size=2"]
            for assignment in options.set:
                extra += ["--set", assignment]
            ratios[model].append(per_iteration(options, extra) / apart[-1])
    print(f"two processes apart: {1e3 * statistics.median(apart):.2f} ms of processor for two "
          "gradients")
    for model in ratios:
        r = sorted(ratios[model])
        print(f"{model}: {statistics.median(r):.3f} of that ({r[0]:.3f} to {r[-1]:.3f})")


if __name__ == "__main__":
    main()
