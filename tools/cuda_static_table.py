#!/usr/bin/env python3
"""Static figures of the CUDA kernels against the checked-in table cuda/static_table.txt: registers,
shared memory, and how many 128-bit accesses the machine code has. Needs no GPU.

usage: tools/cuda_static_table.py FOLDER             compare
       tools/cuda_static_table.py FOLDER --update    write the table anew
       tools/cuda_static_table.py FOLDER --markdown  a summary for docs/cuda.md

FOLDER holds, for every cuda/x.cu, x.cubin and x.log (what ptxas -v said), and opcode_probe.cubin of
known kernels; the target cuda_static makes them (tools/cmake/KinetCudaGates.cmake). A kernel may use
fewer registers and less shared memory than the table says, and more 128-bit accesses; else, and when
a kernel is new or gone, the status is 1. Spills and local memory fail the compilation itself.
"""

import argparse
import collections
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "cuda" / "static_table.txt"
REMEDY = ("If the change is meant: tools/cuda_static_table.py FOLDER --update, and look at the "
          "difference before it is committed.")

# The low 12 bits of an instruction, from sm_80 on. NVIDIA does not document them; PROBES re-checks.
OPCODES = {0x981: "LDG", 0x986: "STG", 0x984: "LDS", 0x388: "STS", 0xfae: "LDGSTS", 0x223: "FFMA",
           0x23c: "MMA", 0xf89: "SHFL", 0xb1d: "BAR", 0x98e: "RED"}
SIZED = {"LDG", "STG", "LDS", "STS", "LDGSTS"}
SIZES = {4: 32, 5: 64, 6: 128}  # bits 73 to 75

# kernel of tests/cuda/opcode_probe.cu -> what its source says
PROBES = {
    "probe_copy32": {"LDG.32": 1, "STG.32": 1},
    "probe_copy64": {"LDG.64": 1, "STG.64": 1},
    "probe_copy128": {"LDG.128": 1, "STG.128": 1},
    "probe_shared128": {"LDG.128": 1, "STS.128": 1, "BAR": 1, "LDS.128": 1, "STG.128": 1},
    "probe_ffma": {"LDG.32": 1, "LDG.64": 1, "FFMA": 16, "STG.32": 1},
    "probe_shuffle": {"LDG.32": 1, "SHFL": 1, "STG.32": 1},
    "probe_reduction": {"RED": 1},
    "probe_async128": {"LDGSTS.128": 1, "LDS.128": 1, "STG.128": 1},
    "probe_mma": {"LDG.128": 2, "LDG.64": 1, "MMA": 1, "STG.128": 1},
}

WIDE = ("LDG.128", "LDGSTS.128", "STG.128", "LDS.128", "STS.128")  # must not become fewer
COLUMNS = ("registers", "shared") + WIDE + ("FFMA", "MMA", "SHFL", "BAR")


def code_sections(cubin):
    """(mangled name, machine code) of every kernel of a cubin, which is an ELF file."""
    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    text = headers[names][4]
    for name, _, _, _, offset, length in headers:
        end = cubin.index(b"\0", text + name)
        label = cubin[text + name:end].decode()
        if label.startswith(".text."):
            yield label.removeprefix(".text."), cubin[offset:offset + length]


def count_instructions(code):
    counts = collections.Counter()
    for low, high in struct.iter_unpack("<QQ", code):  # 16 bytes each
        name = OPCODES.get(low & 0xfff)
        if name in SIZED:
            name += f".{SIZES.get(high >> 9 & 7, 8)}"
        if name:
            counts[name] += 1
    return counts


def check_opcodes(folder):
    sections = dict(code_sections((folder / "opcode_probe.cubin").read_bytes()))
    for kernel, expected in PROBES.items():
        found = dict(count_instructions(sections[kernel]))
        if found != expected:
            sys.exit(f"cuda_static_table: {kernel} of tests/cuda/opcode_probe.cu has {found} where its "
                     f"source has {expected}: this ptxas encodes instructions in another way; find "
                     "the opcodes (compile copies of float, float2 and float4 and compare) and mend "
                     "OPCODES and SIZES")


def demangle(names):
    run = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True,
                         text=True)
    return run.stdout.splitlines()


def short_name(demangled):
    """kernel<arguments>, without return type, parameters and names of this file's own namespace."""
    name = re.sub(r"(\(anonymous namespace\)|_GLOBAL__N__\w+|kinet)::", "", demangled)
    depth = 0
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            name = name[:i]
            break
    return name.removeprefix("void ").replace(" ", "")


def ptxas_figures(log):
    """mangled name -> (registers, bytes of shared memory)"""
    figures = {}
    kernel = None
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            kernel = match.group(1)
        elif kernel and (match := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            figures[kernel] = (int(match.group(1)), int(shared.group(1)) if shared else 0)
            kernel = None
    return figures


def read_folder(folder):
    """(file, kernel) -> {column: figure}"""
    rows = {}
    for source in sorted((ROOT / "cuda").glob("*.cu")):
        code = dict(code_sections((folder / f"{source.stem}.cubin").read_bytes()))
        figures = ptxas_figures((folder / f"{source.stem}.log").read_text())
        names = sorted(figures)
        for mangled, demangled in zip(names, demangle(names)):
            counts = count_instructions(code[mangled])
            row = dict(zip(COLUMNS, figures[mangled]))
            row.update({column: counts[column] for column in COLUMNS[2:]})
            key = (source.stem, short_name(demangled))
            if key in rows:  # overloads: the larger figures
                row = {c: (min if c in WIDE else max)(row[c], rows[key][c]) for c in COLUMNS}
            rows[key] = row
    return rows


def compiler(folder):
    return (folder / "version.txt").read_text().strip()


def write_table(folder, rows):
    lines = ["# Static figures of the kernels, sm_80; written by tools/cuda_static_table.py --update.",
             "# " + compiler(folder),
             "# file kernel " + " ".join(COLUMNS)]
    for (file, kernel), row in sorted(rows.items()):
        lines.append(" ".join([file, kernel] + [str(row[c]) for c in COLUMNS]))
    TABLE.write_text("\n".join(lines) + "\n")


def read_table():
    lines = TABLE.read_text().splitlines()
    rows = {}
    for line in lines:
        if not line.startswith("#"):
            file, kernel, *figures = line.split()
            rows[file, kernel] = dict(zip(COLUMNS, map(int, figures)))
    return lines[1].removeprefix("# "), rows


def differences(expected, found):
    for key in sorted(expected.keys() | found.keys()):
        name = f"cuda/{key[0]}.cu: {key[1]}"
        if key not in found:
            yield f"{name}: in the table, not in the file"
        elif key not in expected:
            yield f"{name}: not in the table"
        else:
            for column in ("registers", "shared") + WIDE:
                old, new = expected[key][column], found[key][column]
                if new < old if column in WIDE else new > old:
                    yield f"{name}: {column} {new}, the table says {old}"


def print_markdown(rows):
    print("| file | kernels | registers | shared bytes | 128-bit loads | 128-bit stores | MMA |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for file in sorted({key[0] for key in rows}):
        mine = [row for key, row in rows.items() if key[0] == file]
        registers = [row["registers"] for row in mine]
        loads = max(row["LDG.128"] + row["LDGSTS.128"] + row["LDS.128"] for row in mine)
        stores = max(row["STG.128"] + row["STS.128"] for row in mine)
        print(f"| `{file}.cu` | {len(mine)} | {min(registers)} to {max(registers)} "
              f"| {max(row['shared'] for row in mine)} | {loads} | {stores} "
              f"| {max(row['MMA'] for row in mine)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    check_opcodes(options.folder)
    rows = read_folder(options.folder)
    if options.update:
        write_table(options.folder, rows)
    if options.markdown:
        print_markdown(rows)
    version, expected = read_table()
    if version != compiler(options.folder):
        print(f"cuda_static_table: the table is of '{version}', this is '{compiler(options.folder)}': "
              f"{len(rows)} kernels compiled without spills, figures not compared")
        return
    findings = list(differences(expected, rows))
    for finding in findings:
        print(finding)
    print(f"cuda_static_table: {len(rows)} kernels, {len(findings)} findings")
    if findings:
        sys.exit(REMEDY)


if __name__ == "__main__":
    main()
