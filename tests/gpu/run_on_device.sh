#!/usr/bin/env bash
# For a machine with an NVIDIA GPU, nvcc and cmake: builds kinet for that GPU alone, runs the tests of
# label gpu on it, times the nets of models/ beside PyTorch with cuDNN and layers by themselves, and
# writes what it found as one page of Markdown. It takes less than 8 minutes: each stage has a limit
# and says what it waits for. A stage that fails is shown and hides no later one; exit status 1.
#
# usage: tests/gpu/run_on_device.sh [--build FOLDER] [--no-build] [PAGE.md]
#        tests/gpu/run_on_device.sh --emulated [--quick] [--build FOLDER] [--no-build] [PAGE.md]
#
#   --build FOLDER   build folder; default build-gpu, with --emulated build
#   --no-build       use what lies there
#   --emulated       the same stages where kernels run on the CPU, with tiny nets: to see that this
#                    script works. Its times mean nothing
#   --quick          one test program, one net and few layers
#   PAGE.md          default: device_report.md in the build folder
set -u -o pipefail
called_from=$PWD
cd "$(dirname "$0")/../.."

build="" page="" emulated=false quick=false do_build=true
while [ $# -gt 0 ]; do
  case $1 in
    --build)
      if [ -z "${2:-}" ]; then echo "--build needs a folder" >&2; exit 2; fi
      build=$2
      shift
      ;;
    --no-build) do_build=false ;;
    --emulated) emulated=true ;;
    --quick) quick=true ;;
    -*) sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *)
      if [ -n "$page" ]; then echo "one page is enough: $page, $1" >&2; exit 2; fi
      page=$1
      ;;
  esac
  shift
done
if $quick && ! $emulated; then echo "--quick goes with --emulated" >&2; exit 2; fi
if [ -z "$build" ]; then if $emulated; then build=build; else build=build-gpu; fi; fi
capability=""
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader -i 0; }
if ! $emulated; then
  capability=$(query compute_cap | tr -d '.')
  if [ -z "$capability" ]; then
    echo "no GPU: nvidia-smi names none; --emulated tries this script without one" >&2
    exit 2
  fi
fi
mkdir -p "$build" || exit 2
case $page in
  "") page=$build/device_report.md ;;
  /*) ;;
  *) page=$called_from/$page ;;
esac
if ! : > "$page" || [ ! -f "$page" ]; then
  echo "the page $page cannot be written" >&2
  exit 2
fi
work=$build/device_report  # logs of the stages
mkdir -p "$work" || exit 2
total=470  # seconds for everything
failed=()

running=""  # process of the stage: timeout, which passes signals on to all that it started
trap 'if [ -n "$running" ]; then kill "$running"; fi; echo "stopped by a signal" >&2; exit 130' INT TERM

# stage NAME SECONDS WHAT COMMAND...: runs it within the time, shows what it prints, notes failure.
stage() {
  local name=$1 limit=$2 what=$3 status=0 left=$((total - SECONDS))
  shift 3
  if [ "$left" -lt 5 ]; then
    echo "== $name: left out, the $total seconds of the whole are over"
    failed+=("$name (no time was left)")
    return 1
  fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  echo "== $name: $what (at most $limit s)"
  timeout --kill-after=10 "$limit" "$@" > "$work/$name.log" 2>&1 &
  running=$!
  tail -n +1 -f --pid="$running" "$work/$name.log" &
  wait "$running" || status=$?
  running=""
  wait  # until tail has shown the rest
  if [ "$status" -ne 0 ]; then
    if [ "$status" -eq 124 ]; then status="over its $limit s"; else status="status $status"; fi
    echo "== $name: FAILED, $status; see $work/$name.log"
    failed+=("$name ($status)")
    return 1
  fi
}

if ! $emulated; then
  for nvcc in nvcc /usr/local/cuda/bin/nvcc; do
    if command -v "$nvcc" >/dev/null; then break; fi
  done
fi

# --- what building needs
targets=(kinet kinet_cuda gpu_tests)
options=(-DCMAKE_BUILD_TYPE=Release -DKINET_BUILD_BENCH=OFF)
if $emulated; then
  if [ -f "$build/CMakeCache.txt" ]; then options=(); fi  # a build folder of other uses
  targets=(kinet kinet_cuda_emulated cuda_layers_test cuda_optim_test cuda_convolution_test
           device_net_test device_solver_test cuda_net_test cuda_fusion_test cuda_overlap_test
           cuda_workers_test)
else
  options+=(-DKINET_CUDA=ON "-DKINET_CUDA_ARCHITECTURES=$capability-real")
fi
if $do_build; then
  stage packages 90 "what building needs" tools/deps.sh --build ||
    echo "   trying with what is here; tools/deps.sh --build --list names the packages"
  generator=()
  if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  stage configure 60 "cmake into $build" cmake -S . -B "$build" "${generator[@]}" "${options[@]}" &&
    stage build 270 "${targets[*]}" cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
fi

# --- tests. A test that is skipped has tested nothing: it counts as failed.
run_tests() {  # PROGRAM...
  local bad=0 tests=0 log
  for program in "$@"; do
    log=$work/$program.log
    echo "-- $program"
    if ! (cd "$build/tests" && exec "./$program") > "$log" 2>&1 || grep -q '^\[  SKIPPED ' "$log"; then
      bad=$((bad + 1))
      grep -B4 -A4 -E 'Failure$|^\[  (FAILED|SKIPPED) ' "$log" | head -n 60
      tail -n 3 "$log"
    fi
    tests=$((tests + $(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")))
  done
  echo "tests: $(($# - bad)) of $# programs passed, $tests tests"
  [ "$bad" -eq 0 ] && [ "$tests" -gt 0 ]
}
export -f run_tests
export build work
if $emulated; then
  export KINET_CUDA_LIBRARY=emulated
  programs=(cuda_optim_test)
  if ! $quick; then
    programs+=(cuda_layers_test cuda_convolution_test device_net_test device_solver_test
               cuda_net_test cuda_fusion_test cuda_overlap_test cuda_workers_test)
  fi
else
  mapfile -t programs < <(cd "$build/tests" 2>/dev/null && ls -- *_gpu_test)
fi
for program in "${programs[@]}"; do
  if [ ! -x "$build/tests/$program" ]; then
    echo "$build/tests has no $program: build it, that is leave out --no-build" >&2
    exit 2
  fi
done
stage tests 150 "${#programs[@]} programs of label gpu" bash -c 'run_tests "$@"' - "${programs[@]}"

# --- times
compare=(python3 bench/compare_torch_gpu.py --kinet "$build/kinet" --out "$work/times.md")
layers=("$build/kinet" bench layers --gpu)
if $emulated; then
  compare+=(--small)
  only='lenet|resnet20|cifar10_norm1'
  if $quick; then compare+=(--nets lenet) only='lenet_(ip|relu|pool)'; fi
  layers+=(--batch 1 --repeats 1 --seconds 0 --only "$only")
fi
: > "$work/times.md"
: > "$work/layers.log"
stage times 180 "training iterations of the nets, kinet and PyTorch in turn" "${compare[@]}"
stage layers 90 "layers by themselves" "${layers[@]}"

# --- the page
{
  echo "# kinet on $(if $emulated; then echo "an emulated device"; else query name; fi)"
  echo
  if $emulated; then
    echo "**Kernels ran on the CPU, tiny nets and batches: this shows that the script works. The times"
    echo "mean nothing.**"
    echo
  fi
  echo "- $(date -u +%Y-%m-%d), $("$build/kinet" --version 2>/dev/null | head -n 1)"
  "$build/kinet" devices 2>/dev/null | sed -n '/^CPU/p; /^GPU/,$p' | sed 's/^ */- /'
  if ! $emulated; then
    echo "- driver $(query driver_version), $("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p')"
    echo "- clocks now $(query clocks.sm), memory $(query clocks.mem); most $(query clocks.max.sm)," \
      "$(query clocks.max.mem); power limit $(query power.limit)"
  fi
  sed -n 's/^tests: /- tests: /p' "$work/tests.log" 2>/dev/null
  if [ "${#failed[@]}" -gt 0 ]; then printf -- '- FAILED: %s\n' "${failed[@]}"; fi
  echo
  cat "$work/times.md"
  echo
  echo '## Layers'
  echo
  echo '```'
  cat "$work/layers.log"
  echo '```'
} > "$page" || { echo "the page $page could not be written" >&2; exit 1; }
echo
sed '/^## Layers/,$d' "$page"
echo "written to $page, with the layers; $SECONDS s"
[ "${#failed[@]}" -eq 0 ]
