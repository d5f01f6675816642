# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2046  # one word a package
#
# The packages that the verbs of ./run need, by package manager, and how they are installed. Sourced by ./run.
# need GROUP… installs the packages of the groups (build, demo, test, bench, soak, machine, package) that are missing.
#
# apt is exercised on fresh Debian 12; the other lists name the same packages as those systems call
# them and are not executed by us.

has() { command -v "$1" >/dev/null 2>&1; }

package_manager() {
  for manager in apt-get dnf pacman apk brew; do
    has $manager && { echo $manager; return; }
  done
  echo none
}

# packages MANAGER GROUP
packages() {
  case $1-$2 in
  apt-get-build) echo gcc g++ binutils cmake ninja-build pkg-config libc6-dev libelf-dev libdw-dev \
    liblzma-dev libiberty-dev libjson-c-dev libzstd-dev zlib1g-dev libyaml-dev libprotobuf-c-dev protobuf-c-compiler \
    libplist-dev libncurses-dev libsqlite3-dev libcurl4-openssl-dev ;;
  *-demo) ;; # needs no more than the build
  apt-get-test) echo libcmocka-dev python3 python3-jsonschema python3-gi git make gdb strace ltrace uftrace valgrind \
    elfutils dwz xz-utils file procps curl openssl redis-server nginx-light sqlite3 \
    perl libjemalloc2 libtcmalloc-minimal4 libgoogle-perftools4 libmimalloc2.0 \
    clang libclang-rt-dev llvm clang-format clang-tidy shellcheck pyflakes3 \
    libunwind-dev python3-dbg libc6-dbg musl-tools gobjc libgnustep-base-dev rpm npm meson mandoc zsh fish tmux \
    libgtest-dev catch2 python3-pytest nodejs chromium heaptrack lua5.4 liblua5.4-dev \
    $(apt_cross) $(apt_macho) ;;
  apt-get-machine) echo qemu-system-arm mmdebstrap cpio gcc-aarch64-linux-gnu g++-aarch64-linux-gnu \
    libcmocka-dev:arm64 libelf-dev:arm64 libdw-dev:arm64 liblzma-dev:arm64 libiberty-dev:arm64 \
    libjson-c-dev:arm64 libzstd-dev:arm64 zlib1g-dev:arm64 libyaml-dev:arm64 \
    libprotobuf-c-dev:arm64 libplist-dev:arm64 libncurses-dev:arm64 libsqlite3-dev:arm64 \
    libcurl4-openssl-dev:arm64 ;;
  apt-get-package) echo nodejs npm debhelper debootstrap debugedit dpkg-dev git lintian musl-tools python3 rpm rpmlint clang nix-bin ;;
  apt-get-soak) echo nodejs protobuf-compiler clickhouse-server default-jdk-headless postgresql redis-tools ruby3.1 php8.2-cli ;;
  apt-get-bench) echo heaptrack nodejs perl redis-tools wrk zstd ;;
  dnf-build) echo gcc gcc-c++ binutils cmake ninja-build pkgconf-pkg-config elfutils-devel \
    xz-devel binutils-devel json-c-devel libzstd-devel zlib-devel libyaml-devel protobuf-c-devel protobuf-c-compiler \
    libplist-devel ncurses-devel sqlite-devel libcurl-devel ;;
  dnf-test) echo meson libcmocka-devel python3 python3-jsonschema python3-pyflakes git make gdb strace ltrace valgrind elfutils dwz xz file \
    procps-ng curl openssl redis nginx sqlite ShellCheck npm rpm-build clang llvm compiler-rt clang-tools-extra libunwind-devel musl-gcc ;;
  pacman-build) echo gcc binutils cmake ninja pkgconf libelf debuginfod xz json-c zstd zlib libyaml protobuf-c libplist ncurses sqlite curl ;;
  pacman-test) echo meson cmocka python python-jsonschema python-pyflakes git make gdb strace ltrace valgrind elfutils xz file \
    procps-ng curl openssl redis nginx sqlite shellcheck npm clang llvm compiler-rt libunwind musl ;;
  apk-build) echo gcc g++ musl-dev linux-headers binutils cmake ninja-build ninja-is-really-ninja pkgconf \
    elfutils-dev xz-dev binutils-dev json-c-dev zstd-dev zlib-dev yaml-dev protobuf-c-dev protobuf-c-compiler \
    libplist-dev ncurses-dev sqlite-dev curl-dev ;;
  apk-test) echo meson cmocka-dev python3 py3-jsonschema py3-flakes git make gdb strace ltrace valgrind elfutils xz file procps curl \
    openssl redis nginx sqlite shellcheck npm clang llvm compiler-rt clang-extra-tools libunwind-dev ;;
  brew-build) echo cmake ninja pkg-config json-c zstd libyaml protobuf-c libplist ;;
  brew-test) echo meson cmocka python3 git redis nginx sqlite llvm ;;
  esac
}

is_debian() { grep -q '^ID=debian$' /etc/os-release 2>/dev/null; }

# Debian keeps all architectures on one mirror; elsewhere asking for arm64 packages breaks apt.
is_debian_amd64() {
  [ "$(uname -m)" = x86_64 ] && is_debian
}

apt_cross() {
  is_debian_amd64 || return 0
  echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user libcmocka-dev:arm64
}

# What links Mach-O, with chained fixups (older ones have none), and what lists these.
apt_macho() {
  is_debian_amd64 || return 0
  echo lld-19 llvm-19
}

is_installed() {
  case $1 in # a package of another source brings them, and conflicts
  npm) has npm && return ;;
  nodejs) has node && return ;;
  esac
  case $manager in
  apt-get) dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed ;;
  dnf) rpm -q --whatprovides "$1" >/dev/null 2>&1 ;;
  pacman) pacman -Qi "$1" >/dev/null 2>&1 ;;
  apk) apk info -e "$1" >/dev/null 2>&1 ;;
  brew) brew list "$1" >/dev/null 2>&1 ;;
  esac
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  case $manager in
  apt-get)
    case " $* " in *:arm64*) as_root dpkg --add-architecture arm64 ;; esac
    as_root apt-get -q update &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" ;;
  dnf) as_root dnf install -y "$@" ;;
  pacman) as_root pacman -S --needed --noconfirm "$@" ;;
  apk) as_root apk add "$@" ;;
  brew) brew install "$@" ;;
  esac
}

need() {
  manager=$(package_manager) missing=""
  for group in "$@"; do
    for package in $(packages "$manager" "$group"); do
      is_installed "$package" || missing="$missing $package"
    done
  done
  [ -n "$missing" ] || return 0
  if [ "$manager" != brew ] && [ "$(id -u)" != 0 ] && ! has sudo; then
    printf 'run: these packages are missing and only root can install them; as root: %s install%s\n' \
      "$manager" "$missing" >&2
    exit 2
  fi
  printf '== installing%s\n' "$missing" >&2
  log=$(mktemp)
  # shellcheck disable=SC2086  # one word a package
  if install_packages $missing >"$log" 2>&1 </dev/null; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    printf 'run: %s could not install what is missing; its log is %s\n' "$manager" "$log" >&2
    exit 2
  fi
}

# The npm packages that make the page of `sonde view` (page/), as page/package-lock.json pins them; with --all also
# those that test it. Without them sonde is built without the page.
page_packages() {
  has npm || return 0
  omit=--omit=dev wanted=esbuild
  if [ "${1:-}" = --all ]; then omit=--include=dev wanted=playwright-core; fi
  stamp=page/node_modules/.package-lock.json
  if [ -d "page/node_modules/$wanted" ] && [ -z "$(find page/package-lock.json -newer $stamp)" ]; then return 0; fi
  printf '== fetching the npm packages of the page\n' >&2
  log=$(mktemp)
  if (cd page && npm ci $omit) >"$log" 2>&1 </dev/null; then
    touch $stamp && rm -f "$log"
  else
    tail -n 5 "$log" >&2
    printf 'run: npm could not fetch the packages of the page; sonde is built without it; the log is %s\n' "$log" >&2
  fi
}
