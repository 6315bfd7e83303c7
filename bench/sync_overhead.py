#!/usr/bin/env python3
"""Processor time that communication and synchronisation cost, beside what the same training takes in
one process.

The runs compared make the same updates: two workers with batch B, and one process with iter_size 2.
Of each, a short run is subtracted from a long one, so that start and end do not count. The processor
time of all ranks together is compared, waiting is none. Rounds of runs are interleaved; the median of
the ratios counts. A test of a worker's share is left out: no tests are made.

usage: bench/sync_overhead.py [--models bsp momentum_k_sync] [--rounds 5] [--kinet build/kinet]
                              [--set field=value ...]
"""

import argparse
import os
import statistics
import subprocess
import tempfile


def processor_seconds(options, extra, iterations):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.kinet, "train", options.solver, "--out", folder + "/run", "--quiet",
                   "--seed", "1", "--threads", "1", "--set", f"max_iter={iterations}",
                   "--set", "test_interval=0", "--set", "display=0",
                   "--set", "snapshot_after_train=false", "--set", "snapshot=0"] + extra
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"{' '.join(command)} ended with status {status}")
        return usage.ru_utime + usage.ru_stime


def per_iteration(options, extra):
    long, short = options.iterations, options.iterations // 5
    return (processor_seconds(options, extra, long) -
            processor_seconds(options, extra, short)) / (long - short)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["bsp", "momentum_k_sync"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    alone, ratios = [], {model: [] for model in options.models}
    for _ in range(options.rounds):
        alone.append(per_iteration(options, ["--set", "iter_size=2"]))
        for model in options.models:
            extra = ["--workers", "2", "--sync", model, "--transport", options.transport]
            for assignment in options.set:
                extra += ["--set", assignment]
            ratios[model].append(per_iteration(options, extra) / alone[-1])
    print(f"one process, iter_size 2: {1e3 * statistics.median(alone):.2f} ms of processor an iteration")
    for model in options.models:
        r = sorted(ratios[model])
        print(f"2 workers, {model}: {statistics.median(r):.3f} of that ({r[0]:.3f} to {r[-1]:.3f})")


if __name__ == "__main__":
    main()
