#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of an aarch64 build in a whole emulated machine: Debian's arm64 kernel under
qemu-system-aarch64, with a root file system of Debian's packages. There, unlike under qemu-user,
ptrace, process_vm_readv, /proc and madvise are those of a real kernel. Other programs' timings mean
nothing there: an instruction costs some twenty times what it costs natively.

Nothing is downloaded but Debian's packages; everything is kept below BUILD/machine/. The root file
system is an initramfs, so the kernel needs no module and the machine no disk.

usage: machine.py BUILD [--minutes N] [--only REGEX]"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("dash bash coreutils procps python3 python3-dbg libc6-dbg redis-server sqlite3 nginx-light gdb elfutils "
            "binutils strace mount util-linux hostname iproute2 git grep sed gawk findutils file libcmocka0 "
            "libjson-c5 libzstd1 libyaml-0-2 libprotobuf-c1 libplist3 libdw1 libelf1 liblzma5 zlib1g libstdc++6 libc-bin gcc g++ "
            "libc6-dev diffutils").split()
LEFT_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
            "var/cache/apt", "var/lib/apt", "boot"]
MEMORY_MB = 6144


def call(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, **more)


# ---- the root file system -------------------------------------------------------------------------

def make_kernel(folder):
    """Debian's kernel, from the package that linux-image-arm64 stands for."""
    kernel = folder / "vmlinuz"
    if kernel.exists():
        return kernel
    listing = call("apt-cache", "depends", "linux-image-arm64:arm64", capture_output=True,
                   text=True).stdout
    package = re.search(r"Depends: (linux-image-[0-9][^\s:]*)", listing).group(1)
    work = folder / "kernel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    call("apt-get", "download", f"{package}:arm64", cwd=work, stdout=subprocess.DEVNULL)
    call("dpkg-deb", "-x", next(work.glob("*.deb")), work / "files")
    shutil.copy(next((work / "files" / "boot").glob("vmlinuz-*")), kernel)
    shutil.rmtree(work)
    return kernel


def pack(root, archive):
    """ROOT as a cpio archive, which is what an initramfs is; several may follow each other."""
    with open(archive, "wb") as out:
        names = subprocess.Popen(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE)
        call("cpio", "--null", "--create", "--format=newc", "--owner=0:0", "--quiet", cwd=root,
             stdin=names.stdout, stdout=out)
        names.wait()


def make_base(folder):
    """The packages, unpacked: no script of theirs is run, which would need the other machine."""
    archive, asked = folder / "base.cpio", folder / "base.packages"
    if archive.exists() and asked.exists() and asked.read_text() == " ".join(PACKAGES):
        return archive
    tar, root = folder / "base.tar", folder / "base"
    shutil.rmtree(root, ignore_errors=True)
    release = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(),
                        re.MULTILINE).group(1)
    call("mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract",
         "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", f"--include={','.join(PACKAGES)}", release,
         tar)
    root.mkdir()
    call("tar", "--extract", "--file", tar, "--directory", root,
         *[f"--exclude=./{name}/*" for name in LEFT_OUT])
    tar.unlink()
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n"
                                         "nobody:x:65534:65534::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n")
    for name in ("mnt", "root", "tmp", "proc", "sys", "dev", "run"):
        (root / name).mkdir(exist_ok=True)
    for link, to in (("sh", "dash"), ("awk", "gawk"), ("cc", "gcc"), ("c++", "g++")):  # what maintainer scripts would have done
        if not (root / "usr" / "bin" / link).exists():
            (root / "usr" / "bin" / link).symlink_to(to)
    pack(root, archive)
    shutil.rmtree(root)
    asked.write_text(" ".join(PACKAGES))
    return archive


# ---- the tests -------------------------------------------------------------------------------------

def plan_of(build, only):
    """CTest's own list, without the emulator that a cross build puts before each program."""
    listing = json.loads(call("ctest", "--show-only=json-v1", cwd=build, capture_output=True,
                              text=True).stdout)
    plan = []
    for test in listing["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        command = test["command"]
        if pathlib.Path(command[0]).name.startswith("qemu-"):
            command = command[next(i for i, word in enumerate(command) if word.startswith(str(build))):]
        if re.match(r"python3?", pathlib.Path(command[0]).name):
            command = ["/usr/bin/python3", *command[1:]]
        if re.search(only, test["name"]):
            plan.append({"name": test["name"], "command": command,
                         "directory": properties.get("WORKING_DIRECTORY", str(build)),
                         "seconds": 4 * properties.get("TIMEOUT", 60),
                         "environment": dict(each.split("=", 1) for each in
                                             properties.get("ENVIRONMENT", []))})
    return plan


def copy(path, root, left_out=()):
    """PATH of this machine, at the same place below ROOT, without files with the names LEFT_OUT."""
    to = root / str(path).lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, to, symlinks=True, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.o", *left_out))
    else:
        shutil.copy2(path, to)


def make_overlay(build, folder, plan):
    """What changes from run to run: the build, the tests, and the plan."""
    root, archive = folder / "overlay", folder / "overlay.cpio"
    shutil.rmtree(root, ignore_errors=True)
    used = {pathlib.Path(word).name for test in plan for word in test["command"]}
    unused = [file.name for file in (build / "tests").glob("*_test") if file.name not in used]
    for name in ("bin", "lib", "tests"):
        copy(build / name, root, unused)  # a gigabyte, which the machine unpacks slowly
    for library in build.glob("lib*.so*"):
        copy(library, root)
    for name in ("tests", "src", "include", "examples", "docs"):
        copy(SOURCE / name, root)
    (root / "machine").mkdir()
    shutil.copy(SOURCE / "tests" / "machine" / "guest.py", root / "machine" / "guest.py")
    (root / "machine" / "plan.json").write_text(json.dumps(plan))
    shutil.copy(SOURCE / "tests" / "machine" / "init", root / "init")
    (root / "init").chmod(0o755)
    pack(root, archive)
    shutil.rmtree(root)
    return archive


# ---- the machine -----------------------------------------------------------------------------------

def start(kernel, initrd, minutes, log):
    """Runs the machine until it switches itself off; its console goes to LOG and through us."""
    command = ["timeout", f"{minutes}m", "nice", "qemu-system-aarch64", "-machine", "virt",
               "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", str(MEMORY_MB), "-nographic", "-no-reboot",
               "-nic", "none", "-kernel", str(kernel), "-initrd", str(initrd),
               "-append", "console=ttyAMA0 quiet panic=-1 nowatchdog rdinit=/init"]
    tally = {"pass": 0, "skip": 0, "fail": 0}
    finished = False
    with open(log, "w", encoding="utf-8") as out, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace") as machine:
        for line in machine.stdout:
            out.write(line)
            out.flush()
            line = line.rstrip()
            verdict = re.match(r"TEST (pass|skip|fail) ", line)
            if verdict:
                tally[verdict.group(1)] += 1
            finished |= line == "MACHINE done"
            if verdict or line.startswith(("MACHINE", "SKIP", "  |", "Kernel panic")):
                print(line, flush=True)
    return tally, finished


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    build = asked.build.resolve()
    folder = build / "machine"
    folder.mkdir(exist_ok=True)
    plan = plan_of(build, asked.only)
    initrd = folder / "initrd.cpio"
    with open(initrd, "wb") as out:
        for archive in (make_base(folder), make_overlay(build, folder, plan)):
            with open(archive, "rb") as part:
                shutil.copyfileobj(part, out)
    tally, finished = start(make_kernel(folder), initrd, asked.minutes, folder / "console.log")
    if not finished:
        print(f"the machine did not reach the end; its console is in {folder / 'console.log'}")
    print(f"{tally['pass']} passed, {tally['fail']} failed, {tally['skip']} skipped")
    return 0 if finished and not tally["fail"] and tally["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
