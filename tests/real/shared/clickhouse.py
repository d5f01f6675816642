# SPDX-License-Identifier: MIT
"""A ClickHouse server of its own, on loopback, with its data in a folder of the test."""
import os
import pathlib
import shutil
import signal
import subprocess
import urllib.request

from helpers import free_port, until

# The path of the server, or None.
SERVER = shutil.which("clickhouse-server", path=os.environ["PATH"] + ":/usr/sbin")
CONFIG = """<yandex><logger><level>error</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<http_port>{port}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><remote_servers>{clusters}</remote_servers></yandex>"""
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password>{password}</password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>"""


SHARD = "<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>"


class Server:
    """A server with its data in a folder, which can be killed and started again. TCP: its port for other servers."""

    def __init__(self, folder, password="", tcp=0, clusters=""):
        self.folder, self.port, self.password = pathlib.Path(folder) / "server", free_port(), password
        self.folder.mkdir(parents=True)
        (self.folder / "config.xml").write_text(
            CONFIG.format(folder=self.folder, port=self.port, tcp=tcp or free_port(), clusters=clusters))
        (self.folder / "users.xml").write_text(USERS.format(password=password))
        self.start()

    def start(self):
        # Of a server that was killed while it created a database. Version 18.16 then refuses to create it until an
        # operator has removed the file; later versions remove it themselves.
        for left in (self.folder / "data" / "metadata").glob("*.sql.tmp"):
            left.unlink()
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen([SERVER, f"--config-file={self.folder}/config.xml"], stdout=out, stderr=out,
                                            cwd=self.folder)
        until(lambda: self.answers(), "the server answers")

    def answers(self):
        assert self.process.poll() is None, (self.folder / "out").read_text()[-2000:]
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5).read() == b"Ok.\n"
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cpu_s(self):
        """The CPU time that the server has used since it was started (proc_pid_stat(5))."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def ask(self, sql, database="fleet"):
        url = f"http://127.0.0.1:{self.port}/?database={database}"
        return urllib.request.urlopen(url, data=sql.encode(), timeout=60).read().decode()

    def url(self, database="fleet"):
        return f"clickhouse://127.0.0.1:{self.port}/{database}"


class Cluster:
    """Servers that are the shards of the cluster `pair`."""

    def __init__(self, folder, count=2):
        ports = [free_port() for _ in range(count)]
        pair = f"<pair>{''.join(SHARD.format(port=port) for port in ports)}</pair>"
        self.servers = []
        for number, port in enumerate(ports):
            self.servers.append(Server(pathlib.Path(folder) / f"shard{number}", tcp=port, clusters=pair))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()

    def url(self, database="fleet"):
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"clickhouse://{hosts}/{database}?cluster=pair"
