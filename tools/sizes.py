#!/usr/bin/env python3
"""Lines of code per folder, against a budget: growth should be a decision. Raising BUDGET is a
change like any other, with its reason in the commit message.

usage: tools/sizes.py        exit status 1 when the budget is exceeded
"""

import statistics
import sys

import source_tree

BUDGET = 78000  # lines of src layers cuda comm data together
BUDGETED = ("src", "layers", "cuda", "comm", "data")
OTHERS = ("tests", "bench", "examples")


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "src" and len(parts) > 2 else parts[0]


def comment_lines(text):
    """Lines with a comment, whole or at their end; a "//" inside a string is rare enough."""
    return sum(1 for line in text if line.lstrip().startswith("//") or " // " in line)


def main():
    folders = {}  # folder -> list of (name, lines, comment lines)
    for name in source_tree.files(*source_tree.CODE):
        text = source_tree.lines(name)
        folders.setdefault(folder_of(name), []).append((name, len(text), comment_lines(text)))

    def order(folder):
        top = folder.split("/")[0]
        return ((BUDGETED + OTHERS).index(top) if top in BUDGETED + OTHERS else 99, folder)

    print(f"{'folder':<14} {'files':>5} {'lines':>6} {'comments':>8} {'median':>6}  longest")
    total = 0
    for folder in sorted(folders, key=order):
        entries = folders[folder]
        lines = sum(e[1] for e in entries)
        longest = max(entries, key=lambda e: e[1])
        if folder.split("/")[0] in BUDGETED:
            total += lines
        share = 100 * sum(e[2] for e in entries) / max(lines, 1)
        print(f"{folder:<14} {len(entries):>5} {lines:>6} {share:>7.0f}% "
              f"{statistics.median(e[1] for e in entries):>6.0f}  {longest[0]} ({longest[1]})")
    print(f"{' '.join(BUDGETED)}: {total} lines of a budget of {BUDGET}")
    if total > BUDGET:
        print(f"sizes: {total - BUDGET} lines over the budget")
        sys.exit(1)


if __name__ == "__main__":
    main()
