#!/usr/bin/env python3
"""What the forms of elastic averaging cost in time: the node and the weak scaling of You, Buluc and Demmel (SC17).

Timing only, on virtual clusters: a quadratic in place of the nets, so that all figures are modelled ones
(docs/experiments_easgd.md). Figures of the clusters: models/clusters/sc17_*.prototxt.

node: the forms beside each other, packed and not, at equal samples. map: Original over Sync EASGD 3, over the
time of a step and the bandwidth of the links. weak: efficiency T(1) / T(N) at equal samples used for each worker.

usage: bench/easgd_node.py node|map|weak [--kinet build/kinet] [--iterations 50] [--seeds 1 2 3]
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
FORMS = [  # name, profile, its fields, model, fields of sync_param, packed
    ("Original EASGD", "sc17_node", [], "easgd", [], False),
    ("Original EASGD, packed", "sc17_node", [], "easgd", [], True),
    ("Async EASGD", "sc17_node", [], "async_easgd", [], True),
    ("Hogwild EASGD", "sc17_node", ["server.exchange=LINKS"], "hogwild_easgd", [], True),
    ("Sync EASGD 1, linear", "sc17_node", [], "sync_easgd", ["easgd_level=1"], True),
    ("Sync EASGD 1, per layer", "sc17_node", ["server.exchange=TREE"], "sync_easgd", ["easgd_level=1"], False),
    ("Sync EASGD 1", "sc17_node", ["server.exchange=TREE"], "sync_easgd", ["easgd_level=1"], True),
    ("Sync EASGD 2", "sc17_node_p2p", [], "sync_easgd", ["easgd_level=2"], True),
    ("Sync EASGD 3", "sc17_node_p2p", [], "sync_easgd", ["easgd_level=3"], True),
]
STEPS = [0.5, 1, 2, 4, 8]  # ms
BANDWIDTHS = [0.25, 0.5, 1, 2, 4]  # times the profiles'
HOST, DEVICE = 48, 96  # Gbit/s, of the profiles
JITTERS = [0, 0.02, 0.05, 0.1]
WORKERS = [64]


def simulate(args, profile, cluster, model, fields, workers, seed, objective):
    """Seconds of a sample that was used, and the share of the workers' time in which they compute: the difference of
    a run of all iterations and one of two, which has the same begin and end."""
    length = [2, args.iterations]
    runs = [simulate_all(args, profile, cluster, model, fields, workers, seed, objective, n) for n in length]
    seconds, samples, computed = (long - short for short, long in zip(*runs))
    return seconds / samples, computed / (seconds * workers)


def simulate_all(args, profile, cluster, model, fields, workers, seed, objective, iterations):
    """Seconds, samples used, and seconds that the workers computed for."""
    sets = ["test_interval=0", "display=0", "snapshot=0", f"max_iter={iterations}"]
    command = [args.kinet, "simulate", str(MODELS / "lenet/solver.prototxt"), "--sync", model]
    command += ["--cluster", str(MODELS / f"clusters/{profile}.prototxt"), "--workers", str(workers)]
    command += ["--objective", str(MODELS / f"objectives/{objective}.prototxt"), "--seed", str(seed)]
    command += ["--lanes", "1"]
    for field in sets + fields:
        command += ["--set", field]
    for field in cluster:
        command += ["--cluster-set", field]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--out", f"{folder}/run"]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    seconds = float(re.search(r"Virtual time: ([-+.e\d]+) s", text).group(1))
    samples = int(re.search(r"([\d,]+) samples", text).group(1).replace(",", ""))
    computed = float(re.search(r"Workers computed ([.\d]+) %", text).group(1))
    return seconds, samples, computed / 100 * seconds * workers


def form(args, entry, seed, cluster=()):
    _, profile, fields, model, sync, packed = entry
    more = [f"sync_param.{field}" for field in sync] + [f"comm_param.packed={str(packed).lower()}"]
    return simulate(args, profile, [*fields, *cluster], model, more, 4, seed, "lenet_sized")


def node(args):
    print("| form | ms for 4 mini-batches | Original over it | communication |\n| --- | ---: | ---: | ---: |")
    first = None
    for entry in FORMS:
        runs = [form(args, entry, seed) for seed in args.seeds]
        ms = statistics.mean(4000 * seconds for seconds, _ in runs)
        first = first or ms
        share = 100 - 100 * statistics.mean(computed for _, computed in runs)
        print(f"| {entry[0]} | {ms:.2f} | {first / ms:.2f} | {share:.0f} % |", flush=True)


def ratio_map(args):
    original, third = FORMS[0], FORMS[-1]
    print("| step | " + " | ".join(f"{HOST * b / 8:g} / {DEVICE * b / 8:g} GB/s" for b in BANDWIDTHS) + " |")
    print("| ---: |" + " ---: |" * len(BANDWIDTHS))
    for step in STEPS:
        row = []
        for b in BANDWIDTHS:
            times = []
            for entry, link in ((original, HOST), (third, DEVICE)):
                cluster = [f"compute.mean={step / 1000:g}", f"network.bandwidth={link * b:g}"]
                times.append(form(args, entry, args.seeds[0], cluster)[0])
            ratio = times[0] / times[1]
            row.append(f"**{ratio:.2f}**" if ratio >= 5.3 else f"{ratio:.2f}")
        print(f"| {step:g} ms | " + " | ".join(row) + " |", flush=True)


def weak(args):
    overlap, alone = "comm_param.overlap=true", "comm_param.overlap=false"
    third = "sync_param.easgd_level=3"
    ways = [
        ("Sync EASGD 3", "sync_easgd", [third, overlap]),
        ("Sync EASGD 3, no overlap", "sync_easgd", [third, alone]),
        ("bsp, all-reduce", "bsp", [overlap]),
        ("momentum_k_sync, 4 servers", "momentum_k_sync", ["sync_param.servers=4", overlap]),
    ]
    print("| | jitter | " + " | ".join(f"N = {n}" for n in WORKERS) + " |\n| --- |" + " ---: |" * (1 + len(WORKERS)))
    for name, model, fields in ways:
        for jitter in JITTERS:
            clock = [f"compute.task_variation={jitter:g}"]
            each = []
            for n in [1, *WORKERS]:
                more = ["momentum=0", *fields]
                runs = [
                    simulate(args, "sc17_weak", clock, model, more, n, s, "googlenet_thousandth")
                    for s in args.seeds
                ]
                each.append(statistics.mean(seconds * n for seconds, _ in runs))
            row = " | ".join(f"{100 * each[0] / e:.1f} %" for e in each[1:])
            print(f"| {name} | {jitter:g} | {row} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["node", "map", "weak"])
    parser.add_argument("--kinet", default=str(ROOT / "build/kinet"))
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    {"node": node, "map": ratio_map, "weak": weak}[args.what](args)


if __name__ == "__main__":
    main()
