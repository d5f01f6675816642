#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes the packages of the last commit in build/package: the source, sonde.c and sonde.h, .deb and .rpm. Each is checked.
# Called by ./run package, from the root of the project.
#
# The source is what git archive writes, so it has the commit's times and order. All else is built from it, in a network
# name space without a network.
set -eu
version=$(sed -n 's/^project(sonde VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
out=$PWD/build/package work=$PWD/build/package/work
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
name=sonde-$version

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'package: %s\n' "$*" >&2; exit 1; }

# logged LOG COMMAND…: what it printed is shown if it fails.
logged() {
  log=$out/$1.log; shift
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $*; the log is $log"; }
}

offline() {
  if unshare --map-root-user --net true 2>/dev/null; then unshare --map-root-user --net "$@"; else "$@"; fi
}

# ---- source --------------------------------------------------------------------------------------

# The page of sonde view, so that the packages are built without node and a network.
make_page() {
  [ -d page/node_modules/esbuild ] || die "the npm packages of page/ are missing"
  node page/build.mjs "$work/page.html"
  touch -d "@$SOURCE_DATE_EPOCH" "$work/page.html"
}

# archive NAME: the tree of the last commit, and the page.
write_source() {
  git archive --format=tar --prefix="$name/page/built/" --add-file="$work/page.html" --prefix="$name/" HEAD |
    gzip -9 --no-name >"$1"
}

make_source() {
  [ -z "$(git status --porcelain)" ] || say "what is not committed is not packaged"
  write_source "$out/$name.tar.gz"
  write_source "$work/again.tar.gz"
  cmp "$out/$name.tar.gz" "$work/again.tar.gz" || die "two archives of one commit differ"
  tar -xzf "$out/$name.tar.gz" -C "$work"
}

make_amalgamation() {
  python3 "$work/$name/packaging/amalgamate.py" "$work/sonde-amalgamation-$version"
  tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    -cf - "sonde-amalgamation-$version" | gzip -9 --no-name >"$out/sonde-amalgamation-$version.tar.gz"
  PYTHONPATH=tests logged amalgamation python3 tests/package/amalgamation.py "$work/sonde-amalgamation-$version"
}

# ---- Debian --------------------------------------------------------------------------------------

make_deb() {
  mkdir "$work/deb"
  cp "$out/$name.tar.gz" "$work/deb/sonde_$version.orig.tar.gz"
  cp -R "$work/$name" "$work/deb/"
  cp -R packaging/debian "$work/deb/$name/debian"
  (cd "$work/deb/$name" && DEB_BUILD_OPTIONS="parallel=$(nproc) nocheck" logged deb offline dpkg-buildpackage -us -uc)
  logged lintian lintian --allow-root --fail-on error "$work"/deb/*.changes
  mv "$work"/deb/*.deb "$work"/deb/*.dsc "$work"/deb/*.debian.tar.xz "$work"/deb/*.changes "$out"
  cp "$work/deb/sonde_$version.orig.tar.gz" "$out"
}

# ---- rpm -----------------------------------------------------------------------------------------

# --nodeps: the tools and libraries to build with are Debian's here, which rpm knows nothing of.
make_rpm() {
  mkdir -p "$work/rpm/SOURCES"
  cp "$out/$name.tar.gz" "$work/rpm/SOURCES"
  logged rpm offline rpmbuild -ba --nodeps --define "_topdir $work/rpm" --define "_smp_build_ncpus $(nproc)" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" packaging/rpm/sonde.spec
  logged rpmlint rpmlint --config packaging/rpm/rpmlint.toml "$work"/rpm/RPMS/*/*.rpm packaging/rpm/sonde.spec
  mv "$work"/rpm/RPMS/*/*.rpm "$work"/rpm/SRPMS/*.rpm "$out"
}

for file in packaging/rpm/sonde.spec packaging/debian/changelog packaging/nix/default.nix; do
  grep -qE "(^Version: +|^sonde \\(|version = \")$version" $file || die "$file has another version than CMakeLists.txt: $version"
done
rm -rf "$out"
mkdir -p "$work"
say "the source"
make_page
nix-instantiate --parse packaging/nix/default.nix >/dev/null || die "packaging/nix/default.nix has a wrong syntax"
make_source
say "sonde.c"
make_amalgamation
say "Debian packages"
make_deb
say "rpm packages"
make_rpm
if [ "$(id -u)" = 0 ]; then
  say "the packages in a fresh Debian"
  sh packaging/check_fresh.sh "$out"
else
  say "not root: the packages were not installed in a fresh Debian"
fi
rm -rf "$work"
(cd "$out" && ls -s --block-size=1 -- *.tar.* *.deb *.rpm) >&2
