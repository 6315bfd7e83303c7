#!/usr/bin/env python3
"""Who may include whom. The table below is that of the architecture: a file may include its own
folder, most may include the common ground, and beyond that only what its row says.

usage: tools/lint_includes.py        prints file:line for every include outside the rules
"""

import re

import source_tree

COMMON = ["src/base", "src/prototxt", "src/tensor", "src/math"]
ANYTHING = None

# folder -> folders, or single headers, beyond its own that it may include
ALLOWED = {
    "src/base": [],
    "src/prototxt": ["src/base"],
    "src/tensor": ["src/base"],
    "src/math": ["src/base", "src/tensor"],
    "src/proto": [],
    "src/net": COMMON + ["src/proto", "src/optim/device_optimizer.h"],
    "src/optim": COMMON + ["src/proto"],
    "data": COMMON + ["src/proto"],
    "data/image": COMMON + ["src/proto", "data"],
    "layers": COMMON + ["src/net/layer.h", "src/net/batch_feed.h"],  # the data layers also data
    "cuda": COMMON + ["src/net/layer.h", "src/net/device.h", "src/net/fusion.h", "src/optim", "layers",
                      "cuda/emulation/device.h"],
    "cuda/emulation": ["src/base"],
    "cuda/emulation/include": ["cuda/emulation"],
    "comm": ["src/base", "src/prototxt", "comm/transports", "comm/verbs"],
    "comm/transports": ["src/base", "src/prototxt", "comm", "comm/verbs"],
    "comm/mpi": ["src/base", "src/prototxt", "comm"],
    "comm/verbs": ["src/base", "src/prototxt"],
    "src/sync": COMMON + ["src/optim", "comm/communicator.h", "comm/collectives.h"],
    "src/sync/models": COMMON + ["src/sync"],
    "src/sync/codecs": COMMON + ["src/sync"],
    "src/solver": COMMON + ["src/net", "src/optim", "src/sync", "data", "src/proto",
                            "comm/communicator.h", "comm/comm_fields.h"],
    "src/sim": COMMON + ["src/solver", "src/sync", "src/net", "src/optim", "data", "comm"],
    "src/cli": ANYTHING,
    "src": ANYTHING,  # main.cc
    "tests": ANYTHING,
    "bench": ANYTHING,
    "examples": ANYTHING,
    "tools/cmake": [],  # precompiled.h
}

# <system header> -> the folders that may use the library. What is not listed is free.
LIBRARIES = {
    "opencv2/": ["data/image", "tests"],
    "mpi.h": ["comm/mpi", "bench"],
    "lmdb.h": ["data", "tests", "src/cli"],
    "zlib.h": ["data", "tests"],
    "cblas.h": ["src/math", "tests", "bench", "cuda/emulation"],
    "CLI/": ["src/cli", "src"],
    "spdlog/": ["src/base", "src/cli", "src"],
}
# Slow to compile: never in a header of the library.
HEAVY = ("CLI/", "spdlog/", "nlohmann/json.hpp", "google/protobuf/", "opencv2/")
LIBRARY_FOLDERS = ("src/", "layers/", "cuda/", "comm/", "data/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
PARENT = re.compile(r"^// Parent: (layers/\w+\.h)")


def folder_of(path):
    """The longest row of the table that the path lies in."""
    rows = [row for row in ALLOWED if path.startswith(row + "/")]
    return max(rows, key=len) if rows else None


def is_layer(header):
    """A header of layers/ is a layer when its source registers one; others are shared helpers."""
    source = source_tree.ROOT / (header.removesuffix(".h") + ".cc")
    return source.is_file() and "KINET_REGISTER_LAYER" in source.read_text(encoding="utf-8")


def layer_include_problem(name, text, target):
    stem = name.rsplit(".", 1)[0]
    if target.startswith("layers/"):
        own = target == stem + ".h"
        header = source_tree.lines(stem + ".h") if (source_tree.ROOT / (stem + ".h")).is_file() else []
        parents = [m.group(1) for line in text + header if (m := PARENT.match(line))]
        if not own and target not in parents and is_layer(target):
            return "a layer includes another layer; name it in the head: '// Parent: %s'" % target
    elif target.startswith("data/") and "data" not in stem.split("/")[-1]:
        return "only data layers may include data/"
    return None


def project_include_problem(name, folder, text, target):
    """What is wrong with including "target" from name, or None."""
    if not (source_tree.ROOT / target).is_file() and not target.startswith("src/proto/kinet/"):
        return "no such file in the tree; includes are relative to the repository root"
    allowed = ALLOWED[folder]
    if folder == "layers":
        problem = layer_include_problem(name, text, target)
        if problem:
            return problem
        allowed = allowed + ["data"]
    if folder == "cuda" and target.startswith("layers/"):
        if target != "layers/" + name.split("/")[-1].rsplit(".", 1)[0] + ".h":
            return "a CUDA layer includes only the CPU layer of the same name"
    target_folder = folder_of(target)
    if allowed is ANYTHING or target_folder == folder:
        return None
    if target in allowed or target_folder in allowed:
        return None
    return "%s may not include %s" % (folder, target)


def system_include_problem(name, folder, target):
    for library, users in LIBRARIES.items():
        if target.startswith(library) and folder not in users:
            return "<%s> is for %s only" % (target, ", ".join(users))
    if (name.endswith((".h", ".cuh")) and name.startswith(LIBRARY_FOLDERS)
            and target.startswith(HEAVY)):
        return "<%s> is slow to compile: include it in the .cc" % target
    return None


def main():
    findings = []
    names = source_tree.files(*source_tree.CODE)
    for name in names:
        folder = folder_of(name)
        if folder is None:
            findings.append(f"{name}:1: no row for this folder in tools/lint_includes.py")
            continue
        text = source_tree.lines(name)
        for number, line in enumerate(text, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            problem = (project_include_problem(name, folder, text, target) if quote == '"'
                       else system_include_problem(name, folder, target))
            if problem:
                findings.append(f"{name}:{number}: {problem}")
    source_tree.finish("includes", len(names), findings)


if __name__ == "__main__":
    main()
