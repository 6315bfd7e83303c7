#!/usr/bin/env bash
# Runs the tests of a build folder that carry a label, then lists every skipped test with its reason
# and repeats ctest's closing lines, so that they are the last thing seen.
#
# usage: tools/run_tests.sh BUILD_FOLDER JOBS LABEL_REGEX
set -eu
build=$1 jobs=$2 label=$3
log=$build/ctest-output.log

status=0
ctest --test-dir "$build" -L "$label" -j "$jobs" --no-tests=error --output-on-failure \
  --output-log "$log" </dev/null || status=$?

# GoogleTest prints "file:line: Skipped", the reason on the next line.
details=$build/Testing/Temporary/LastTest.log
if [ -f "$details" ] && grep -q ': Skipped$' "$details"; then
  echo "Skipped:"
  grep -A1 ': Skipped$' "$details" | grep -v -e ': Skipped$' -e '^--$' | sort | uniq -c
fi
echo "Summary of $build, label $label:"
sed -n '/tests passed/,$p' "$log" | grep -v -e '^$' -e '^\[ERROR_MESSAGE'
exit "$status"
