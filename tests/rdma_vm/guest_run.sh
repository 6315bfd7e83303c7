# The guest's second program, on the host's root: mounts the shared folders, runs the command, leaves
# its status in the control folder, powers off. guest_settings is written by rdma_vm.sh.
b=/run/kinet-rdma-vm/busybox
ctl=/run/kinet-rdma-vm/ctl
. $ctl/guest_settings  # id, count, and a call of share for each folder
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 LC_ALL=C.UTF-8 RDMA_VM=1 RDMA_VM_ID=$id RDMA_VM_COUNT=$count
$b hostname kinet-vm$id
ulimit -l unlimited  # locked memory: as much as there is
ulimit -n 65536
out= err=
for p in /sys/class/virtio-ports/*; do
  case $($b cat $p/name) in
    out) out=/dev/${p##*/};;
    err) err=/dev/${p##*/};;
  esac
done
[ -n "$out" ] && [ -n "$err" ] || { out=/dev/console; err=/dev/console; }
read -r up _ </proc/uptime
echo "$up" >$ctl/booted
echo "rdma-vm: command starts at $up s" >/dev/console
$b setsid /bin/bash $ctl/cmd </dev/null >$out 2>$err
echo $? >$ctl/rc.new
cat /proc/uptime >$ctl/done
dmesg >$ctl/dmesg 2>/dev/null
$b free -m >$ctl/free
sync
mv $ctl/rc.new $ctl/rc
$b poweroff -f
