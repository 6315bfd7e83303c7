#!/usr/bin/env python3
"""Processor time of a parameter server for a sample, by synchronisation model.

Ranks of a real run are started by hand, each a process; rank 0 is the server. What counts is its user
and system time as getrusage() tells it, of a long run less a short one, so that start and end do not
count, over the samples that came between. `comm_param { spin: 0 }`: a server with nothing to do sleeps
at once, so that empty polls are next to none. Rounds of models are interleaved; the median counts.
No tests are made.

usage: bench/server_cpu.py [--models asp local_sgd:local_steps=4 sapus:sapus_link_budget=1] [--rounds 3]
                           [--iterations 300] [--workers 2] [--transport tcp] [--kinet build/kinet]
"""

import argparse
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import tempfile


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command_of(options, model, iterations, folder):
    name, *fields = model.split(":")
    command = [options.kinet, "train", options.solver, "--size", str(options.workers + 1),
               "--rendezvous", f"127.0.0.1:{free_port()}", "--token-file", str(folder / "token"),
               "--transport", options.transport, "--sync", name, "--out", str(folder / "run"),
               "--quiet", "--seed", "1", "--threads", "1"]
    settings = [f"max_iter={iterations}", "test_interval=0", "display=0", "snapshot=0",
                "snapshot_after_train=false", "comm_param.spin=0"]
    settings += [f"sync_param.{field}" for field in fields]
    for setting in settings:
        command += ["--set", setting]
    return command


def steps_and_pushes(run):
    """Gradients that went into the updates of a run, and pushes of them."""
    steps = pushes = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for member in record.get("members", []):  # worker, seq, weight, lag, rate, how, seconds, steps
            if member[5] == "drop":
                continue
            pushes += 1
            steps += member[7] if len(member) > 7 else 1
    return steps, pushes


def one_run(options, model, iterations):
    """Seconds of the server's processor, gradients, pushes."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        token = folder / "token"
        token.write_text(secrets.token_hex(16))
        token.chmod(0o600)
        command = command_of(options, model, iterations, folder)
        ranks = []
        for rank in range(options.workers + 1):
            with open(folder / f"rank{rank}", "w") as out:
                ranks.append(subprocess.Popen(command + ["--rank", str(rank)], stdout=out,
                                              stderr=out))
        usage = None
        for rank, process in enumerate(ranks):
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = status
            usage = used if rank == 0 else usage
            if status != 0:
                for other in ranks:
                    if other.returncode is None:
                        other.kill()
                raise SystemExit(f"rank {rank} of {model} ended with status {status}:\n" +
                                 (folder / f"rank{rank}").read_text())
        return (usage.ru_utime + usage.ru_stime, *steps_and_pushes(folder / "run"))


def measure(options, model):
    long = one_run(options, model, options.iterations)
    short = one_run(options, model, options.iterations // 5)
    seconds, steps, pushes = (a - b for a, b in zip(long, short))
    return seconds / (steps * options.batch), steps / pushes, seconds / pushes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+",
                        default=["asp", "local_sgd:local_steps=4", "sapus:sapus_link_budget=1"],
                        help="the first is what the others are compared with; MODEL:FIELD=VALUE:...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="of the net file")
    parser.add_argument("--transport", default="tcp")
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    options = parser.parse_args()
    found = {model: [] for model in options.models}
    for _ in range(options.rounds):
        for model in options.models:
            found[model].append(measure(options, model))
    first = statistics.median(m[0] for m in found[options.models[0]])
    print("| model | steps a push | server, us a push | server, us a sample | against the first |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for model, runs in found.items():
        sample = sorted(1e6 * m[0] for m in runs)
        middle = statistics.median(sample)
        print(f"| {model} | {statistics.median(m[1] for m in runs):.1f} | "
              f"{1e6 * statistics.median(m[2] for m in runs):.0f} | "
              f"{middle:.2f} ({sample[0]:.2f} to {sample[-1]:.2f}) | "
              f"{100 * (1e-6 * middle / first - 1):+.1f} % |")


if __name__ == "__main__":
    main()
