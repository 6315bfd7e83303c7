#!/usr/bin/env python3
"""What communication and synchronisation cost a processor, by sampling: `perf` beside bench/sync_overhead.py.

On a machine that others use, the time of a gradient varies by more than what is looked for. So samples in
layers and matrix products are left out: what two workers (and a server) spend elsewhere, less what two
processes spend elsewhere that train alone at the same time, divided by all that those two spend. Updates
are told apart. Of each, a short run is subtracted from a long one.

usage: bench/sync_profile.py [--models bsp momentum_k_sync] [--iterations 600] [--kinet build/kinet]
                             [--set field=value ...]
needs: perf
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import tempfile

LAYERS = re.compile(r"gemm|im2col|col2im|[Pp]ool|[Rr]e[Ll][uU]|[Ss]oftmax|add_rows|copy_rows|Transformer|"
                    r"add_scalar|ConvPlan|InnerProduct|transpose|\)::sum$|scal_|saxpy|kernel_")
UPDATES = re.compile(r"::apply$|axpby|Optimizer")


def samples(options, runs, iterations):
    """Samples by symbol of runs at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for number, extra in enumerate(runs):
            command = [options.kinet, "train", options.solver, "--out", f"{folder}/run{number}", "--quiet",
                       "--seed", "1", "--threads", "1", "--set", f"max_iter={iterations}"]
            for field in ["test_interval=0", "display=0", "snapshot=0", "snapshot_after_train=false"]:
                command += ["--set", field]
            lines.append(" ".join(command + extra))
        data = f"{folder}/perf.data"
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        subprocess.run(["perf", "record", "-q", "-F", "499", "-o", data, "--", "sh", "-c",
                        " & ".join(lines) + "; wait"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=environment)
        report = subprocess.run(["perf", "report", "-i", data, "--no-children", "--stdio", "--sort", "sym",
                                 "-n", "-g", "none"], check=True, capture_output=True, text=True).stdout
    counts = collections.Counter()
    for line in report.splitlines():
        match = re.match(r"\s*[\d.]+%\s+(\d+)\s+\[.\]\s+(.*)", line)
        if match:
            counts[match.group(2)] += int(match.group(1))
    return counts


def long_less_short(options, runs):
    long, short = (samples(options, runs, n) for n in (options.iterations, options.iterations // 6))
    return {symbol: long[symbol] - short[symbol] for symbol in long}


def parts(counts):
    layers = sum(n for symbol, n in counts.items() if LAYERS.search(symbol))
    updates = sum(n for symbol, n in counts.items()
                  if UPDATES.search(symbol) and not LAYERS.search(symbol))
    return layers, updates, sum(counts.values()) - layers - updates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["bsp", "momentum_k_sync"])
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    if shutil.which("perf") is None:
        raise SystemExit("perf is not installed (Debian: linux-perf)")
    apart = long_less_short(options, [[], []])
    layers, updates, rest = parts(apart)
    total = layers + updates + rest
    print(f"two processes apart: {total} samples, {100 * layers / total:.1f} % in layers")
    for model in options.models:
        extra = ["--workers", "2", "--sync", model, "--transport", "shm"]
        for assignment in options.set:
            extra += ["--set", assignment]
        counts = long_less_short(options, [extra])
        _, new_updates, new_rest = parts(counts)
        print(f"{model}: communication and synchronisation {100 * (new_rest - rest) / total:.1f} %, "
              f"updates {100 * (new_updates - updates) / total:+.1f} % of that")
        for symbol in sorted(counts, key=lambda s: apart.get(s, 0) - counts[s])[:6]:
            if not LAYERS.search(symbol):
                print(f"    {counts[symbol] - apart.get(symbol, 0):+6d}  {symbol}")


if __name__ == "__main__":
    main()
