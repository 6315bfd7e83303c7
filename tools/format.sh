#!/usr/bin/env bash
# clang-format over all C++ and CUDA files that git knows or could add.
#
# usage: tools/format.sh [--fix]    without --fix: report and exit 1 where a file would change
set -eu
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[ "${1:-}" != "--fix" ] || mode=(-i)
mapfile -t files < <(git ls-files --cached --others --exclude-standard \
  '*.cc' '*.h' '*.cu' '*.cuh' | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
[ "${#files[@]}" -gt 0 ] || exit 0
printf '%s\0' "${files[@]}" | xargs -0 -n 20 -P "$(nproc)" clang-format "${mode[@]}"
echo "format: ${#files[@]} files"
