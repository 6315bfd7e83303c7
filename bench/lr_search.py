#!/usr/bin/env python3
"""What a learning-rate search is worth: LeNet on Fashion-MNIST, two tables made from `kinet train`.

usage: bench/lr_search.py [range | race | both] [--folder runs/lr_search] [--seeds 31,32,33]
           [--best 0.04] [--iterations 1000] [--every 10] [--method armijo] [--policy poly]
           [--policies fixed,exp,poly] [--factors 0.1,0.3,1,3,10]

range  final test accuracy when base_lr is 0.1, 0.3, 1, 3 and 10 times `--best`, with and without
       lr_search_param, all with `--policy`. `diverged`: the run ended because the loss was not finite.
race   at `--best`: when the test accuracy first reaches 0.86, for lr_policy fixed, poly (power 1) and
       exp (a tenth of the rate at the end) without and with a search. In
       iterations (a test every `--every`), in iterations with the time of the search counted as further ones,
       and in seconds of training without tests, which depend on what else the machine does.
best   final accuracy for a range of base_lr without a search, to find `--best`.

Each run is one line as soon as it has ended. Runs that are in the folder are not made again, so the
program can be stopped and called again. One run at a time, with one thread.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

FACTORS = (0.1, 0.3, 1, 3, 10)
TARGET = 0.86
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def policy_fields(policy, iterations):
    if policy == "poly":
        return ["lr_policy=poly", "power=1"]
    if policy == "exp":
        return ["lr_policy=exp", "gamma=%.8f" % (0.1 ** (1 / iterations))]
    return ["lr_policy=" + policy]


def train(a, name, seed, fields):
    """Makes the run unless it is there; what it has measured."""
    folder = os.path.join(a.folder, "%s-seed%d" % (name, seed))
    done = os.path.join(folder, "bench_done")
    if not os.path.exists(done):
        subprocess.run(["rm", "-rf", folder], check=True)
        command = [a.kinet, "train", os.path.join(TOP, a.solver), "--threads", "1", "--quiet",
                   "--out", folder, "--seed", str(seed)]
        for field in ["max_iter=%d" % a.iterations, "snapshot=0", "snapshot_after_train=false"]:
            command += ["--set", field]
        for field in fields:
            command += ["--set", field]
        end = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        diverged = "not finite" in end.stdout
        if end.returncode != 0 and not diverged:
            sys.exit("%s\n%s" % (" ".join(command), end.stdout))
        with open(done, "w", encoding="utf-8") as out:
            json.dump({"diverged": diverged}, out)
    return read(folder, done)


def read(folder, done):
    with open(done, encoding="utf-8") as file:
        result = dict(json.load(file), accuracy=math.nan, share=0.0, reached=None, seconds=math.nan)
    testing, now, test_at = 0.0, {}, []
    for line in open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8"):
        record = json.loads(line)
        if record["type"] == "train":
            now[record["iteration"]] = record["seconds"] - testing
            result["share"] = record["search_share"]
        elif record["type"] == "test":
            testing += record["seconds"]
            test_at.append((record["iteration"], record["outputs"]["accuracy"]))
    if not result["diverged"]:
        result["accuracy"] = test_at[-1][1]
    for iteration, accuracy in test_at:
        if accuracy >= TARGET:
            result["reached"] = iteration
            result["seconds"] = now.get(iteration, math.nan)
            break
    return result


def search_fields(a):
    return ["lr_search_param.method=" + a.method] + (a.set or [])


def accuracy_text(result):
    return "diverged" if result["diverged"] else "%.2f" % (100 * result["accuracy"])


def table_range(a):
    rows = {}
    for search in (True, False):
        for factor in a.factors:
            results = []
            for seed in a.seeds:
                name = "range-%s-%s-%g" % (a.policy, a.method if search else "none", factor)
                fields = policy_fields(a.policy, a.iterations) + [
                    "base_lr=%.6g" % (a.best * factor), "test_interval=%d" % a.iterations,
                    "test_initialization=false"]
                results.append(train(a, name, seed, fields + (search_fields(a) if search else [])))
                print("%s seed %d: %s, search %.1f %%" % (
                    name, seed, accuracy_text(results[-1]), 100 * results[-1]["share"]), flush=True)
            rows[search, factor] = results
    print("\n| base_lr | without: mean (each seed) | with %s: mean (each seed) | search's share of "
          "the time |\n| --- | --- | --- | --- |" % a.method)
    for factor in a.factors:
        cells = []
        for search in (False, True):
            results = rows[search, factor]
            each = ", ".join(accuracy_text(r) for r in results)
            good = [100 * r["accuracy"] for r in results if not r["diverged"]]
            whole = len(good) == len(results)
            cells.append("%s (%s)" % ("%.2f" % statistics.mean(good) if whole else "-", each))
        share = statistics.mean(r["share"] for r in rows[True, factor])
        print("| %g (%g x) | %s | %s | %.1f %% |" % (a.best * factor, factor, *cells, 100 * share))


def table_race(a):
    runs = [(policy, search) for search in (False, True) for policy in a.policies]
    lines = []
    for policy, search in runs:
        results = []
        for seed in a.seeds:
            name = "race-%s-%s" % (policy, a.method if search else "none")
            fields = policy_fields(policy, a.iterations) + [
                "base_lr=%.6g" % a.best, "test_interval=%d" % a.every, "display=%d" % a.every]
            results.append(train(a, name, seed, fields + (search_fields(a) if search else [])))
            r = results[-1]
            print("%s seed %d: %.2f reached at %s (%.1f s), final %s, search %.1f %%" % (
                name, seed, TARGET, r["reached"], r["seconds"], accuracy_text(r),
                100 * r["share"]), flush=True)
        lines.append(race_line(policy, a.method if search else "none", results))
    print("\n| lr_policy | search | iterations to %.2f: mean (each seed) | with the search's time | "
          "seconds | final |\n| --- | --- | --- | --- | --- | --- |" % TARGET)
    print("\n".join(lines))


def race_line(policy, method, results):
    each = ", ".join(str(r["reached"]) for r in results)
    final = ", ".join(accuracy_text(r) for r in results)
    if any(r["reached"] is None for r in results):
        return "| %s | %s | - (%s) | - | - | %s |" % (policy, method, each, final)
    mean = statistics.mean(r["reached"] for r in results)
    cost = statistics.mean(r["reached"] / (1 - r["share"]) for r in results)
    seconds = statistics.mean(r["seconds"] for r in results)
    return "| %s | %s | %.0f (%s) | %.0f | %.1f | %s |" % (policy, method, mean, each, cost, seconds,
                                                        final)


def table_best(a):
    for base_lr in (0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
        fields = policy_fields(a.policy, a.iterations) + [
            "base_lr=%g" % base_lr, "test_interval=%d" % a.iterations, "test_initialization=false"]
        results = [train(a, "best-%s-%g" % (a.policy, base_lr), seed, fields) for seed in a.seeds]
        print("base_lr %g: %s" % (base_lr, ", ".join(map(accuracy_text, results))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["range", "race", "both", "best"], default="both")
    parser.add_argument("--kinet", default=os.path.join(TOP, "build", "kinet"))
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--folder", default="runs/lr_search")
    parser.add_argument("--seeds", default="31,32,33")
    parser.add_argument("--best", type=float, default=0.04)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--factors", default=",".join("%g" % f for f in FACTORS))
    parser.add_argument("--policies", default="fixed,exp,poly")
    parser.add_argument("--method", default="armijo")
    parser.add_argument("--policy", default="poly")
    parser.add_argument("--set", action="append", help="a further field of the runs with a search")
    a = parser.parse_args()
    a.seeds = [int(seed) for seed in a.seeds.split(",")]
    a.factors = [float(factor) for factor in a.factors.split(",")]
    a.policies = a.policies.split(",")
    os.makedirs(a.folder, exist_ok=True)
    if a.what == "best":
        table_best(a)
    if a.what in ("range", "both"):
        table_range(a)
    if a.what in ("race", "both"):
        table_race(a)


if __name__ == "__main__":
    main()
