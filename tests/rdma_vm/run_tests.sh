#!/usr/bin/env bash
# Runs inside the emulated machine: every RDMA test in one boot, then a list of what passed and what
# did not. Started by run.sh.
#
# usage: run_tests.sh BUILD_FOLDER KERNEL
set -u
build=$1
cd "$build/tests" || exit 1
table=() failed=0

run() {  # run NAME SECONDS COMMAND...
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  echo "---- $name"
  timeout --kill-after=10 "$limit" "$@" </dev/null || status=$?
  case $status in
    0) table+=("passed  $name  ($((SECONDS - start)) s)");;
    124|137) table+=("FAILED  $name  (no end within $limit s)"); failed=1;;
    *) table+=("FAILED  $name  (status $status)"); failed=1;;
  esac
}

# The contract of all transports, ranks as threads.
for test in transport_test transport_loss_test; do
  run "$test over verbs" 300 "./$test" --gtest_filter='*verbs*'
done
for test in rdma_vm/*_test; do
  run "$(basename "$test")" 300 "$test"
done
run "two ranks train over verbs with lost packets" 300 \
  "$(dirname "$0")/train_together.sh" "$build"

echo "==== RDMA tests on kernel $(uname -r)"
printf '%s\n' "${table[@]}"
exit $failed
