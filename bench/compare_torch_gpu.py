#!/usr/bin/env python3
"""Training iterations on a GPU: kinet against PyTorch with cuDNN, the same nets (built from the same
files of models/), the same batches, float32 and TF32, in interleaved rounds.

usage: bench/compare_torch_gpu.py [--kinet build/kinet] [--gpu 0] [--nets lenet,alexnet,...]
                                  [--rounds 3] [--iterations 20] [--small] [--out ROWS.md]

An iteration takes its batch from page-locked memory of the host, and is forward, backward and an
update by SGD with momentum and weight decay. Its parts are timed apart, each waited for; the whole
is timed over all iterations of a round in a row. What counts is the median of the rounds. PyTorch
runs with cudnn.benchmark, images as N C H W, and optimizers fused where it has them. Where PyTorch
or a GPU for it is missing, kinet is timed alone, and the table says why.

--small: tiny batches, images and nets and a single iteration, to try this script where kinet's kernels run
in the emulation, without TF32, which is emulated too slowly. Those figures mean nothing.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#       name       batch  image            the same for --small
NETS = {
    "lenet": (64, (1, 28, 28), 2, (1, 28, 28)),
    "alexnet": (128, (3, 227, 227), 1, (3, 67, 67)),
    "resnet50": (64, (3, 224, 224), 1, (3, 32, 32)),
    "vgg16": (64, (3, 224, 224), 1, (3, 32, 32)),
}
PARTS = ("forward_ms", "backward_ms", "update_ms", "iteration_ms")


def find_torch():
    """PyTorch ready to use, or None and why not."""
    try:
        import torch
    except ImportError as error:
        return None, f"not compared: {error}"
    if not torch.cuda.is_available():
        return None, f"not compared: PyTorch {torch.__version__} sees no GPU"
    return torch, ""


def cut_down(text, name):
    """An eighth of the channels and units; a mean over 7 x 7 does not fit a small image."""
    if name == "lenet":
        return text
    text = text.replace("kernel_size: 7 stride: 1 }", "global_pooling: true }")
    return re.sub(r"(num_output: )(\d+)", lambda m: m[1] + str(int(m[2]) // 8), text)


class KinetNet:
    def __init__(self, args, name, batch, shape):
        self.args, self.batch = args, batch
        path = os.path.join(TOP, "models", name, "net.prototxt")
        self.folder = None
        if args.small:
            with open(path, encoding="utf-8") as file:
                text = cut_down(file.read(), name)
            self.folder = tempfile.TemporaryDirectory()
            path = os.path.join(self.folder.name, "net.prototxt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.path = path
        self.shape = ",".join(str(dim) for dim in shape)
        self.parameters = 0

    def round(self, math):
        command = [self.args.kinet, "time", self.path, "--gpu", self.args.gpu, "--shape", self.shape,
                   "--batch", str(self.batch), "--iterations", str(self.args.iterations),
                   "--gpu-math", math, "--whole", "--json"]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                             timeout=self.args.limit).stdout
        result = json.loads(out)
        self.parameters = result["parameters"]
        return result["whole"]


class TorchNet:
    def __init__(self, torch, args, path, batch, shape):
        from torch_from_prototxt import Net

        self.torch, self.iterations = torch, args.iterations
        self.device = torch.device("cuda", int(args.gpu))
        torch.cuda.set_device(self.device)
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        self.net = Net(path, shape).train().to(self.device)
        self.host = torch.randn(batch, *shape).pin_memory()
        self.images = self.host.to(self.device)
        self.labels = torch.zeros(batch, dtype=torch.long, device=self.device)
        settings = {"lr": 0.0, "momentum": 0.9, "weight_decay": 5e-4}
        try:
            self.optimizer = torch.optim.SGD(self.net.parameters(), fused=True, **settings)
        except (TypeError, RuntimeError):  # older versions have no fused SGD
            self.optimizer = torch.optim.SGD(self.net.parameters(), foreach=True, **settings)

    def parameters(self):
        return sum(p.numel() for p in self.net.parameters())

    def forward(self):
        self.images.copy_(self.host, non_blocking=True)
        return self.net(self.images, self.labels)

    def iteration(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward().backward()
        self.optimizer.step()

    def timed(self, action):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        result = action()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3, result

    def round(self, math):
        allow = math == "TF32"
        self.torch.backends.cuda.matmul.allow_tf32 = allow
        self.torch.backends.cudnn.allow_tf32 = allow
        for _ in range(5):  # cudnn.benchmark tries its algorithms
            self.iteration()
        parts = {part: [] for part in PARTS[:3]}
        for _ in range(self.iterations):
            self.optimizer.zero_grad(set_to_none=True)
            ms, loss = self.timed(self.forward)
            parts["forward_ms"].append(ms)
            parts["backward_ms"].append(self.timed(loss.backward)[0])
            parts["update_ms"].append(self.timed(self.optimizer.step)[0])
        out = {part: statistics.median(values) for part, values in parts.items()}
        whole, _ = self.timed(lambda: [self.iteration() for _ in range(self.iterations)])
        out["iteration_ms"] = whole / self.iterations
        return out


def medians(rounds):
    return {part: statistics.median(r[part] for r in rounds) for part in PARTS}


def cells(times, batch):
    if times is None:
        return " – | – "
    parts = " / ".join(f"{times[part]:.2f}" for part in PARTS)
    return f" {parts} | {1e3 * batch / times['iteration_ms']:.0f} "


def compare(args, torch, name):
    """Rows of the table, one for each kind of multiplication."""
    batch, shape, small_batch, small_shape = NETS[name]
    if args.small:
        batch, shape = small_batch, small_shape
    ours = KinetNet(args, name, batch, shape)
    theirs = TorchNet(torch, args, ours.path, batch, shape) if torch else None
    image = "x".join(str(dim) for dim in shape)
    if args.small and name != "lenet":
        image += ", 1/8 of the channels"
    for math in ("FLOAT32", "TF32"):
        if args.small and math == "TF32":
            yield (f"| {name} | {batch} of {image} | {math} | left out: the emulation needs minutes "
                   "for tensor cores | | | | |")
            continue
        kinet_rounds, torch_rounds = [], []
        for i in range(args.rounds):
            kinet_rounds.append(ours.round(math))
            print(f"{name}, {math}, round {i + 1}: kinet "
                  f"{kinet_rounds[-1]['iteration_ms']:.2f} ms", end="", flush=True)
            if theirs:
                torch_rounds.append(theirs.round(math))
                print(f", PyTorch {torch_rounds[-1]['iteration_ms']:.2f} ms", end="")
            print(flush=True)
        if theirs and theirs.parameters() != ours.parameters:
            raise ValueError(f"{name}: {ours.parameters} parameters in kinet, "
                             f"{theirs.parameters()} in PyTorch: not the same net")
        k = medians(kinet_rounds)
        t = medians(torch_rounds) if theirs else None
        ratio = f"{t['iteration_ms'] / k['iteration_ms']:.2f}" if t else "–"
        yield f"| {name} | {batch} of {image} | {math} |{cells(k, batch)}|{cells(t, batch)}| {ratio} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinet", default=os.path.join(TOP, "build", "kinet"))
    parser.add_argument("--gpu", default="0")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one run of kinet")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", help="write the table into this file too, row by row")
    args = parser.parse_args()
    names = args.nets.split(",")
    for name in names:
        if name not in NETS:
            parser.error(f"--nets: {name} is none of {', '.join(NETS)}")
    if args.small:
        args.rounds = args.iterations = 1
    torch, why = (None, "not compared: kinet is emulated") if args.small else find_torch()
    version = why or (f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
                      f"{torch.backends.cudnn.version()}")
    print(f"PyTorch: {version}", flush=True)
    table = open(args.out, "w", encoding="utf-8") if args.out else None

    def put(line):
        if table:
            print(line, file=table, flush=True)

    put(f"PyTorch: {version}. Times in ms: forward / backward / update / whole iteration.\n")
    put("| net | images | math | kinet | images/s | PyTorch | images/s | time of PyTorch / kinet |")
    put("| --- | --- | --- | --- | ---: | --- | ---: | ---: |")
    failed = []
    for name in names:
        try:
            for row in compare(args, torch, name):
                put(row)
                print(row, flush=True)
        except Exception as error:  # one net that fails hides no other
            text = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            failed.append(name)
            put(f"| {name} | failed: {text} | | | | | | |")
            print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
