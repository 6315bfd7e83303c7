#!/usr/bin/env python3
"""How long a job takes to end when one of its ranks is killed, and whether it says whose fault it is.

Starts `kinet train` with four workers, kills rank 2 with SIGKILL in the middle of training, and
waits for the end; again and again. Prints a line a run and the slowest; exit status 1 when one run
took longer than --limit seconds, did not name rank 2, or left a process behind.

usage: bench/kill_a_rank.py [--times 20] [--limit 6] [--transport shm] [--solver FILE] [--kinet build/kinet]
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time


def ranks_of(launcher):
    """Process ids of the launcher's children by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or f"PPid:\t{launcher}\n" not in (entry / "status").read_text():
                continue
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"KINET_RANK="):
                    found[int(variable[11:])] = int(entry.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


def one_run(options, folder, seed):
    command = [options.kinet, "train", options.solver, "--workers", "4", "--transport",
               options.transport, "--out", str(folder / "run"), "--set", "max_iter=1000000",
               "--set", "test_interval=0", "--set", "display=5"]
    with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
        job = subprocess.Popen(command, stdout=out, stderr=err)
        deadline = time.monotonic() + 120
        while "Iteration 5 " not in (folder / "out").read_text():
            if time.monotonic() > deadline or job.poll() is not None:
                job.kill()
                raise SystemExit("training did not begin:\n" + (folder / "err").read_text())
            time.sleep(0.05)
        time.sleep(random.Random(seed).uniform(0, 0.5))
        ranks = ranks_of(job.pid)
        os.kill(ranks[2], signal.SIGKILL)
        begin = time.monotonic()
        try:
            status = job.wait(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            status = None
        seconds = time.monotonic() - begin
    time.sleep(0.1)
    left = [pid for pid in ranks.values() if os.path.exists(f"/proc/{pid}")]
    said = (folder / "err").read_text()
    named = f"rank 2 (process {ranks[2]}) was killed by signal 9" in said and "rank 2 (host" in said
    return seconds, status, named, left


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--limit", type=float, default=6)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--solver", default="models/lenet/solver.prototxt")
    parser.add_argument("--kinet", default="build/kinet")
    options = parser.parse_args()
    slowest, good = 0, 0
    for number in range(options.times):
        with tempfile.TemporaryDirectory() as folder:
            seconds, status, named, left = one_run(options, pathlib.Path(folder), number)
        fine = seconds <= options.limit and named and not left and status == 128 + signal.SIGKILL
        good += fine
        slowest = max(slowest, seconds)
        print(f"run {number + 1:2}: ended after {seconds:.2f} s, status {status}, "
              f"{'rank 2 named' if named else 'RANK 2 NOT NAMED'}, {len(left)} processes left",
              flush=True)
    print(f"{good} of {options.times} good, slowest {slowest:.2f} s (limit {options.limit} s)")
    raise SystemExit(0 if good == options.times else 1)


if __name__ == "__main__":
    main()
