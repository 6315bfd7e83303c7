#!/usr/bin/env python3
"""Rules about files: the fixed top level, length, left-over marks, links of the documents, tests
that check something, and launches of CUDA kernels.

usage: tools/lint_files.py
"""

import re

import source_tree

MAX_LINES = 400
REASON = "long because:"  # in the head of a file that is longer
HEAD_LINES = 30

TOP_LEVEL = {
    "CMakeLists.txt", "LICENSE", "Makefile", "README.md",
    "bench", "comm", "cuda", "data", "docs", "examples", "layers", "models", "src", "tests",
    "tools",
}  # and names that begin with a dot

TEXT = source_tree.CODE + (".cmake", ".py", ".sh", ".proto", ".prototxt", "CMakeLists.txt",
                           "Makefile")
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CHECKS = re.compile(r"\b(EXPECT|ASSERT)_[A-Z]+")
# What the host emulation cannot express; cuda/gpu.h has macros for both.
PLAIN_CUDA = [
    (re.compile(r"<<<"), "a plain kernel launch; use KINET_LAUNCH"),
    (re.compile(r"\bextern\s+__shared__"), "bare dynamic shared memory; use KINET_DYN_SHARED"),
    (re.compile(r"\bcudaLaunch(Cooperative)?Kernel"), "a launch by pointer; use KINET_LAUNCH"),
]


def top_level(names):
    tops = sorted(set(name.split("/")[0] for name in names))
    return [f"{top}:1: not in the list of top-level names (tools/lint_files.py)"
            for top in tops if not top.startswith(".") and top not in TOP_LEVEL]


def length(name, text):
    if not name.endswith(source_tree.CODE) or len(text) <= MAX_LINES:
        return []
    if any(REASON in line for line in text[:HEAD_LINES]):
        return []
    return [f"{name}:{len(text)}: {len(text)} lines, over {MAX_LINES}; split it, or say why in "
            f"its head: '// {REASON} ...'"]


def left_over(name, text):
    if not name.endswith(TEXT):
        return []
    return [f"{name}:{number}: left-over mark {match.group(0)}; file an issue instead"
            for number, line in enumerate(text, 1) if (match := LEFT_OVER.search(line))]


def plain_cuda(name, text):
    """Kernels are launched, and declare dynamic shared memory, through the macros of cuda/gpu.h."""
    if not name.endswith((".cu", ".cuh")) and not name.startswith("cuda/") or name == "cuda/gpu.h":
        return []
    return [f"{name}:{number}: {remedy} (cuda/gpu.h)"
            for number, line in enumerate(text, 1) if name.endswith(source_tree.CODE)
            for pattern, remedy in PLAIN_CUDA if pattern.search(line.split("//")[0])]


def links(name, text):
    """Every relative link of a Markdown file leads to a file of the tree."""
    findings = []
    fenced = False
    for number, line in enumerate(text, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            path = (source_tree.ROOT / name).parent / target.split("#")[0]
            if not path.exists():
                findings.append(f"{name}:{number}: broken link {target}")
    return findings


def main():
    names = source_tree.files()
    findings = top_level(names)
    for name in names:
        if not name.endswith(TEXT + (".md",)):
            continue
        text = source_tree.lines(name)
        findings += length(name, text) + left_over(name, text) + plain_cuda(name, text)
        if name.endswith(".md"):
            findings += links(name, text)
        if name.startswith("tests/") and name.endswith("_test.cc"):
            if not any(CHECKS.search(line) for line in text):
                findings.append(f"{name}:1: no EXPECT_ or ASSERT_: this test cannot fail")
    source_tree.finish("files", len(names), findings)


if __name__ == "__main__":
    main()
