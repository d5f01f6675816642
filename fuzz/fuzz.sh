#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: fuzz.sh NAME SECONDS: runs a built fuzz target. New inputs are kept in build-fuzz/corpus, and inputs that
# fail in build-fuzz/found; the seeds stay as they are.
set -eu
cd "$(dirname "$0")/.."
name=$1
mkdir -p "build-fuzz/corpus/$name" "build-fuzz/found/$name" "fuzz/seeds/$name"
set -- -max_total_time="$2" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
  "-artifact_prefix=build-fuzz/found/$name/" "build-fuzz/corpus/$name" "fuzz/seeds/$name"
[ ! -f "fuzz/$name.dict" ] || set -- "-dict=fuzz/$name.dict" "$@"
exec "build-fuzz/targets/$name" "$@"
