# Sourced by rdma_vm.sh: the guest's kernel and first file system. Debian's kernel package is only
# downloaded and unpacked, never installed.
#   prepare_image SERIES CACHE_FOLDER   sets `img`, a folder with vmlinux, initrd and version
# Everything made from one kernel package lies in CACHE/SERIES-TAG/ and is moved there whole, so that
# a broken-off build or two runs at once do no harm. TAG is a sum over the scripts that decide what is
# in it.
MODULES="virtio_pci virtio_net virtio_console 9p 9pnet_virtio overlay veth dummy
  rdma_rxe ib_uverbs rdma_ucm ib_umad crc32_pclmul crc32_generic
  sch_netem sch_tbf sch_prio sch_ingress cls_u32 cls_matchall act_gact act_mirred ifb"

# The cloud kernel (no rxe, no 9p) and the real-time one are not for us.
find_deb() {
  ls -t "$cache"/linux-image-"$series".[0-9]*-amd64_*.deb 2>/dev/null |
    grep -vE -- '-(cloud|rt)-amd64_' | head -1
}

meta_package() {
  case $series in
    6.1) echo linux-image-amd64;;
    6.12) echo linux-image-6.12-amd64;;
    *) die "--kernel is 6.1 or 6.12";;
  esac
}

# The versioned package behind the meta package, by the lists at hand.
kernel_package() {
  apt-cache depends "$(meta_package)" 2>/dev/null |
    sed -n 's/.*Depends: *\(linux-image-[^ ]*\)/\1/p' | head -1
}

download_deb() {  # download_deb FOLDER
  local log=$cache/apt.log package sandbox=(-o APT::Sandbox::User=root) attempt
  for attempt in 1 2; do
    package=$(kernel_package)
    if [ -n "$package" ] && (cd "$1" && apt-get "${sandbox[@]}" download "$package") >"$log" 2>&1; then
      mv "$1"/linux-image-*.deb "$cache/"
      return
    fi
    [ $attempt = 2 ] || apt-get "${sandbox[@]}" update >>"$log" 2>&1  # an old list names what is gone
  done
  die "cannot download $(meta_package) (see $log)"
}

# The uncompressed kernel boots through PVH: no decompression, which costs seconds under emulation.
extract_kernel() {  # extract_kernel VMLINUZ OUT
  local magic tool offset
  is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }
  for magic in 'xz:\xfd7zXZ\x00:xz -dc --single-stream' 'zstd:\x28\xb5\x2f\xfd:zstd -dcq'; do
    tool=${magic##*:}
    for offset in $(LC_ALL=C grep -aobP "$(echo "$magic" | cut -d: -f2)" "$1" | cut -d: -f1); do
      tail -c +$((offset + 1)) "$1" | $tool >"$2" 2>/dev/null
      is_elf "$2" && return
    done
  done
  is_elf "$2" || cp "$1" "$2"
}

# Modules that are wanted, with what they need; uncompressed.
copy_modules() {  # copy_modules UNPACKED VERSION ROOT
  local m f to=$3/lib/modules/$2
  mkdir -p "$to"
  depmod -b "$1" "$2" || return 1
  for m in $MODULES; do
    modprobe -d "$1" -S "$2" --show-depends "$m" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
  done | awk '!seen[$0]++' | while read -r f; do
    case $f in
      *.xz) xz -dc "$f" >"$to/$(basename "$f" .xz)";;
      *.zst) zstd -dcq "$f" >"$to/$(basename "$f" .zst)";;
      *) cp "$f" "$to/";;
    esac || exit 1
  done || return 1
  cp "$1/lib/modules/$2"/modules.builtin* "$to/" 2>/dev/null
  depmod -b "$3" "$2" 2>/dev/null
}

# ip and rdma with their libraries, so that the guest need not load them from the host.
copy_programs() {  # copy_programs ROOT
  mkdir -p "$1/sbin"
  cp -L "$(command -v ip)" "$(command -v rdma)" "$1/sbin/" || return 1
  ldd "$1/sbin/ip" "$1/sbin/rdma" | grep -o '/[^ :]*' | sort -u | grep -v "^$1" |
    while read -r f; do
      mkdir -p "$1/$(dirname "$f")" && cp -L "$f" "$1/$f" || exit 1
    done || return 1
  cp /bin/busybox "$1/bin/busybox" && ln -s /bin/busybox "$1/sbin/modprobe"  # for the kernel's calls
}

build_image() {
  local tmp deb kernel version root
  tmp=$(mktemp -d "$cache/build.XXXXXX") || return 1
  deb=$(find_deb)
  [ -n "$deb" ] || { download_deb "$tmp"; deb=$(find_deb); }
  dpkg-deb -x "$deb" "$tmp/x" || return 1
  kernel=$(echo "$tmp"/x/boot/vmlinuz-*)
  version=${kernel##*/vmlinuz-}
  extract_kernel "$kernel" "$tmp/vmlinux"
  root=$tmp/root
  mkdir -p "$root"/{bin,dev,proc,sys,lower,ram,newroot}
  copy_modules "$tmp/x" "$version" "$root" || return 1
  copy_programs "$root" || return 1
  cp "$here/guest_init.sh" "$root/init" && chmod 755 "$root/init" || return 1
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$tmp/initrd" || return 1
  echo "$version" >"$tmp/version"
  rm -rf "$tmp/x" "$root"
  mv -T "$tmp" "$img" 2>/dev/null || rm -rf "$tmp"  # another run was first
}

prepare_image() {
  series=$1 cache=$2
  img=$cache/$series-$(cat "$here/image.sh" "$here/guest_init.sh" | cksum | cut -d' ' -f1)
  [ -s "$img/initrd" ] || build_image
  [ -s "$img/initrd" ] || die "could not build the guest image in $cache"
}
