#!/bin/busybox sh
# The guest's first program: mounts, kernel modules, network and RDMA devices, then the host's root
# file system as its own and guest_run.sh. Runs under busybox, before any library of the host.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
export PATH=/bin
kv=$($b uname -r)
mark() { read -r up _ </proc/uptime; echo "rdma-vm: $1 at $up s"; }
fail() { echo "rdma-vm: $*"; $b poweroff -f; }
ip() { /sbin/ip "$@"; }  # iproute2's, not busybox's own
mark "kernel up"

for m in virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net veth crc32_generic \
         ib_uverbs rdma_ucm rdma_rxe; do
  $b modprobe $m || echo "rdma-vm: no module $m"
done
mark "modules loaded"

for a in $($b cat /proc/cmdline); do
  case $a in
    kinet.mtu=*) mtu=${a#*=};;
    kinet.id=*) id=${a#*=};;
    kinet.count=*) count=${a#*=};;
  esac
done

# Two devices joined by a cable, both in this one network namespace. accept_local lets a packet whose
# source is our own address come in over the cable.
ip link set lo up
for c in all default; do
  cd /proc/sys/net/ipv4/conf/$c
  echo 1 >accept_local; echo 0 >rp_filter; echo 1 >arp_ignore; echo 2 >arp_announce
  echo 0 >/proc/sys/net/ipv6/conf/$c/accept_dad
done
cd /
/sbin/ip -batch - <<BATCH
link add veth0 mtu $mtu address 02:77:00:00:00:01 type veth peer name veth1 mtu $mtu address 02:77:00:00:00:02
addr add 10.77.0.1/24 dev veth0
addr add 10.77.0.2/24 dev veth1
link set veth0 up
link set veth1 up
BATCH
/sbin/rdma link add rxe0 type rxe netdev veth0 || echo "rdma-vm: no rxe0"
/sbin/rdma link add rxe1 type rxe netdev veth1 || echo "rdma-vm: no rxe1"
if [ "$count" -gt 1 ]; then
  n=0; while [ ! -e /sys/class/net/eth0 ] && [ $n -lt 100 ]; do $b usleep 50000; n=$((n + 1)); done
  ip link set eth0 mtu "$mtu"; ip addr add 10.78.0.$((id + 1))/24 dev eth0; ip link set eth0 up
  /sbin/rdma link add rxe2 type rxe netdev eth0 || echo "rdma-vm: no rxe2"
fi
n=0
while [ ! -e /dev/infiniband/uverbs0 ] && [ $n -lt 100 ]; do $b usleep 50000; n=$((n + 1)); done
mark "rdma devices made"

# The host's root, read-only, below a layer in memory that takes all writes.
opts=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $opts,cache=loose,ro hostroot /lower || fail "no host root"
$b mount -t tmpfs -o size=60% ram /ram
$b mkdir /ram/up /ram/work
$b mkdir -p /ram/up/usr/lib/modules
$b cp -a /lib/modules/"$kv" /ram/up/usr/lib/modules/
$b mount -t overlay -o lowerdir=/lower,upperdir=/ram/up,workdir=/ram/work overlay /newroot ||
  fail "no overlay"
n=/newroot
for d in /dev /proc /sys; do $b mkdir -p $n$d; $b mount --move $d $n$d; done
$b mkdir -p $n/run $n/dev/pts $n/dev/shm
$b mount -t tmpfs -o mode=755 run $n/run
$b mount -t devpts devpts $n/dev/pts
$b mount -t tmpfs -o mode=1777 shm $n/dev/shm
$b mkdir -p $n/run/kinet-rdma-vm/ctl
$b cp /bin/busybox $n/run/kinet-rdma-vm/busybox
$b mount -t 9p -o $opts,cache=none ctl $n/run/kinet-rdma-vm/ctl || fail "no control folder"
exec $b switch_root $n /run/kinet-rdma-vm/busybox sh /run/kinet-rdma-vm/ctl/guest_run.sh
