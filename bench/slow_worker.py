#!/usr/bin/env python3
"""How long training takes to reach an accuracy when one worker is slow: bsp against another model.

simulate: `kinet simulate`, virtual time, which is exact: a gradient takes --step-seconds, on worker 1
--factor times that. real: `kinet train`, in pairs of runs one after the other, where worker 1 sleeps
(factor - 1) times what its gradients take; the median of the pairs' ratios counts. Time is that of
the first tested weights that reach the accuracy; the seconds of the tests before it do not count.

usage: bench/slow_worker.py simulate|real [--workers 2 4] [--seeds 1 2 3] [--model momentum_k_sync]
                            [--target 0.86] [--factor 5] [--kinet build/kinet] [--set field=value ...]
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time


def time_to_target(options, model, workers, seed, folder):
    """Seconds and iteration of the first test at or above the target, and the run's mean k."""
    out = pathlib.Path(folder) / f"{model}-{workers}-{seed}"
    command = [options.kinet, "simulate" if options.where == "simulate" else "train", options.solver,
               "--workers", str(workers), "--sync", model, "--slow", f"1:{options.factor}",
               "--seed", str(seed), "--out", str(out), "--quiet",
               "--set", f"max_iter={options.iterations}", "--set", f"test_interval={options.every}",
               "--set", "snapshot_after_train=false", "--set", "snapshot=0"]
    for assignment in options.set:
        command += ["--set", assignment]
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment)
    found, best = None, 0.0
    while found is None and process.poll() is None:  # what comes after the target is of no use
        time.sleep(0.5)
        found, best = first_at_target(options, out / "metrics.jsonl", workers)
    if found is None:
        found, best = first_at_target(options, out / "metrics.jsonl", workers)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait(timeout=600)
    if found is None:
        raise SystemExit(f"{model}, {workers} workers, seed {seed}: {options.target} was not reached in "
                         f"{options.iterations} iterations (best {best:.4f}); status {process.returncode}")
    return found


def first_at_target(options, metrics, workers):
    testing, ks, best = 0.0, [], 0.0
    if not metrics.exists():
        return None, best
    for line in metrics.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # being written
            break
        if record["type"] == "round":
            ks.append(record["k"])
        if record["type"] == "test":
            best = max(best, record["outputs"]["accuracy"])
            if record["outputs"]["accuracy"] >= options.target:
                mean_k = statistics.mean(ks) if ks else workers
                # All-reduce training stands still while it tests; through servers it goes on.
                waited = testing if not ks else 0.0
                return (record["at"] - waited, record["iteration"], mean_k), best
            testing += record["seconds"]
    return None, best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("where", choices=["simulate", "real"])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--model", default="momentum_k_sync")
    parser.add_argument("--target", type=float, default=0.86)
    parser.add_argument("--factor", type=float, default=5)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    for workers in options.workers:
        ratios = []
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                base = time_to_target(options, "bsp", workers, seed, folder)
                ours = time_to_target(options, options.model, workers, seed, folder)
            ratios.append(ours[0] / base[0])
            print(f"{workers} workers, seed {seed}: bsp {base[0]:.2f} s (iteration {base[1]}), "
                  f"{options.model} {ours[0]:.2f} s (iteration {ours[1]}, mean k {ours[2]:.2f}), "
                  f"ratio {ratios[-1]:.3f}", flush=True)
        print(f"{workers} workers: median ratio {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


if __name__ == "__main__":
    main()
