#!/usr/bin/env python3
"""tcp beside what a plain socket can do, on loopback: interleaved pairs, median and spread.

  latency    one way of a small message      / the same ping-pong over a bare socket  (aim: <= 1.2)
  bandwidth  puts from region to region      / iperf3, one stream                     (aim: >= 0.9)

usage: bench/comm_tcp_ratio.py [--build build] [--pairs 7] [--seconds 0.5] [--prefix 'nice -n -20']

The two of a pair run one after the other, so that what else the machine does hits both. On a
machine that is not quiet, give a prefix that keeps others off the cores for that long. Exit status
1: an aim is missed.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

PORT_TRIES = 3
LIMIT = 60  # seconds of one program


def ping(args, *words):
    """The figure that transport_ping prints."""
    program = pathlib.Path(args.build) / "examples" / "transport_ping"
    command = shlex.split(args.prefix) + [str(program), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return float(done.stdout.split()[0])


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def iperf3(args):
    """Gbit/s that iperf3's receiver saw, of one stream."""
    prefix = shlex.split(args.prefix)
    for _ in range(PORT_TRIES):
        port = str(free_port())
        server = subprocess.Popen(
            prefix + ["iperf3", "-s", "-1", "-p", port, "-B", "127.0.0.1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.2)
            # iperf3 takes whole seconds; the size of its writes is its own choice (128 KiB).
            seconds = str(max(1, round(args.seconds)))
            client = subprocess.run(
                prefix + ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", seconds, "-J"],
                capture_output=True, text=True, timeout=LIMIT)
            if client.returncode == 0:
                result = json.loads(client.stdout)
                return result["end"]["sum_received"]["bits_per_second"] / 1e9
        finally:
            server.terminate()
            server.wait(timeout=LIMIT)
    sys.exit("iperf3 does not answer: is it installed?")


def report(name, pairs, unit, aim, at_most):
    ratios = [a / b for a, b in pairs]
    median = statistics.median(ratios)
    met = median <= aim if at_most else median >= aim
    sign = "<=" if at_most else ">="
    print(f"{name}: ratio {median:.3f} (least {min(ratios):.3f}, most {max(ratios):.3f}; "
          f"aim {sign} {aim}: {'met' if met else 'MISSED'}), medians "
          f"{statistics.median(a for a, _ in pairs):.2f} and "
          f"{statistics.median(b for _, b in pairs):.2f} {unit}, {len(pairs)} pairs")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one measurement")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of a put")
    parser.add_argument("--message", type=int, default=8, help="bytes of a message")
    parser.add_argument("--comm", default="", help="comm_param text: 'tcp { streams: 1 }'")
    parser.add_argument("--prefix", default="", help="put before every program")
    parser.add_argument("--only", choices=["latency", "bandwidth"])
    args = parser.parse_args()

    met = True
    if args.only != "bandwidth":
        pairs = [(ping(args, "latency", "tcp", args.message, args.seconds, args.comm),
                  ping(args, "latency", "socket", args.message, args.seconds))
                 for _ in range(args.pairs)]
        met &= report(f"latency of {args.message} bytes beside a bare socket", pairs, "us", 1.2, True)
    if args.only != "latency":
        pairs = [(ping(args, "bandwidth", "tcp", args.bytes, args.seconds, args.comm),
                  iperf3(args))
                 for _ in range(args.pairs)]
        met &= report(f"bandwidth of puts of {args.bytes} bytes beside iperf3", pairs, "Gbit/s", 0.9,
                      False)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
