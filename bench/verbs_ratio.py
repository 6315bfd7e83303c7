#!/usr/bin/env python3
"""How far the verbs transport is from the least that verbs can do, and from perftest.

Interleaved rounds of: a minimal WRITE_WITH_IMM ping-pong (bench/verbs_minimal.cc), our ping-pong of
puts, ib_send_lat, and by turns three short streams of our puts and three of ib_write_bw, of which the
fastest counts: an emulated machine shares its processors with others. Prints median and spread of each,
and the median and spread of the ratios within a round. Bars: latency at most 1.2 times, bandwidth at
least 0.9 times.

usage: bench/verbs_ratio.py BUILD_FOLDER [--rounds N] [--kernel 6.1|6.12] [--devices A B]
Without an RDMA device it starts itself in the emulated machine of tests/rdma_vm; such figures say how
many instructions and system calls there are beside those of perftest, and nothing about hardware.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
LATENCY_BYTES = 8
BANDWIDTH_BYTES = 65536


def ours(options, mode, iterations, size):
    program = str(pathlib.Path(options.build) / "bench" / "verbs_pingpong_bench")
    out = subprocess.run([program, mode, str(iterations), str(size), *options.devices], check=True,
                         text=True, stdout=subprocess.PIPE, timeout=120).stdout
    return [float(word) for word in out.split()]


def figures(text):
    """The row below perftest's heading '#bytes'."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if line.lstrip().startswith("#bytes"):
            return [float(word) for word in lines[at + 1].split()]
    raise RuntimeError("perftest printed no figures:\n" + text)


def perftest(options, program, arguments, port):
    common = [program, "-F", "-x", str(options.gid), "-p", str(port), *arguments]
    server = subprocess.Popen([*common, "-d", options.devices[1]], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):  # until it listens
            client = subprocess.run([*common, "-d", options.devices[0], options.address],
                                    text=True, capture_output=True, timeout=120, check=False)
            if client.returncode == 0:
                return figures(client.stdout)
            time.sleep(0.1)
        raise RuntimeError(client.stdout + client.stderr)
    finally:
        server.kill()
        server.wait()


def one_round(options, number):
    port = 18600 + 8 * number
    result = {}
    if options.what != "bandwidth":
        latencies(options, port, result)
    if options.what != "latency":
        bandwidths(options, port, result)
    return result


def latencies(options, port, result):
    minimal = ours(options, "minimal", options.iterations, LATENCY_BYTES)
    result["minimal min"], result["minimal typical"] = minimal[:2]
    kinet = ours(options, "kinet", options.iterations, LATENCY_BYTES)
    result["kinet min"], result["kinet typical"] = kinet[:2]
    # Columns: bytes iterations t_min t_max t_typical t_avg ...
    send = perftest(options, "ib_send_lat",
                    ["-s", str(LATENCY_BYTES), "-n", str(options.iterations)], port)
    result["ib_send_lat min"], result["ib_send_lat typical"] = send[2], send[4]


def bandwidths(options, port, result):
    # ib_write_bw's target does nothing; ours looks every 20 ms, or is woken by every put.
    result["kinet MB/s"] = max(ours(options, "bandwidth_idle", options.puts, BANDWIDTH_BYTES))
    result["kinet woken MB/s"] = max(ours(options, "bandwidth", options.puts, BANDWIDTH_BYTES))
    # Columns: bytes iterations peak average (of 2^20 bytes a second) rate
    averages = [perftest(options, "ib_write_bw", ["-s", str(BANDWIDTH_BYTES), "-n",
                                                  str(options.puts)], port + i)[3]
                for i in (1, 2, 3)]
    result["ib_write_bw MB/s"] = max(averages) * 1.048576


def spread(values):
    return f"{statistics.median(values):9.2f}   [{min(values):.2f} .. {max(values):.2f}]"


def report(rounds):
    print(f"{len(rounds)} interleaved rounds; median [smallest .. largest]; latency in us, one way")
    for name in rounds[0]:
        print(f"  {name:<32} {spread([r[name] for r in rounds])}")
    passed = True
    for ours_name, theirs, bar, at_most in (
            ("kinet min", "minimal min", 1.2, True), ("kinet min", "ib_send_lat min", 1.2, True),
            ("kinet MB/s", "ib_write_bw MB/s", 0.9, False),
            ("kinet woken MB/s", "ib_write_bw MB/s", None, False)):
        if ours_name not in rounds[0]:
            continue
        ratios = [r[ours_name] / r[theirs] for r in rounds]
        median = statistics.median(ratios)
        if bar is None:
            print(f"  {ours_name + ' / ' + theirs:<32} {spread(ratios)}   no bar")
            continue
        ok = median <= bar if at_most else median >= bar
        passed = passed and ok
        print(f"  {ours_name + ' / ' + theirs:<32} {spread(ratios)}   bar "
              f"{'<=' if at_most else '>='} {bar}: {'met' if ok else 'NOT met'}")
    print("  on hardware: not measured")
    return passed


def in_the_machine(options):
    machine = HERE.parent / "tests" / "rdma_vm" / "rdma_vm.sh"
    command = [str(machine), "--kernel", options.kernel, "--timeout", "900", "--",
               sys.executable, str(HERE / "verbs_ratio.py"), os.path.abspath(options.build),
               "--rounds", str(options.rounds), "--iterations", str(options.iterations),
               "--puts", str(options.puts), "--what", options.what]
    print(f"no RDMA device here: in the emulated machine, kernel {options.kernel}", flush=True)
    return subprocess.run(command, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--puts", type=int, default=100)
    parser.add_argument("--what", default="all", choices=["all", "latency", "bandwidth"])
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--devices", nargs=2, default=["rxe0", "rxe1"])
    parser.add_argument("--gid", type=int, default=1, help="GID index for perftest")
    parser.add_argument("--address", default="10.77.0.2", help="of the second device, for perftest")
    options = parser.parse_args()
    if not os.path.exists(f"/sys/class/infiniband/{options.devices[0]}"):
        sys.exit(in_the_machine(options))
    rounds = [one_round(options, number) for number in range(options.rounds)]
    sys.exit(0 if report(rounds) else 1)


if __name__ == "__main__":
    main()
