#!/usr/bin/env bash
# The RDMA tests, one boot of the emulated machine per kernel. Without an emulator they are listed as
# skipped, with the reason; with KINET_RDMA=required (CI) that is a failure.
#
# usage: tests/rdma_vm/run.sh BUILD_FOLDER [KERNEL...]     kernels: 6.1 6.12 (default: both)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?build folder}")
shift
[ $# -gt 0 ] || set -- 6.1 6.12
limit=900  # seconds for a boot with all tests, on a machine that does other things too

skip() {
  echo "Skipped: RDMA tests: $*"
  [ "${KINET_RDMA:-}" != required ] || { echo "and KINET_RDMA=required says they must run"; exit 1; }
  exit 0
}
missing=$("$here/rdma_vm.sh" --missing)
[ -z "$missing" ] || skip "packages are missing: $missing(hint: make deps)"
ls "$build"/tests/rdma_vm/*_test >/dev/null 2>&1 || skip "kinet was built without libibverbs"

summary=() failed=0
for kernel in "$@"; do
  if ! prepared=$("$here/rdma_vm.sh" --kernel "$kernel" --prepare 2>&1); then
    skip "kernel $kernel: $prepared"
  fi
  echo "== RDMA tests on $prepared"
  status=0
  "$here/rdma_vm.sh" --kernel "$kernel" --timeout $limit -- \
    "$here/run_tests.sh" "$build" "$kernel" || status=$?
  [ $status = 0 ] || failed=1
  summary+=("kernel $kernel: $([ $status = 0 ] && echo passed || echo "FAILED (status $status)")")
done
# Two machines, one rank each: nothing is shared but the network between them.
token=$build/rdma_token
(umask 077; od -An -tx1 -N16 /dev/urandom | tr -d ' \n' >"$token")
echo "== training on two emulated machines"
status=0
"$here/rdma_vm.sh" --kernel "$1" --vms 2 --smp 1 --timeout $limit -- \
  "$here/train_together.sh" "$build" "$token" || status=$?
rm -f "$token"
[ $status = 0 ] || failed=1
summary+=("two machines, kernel $1: $([ $status = 0 ] && echo passed || echo "FAILED (status $status)")")

echo "== RDMA tests"
printf '%s\n' "${summary[@]}"
exit $failed
