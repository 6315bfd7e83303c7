#!/usr/bin/env python3
"""All-reduce over 2 ranks of this machine: kinet's shm against Open MPI's and Gloo's.

usage: bench/allreduce_ratio.py [--kinet build/kinet] [--rounds 11] [--sizes 1700000,67108864]

The programs take turns, round after round, so that whatever else the machine does hits all alike.
A round gives each program's median over its iterations (the first 5 are not counted); the table has
the median over the rounds, and of the ratios (other / kinet, above 1: kinet is faster) median, least
and largest. Gloo is measured with three of its algorithms, and its best one in each round counts.
What is not installed is skipped with the reason. Exit status 1 when kinet is slower in the median.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 300  # seconds of one program in one round


def compile_program(name, compiler, flags, folder):
    """Returns the program's path, or the reason why there is none."""
    if shutil.which(compiler) is None:
        return None, f"there is no {compiler}"
    out = os.path.join(folder, name)
    command = [compiler, "-O2", "-std=c++17", os.path.join(HERE, "peers", name + ".cc"), "-o", out]
    done = subprocess.run(command + flags, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        return None, "it does not compile: " + done.stderr.strip().splitlines()[0]
    return out, ""


def lines_of(process):
    out, _ = process.communicate(timeout=LIMIT)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args[0]} ended with status {process.returncode}\n{out}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def best_by_size(rows):
    out = {}
    for row in rows:
        if row["wrong"] != 0:
            raise RuntimeError(f"wrong sums: {row}")
        time = row["time_us_median"]
        out[row["bytes"]] = min(time, out.get(row["bytes"], time))
    return out


class Kinet:
    name = "kinet shm"

    def __init__(self, program, extra):
        self.program, self.extra = program, extra

    def run(self, sizes, iterations, folder):
        out = {}
        for size in sizes:
            file = os.path.join(folder, "kinet.json")
            command = [self.program, "bench", "allreduce", "--workers", "2", "--transport", "shm",
                       "--min-size", str(size), "--max-size", str(size), "--iterations",
                       str(iterations), "--json", file] + self.extra
            subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
            with open(file, encoding="utf-8") as text:
                out.update(best_by_size(json.load(text)["rows"]))
        return out


class OpenMpi:
    name = "Open MPI"

    def __init__(self, program, extra):
        self.program, self.extra = program, extra

    def run(self, sizes, iterations, _):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = (["mpirun", "-n", "2", "--oversubscribe"] + root + self.extra +
                   [self.program, str(iterations)] + [str(s) for s in sizes])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return best_by_size(lines_of(process))


class Gloo:
    name = "Gloo"

    def __init__(self, program):
        self.program = program

    def run(self, sizes, iterations, folder):
        with tempfile.TemporaryDirectory(dir=folder) as meeting:
            ranks = [subprocess.Popen([self.program, str(rank), "2", meeting, str(iterations)] +
                                      [str(s) for s in sizes], stdout=subprocess.PIPE, text=True)
                     for rank in (0, 1)]
            rows = [lines_of(process) for process in ranks]
        return best_by_size(rows[0])


def rivals(folder, mpi_flags):
    found = []
    program, why = compile_program("mpi_allreduce", "mpicxx", [], folder)
    if program and shutil.which("mpirun"):
        found.append(OpenMpi(program, mpi_flags))
    else:
        print(f"skipped: Open MPI: {why or 'there is no mpirun'} (package libopenmpi-dev)")
    program, why = compile_program("gloo_allreduce", "c++", ["-lgloo", "-lpthread"], folder)
    if program:
        found.append(Gloo(program))
    else:
        print(f"skipped: Gloo: {why} (package libgloo-dev)")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinet", default=os.path.join(HERE, "..", "build", "kinet"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sizes", default="1700000,67108864")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--kinet-flags", default="", help="more flags of kinet bench allreduce")
    parser.add_argument("--mpi-flags", default="", help="more flags of mpirun")
    args = parser.parse_args()
    sizes = [int(s) // 4 * 4 for s in args.sizes.split(",")]
    slower = False
    with tempfile.TemporaryDirectory() as folder:
        programs = [Kinet(args.kinet, args.kinet_flags.split())]
        programs += rivals(folder, args.mpi_flags.split())
        times = {p.name: {s: [] for s in sizes} for p in programs}
        for _ in range(args.rounds):
            for program in programs:
                for size, time in program.run(sizes, args.iterations, folder).items():
                    times[program.name][size].append(time)
    print(f"{args.rounds} rounds of {args.iterations} iterations, {os.cpu_count()} processors")
    print(f"{'bytes':>10}  {'program':<10} {'time us':>10}  {'ratio':>6} {'least':>6} {'most':>6}")
    for size in sizes:
        ours = times[programs[0].name][size]
        for program in programs:
            theirs = times[program.name][size]
            ratios = [t / o for t, o in zip(theirs, ours)]
            print(f"{size:>10}  {program.name:<10} {statistics.median(theirs):>10.1f}  "
                  f"{statistics.median(ratios):>6.2f} {min(ratios):>6.2f} {max(ratios):>6.2f}")
            slower |= statistics.median(ratios) < 1
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
