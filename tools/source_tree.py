"""Which files belong to the tree, and a way to report findings: shared by the lint scripts."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".h", ".cc", ".cu", ".cuh")


def files(*suffixes):
    """Relative paths of the files that git tracks or could add, in order; all when no suffix."""
    out = subprocess.run(  # safe.directory: also when another user owns the clone, as in CI
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = sorted(set(name for name in out.split("\0") if name))
    return [n for n in names if (not suffixes or n.endswith(suffixes)) and (ROOT / n).is_file()]


def lines(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines()


def finish(title, count, findings):
    """Prints the findings, one a line, and ends the program."""
    for finding in findings:
        print(finding)
    print(f"{title}: {count} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)
