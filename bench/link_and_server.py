#!/usr/bin/env python3
"""What an experiment of `kinet compare` says of the servers: their link against a budget, and their
processor until a target, from results.json.

Link, both ways together: mean of a run, and twice the 99th percentile of windows of a second of the
direction that carries more. Server: seconds that it is busy, by sample; times the samples to a target
that is server time at equal accuracy. A strategy is compared with each other one.

usage: bench/link_and_server.py RESULTS.json [--budget 1] [--target 0.84] [--candidate sapus]
"""

import argparse
import json


def mean(row, name):
    return row[name]["mean"]


def to_target(row, target):
    """Seconds of the run and of its servers, for a sample that counts; None where not reached."""
    for figure in row["targets"]:
        if abs(figure["target"] - target) < 1e-6 and figure["reached"] == row["runs"] > 0:
            seconds = mean(figure, "seconds")
            return seconds, mean(row, "server_seconds") / mean(row, "run_seconds") * seconds
    return None


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def line(row, own, options):
    gigabits = 8e-9
    link = gigabits * mean(row, "bytes") / mean(row, "run_seconds")
    p99 = 2 * gigabits * mean(row, "p99_link")
    sample = 1e6 * mean(row, "server_seconds") / mean(row, "samples")
    reached, against = to_target(row, options.target), ["-", "-"]
    if reached and own:
        against = [percent(reached[0] / own[0]), percent(own[1] / reached[1])]
    kept = "yes" if max(link, p99) <= options.budget else "no"
    shown = [f"{reached[0]:.1f}", f"{1e3 * reached[1]:.0f}"] if reached else ["-", "-"]
    cells = [row["strategy"], f"{row['base_lr']:g}{'*' if row['rate_at_edge'] else ''}",
             f"{link:.2f}", f"{p99:.2f}", kept, shown[0], against[0], f"{sample:.2f}", shown[1],
             against[1], f"{100 * mean(row, 'final'):.1f} %"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--budget", type=float, default=1, help="Gb/s, both ways together")
    parser.add_argument("--target", type=float, default=0.84)
    parser.add_argument("--candidate", default="sapus")
    options = parser.parse_args()
    with open(options.results) as file:
        results = json.load(file)
    for setting in results["settings"]:
        rows = [row for row in setting["rows"] if row["bytes"]]  # others have not run
        own = next((to_target(r, options.target) for r in rows
                    if r["strategy"] == options.candidate), None)
        goal = f"{100 * options.target:g} %"
        print(f"\n{setting['cluster']}, {setting['workers']} workers\n")
        print(f"| strategy | base_lr | Gb/s, mean | p99 | within {options.budget:g} | s to {goal} | "
              f"speed-up - 1 of {options.candidate} | server us a sample | server ms to {goal} | "
              f"{options.candidate}'s server time against it | final accuracy |")
        print("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for row in rows:
            print(line(row, own, options))


if __name__ == "__main__":
    main()
