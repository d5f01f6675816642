#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Output files: devices are written through and never replaced, symbolic links are followed, regular files
are replaced at once, default names never replace anything, and record replaces recordings only."""
import fcntl
import os
import shutil
import stat
import subprocess

from helpers import SONDE, fresh, needs_agent, record, run_cases, skip, sonde, start_record, try_sonde, until
from helpers import write as new_file

needs_agent()

OLD = "the old contents\n"
SOURCE = record(["perl", "-e", "1"], "--malloc")[0]

# Every verb with -o, as words in front of the name of the output.
VERBS = [("pack", SOURCE, "-o"), ("pack", "--summary", SOURCE, "-o"),
         ("export", "--by", "allocated", SOURCE, "-o"), ("audit", "compile", "linux", "-o")]


def refused(*words, why):
    done = try_sonde(*words)
    assert done.returncode != 0 and why in done.stderr, done


def is_old(path):
    return path.read_text(errors="replace") == OLD


def devices_are_written_through(folder):
    device = folder / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        skip("cannot make a device without root")
    for words in [*VERBS, ("record", "-o")]:
        sonde(*words, device, *(["--", "true"] if words[0] == "record" else []))
        assert stat.S_ISCHR(device.stat().st_mode), words
        assert os.listdir(folder) == ["null"], words
    refused("record", "--follow", "-o", device, "--", "true", why="not a regular file")


def links_are_followed(folder):
    target, link = folder / "target", folder / "link"
    for words in VERBS:
        for exists in False, True:
            if exists:
                target.write_text(OLD)
            link.symlink_to("target")
            sonde(*words, link)
            assert link.is_symlink() and sorted(os.listdir(folder)) == ["link", "target"], words
            assert target.stat().st_size and not is_old(target), words
            link.unlink()
            target.unlink()


def links_of_other_users_are_refused(folder):
    if os.geteuid() != 0:
        skip("only root can make another user's link")
    folder.chmod(0o1777)
    victim, link = new_file(OLD, ".victim"), folder / "link"
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    for words in VERBS:
        refused(*words, link, why="symbolic link of another user")
    refused("record", "--force", "-o", link, "--", "true", why="symbolic link of another user")
    with open(victim, encoding="ascii") as file:
        assert file.read() == OLD


def permissions_of_another_user_are_not_kept(folder):
    """Neither more than that file's nor more than a new one's."""
    if os.geteuid() != 0:
        skip("only root can make another user's file")
    target = folder / "target"
    for words in [*VERBS, ("record", "--force", "-o")]:
        modes = []
        for old in None, 0o666, 0o600, 0o640:
            if old:
                target.write_text(OLD)
                target.chmod(old)
                os.chown(target, 65534, 65534)
            sonde(*words, target, *(["--", "true"] if words[0] == "record" else []), umask=0o022)
            modes.append(stat.S_IMODE(target.stat().st_mode))
            assert target.stat().st_uid == 0
            target.unlink()
        new = modes[0]
        assert new in (0o600, 0o644) and modes[1:] == [new, new & 0o600, new & 0o640], (words, modes)


def the_group_is_kept(folder):
    target = folder / "target"
    if os.geteuid() != 0:
        skip("only root can give a file to any group")
    target.write_text(OLD)
    target.chmod(0o640)
    os.chown(target, 0, 65534)
    sonde("pack", SOURCE, "-o", target)
    assert (target.stat().st_gid, stat.S_IMODE(target.stat().st_mode)) == (65534, 0o640)


def a_shell_may_read_the_output(folder):
    """The shell names an open file: `-o >(gzip > FILE)`."""
    done = subprocess.run(["bash", "-c", '"$0" export --by allocated "$1" -o >(cat > "$2"); wait', SONDE, SOURCE,
                           folder / "out"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    until(lambda: (folder / "out").exists() and (folder / "out").read_text() == sonde("export", "--by", "allocated", SOURCE),
          "the shell's process gets the whole output")


def pipes_are_written_to(folder):
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        sonde("export", "--by", "allocated", SOURCE, "-o", pipe)
        assert reader.stdout.read() == sonde("export", "--by", "allocated", SOURCE)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.DEVNULL) as reader:
        refused("record", "-o", pipe, "--", "true", why="a recording needs a file")
        reader.kill()  # who opens the pipe later than sonde looks at it waits for a writer


def a_pipe_without_a_reader_ends_the_verb():
    """The reader of a pipe ends before all is written: so does sonde, which must not be a reader of it, too."""
    with subprocess.Popen([SONDE, "view", SOURCE, "-o", "/dev/stdout"], stdout=subprocess.PIPE) as writer:
        fcntl.fcntl(writer.stdout, 1031, 4096)  # F_SETPIPE_SZ: the page is larger
        writer.stdout.read(1)
        writer.stdout.close()
        assert writer.wait(60) != 0


def the_recording_is_not_replaced(folder):
    copy, link = folder / "copy.sonde", folder / "link"
    shutil.copy(SOURCE, copy)
    link.symlink_to(copy)
    for verb in "view", "export":
        for name in copy, link:
            run = try_sonde(verb, copy, "-o", name)
            if "without the page" not in run.stderr:
                assert run.returncode == 2 and "is the recording" in run.stderr, run
    with open(copy, "rb") as kept, open(SOURCE, "rb") as source:
        assert kept.read() == source.read()


def the_old_file_stays_until_the_new_one_is_complete(folder):
    """A limit on the size of files stops the write: the old contents remain, and no part of the new ones."""
    target = folder / "target"
    target.write_text(OLD)
    target.chmod(0o640)
    limited = ["sh", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "sh", SONDE, "pack", SOURCE, "-o", target]
    failed = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert failed.returncode == 2 and "written" in failed.stderr, failed
    assert os.listdir(folder) == ["target"] and is_old(target)
    sonde("pack", SOURCE, "-o", target)
    assert os.listdir(folder) == ["target"] and not is_old(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def default_names_replace_nothing(folder):
    source, packed = folder / "run.sonde", folder / "run.packed.sonde"
    sonde("record", "-o", source, "--", "true")
    packed.write_text(OLD)
    refused("pack", source, why="exists; remove it, or name a file with -o")
    assert is_old(packed)
    packed.unlink()
    packed.symlink_to(folder / "victim")
    refused("pack", source, why="exists")
    assert not (folder / "victim").exists()


def record_replaces_recordings_only(folder):
    path, text = folder / "run.sonde", folder / "text"
    text.write_text(OLD)
    for command in "true", "false":
        try_sonde("record", "-o", path, "--", command)
        assert command in sonde("report", path)
    refused("record", "-o", path, "--", "/nonexistent", why="cannot run")
    assert "false" in sonde("report", path) and sorted(os.listdir(folder)) == ["run.sonde", "text"]
    refused("record", "-o", text, "--", "true", why="--force replaces it")
    assert is_old(text)
    sonde("record", "--force", "-o", text, "--", "true")
    sonde("report", text)


def a_recording_that_is_being_written_is_refused():
    path = fresh()
    path, running = start_record(["cat"], path=path, stdin=subprocess.PIPE)
    until(lambda: os.path.exists(path) and os.path.getsize(path), "the recording begins")
    for force in (), ("--force",):
        refused("record", *force, "-o", path, "--", "true", why="still being written")
    running.stdin.close()
    assert running.wait() == 0
    sonde("report", path)


run_cases(globals())
