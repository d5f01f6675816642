#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A thousand stops of each of the four Mach-O programs, compared (tests/macho_loader/stops.py). What it stands on is
# built by `./run macos`, for arm64 by the preset aarch64 as well.
set -eu
cd "$(dirname "$0")/../.."
failed=0
for arch in x86_64 arm64; do
  status=0
  [ -e "build-macos-$arch/lib/libsonde.a" ] || { echo "skipped: build-macos-$arch is not built" && continue; }
  python3 tests/macho_loader/stops.py "$arch" 1000 || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || failed=1
done
exit $failed
