#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program under an emulated processor with AVX-512, for machines that have none:
#
#     scripts/emulate-avx512.sh FOLDER PROGRAM [ARGUMENT..]
#
# Boots a small Linux in Bochs (Skylake-X model) whose only process is PROGRAM (with its shared
# libraries), prints what it prints and exits with its code. FOLDER keeps what was fetched, nothing
# is installed beyond Debian's bochs. Emulation runs some 20 million instructions a second: booting
# takes about three minutes. Files that the program reads are not there.
#
# The kernel is Debian 11's: later ones check the size of the register file that the processor
# reports, and switch AVX off in this emulator.
set -eu
[ $# -ge 2 ] || { sed -n '4,6p' "$0" && exit 2; }
folder=$1 program=$(realpath "$2")
shift 2
# Where this system's own packages come from.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Label: Debian' | head -1)
has() { command -v "$1" >/dev/null 2>&1; }
has bochs || { apt-get install -y -q --no-install-recommends bochs bochs-term bochsbios vgabios >&2; }
mkdir -p "$folder" && cd "$folder"

fetch_kernel() {
    local path
    path=$(curl -fsS "${mirror}dists/bullseye/main/binary-amd64/Packages.xz" | xz -dc |
        sed -n 's/^Filename: \(.*linux-image-5.10.*-cloud-amd64_.*\)/\1/p' | tail -1)
    curl -fsS -o kernel.deb "$mirror$path"
    dpkg -x kernel.deb kernel && rm kernel.deb
}
fetch_tools() {
    apt-get download -q busybox-static isolinux syslinux-common genisoimage >&2
    for package in *.deb; do dpkg -x "$package" tools; done
    rm -f ./*.deb
}
[ -d kernel ] || fetch_kernel
[ -d tools ] || fetch_tools
busybox=$(find "$PWD/tools" -path '*bin/busybox' | head -1)

# The only files of the guest: the program, its libraries, busybox and the first process.
rm -rf guest disk && mkdir -p guest/bin guest/dev guest/proc disk/isolinux
cp "$busybox" guest/bin/busybox
cp "$program" guest/program
for library in $(ldd "$program" | grep -o '/[^ ]*'); do
    mkdir -p "guest$(dirname "$library")" && cp "$library" "guest$library"
done
cat >guest/init <<END
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox stty -F /dev/ttyS0 raw
exec >/dev/ttyS0 2>&1
echo; echo "BEGIN"
/program $*
echo "END \$?"
/bin/busybox sleep 1
/bin/busybox poweroff -f
END
chmod +x guest/init
(cd guest && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >disk/initrd.gz
cp kernel/boot/vmlinuz-* disk/vmlinuz
cp "$(find tools -name isolinux.bin | head -1)" disk/isolinux/
cp "$(find tools -path '*bios/ldlinux.c32' | head -1)" disk/isolinux/
cat >disk/isolinux/isolinux.cfg <<END
DEFAULT linux
PROMPT 0
TIMEOUT 1
LABEL linux
 KERNEL /vmlinuz
 APPEND initrd=/initrd.gz console=ttyS0 quiet clocksource=tsc tsc=reliable no_timer_check acpi=off noapic nolapic mitigations=off nokaslr lpj=1000000 random.trust_cpu=on
END
"$(find tools -path "*bin/genisoimage" | head -1)" -quiet -o disk.iso -b isolinux/isolinux.bin \
    -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table disk

cat >bochsrc <<END
config_interface: textconfig
display_library: term
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model=corei7_skylake_x, count=1, ips=200000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.txt
log: bochs.log
clock: sync=none, time0=1700000000
END
echo continue >commands
rm -f serial.txt
# A terminal of its own, because the emulator draws a screen; ended when the program has.
TERM=xterm script -qc "bochs -q -f bochsrc -rc commands" /dev/null >/dev/null 2>&1 </dev/null &
emulator=$!
trap 'pkill -KILL -P "$emulator" 2>/dev/null || true; pkill -KILL -f "bochs-bin .*-rc commands" 2>/dev/null || true' EXIT
for ((second = 0; second < ${RLX_EMULATE_SECONDS:-1800}; second++)); do
    grep -q '^END ' serial.txt 2>/dev/null && break
    sleep 1
done
sed -n '/^BEGIN/,/^END/p' serial.txt | tr -d '\r' | sed '1d;$d'
code=$(tr -d '\r' <serial.txt | sed -n 's/^END \([0-9]*\).*/\1/p')
exit "${code:-124}"
