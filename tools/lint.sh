#!/usr/bin/env bash
# All checks that need no running program. Goes on after a failure, so that one run shows everything.
set -u
cd "$(dirname "$0")/.."
# Read-only use of git also works where another user owns the clone, as in CI.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
failed=()
step() {
  local start=$SECONDS
  echo "== $*"
  "$@" </dev/null || failed+=("$1")
  local took=$((SECONDS - start))
  [ "$took" -lt 5 ] || echo "   ($took s)"
}

step tools/format.sh
step tools/lint_includes.py
step tools/lint_files.py
step tools/sizes.py
step tools/tidy.sh

if [ "${#failed[@]}" -gt 0 ]; then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
echo "lint: clean"
