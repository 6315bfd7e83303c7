#!/usr/bin/env bash
# Installs the Debian packages kinet needs and that are missing. Asks nothing, says what it does, and
# neither does anything nor touches the network when all are there. Exit status 2: packages are
# missing and this user cannot install them; the line to run is printed.
#
# usage: tools/deps.sh [--build] [--list]
#   --build   only what the program and its tests need to be built
#   --list    print the packages and do nothing
set -eu

# Not libopencv-dev: it pulls in some 670 MB of modules; tools/cmake/FindOpenCVParts.cmake finds the
# parts. libopenblas-pthread-dev is the flavour behind libopenblas-dev that kinet builds against.
packages=(
  g++ cmake ninja-build pkg-config git python3
  libopenblas-pthread-dev
  libopencv-imgcodecs-dev libopencv-imgproc-dev
  protobuf-compiler libprotobuf-dev liblmdb-dev zlib1g-dev
  libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)
more_packages=(
  ccache libopencv-dnn-dev libbenchmark-dev
  libibverbs-dev ibverbs-providers
  libopenmpi-dev openmpi-bin  # some 110 MB with what they need: transport mpi, ranks under mpirun
  clang-format clang-tidy
  dataset-fashion-mnist
  qemu-system-x86 busybox-static kmod cpio xz-utils zstd iproute2
)
if [ "${1:-}" = "--build" ]; then
  shift
else
  packages+=("${more_packages[@]}")
fi
if [ "${1:-}" = "--list" ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "deps: not a Debian system; these packages (by their Debian 12 names) are needed:"
  printf '  %s\n' "${packages[@]}"
  exit 0
fi

installed() {
  dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
    awk '$2 == "installed" { print $1 }'
}
missing_packages() {
  # A package of several architectures is listed once for each.
  comm -23 <(printf '%s\n' "${packages[@]}" | sort -u) <(installed | sort -u)
}

mapfile -t missing < <(missing_packages)
if [ "${#missing[@]}" -eq 0 ]; then
  echo "deps: all ${#packages[@]} packages are installed"
  exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo=(sudo -n)
  else
    echo "deps: packages are missing, and installing them needs root. Please run:"
    echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}"
    exit 2
  fi
fi

apt() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null
}
echo "deps: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
if ! apt update; then
  echo "deps: 'apt-get update' failed; trying with the package lists at hand"
fi
apt install --no-install-recommends "${missing[@]}"

mapfile -t missing < <(missing_packages)
if [ "${#missing[@]}" -ne 0 ]; then
  echo "deps: still missing after the installation: ${missing[*]}" >&2
  exit 1
fi
echo "deps: done"
