#!/usr/bin/env bash
# Runs a command on a machine that has working RDMA devices, on a host that has none: boots Debian's
# own kernel in QEMU (software emulation, no KVM needed), makes Soft-RoCE (rdma_rxe) devices there,
# runs the command with the host's root file system as its own, and exits with its status.
#
#   rdma_vm.sh [options] -- COMMAND [ARG...]
#
#   --share DIR     host folder that the guest may also write (same path there); more than once.
#                   Everything else of the host is seen read-only: the guest's own writes go to its
#                   memory and are lost at its end.
#   --smp N         virtual processors (default 2; no more than the host has)
#   --mem MB        guest memory (default 1024)
#   --mtu N         MTU of the network devices (default 4500: RoCE MTU 4096; 1500: RoCE MTU 1024)
#   --timeout S     give up after S seconds, boot included (default 300); exit status 124
#   --vms N         boot N (1..4) machines on one emulated switch, and run the command in each
#   --kernel 6.1|6.12   Debian kernel series (default 6.1)
#   --env NAME[=VALUE]  pass an environment variable (more than once); of its own accord the guest
#                   gets only PATH, HOME, LANG, LD_LIBRARY_PATH
#   --missing       print the Debian packages that are missing, then exit
#   --prepare       only download and build what is needed, then exit
#   --verbose       the guest kernel's console and boot times on stderr
#
# In the guest (one machine):
#   rxe0  on veth0  10.77.0.1/24   the two ends of one veth pair, in one network namespace; RDMA
#   rxe1  on veth1  10.77.0.2/24   traffic between them really crosses the pair, so that
#                                  'tc qdisc add dev veth0 root netem loss 1%' and
#                                  'ip link set veth0 down' hit it
#   with --vms N there is also, in each machine:
#   rxe2  on eth0   10.78.0.<1+i>/24   the emulated network between the machines
#   variables: RDMA_VM=1, RDMA_VM_ID=0..N-1, RDMA_VM_COUNT=N
#
# Exit status: the command's; 124 on timeout; 125 when the machine itself failed (no kernel, did not
# boot, died). With --vms, the highest of them.
# RDMA_VM_CACHE: folder for the downloaded kernel package and what is made of it (default
# ${XDG_CACHE_HOME:-$HOME/.cache}/kinet-rdma-vm).
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
die() { echo "rdma-vm: $*" >&2; exit 125; }
export PATH=$PATH:/usr/sbin:/sbin

# ---- options ------------------------------------------------------------------------------------
smp=2 mem=1024 mtu=4500 timeout=300 vms=1 kernel=6.1 action=run verbose=0
shares=() envs=()
while [ $# -gt 0 ]; do
  case $1 in
    --share) shares+=("$(realpath -e "$2")") || die "no folder $2"; shift 2;;
    --smp) smp=$2; shift 2;;
    --mem) mem=$2; shift 2;;
    --mtu) mtu=$2; shift 2;;
    --timeout) timeout=$2; shift 2;;
    --vms) vms=$2; shift 2;;
    --kernel) kernel=$2; shift 2;;
    --env) envs+=("$2"); shift 2;;
    --prepare) action=prepare; shift;;
    --missing) action=missing; shift;;
    --verbose) verbose=1; shift;;
    --help|-h) sed -n '2,/^set -u/p' "$0" | sed 's/^# \?//; $d'; exit 0;;
    --) shift; break;;
    -*) die "unknown option $1 (see --help)";;
    *) break;;
  esac
done
case $vms in [1-4]) ;; *) die "--vms is 1 to 4";; esac

# ---- packages -----------------------------------------------------------------------------------
missing_packages() {
  local entry command
  command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
  { [ -x /bin/busybox ] && /bin/busybox --list | grep -qx switch_root; } || echo busybox-static
  for entry in kmod:depmod kmod:modprobe cpio:cpio xz-utils:xz zstd:zstd iproute2:rdma iproute2:tc; do
    command -v "${entry#*:}" >/dev/null || echo "${entry%%:*}"
  done
  ls /usr/lib/*/libibverbs/librxe-*.so >/dev/null 2>&1 || echo ibverbs-providers
}
missing=$(missing_packages | sort -u | tr '\n' ' ')
[ $action != missing ] || { echo "$missing"; exit 0; }
[ -z "$missing" ] || die "missing packages: $missing(hint: make deps)"
[ $action = prepare ] || [ $# -gt 0 ] || die "no command (see --help)"

cache=${RDMA_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kinet-rdma-vm}
mkdir -p "$cache" || die "cannot make $cache"
. "$here/image.sh"
prepare_image "$kernel" "$cache"
[ $action = run ] || { echo "kernel $(cat "$img/version") in $img"; exit 0; }

# ---- run folder ---------------------------------------------------------------------------------
run=$(mktemp -d "${TMPDIR:-/tmp}/kinet-rdma-vm.XXXXXX") || die "no temporary folder"
machines=() readers=()  # process ids
alive() { local p; for p in "$@"; do kill -0 "$p" 2>/dev/null && return; done; return 1; }
cleanup() {
  local p
  for p in "${machines[@]}" "${readers[@]}"; do kill -9 "$p" 2>/dev/null; done
  rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

write_settings() {  # write_settings MACHINE: what guest_run.sh reads
  local n=0 s
  echo "id=$1 count=$vms"
  echo 'share() {'
  echo '  $b mkdir -p "$2"'
  echo '  $b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap "share$1" "$2"'
  echo '}'
  for s in "${shares[@]}"; do printf 'share %d %q\n' $n "$s"; n=$((n + 1)); done
}
write_command() {
  local e
  echo 'ulimit -l unlimited'
  [ -z "${LD_LIBRARY_PATH:-}" ] || printf 'export LD_LIBRARY_PATH=%q\n' "$LD_LIBRARY_PATH"
  for e in "${envs[@]}"; do
    case $e in
      *=*) printf 'export %s=%q\n' "${e%%=*}" "${e#*=}";;
      *) [ -z "${!e+x}" ] || printf 'export %s=%q\n' "$e" "${!e}";;
    esac
  done
  printf 'cd %q\nexec' "$PWD"
  printf ' %q' "$@"
  echo
}
for ((i = 0; i < vms; i++)); do
  mkdir -p "$run/$i"
  write_settings $i >"$run/$i/guest_settings"
  write_command "$@" >"$run/$i/cmd"
  cp "$here/guest_run.sh" "$run/$i/"
done

# ---- boot ---------------------------------------------------------------------------------------
network_options() {  # network_options MACHINE: machine 0 holds a hub, each other one connects to it
  local j mac=02:78:00:00:00:0$(($1 + 1))
  if [ "$vms" = 1 ]; then
    net=(-nic none)
  elif [ "$1" = 0 ]; then
    net=(-netdev hubport,id=h,hubid=0
         -device virtio-net-pci,netdev=h,mac=$mac,host_mtu=$mtu,romfile=)
    for ((j = 1; j < vms; j++)); do
      net+=(-netdev stream,id=s$j,server=on,addr.type=unix,addr.path="$run/net$j"
            -netdev hubport,id=p$j,hubid=0,netdev=s$j)
    done
  else
    net=(-netdev stream,id=s,server=off,addr.type=unix,addr.path="$run/net$1"
         -device virtio-net-pci,netdev=s,mac=$mac,host_mtu=$mtu,romfile=)
  fi
}
file_options() {  # file_options MACHINE: the host's root, the control folder, the shared folders
  local n=0 s
  files=(-fsdev local,id=fr,path=/,security_model=none,readonly=on,multidevs=remap
         -device virtio-9p-pci,fsdev=fr,mount_tag=hostroot
         -fsdev local,id=fc,path="$run/$1",security_model=none
         -device virtio-9p-pci,fsdev=fc,mount_tag=ctl)
  for s in "${shares[@]}"; do
    files+=(-fsdev local,id=fs$n,path="$s",security_model=none,multidevs=remap
            -device virtio-9p-pci,fsdev=fs$n,mount_tag=share$n)
    n=$((n + 1))
  done
}
start_machine() {
  local i=$1 c=$run/$1 show=(cat) net files
  mkfifo "$c/out" "$c/err"  # its output, passed on as it comes
  [ "$vms" = 1 ] || show=(sed -u "s/^/[vm$i] /")
  "${show[@]}" <"$c/out" & readers+=($!); disown $!
  "${show[@]}" <"$c/err" >&2 & readers+=($!); disown $!
  network_options "$i"
  file_options "$i"
  local kernel_options="console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable \
no_timer_check random.trust_cpu=on net.ifnames=0 rcupdate.rcu_cpu_stall_suppress=1 nowatchdog audit=0 \
apparmor=0 kinet.mtu=$mtu kinet.id=$i kinet.count=$vms"
  qemu-system-x86_64 -name "kinet-rdma-vm$i" -nodefaults -no-user-config -display none -no-reboot \
    -machine q35,acpi=on,hpet=off,graphics=off,usb=off,sata=off,smbus=off \
    -cpu max -accel tcg,thread=multi -smp "$smp" -m "$mem" \
    -kernel "$img/vmlinux" -initrd "$img/initrd" -append "$kernel_options" \
    -serial "file:$c/console" -device virtio-serial-pci \
    -chardev "file,id=out,path=$c/out" -device virtserialport,chardev=out,name=out \
    -chardev "file,id=err,path=$c/err" -device virtserialport,chardev=err,name=err \
    "${files[@]}" "${net[@]}" </dev/null >"$c/qemu.log" 2>&1 &
  machines[i]=$!; disown $!
}
started=$SECONDS
for ((i = 0; i < vms; i++)); do
  start_machine $i
  if [ $i = 0 ] && [ "$vms" -gt 1 ]; then  # the others need its sockets
    for ((k = 0; k < 200; k++)); do [ -S "$run/net$((vms - 1))" ] && break; sleep 0.05; done
  fi
done

# ---- wait, then report --------------------------------------------------------------------------
timed_out=0
while alive "${machines[@]}"; do
  [ $((SECONDS - started)) -lt "$timeout" ] || { timed_out=1; break; }
  sleep 0.1
done
for p in "${machines[@]}"; do kill -9 "$p" 2>/dev/null; done
for ((k = 0; k < 50; k++)); do alive "${readers[@]}" || break; sleep 0.1; done  # the last output

show_console() {
  [ ! -s "$1/qemu.log" ] || sed 's/^/rdma-vm: qemu: /' "$1/qemu.log"
  [ ! -s "$1/console" ] || tr -d '\r' <"$1/console" | sed 's/\x1b[c?[0-9;]*[a-zA-Z]*//g' |
    sed 's/^\(rdma-vm: \)\?/rdma-vm: console: /' | tail -40
}
status=0
for ((i = 0; i < vms; i++)); do
  c=$run/$i
  if [ -s "$c/rc" ]; then r=$(cat "$c/rc")
  elif [ $timed_out = 1 ]; then r=124
  else r=125
  fi
  if [ $verbose = 1 ] || [ "$r" = 125 ] || { [ "$r" = 124 ] && [ ! -s "$c/booted" ]; }; then
    show_console "$c" >&2
  fi
  [ $verbose = 0 ] || echo "rdma-vm: machine $i kernel $(cat "$img/version"), command began at" \
    "$(cat "$c/booted" 2>/dev/null) s of guest time, ended at $(cut -d' ' -f1 "$c/done" 2>/dev/null) s" >&2
  [ "$r" -le $status ] || status=$r
done
[ $timed_out = 0 ] || echo "rdma-vm: no end after $timeout s" >&2
[ $verbose = 0 ] || echo "rdma-vm: $((SECONDS - started)) s in all, exit status $status" >&2
exit $status
