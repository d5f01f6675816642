#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: apple-libraries.py FOLDER [PACKAGE…]: fetches the sources of the libraries that the command stands on, or of the
packages named, into FOLDER, as the distribution publishes them and by its own client, which checks them. Prints why, and
exits with 1, where that cannot be had."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGES = sys.argv[2:] or ["elfutils", "json-c", "libiberty", "libplist", "libyaml", "libzstd", "protobuf-c", "xz-utils", "zlib"]
# Where Debian's installers write the mirror: as deb822, or in the older form of one line each.
SOURCES = [pathlib.Path("/etc/apt/sources.list.d/debian.sources"), pathlib.Path("/etc/apt/sources.list")]


def source_list(scratch):
    """A list for apt that names the sources of the mirror's packages, or None."""
    for path in SOURCES:
        text = path.read_text() if path.exists() else ""
        if re.search(r"(?m)^(Types:|deb )", text):
            listed = scratch / f"source{path.suffix}"
            listed.write_text(re.sub(r"(?m)^deb ", "deb-src ", re.sub(r"(?m)^Types:.*$", "Types: deb-src", text)))
            return listed
    return None


def fetch(root, scratch):
    """Unpacks each package's sources as ROOT/NAME; returns why not."""
    listed = source_list(scratch)
    if not listed:
        return "apt has no list of Debian's to fetch sources from"
    (scratch / "lists/partial").mkdir(parents=True)
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={listed}", "-o", "Dir::Etc::SourceParts=/nonexistent",
           "-o", f"Dir::State::Lists={scratch}/lists", "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root"]
    for step in (["update"], ["source", "--download-only", *PACKAGES]):
        got = subprocess.run([*apt, *step], cwd=scratch, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        if got.returncode:
            return "the distribution's sources are out of reach"
    for package in PACKAGES:
        packed = next(scratch.glob(f"{package}_*.orig.tar.*"))
        if packed.suffix == ".asc":
            packed = packed.with_suffix("")
        (root / package).mkdir()
        subprocess.run(["tar", "-xf", packed, "--strip-components=1", "-C", root / package], check=True)
    return None


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if all((root / package).is_dir() for package in PACKAGES):
        return 0
    shutil.rmtree(root, ignore_errors=True)  # from when it took less
    if not shutil.which("apt-get"):
        print("apt is not installed, which fetches sources")
        return 1
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as temporary:
        new = pathlib.Path(temporary, "new")
        new.mkdir()
        try:
            why = fetch(new, pathlib.Path(temporary))
        except (subprocess.SubprocessError, StopIteration):
            why = "the distribution's sources do not arrive whole"
        if why:
            print(why)
            return 1
        new.rename(root)  # last: it says that all is there
    return 0


sys.exit(main())
