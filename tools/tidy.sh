#!/usr/bin/env bash
# clang-tidy over a share of the sources: those touched by the last 20 commits, newest first, and a
# tenth of the tree chosen by the commit hash, so that in time every file has its turn. The number is
# capped: this is a gate of a few minutes, not a full analysis.
#
# usage: tools/tidy.sh [FILE...]    with files: exactly those
set -eu
cd "$(dirname "$0")/.."
build=build-lint
max_touched=24 max_sampled=12
seconds_per_file=120

cmake -S . -B "$build" -DKINET_BUILD_BENCH=OFF -DKINET_PRECOMPILE=OFF -DKINET_UNITY=OFF -DCMAKE_CXX_COMPILER_LAUNCHER= >/dev/null
# Options of g++ that clang takes for errors.
sed -i 's/ -fno-gnu-unique//g; s/ -fno-tree-sra//g' "$build/compile_commands.json"
cmake --build "$build" --target kinet_generated -j "$(nproc)" >/dev/null

exists() { while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }
ours() { grep -E '^(src|layers|cuda|data|comm|tests)/.*\.cc$' || true; }

if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t touched < <(git log -20 --name-only --format= | ours | awk '!seen[$0]++' | exists |
    head -n "$max_touched")
  # The first hexadecimal digits of sha1(commit, name) pick about every tenth file.
  commit=$(git rev-parse HEAD)
  mapfile -t sampled < <(git ls-files '*.cc' | ours | exists | while read -r f; do
      echo "$(printf '%s %s' "$commit" "$f" | sha1sum | cut -c1-8) $f"
    done | sort | awk '{ n++; name[n] = $2 } END { for (i = 1; i <= n / 10 + 1; i++) print name[i] }' |
    head -n "$max_sampled")
  mapfile -t files < <(printf '%s\n' "${touched[@]}" "${sampled[@]}" | grep . | sort -u)
fi
# Only what this configuration compiles: another processor's kernels are not in the database.
mapfile -t files < <(for f in "${files[@]}"; do
  ! grep -q "\"file\": \".*/$f\"" "$build/compile_commands.json" || echo "$f"; done)
[ "${#files[@]}" -gt 0 ] || { echo "tidy: no files"; exit 0; }

status=0
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  timeout "$seconds_per_file" clang-tidy --quiet -p "$build" 2>/dev/null || status=1
echo "tidy: ${#files[@]} files"
exit "$status"
