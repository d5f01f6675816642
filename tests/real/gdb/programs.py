# SPDX-License-Identifier: MIT
"""Programs nobody here wrote, at work: each class starts one, keeps it busy, and ends it."""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NULL = subprocess.DEVNULL


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Program:
    """COMMAND runs in a folder of its own and is started again when it ends."""
    name = ""
    settle = 1.0

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sonde-vs-gdb-")
        self.path = pathlib.Path(self.folder.name)
        self.process = None

    @classmethod
    def available(cls):
        return shutil.which(cls.name) is not None

    def prepare(self):
        pass

    def command(self):
        raise NotImplementedError

    def start(self):
        self.process = subprocess.Popen(self.command(), cwd=self.path, stdin=NULL, stdout=NULL,
                                        stderr=NULL, env=dict(os.environ, DEBUGINFOD_URLS=""))
        time.sleep(self.settle)

    def pid(self):
        """Of the process to look at; starts the program again when it has ended."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        return self.process.pid

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class Python(Program):
    name = "python3"
    SCRIPT = """
import hashlib, json, random, re, sqlite3, threading, zlib
def work(seed):
    r = random.Random(seed)
    while True:
        data = [{"k%d" % i: r.random(), "s": "x" * r.randrange(50)} for i in range(200)]
        text = json.dumps(data); json.loads(text)
        re.findall(r"(k\\\\d+).*?([0-9.]+)", text)
        sorted(data, key=lambda d: len(str(d))); zlib.compress(text.encode())
        hashlib.sha256(text.encode()).hexdigest()
        db = sqlite3.connect(":memory:"); db.execute("create table t(a,b)")
        db.executemany("insert into t values(?,?)", [(i, str(i)) for i in range(200)])
        db.execute("select b,count(*) from t group by b order by a").fetchall()
for i in range(3): threading.Thread(target=work, args=(i,), daemon=True).start()
work(9)
"""

    def command(self):
        return [sys.executable, "-c", self.SCRIPT]


class Redis(Program):
    name = "redis-server"

    @classmethod
    def available(cls):
        return super().available() and shutil.which("redis-benchmark") is not None

    def prepare(self):
        self.port = free_port()
        self.loads = []

    SCRIPT = ("for i=1,300 do redis.call('zadd','z',math.random(),i) redis.call('hset','h'..i%7,i,"
              "string.rep('x',i)) redis.call('rpush','mylist',i) end redis.call('ltrim','mylist',0,99)"
              " redis.call('zrangebyscore','z',0,1) redis.call('sort','mylist','desc') "
              "return cjson.encode(redis.call('hgetall','h3'))")

    def command(self):
        return ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "yes"]

    def start(self):
        super().start()
        bench = ["redis-benchmark", "-p", str(self.port), "-n", "100000000", "-r", "10000", "-q"]
        self.loads = [subprocess.Popen(bench + words, stdout=NULL, stderr=NULL) for words in
                      (["-t", "set,get,lpush,sadd,zadd,lrange_600,mset"], ["-c", "4", "eval",
                        self.SCRIPT, "0"], ["-c", "4", "sort", "mylist", "by", "nosort", "get", "k*"])]

    def stop(self):
        for load in self.loads:
            load.kill()
            load.wait()
        super().stop()


class Sqlite(Program):
    name = "sqlite3"
    SQL = ("create table t(a integer primary key, b text, c real);"
           "with recursive n(i) as (select 1 union all select i+1 from n where i<100000) "
           "insert into t select i, hex(randomblob(20)), random() from n; create index x on t(b);"
           "with recursive n(i) as (select 1 union all select i+1 from n where i<1000000) "
           "select sum((select count(*) from t where b like '%'||hex(i)||'%' "
           "order by c)), group_concat(printf('%d %s', i, upper(hex(i)))) from n;")

    def command(self):
        return ["sqlite3", str(self.path / "work.db"), self.SQL]


class Nginx(Program):
    name = "nginx"

    @classmethod
    def available(cls):
        return shutil.which("nginx") is not None or os.path.exists("/usr/sbin/nginx")

    def prepare(self):
        self.port, self.tls_port = free_port(), free_port()
        self.load = None
        words = [random.choice("abcdefgh") * random.randrange(9) + str(random.randrange(10 ** 4))
                 for _ in range(4000)]
        (self.path / "page.html").write_text(" ".join(words))
        (self.path / "large.bin").write_bytes(random.randbytes(1 << 20))
        (self.path / "list").mkdir()
        for i in range(300):
            (self.path / "list" / f"file-{i}").touch()
        self.has_tls = self.make_certificate()
        listen = f"listen 127.0.0.1:{self.tls_port} ssl; ssl_certificate {self.path}/cert; " \
                 f"ssl_certificate_key {self.path}/key;" if self.has_tls else ""
        proxied = f"https://127.0.0.1:{self.tls_port}" if self.has_tls else \
            f"http://127.0.0.1:{self.port}"
        (self.path / "nginx.conf").write_text(f"""
daemon off; master_process off; worker_processes 1; pid {self.path}/pid;
error_log {self.path}/error.log; events {{ worker_connections 512; }}
http {{ access_log {self.path}/access.log; gzip on; gzip_comp_level 6; gzip_types text/html;
  client_body_temp_path {self.path}; proxy_temp_path {self.path}; fastcgi_temp_path {self.path};
  uwsgi_temp_path {self.path}; scgi_temp_path {self.path}; ssl_session_cache off;
  map $uri $mapped {{ default 0; ~list 1; ~r/[a-z]+ 2; }}
  server {{ listen 127.0.0.1:{self.port}; {listen} root {self.path}; add_header X-Mapped $mapped;
    error_page 404 /page.html; large_client_header_buffers 4 16k;
    location /list {{ autoindex on; autoindex_format json; }}
    location /html-list/ {{ alias {self.path}/list/; autoindex on; }}
    location /proxy/ {{ proxy_pass {proxied}/; proxy_ssl_session_reuse off; proxy_http_version 1.1; }}
    location /deny {{ deny all; }}
    location /status {{ stub_status; }}
    location ~ ^/(r|s)(/[a-z0-9]+)*/?$ {{ rewrite ^/[rs]/(.*)$ /page.html?$1 break; }} }} }}
""")

    def make_certificate(self):
        """For TLS, where there is an openssl to make it with."""
        made = shutil.which("openssl") and subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-keyout", "key", "-out", "cert"], cwd=self.path, stdout=NULL,
            stderr=NULL, check=False)
        return bool(made) and made.returncode == 0

    def command(self):
        return [shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(self.path / "nginx.conf"),
                "-p", str(self.path)]

    # Many requests at once on each connection: a client in Python alone would leave the server idle.
    CLIENT = """
import random, socket, sys, threading, time
PAGES = ["page.html", "list/", "html-list/", "r/1/a2/b3", "none", "proxy/page.html", "proxy/list/",
         "proxy/proxy/page.html", "deny", "status", "large.bin", "proxy/large.bin"]
def request(last):
    head = random.choice(["", "Accept-Encoding: gzip\\r\\n", "Range: bytes=100-5000\\r\\n",
                          "Cookie: " + "x" * 900 + "\\r\\n",
                          "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\\r\\n"])
    return ("GET /%s HTTP/1.1\\r\\nHost: localhost\\r\\n%sConnection: %s\\r\\n\\r\\n" % (
        random.choice(PAGES), head, "close" if last else "keep-alive")).encode()
def ask():
    while True:
        try:
            with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as server:
                server.sendall(b"".join(request(i == 29) for i in range(30)))
                while server.recv(1 << 20):
                    pass
        except OSError:
            time.sleep(0.01)
for i in range(8): threading.Thread(target=ask).start()
"""

    def start(self):
        super().start()
        if not self.load:
            self.load = subprocess.Popen([sys.executable, "-c", self.CLIENT, str(self.port)],
                                         stdout=NULL, stderr=NULL)
            time.sleep(0.5)

    def stop(self):
        if self.load:
            self.load.kill()
            self.load.wait()
        super().stop()


class Git(Program):
    name = "git"
    settle = 0.15

    def prepare(self):
        run = dict(cwd=self.path, stdout=NULL, stderr=NULL, check=True)
        subprocess.run(["git", "init", "-q", "."], **run)
        rng, stream = random.Random(1), []
        for i in range(3000):
            text = "\n".join(str(rng.random()) for _ in range(200))
            stream.append(f"commit refs/heads/m\nmark :{i + 1}\ncommitter a <a@b> {i + 1} +0000\n"
                          f"data 1\nx\n" + (f"from :{i}\n" if i else "") +
                          f"M 644 inline f{i % 50}\ndata {len(text)}\n{text}\n")
        subprocess.run(["git", "fast-import", "--quiet"], input="".join(stream).encode(), **run)

    def command(self):
        return ["git", "-c", "pack.threads=1", "fsck", "--full", "--strict"]


class Cc1(Program):
    name = "cc1"

    @classmethod
    def available(cls):
        cls.cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True,
                                  check=False).stdout.strip() if shutil.which("gcc") else ""
        return os.path.isabs(cls.cc1)

    def prepare(self):
        parts = ["typedef unsigned long u;\n"]
        for i in range(6000):
            parts.append(f"u f{i}(u a, u b, u *p) {{ u s = {i}; for (u i = 0; i < a; i++) {{ "
                         f"s += p[i] * (b ^ i); if (s & {i + 1}) s = s / (b | 1); "
                         f"switch (s % 7) {{ case 0: s++; break; case 3: s ^= a; break; "
                         f"default: p[i] = s; }} }} return s{f' + f{i - 1}(b, a, p)' if i else ''}; }}\n")
        (self.path / "large.c").write_text("".join(parts))

    def command(self):
        return [self.cc1, "-quiet", "-O2", str(self.path / "large.c"), "-o", "/dev/null"]


class Node(Program):
    name = "node"
    settle = 1.5
    SCRIPT = """
const z = require('zlib'), c = require('crypto'); let n = 0;
function work() { const a = []; for (let i = 0; i < 3000; i++) a.push({k: 'k' + i, v: Math.random()});
  const t = JSON.stringify(a); JSON.parse(t); a.sort((x, y) => x.v - y.v);
  t.replace(/k(\\d+)/g, (m, d) => d + m); z.gzipSync(t); c.createHash('sha256').update(t).digest();
  z.gzip(t, () => { n++; }); setImmediate(work); }
work();"""

    def command(self):
        return ["node", "-e", self.SCRIPT]


class Java(Program):
    name = "java"
    settle = 1.5
    SOURCE = """
import java.util.*; import java.util.zip.*;
public class Work { public static void main(String[] a) throws Exception {
  for (int t = 0; t < 2; t++) new Thread(Work::work).start(); work(); }
  static void work() { Random r = new Random(); while (true) { Map<String, Integer> m = new TreeMap<>();
    for (int i = 0; i < 5000; i++) m.put("k" + r.nextInt(10000), i);
    CRC32 c = new CRC32(); c.update(m.toString().getBytes());
    Deflater d = new Deflater(); d.setInput(m.toString().getBytes()); d.finish();
    d.deflate(new byte[1 << 20]); d.end(); } } }"""

    # For a runtime without a compiler: a key so large that it takes minutes to find.
    KEY = ["-m", "java.base/sun.security.tools.keytool.Main", "-genkeypair", "-alias", "a", "-dname", "CN=a",
           "-keyalg", "RSA", "-keysize", "16384", "-storepass", "secret", "-keystore", "keys"]

    def prepare(self):
        (self.path / "Work.java").write_text(self.SOURCE)
        modules = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True)
        self.compiles = "jdk.compiler" in modules.stdout

    def command(self):
        return ["java", "-Xmx256m", *([str(self.path / "Work.java")] if self.compiles else self.KEY)]


class Fixture(Program):
    """Our own threads, without frame pointers: functions of every kind in every order."""
    name = "threads"
    settle = 0.5

    @classmethod
    def available(cls):
        cls.binary = os.path.join(os.environ.get("SONDE_FIXTURES", ""), "varied")
        return os.path.exists(cls.binary)

    def command(self):
        return [self.binary, "12"]


ALL = [Python, Redis, Sqlite, Nginx, Git, Cc1, Node, Java, Fixture]
