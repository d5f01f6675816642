#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: check_fresh.sh FOLDER. Installs the packages in FOLDER into fresh roots of Debian, and uses them there. As root.
#
# - .deb: the command with its man pages, then the development package, against which a program is built.
# - .rpm: by rpm --root, into a root of Debian that has the libraries.
# What a user waits for is printed: from the start of `apt install` to the end of the first screen.
set -eu
packages=$(cd "$1" && pwd)
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
root=$(mktemp -d "${TMPDIR:-/var/tmp}/sonde-root.XXXXXX")
trap 'umount -q "$root/proc" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT

die() { printf 'check_fresh: %s\n' "$*" >&2; exit 1; }
seconds() { awk '{ print $1 }' /proc/uptime; }
since() { awk -v then="$1" '{ printf "%.1f", $1 - then }' /proc/uptime; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive COLUMNS=80 "$@"; }

# A minimal Debian from the mirror that this system uses.
make_root() {
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $release" | head -n 1)
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$packages/debootstrap.log" 2>&1 ||
    { tail -n 5 "$packages/debootstrap.log" >&2; die "debootstrap failed"; }
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -R /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
  mount -t proc proc "$root/proc"
  mkdir "$root/packages"
}

# What someone types first: a program that is busy, recorded, and what it did.
# shellcheck disable=SC2016  # of perl
first='sonde record -o first.sonde -- perl -e '"'"'for my $i (1 .. 2e6) { $words{$i % 1000} .= "word" }'"'"'
  sonde report first.sonde'

check_deb() {
  cp "$packages"/sonde_*.deb "$packages"/libsonde*.deb "$root/packages/"
  rm -f "$root"/packages/*dbgsym*
  inside apt-get -q update >"$packages/apt.log" 2>&1 || die "apt-get update failed in the root"
  began=$(seconds)
  inside sh -c 'apt-get -q install -y --no-install-recommends /packages/sonde_*.deb' >>"$packages/apt.log" 2>&1 ||
    { tail -n 5 "$packages/apt.log" >&2; die "apt-get install failed"; }
  installed=$(since "$began")
  inside sh -e -c "cd /tmp; $first" >"$packages/first_screen.txt" 2>&1 || { cat "$packages/first_screen.txt" >&2; die "the first screen failed"; }
  printf 'deb: installed after %s s, first screen after %s s, %s lines\n' "$installed" "$(since "$began")" \
    "$(wc -l <"$packages/first_screen.txt")" >&2
  grep -q 'Perl_' "$packages/first_screen.txt" || die "the first screen names no function: $packages/first_screen.txt"
  LC_ALL=C.UTF-8 grep -E '^.{81}' "$packages/first_screen.txt" && die "the first screen has lines over 80 columns"
  inside sonde --version >&2
  inside sh -c 'apt-get -q install -y --no-install-recommends gcc libc6-dev pkg-config /packages/libsonde*.deb' >>"$packages/apt.log" 2>&1 ||
    { tail -n 5 "$packages/apt.log" >&2; die "apt-get install of the libraries failed"; }
  cp tests/package/consumer/where.c "$root/tmp/"
  # shellcheck disable=SC2016  # expanded inside
  inside sh -c 'cc -o /tmp/where /tmp/where.c $(pkg-config --cflags --libs sonde) && /tmp/where' | grep -q 'main+' ||
    die "a program with libsonde-dev does not print its stack"
  inside apt-get -q purge -y sonde libsonde0 libsonde-dev >>"$packages/apt.log" 2>&1
  left=$(find "$root/usr" "$root/etc" "$root/var/lib" -name '*sonde*' ! -name '*.list' ! -path '*/apt/*')
  [ -z "$left" ] || die "purge leaves $left"
}

# The libraries are Debian's, which rpm's database does not know: so the list of dependencies is compared by name.
check_rpm() {
  for package in "$packages"/sonde-[0-9]*.x86_64.rpm "$packages"/libsonde-[0-9]*.x86_64.rpm; do
    for needed in $(rpm -qp --requires "$package" | sed -n 's/^\(lib[^(]*\)()(64bit)$/\1/p'); do
      inside ldconfig -p | grep -q "$needed" || die "$package needs $needed, which is not in the root"
    done
  done
  rpm --root "$root" --initdb
  # On Debian it warns that dpkg does not know what it installs.
  rpm --root "$root" --install --nodeps "$packages"/sonde-[0-9]*.x86_64.rpm "$packages"/libsonde-[0-9]*.x86_64.rpm \
    "$packages"/libsonde-devel-*.rpm "$packages"/sonde-doc-*.rpm 2>"$packages/rpm_root.log" || die "rpm --root failed"
  rpm --root "$root" --verify --nodeps sonde libsonde libsonde-devel sonde-doc || die "rpm --verify found differences"
  inside sh -e -c "cd /tmp; $first" >"$packages/first_screen.txt" 2>&1 || { cat "$packages/first_screen.txt" >&2; die "the first screen failed with the rpm"; }
  inside sh -c 'cc -o /tmp/where2 /tmp/where.c -L/usr/lib64 -lsonde -Wl,-rpath,/usr/lib64 && /tmp/where2' | grep -q 'main+' ||
    die "a program with libsonde-devel does not print its stack"
  rpm --root "$root" --erase sonde libsonde libsonde-devel sonde-doc
  printf 'rpm: installed, verified, used, erased\n' >&2
}

make_root
check_deb
check_rpm
