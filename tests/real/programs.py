#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote do under sonde record what they do without: redis, nginx, postgres,
node and java run a workload of their own, in every mode and with the modes switched meanwhile, and
give the same results. What is not installed is said and passed over."""
import glob
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from helpers import (
    SONDE, WORK, child_of, free_port, fresh, needs, needs_agent, nothing_missing, report, run_cases, sonde,
    until)

MODES = ["--malloc=all"], ["--malloc=live", "--sample=200", "--wall=200"]
# Debian keeps it out of the way.
POSTGRES = shutil.which("postgres") or max(glob.glob("/usr/lib/postgresql/*/bin/postgres"), default="")


def prefix(mode):
    """What to put before a command to record it, and the recording's path."""
    path = fresh()
    return ([SONDE, "record", *mode, "-o", path, "--"], path) if mode else ([], None)


def check_recording(path, least=20):
    if not path:
        return
    told = report(path)
    m = told["malloc"]
    assert told["finished"] and m["depth"]["undefined"] == 0, (path, told["missing"])
    nothing_missing(told)
    assert m["events"] + m["peak"]["blocks"] > least, (m["events"], m["peak"])
    odd = m["double_frees"], m["address_reuses"], m["unknown_frees"]
    assert odd == (0, 0, 0), odd


def wait_for(test):
    def works():
        try:
            return test()
        except (OSError, subprocess.CalledProcessError):
            return time.sleep(0.05)

    until(works, "the server answers")


def stop(process, recorded, how=signal.SIGTERM):
    os.kill(child_of(process.pid) if recorded else process.pid, how)
    process.wait(150)


def switch(process, over):
    """Other modes, again and again, while the program works."""
    pid, modes, n = child_of(process.pid), ["live", "malloc", "off", "sample:64K", "all"], 0
    while not over.is_set():
        sonde("ctl", pid, "malloc=" + modes[n % 5])
        n += 1
        time.sleep(0.02)


def redis(mode, switching=False):
    port = free_port()
    before, path = prefix(mode)
    server = subprocess.Popen([*before, "redis-server", "--port", str(port), "--save", "", "--dir", WORK],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cli = ["redis-cli", "-p", str(port)]
    wait_for(lambda: subprocess.run([*cli, "ping"], capture_output=True).stdout == b"PONG\n")
    over = threading.Event()
    other = threading.Thread(target=switch, args=(server, over))
    if switching:
        other.start()
    subprocess.run(["redis-benchmark", "-p", str(port), "-n", "5000", "-q", "-t",
                    "set,get,lpush,lrange_100,zadd,mset"], check=True, stdout=subprocess.DEVNULL)
    commands = "\n".join(f"set k{i} {'v' * (i % 300)}\nrpush l{i % 9} {i}\nhset h{i % 7} f{i} {i}"
                         for i in range(2000))
    subprocess.run(cli, input=commands.encode(), stdout=subprocess.DEVNULL, check=True)
    script = b"\n".join(b"get k%d" % i for i in range(2000)) + b"\nlrange l3 0 -1\nhgetall h2\n"
    answer = subprocess.run(cli, input=script, capture_output=True, check=True).stdout
    over.set()
    if switching:
        other.join()
    stop(server, mode)
    assert server.returncode == 0, server.returncode
    if not switching:
        check_recording(path)
    return hashlib.sha256(answer).hexdigest()


def nginx(mode):
    port, root = free_port(), tempfile.mkdtemp(dir=WORK)
    os.chmod(root, 0o755)
    for i in range(20):
        with open(os.path.join(root, f"{i}.txt"), "w") as f:
            f.write(f"{i} " * (i * 500))
    conf = os.path.join(root, "nginx.conf")
    with open(conf, "w") as f:
        f.write(f"daemon off; worker_processes 2; pid {root}/pid; error_log {root}/error.log;\n"
                "events { worker_connections 64; }\nhttp { access_log off; gzip on; gzip_types *;\n"
                f"client_body_temp_path {root}; proxy_temp_path {root}; fastcgi_temp_path {root};\n"
                f"uwsgi_temp_path {root}; scgi_temp_path {root};\n"
                f"server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n")
    before, path = prefix(mode + ["--follow"] if mode else mode)
    server = subprocess.Popen([*before, "nginx", "-c", conf, "-p", root], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    wait_for(lambda: urllib.request.urlopen(url + "1.txt").status == 200)
    answer = hashlib.sha256()
    for i in range(200):
        request = urllib.request.Request(f"{url}{i % 20}.txt", headers={"Accept-Encoding": "gzip"})
        answer.update(urllib.request.urlopen(request).read())
    stop(server, mode, signal.SIGQUIT)
    assert server.returncode == 0, server.returncode
    check_recording(path)
    return answer.hexdigest()


def node(mode):
    before, path = prefix(mode)
    code = ("const z=require('zlib'),c=require('crypto');let h=c.createHash('sha256');"
            "for(let i=0;i<300;i++){h.update(z.deflateSync(Buffer.alloc(5000+i,i)));"
            "h.update(JSON.stringify([...Array(200).keys()].map(x=>({x,i}))));}"
            "z.gzip(Buffer.alloc(100000,7),(e,b)=>{h.update(b);console.log(h.digest('hex'))});")
    done = subprocess.run([*before, "node", "-e", code], capture_output=True, timeout=100)
    assert done.returncode == 0, done
    check_recording(path)
    return done.stdout


def java(mode):
    before, path = prefix(mode)
    source = os.path.join(WORK, "Work.java")
    with open(source, "w") as f:
        f.write("""import java.util.*; import java.util.zip.*;
public class Work { public static void main(String[] a) throws Exception {
  long sum = 0; Thread[] t = new Thread[4]; long[] part = new long[4];
  for (int k = 0; k < 4; k++) { final int n = k; t[k] = new Thread(() -> {
    for (int i = 0; i < 50; i++) { byte[] in = new byte[20000 + i], out = new byte[30000];
      Arrays.fill(in, (byte) (i + n)); Deflater d = new Deflater(); d.setInput(in); d.finish();
      part[n] += d.deflate(out) + out[3]; d.end(); } }); t[k].start(); }
  for (int k = 0; k < 4; k++) { t[k].join(); sum += part[k]; }
  try { Object o = null; o.hashCode(); } catch (NullPointerException e) { sum += 1; }
  System.out.println(sum); System.exit(3); } }""")
    if not os.path.exists(source.replace(".java", ".class")):
        subprocess.run(["javac", "-d", WORK, source], check=True)
    done = subprocess.run([*before, "java", "-cp", WORK, "Work"], capture_output=True, timeout=150)
    assert done.returncode == 3, done
    check_recording(path)
    return done.stdout


def postgres(mode):
    tools = os.path.dirname(os.path.realpath(POSTGRES))
    data = tempfile.mkdtemp(dir=WORK)
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(data, "nobody", "nogroup")
        os.chmod(WORK, 0o777)
    subprocess.run([os.path.join(tools, "initdb"), "-D", data, "-A", "trust", "-U", "me", "--no-sync"],
                   check=True, stdout=subprocess.DEVNULL, cwd="/", **user)
    port = str(free_port())
    before, path = prefix(mode + ["--follow"] if mode else mode)
    server = subprocess.Popen([*before, POSTGRES, "-D", data, "-p", port, "-k", data],
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", **user)
    psql = [os.path.join(tools, "psql"), "-h", data, "-p", port, "-U", "me", "-At", "postgres", "-c"]
    wait_for(lambda: subprocess.run([*psql, "select 1"], capture_output=True).returncode == 0)
    sql = ("create table t as select i, md5(i::text) m from generate_series(1,20000) i;"
           "create index on t(m); select count(*), sum(i), min(m), md5(string_agg(m, ',' order by m))"
           " from t where m > '3'; select a.i % 7, count(*) from t a join t b on a.i = b.i * 2"
           " group by 1 order by 1;")
    answer = subprocess.run([*psql, sql], capture_output=True, check=True).stdout
    stop(server, mode, signal.SIGINT)
    assert server.returncode == 0, server.returncode
    if path:
        check_recording(path)
    return answer


def _says_the_same(program, binary, switching=False):
    needs(binary)
    plain = program([])
    for mode in MODES:
        assert program(mode) == plain, mode
    if switching:
        assert program(["--malloc=all"], switching=True) == plain


def with_redis():
    _says_the_same(redis, "redis-server", switching=True)


def with_nginx():
    _says_the_same(nginx, "nginx")


def with_node():
    _says_the_same(node, "node")


def with_java():
    _says_the_same(java, "javac")


def with_postgres():
    _says_the_same(postgres, POSTGRES or "postgres")


needs_agent()
run_cases(globals())
