# SPDX-License-Identifier: MIT
"""The programs of the matrix (programs.py), as the parameters of its class Program: interpreters, compilers, tools,
codecs, databases, servers, sandboxes and desktop toolkits of Debian. Each does the same work each time, for about a
second, and prints what it found."""

PERL = r"""my %h; for my $i (1..200000) { $h{$i % 5000} .= "x$i"; } my $n = 0; $n += length for values %h; print "$n\n";"""
RUBY = "h = {}; 200_000.times { |i| (h[i % 3000] ||= []) << \"v#{i}\" }; puts h.sum { |k, v| v.join.size }"
PHP = "$a = []; for ($i = 0; $i < 400000; $i++) { $a[$i % 3000][] = \"v$i\"; } $n = 0; " \
      "foreach ($a as $v) $n += strlen(implode(',', $v)); echo $n, PHP_EOL;"
LUA = "local t = {} for i = 1, 400000 do local k = i % 3000; t[k] = t[k] or {}; table.insert(t[k], 'v' .. i) end " \
      "local n = 0 for _, v in pairs(t) do n = n + #table.concat(v) end print(n)"
PYTHON = "d = {}\nfor i in range(300000): d.setdefault(i % 3000, []).append(str(i))\n" \
         "print(sum(len(''.join(v)) for v in d.values()))"
THREADS = "import threading, hashlib\nr = []\ndef f(k):\n  x = b'%d' % k\n  for i in range(2000): x = hashlib.sha256(x * 50).digest()\n" \
          "  r.append(x.hex())\nt = [threading.Thread(target=f, args=(k,)) for k in range(8)]\n" \
          "[x.start() for x in t]; [x.join() for x in t]\nprint(sorted(r)[0])"
NODE = "const m = new Map(); for (let i = 0; i < 600000; i++) { const k = i % 3000; m.set(k, (m.get(k) || '') + i); } " \
       "let n = 0; for (const v of m.values()) n += v.length; console.log(n)"
SQL = "create table t(a integer primary key, b text); with recursive c(x) as (select 1 union all select x+1 from c " \
      "where x<200000) insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), sum(a) from t " \
      "where b > 'A'; select max(length(g)) from (select group_concat(b) g from t group by a%100);"
C = r"""#include <map>
#include <string>
#include <vector>
#include <algorithm>
#include <regex>
#include <iostream>
int main() { std::map<std::string, std::vector<int>> m; for (int i = 0; i < 300000; i++)
m[std::to_string(i % 5000)].push_back(i); long n = 0; for (auto &e : m) n += std::accumulate(e.second.begin(),
e.second.end(), 0L); std::cout << n << std::endl; }""".replace("#include <algorithm>", "#include <algorithm>\n#include <numeric>")
GO = r"""package main
import ("fmt"; "sort"; "strings")
func main() { m := map[int][]string{}; for i := 0; i < 400000; i++ { m[i%3000] = append(m[i%3000], fmt.Sprint(i)) }
 n := 0; k := []int{}; for a, v := range m { k = append(k, a); n += len(strings.Join(v, "")) }; sort.Ints(k); fmt.Println(n, len(k)) }"""
CGO = r"""package main
// #include <stdlib.h>
// static long work(long n) { volatile long x = 0; for (long i = 0; i < n; i++) x += i; void *p = malloc(100); free(p); return x; }
import "C"
import ("fmt"; "sync")
func main() { var w sync.WaitGroup; var t [4]C.long; for k := range t { w.Add(1); go func(k int) { defer w.Done()
 for i := 0; i < 1200; i++ { t[k] += C.work(300000) } }(k) }; w.Wait(); fmt.Println(t[0], t[3]) }"""
RUST = r"""use std::collections::HashMap;
fn main() { let mut m: HashMap<u32, Vec<String>> = HashMap::new(); for i in 0..300000u32 { m.entry(i % 3000).or_default().push(i.to_string()); }
 let h: Vec<_> = (0..4u64).map(|k| std::thread::spawn(move || (0..3_000_000u64).fold(k, |a, b| a.wrapping_mul(31).wrapping_add(b)))).collect();
 let s: Vec<u64> = h.into_iter().map(|t| t.join().unwrap()).collect(); println!("{} {:?}", m.values().map(|v| v.join("").len()).sum::<usize>(), s); }"""
HASKELL = r"""import qualified Data.Map.Strict as M
main = print (M.foldl' (+) 0 (M.fromListWith (+) [(i `mod` 3000, i) | i <- [1 .. 400000 :: Int]]))"""
OCAML = r"""let () = let h = Hashtbl.create 16 in for i = 1 to 400000 do let k = i mod 3000 in
 Hashtbl.replace h k (string_of_int i :: (try Hashtbl.find h k with Not_found -> [])) done;
 print_int (Hashtbl.fold (fun _ v n -> n + String.length (String.concat "" v)) h 0); print_newline ()"""
CS = r"""using System; using System.Collections.Generic; using System.Text; class P { static void Main() { var d = new Dictionary<int, StringBuilder>();
 for (int i = 0; i < 600000; i++) { StringBuilder s; if (!d.TryGetValue(i % 3000, out s)) d[i % 3000] = s = new StringBuilder(); s.Append(i); }
 long n = 0; foreach (var s in d.Values) n += s.Length; Console.WriteLine(n); } }"""
JAVA = r"""import java.util.*; public class W { public static void main(String[] a) { Map<Integer, StringBuilder> m = new HashMap<>();
 for (int i = 0; i < 900000; i++) m.computeIfAbsent(i % 3000, k -> new StringBuilder()).append(i);
 long n = 0; for (var s : m.values()) n += s.length(); System.out.println(n); } }"""
ERLANG = "M = lists:foldl(fun(I, A) -> maps:update_with(I rem 3000, fun(L) -> [I|L] end, [I], A) end, #{}, lists:seq(1, 300000)), " \
         "io:format(\"~p~n\", [lists:sum([length(V) || V <- maps:values(M)])]), halt()."
SANITIZED = r"""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *f(void *a) { long n = 0; for (int i = 0; i < 100000; i++) { char *p = malloc((unsigned)i % 300 + 1); p[0] = 1; n += p[0]; free(p); } return (void *)n; }
int main(void) { pthread_t t[4]; void *r; long n = 0; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, f, 0);
for (int i = 0; i < 4; i++) { pthread_join(t[i], &r); n += (long)r; } printf("%ld\n", n); return 0; }"""
BLOCKED = r"""#include <pthread.h>
#include <signal.h>
#include <stdio.h>
static unsigned long burn(void) { volatile unsigned long x = 1; for (long i = 0; i < 400000000; i++) x += i; return x; }
static void *f(void *a) { (void)a; return (void *)burn(); }
int main(void) { sigset_t all; pthread_t t; void *r; sigfillset(&all); pthread_sigmask(SIG_SETMASK, &all, 0);
pthread_create(&t, 0, f, 0); pthread_join(t, &r); printf("%lu\n", (unsigned long)r); return 0; }"""
GTK = "import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk, GLib\n" \
      "w = Gtk.Window(); b = Gtk.ListBox(); w.add(b); [b.add(Gtk.Label(label=str(i))) for i in range(800)]\n" \
      "w.show_all(); GLib.timeout_add(600, Gtk.main_quit); Gtk.main(); print(len(b.get_children()))"
QT = "import sys; from PyQt5 import QtWidgets, QtCore\na = QtWidgets.QApplication(sys.argv); l = QtWidgets.QListWidget()\n" \
     "[l.addItem(str(i)) for i in range(20000)]; l.show(); QtCore.QTimer.singleShot(600, a.quit); a.exec_(); print(l.count())"
BOOT = r""".code16
.globl _start
_start: mov $200000000, %ecx
1: dec %ecx
jnz 1b
mov $0x3f8, %dx
mov $65, %al
out %al, %dx
mov $0x501, %dx
mov $3, %al
out %al, %dx
hlt
.org 510
.word 0xaa55"""


def write(name, text):
    """A command of the shell that writes TEXT to the file NAME."""
    return f"cat > {name} <<'END_OF_TEXT'\n{text}\nEND_OF_TEXT\n"


def words(count):
    return f"seq 1 {count} | awk '{{ print $1 * 7919 % 100003, \"word\" $1 % 977 }}' > words\n"


PROGRAMS = [
    # interpreters
    dict(name="perl", command=["perl", "-e", PERL]),
    dict(name="python3", command=["/usr/bin/python3", "-c", PYTHON], packages="python3"),
    dict(name="python3-threads", command=["/usr/bin/python3", "-c", THREADS], packages="python3"),
    dict(name="ruby", command=["/usr/bin/ruby", "-e", RUBY], packages="ruby"),
    dict(name="php", command=["php", "-r", PHP], packages="php-cli"),
    dict(name="lua", command=["lua5.4", "-e", LUA], packages="lua5.4"),
    dict(name="guile", command=["guile", "-q", "-c", "(let loop ((i 0) (s 0)) (if (< i 3000000) (loop (+ i 1) (+ s (string-length (number->string (modulo i 99))))) (begin (display s) (newline))))"],
         packages="guile-3.0"),
    dict(name="node", command=["node", "-e", NODE]),
    dict(name="bash", command=["bash", "-c", "n=0; for ((i = 0; i < 100000; i++)); do a[i % 1000]=x$i; ((n += ${#a[i % 1000]})); done; echo $n $(echo sub)"]),
    dict(name="gawk", command="gawk '{ a[$2] += $1 } END { for (k in a) n += a[k]; print n }' words words words", packages="gawk", prepare=words(300000)),
    dict(name="bc", command="echo 'scale=1500; a(1)*4' | bc -l | md5sum", packages="bc"),
    dict(name="emacs", command=["emacs", "--batch", "--eval", "(let ((h (make-hash-table))) (dotimes (i 400000) (puthash (% i 3000) (number-to-string i) h)) (princ (hash-table-count h)))"],
         packages="emacs-nox"),
    dict(name="vim", command=["vim", "-Nesu", "NONE", "-c", "let n=0 | for i in range(200000) | let n+=len(string(i)) | endfor | put =n | %print | q!"], packages="vim"),
    dict(name="R", command=["Rscript", "-e", "set.seed(1); m <- matrix(rnorm(250000), 500); cat(round(sum(solve(m + diag(500) * 50)), 6), length(sort(runif(1e6))), '\\n')"],
         packages="r-base-core"),
    dict(name="erlang", command=["erl", "-noshell", "-eval", ERLANG], packages="erlang-base"),
    # compilers
    dict(name="cc1plus", command="g++ -O2 -c w.cc -o w.o && nm w.o | sort | md5sum", prepare=write("w.cc", C)),
    dict(name="clang", command="clang++ -O2 -c w.cc -o w.o && nm w.o | sort | md5sum", packages="clang", prepare=write("w.cc", C)),
    dict(name="make", command="make -s -j3 && cat *.o | md5sum", prepare="for i in 1 2 3 4 5 6; do echo \"int f$i(int x) { return x * $i; }\" > f$i.c; done\n"
         "printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o\\n' > Makefile"),
    dict(name="rustc", command="rustc -O w.rs -o w 2>&1 && ./w", packages="rustc", prepare=write("w.rs", RUST), limit=180),
    dict(name="gdb", command=["gdb", "-nx", "-batch", "-ex", "info line main", "-ex", "info scope main", "/usr/bin/python3"], packages="gdb python3-dbg"),
    # programs that they built
    dict(name="c++", command=["./w"], prepare=write("w.cc", C) + "g++ -O2 -g w.cc -o w"),
    dict(name="rust", command=["./w"], packages="rustc", prepare=write("w.rs", RUST) + "rustc -O w.rs -o w"),
    dict(name="go", command="exec ./w", packages="golang-go", prepare=write("w.go", GO) + "HOME=$PWD go build -o w w.go"),
    dict(name="cgo", command=["./w"], packages="golang-go", prepare=write("w.go", CGO) + "HOME=$PWD go build -o w w.go"),
    dict(name="haskell", command=["./w", "+RTS", "-N2"], packages="ghc", prepare=write("w.hs", HASKELL) + "ghc -O -threaded -rtsopts w.hs -o w"),
    dict(name="ocaml", command=["./w"], packages="ocaml-nox", prepare=write("w.ml", OCAML) + "ocamlfind ocamlopt w.ml -o w 2>/dev/null || ocamlopt w.ml -o w"),
    dict(name="mono", command=["mono", "w.exe"], packages="mono-runtime mono-mcs", prepare=write("w.cs", CS) + "mcs w.cs"),
    dict(name="java", command=["java", "-Xshare:auto", "W"], packages="default-jdk-headless", prepare=write("W.java", JAVA) + "javac W.java", counted=False),
    dict(name="asan", command=["./w"], prepare=write("w.c", SANITIZED) + "gcc -g -fsanitize=address w.c -o w -lpthread", counted=False),
    dict(name="tsan", command=["./w"], prepare=write("w.c", SANITIZED) + "gcc -g -fsanitize=thread w.c -o w -lpthread", counted=False),
    dict(name="blocked-signals", command=["./w"], prepare=write("w.c", BLOCKED) + "gcc -g -O1 w.c -o w -lpthread"),
    dict(name="jemalloc", command=["sh", "-c", "LD_PRELOAD=$LD_PRELOAD:libjemalloc.so.2 exec ./w"], packages="libjemalloc2",
         prepare=write("w.c", SANITIZED) + "gcc -g w.c -o w -lpthread", counted=False),
    dict(name="tcmalloc", command=["sh", "-c", "LD_PRELOAD=$LD_PRELOAD:libtcmalloc_minimal.so.4 exec ./w"], packages="libtcmalloc-minimal4",
         prepare=write("w.c", SANITIZED) + "gcc -g w.c -o w -lpthread", counted=False),
    dict(name="static", command="exec ./w", prepare=write("w.c", SANITIZED) + "gcc -g -static w.c -o w -lpthread", counted=False),
    # tools
    dict(name="sqlite3", command=["sqlite3", ":memory:", SQL], packages="sqlite3"),
    dict(name="git", command="git init -q . && git add words && git -c user.name=a -c user.email=a@b commit -qm w && git gc -q && git cat-file -p HEAD:words | md5sum && rm -rf .git",
         packages="git", prepare=words(200000)),
    dict(name="sort", command="sort --parallel=2 -S 4M words words words | md5sum", prepare=words(300000)),
    dict(name="xz", command="xz -T2 -c words | xz -dc | md5sum", packages="xz-utils", prepare=words(200000)),
    dict(name="zstd", command="zstd -q -T2 -12 -c words | zstd -dqc | md5sum", packages="zstd", prepare=words(400000)),
    dict(name="tar", command="tar cz words | tar tz", prepare=words(300000)),
    dict(name="rsync", command="rsync -a words copy/ && md5sum < copy/words && rm -r copy", packages="rsync", prepare=words(200000)),
    dict(name="jq", command="jq -n '[range(200000) | {a: (. % 100), b: tostring}] | group_by(.a) | map(length) | add'", packages="jq"),
    dict(name="openssl", command="for i in 1 2 3 4 5 6; do openssl dgst -sha256 words; done; openssl genrsa 2048 2>/dev/null | openssl rsa -check -noout", packages="openssl", prepare=words(300000)),
    dict(name="ssh-keygen", command="rm -f key key.pub; ssh-keygen -q -t rsa -b 3072 -N '' -f key && ssh-keygen -y -f key | cut -c1-7", packages="openssh-client"),
    dict(name="cmake", command=["cmake", "-P", "primes.cmake"], packages="cmake",
         prepare="cat > primes.cmake <<'END'\nforeach(n RANGE 2 900)\n  foreach(d RANGE 2 ${n})\n    math(EXPR r \"${n} % ${d}\")\n    if(r EQUAL 0)\n      break()\n    endif()\n  endforeach()\n"
                 "  if(d EQUAL n)\n    list(APPEND found ${n})\n  endif()\nendforeach()\nmessage(\"${found}\")\nEND\n"),
    dict(name="curl", command=["curl", "-s", "-o", "/dev/null", "-w", "%{size_download}\n", "file:///usr/bin/python3"], packages="curl"),
    dict(name="wget", command="env -u LD_PRELOAD python3 -m http.server -b 127.0.0.1 7424 >/dev/null 2>&1 & for i in 1 2 3; do wget --no-proxy --retry-connrefused -qO - http://127.0.0.1:7424/words | md5sum; done; kill $!",
         packages="wget", prepare=words(200000)),
    dict(name="find", command="find /usr/share/doc -type f -size -9k -newermt 2001-01-01 | wc -l", packages="findutils"),
    dict(name="grep", command="grep -Ec '(word[0-9]*7.*){1,2}$' words words words", packages="grep", prepare=words(300000)),
    dict(name="sed", command="sed -E 's/([0-9]+) (word)/\\2 \\1/; /9$/d' words | md5sum", packages="sed", prepare=words(100000)),
    dict(name="gzip", command="gzip -9c words | gzip -dc | md5sum", packages="gzip", prepare=words(100000)),
    dict(name="gpg", command="mkdir -pm 700 h && gpg --homedir h --batch -q --passphrase x --s2k-count 65536 -c -o words.gpg words && gpg --homedir h --batch -q --passphrase x -d words.gpg | md5sum; rm words.gpg; "
         "gpgconf --homedir h --kill all; rm -r h", packages="gpg gpg-agent gpgconf", prepare=words(50000)),
    dict(name="ninja", command="ninja -j2 --quiet && md5sum < f40.txt && ninja -t clean >/dev/null", packages="ninja-build",
         prepare="{ printf 'rule r\\n command = seq 1 20000 | sort -r > $out\\n'; for i in $(seq 1 40); do echo \"build f$i.txt: r\"; done; } > build.ninja"),
    dict(name="convert", command="convert -size 900x900 plasma:red-blue -seed 7 -blur 0x8 -resize 50% -format '%w %h\\n' info:", packages="imagemagick"),
    dict(name="ffmpeg", command="ffmpeg -v error -f lavfi -i testsrc=duration=4:size=640x360:rate=25 -c:v libx264 -threads 2 -f null - && echo done", packages="ffmpeg"),
    dict(name="ghostscript", command="gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=o.pdf -c '1 1 300 { pop 100 100 moveto 300 300 lineto stroke showpage } for' && pdftotext o.pdf - | wc -l",
         packages="ghostscript poppler-utils"),
    dict(name="graphviz", command="seq 1 300 | awk 'BEGIN { print \"digraph {\" } { print $1 \" -> \" $1 * 7 % 97 } END { print \"}\" }' | dot -Tsvg | wc -c", packages="graphviz"),
    dict(name="qemu-img", command="qemu-img create -q -f qcow2 d.img 64M && qemu-img convert -O raw d.img r.img && md5sum < r.img", packages="qemu-utils"),
    dict(name="stress-ng", command="stress-ng --quiet --malloc 2 --malloc-ops 200000 --fork 1 --fork-ops 500 --switch 1 --switch-ops 20000 && echo done", packages="stress-ng"),
    dict(name="gtk", command=["xvfb-run", "-a", "/usr/bin/python3", "-c", GTK], packages="xvfb xauth python3-gi gir1.2-gtk-3.0", ignore=r".*(WARNING|dconf).*\n"),
    dict(name="qt", command=["env", "QT_QPA_PLATFORM=offscreen", "/usr/bin/python3", "-c", QT], packages="python3-pyqt5"),
    dict(name="chromium", command="runuser -u nobody -- env HOME=$PWD chromium --headless --disable-gpu --user-data-dir=$PWD/data --dump-dom file://$PWD/p.html 2>/dev/null; rm -rf data",
         packages="chromium", prepare="echo '<p id=a></p><script>a.textContent = [...Array(9).keys()]</script>' > p.html", limit=100, counted=False),
    dict(name="unshare", command="unshare -Ur sh -c 'id -u; perl -e \"print 1+1\"'", packages="util-linux"),
    dict(name="bwrap", command="bwrap --ro-bind / / --unshare-all --proc /proc --dev /dev perl -e 'my @a = map { \"x$_\" } 1..100000; print scalar @a'", packages="bubblewrap"),
    dict(name="su", command="su -s /bin/sh nobody -c 'id -un; perl -e \"print 1+1\"'"),
    dict(name="nspawn", command="systemd-nspawn -q -D / --volatile=no --register=no --keep-unit --read-only perl -e 'print 1+1'", packages="systemd-container"),
    dict(name="firefox", command="HOME=$PWD timeout 90 firefox-esr --headless --no-remote --profile $PWD/profile --window-size 300,300 --screenshot $PWD/o.png file://$PWD/p.html >/dev/null 2>&1; file -b o.png; rm -rf o.png profile/*",
         packages="firefox-esr file", prepare="mkdir profile; echo '<p id=a></p><script>a.textContent = [...Array(9).keys()]</script>' > p.html", limit=200, counted=False),
    dict(name="webkit", command="QT_QPA_PLATFORM=offscreen XDG_RUNTIME_DIR=$PWD wkhtmltopdf -q p.html o.pdf 2>/dev/null; pdftotext o.pdf - | head -3", packages="wkhtmltopdf poppler-utils",
         prepare="echo '<p id=a></p><script>document.getElementById(\"a\").textContent = [1, 2, 3].join()</script>' > p.html", counted=False),
    dict(name="qemu", command="timeout 20 qemu-system-x86_64 -display none -nodefaults -machine pc,accel=tcg -serial stdio -no-reboot -device isa-debug-exit -drive format=raw,file=d.img,snapshot=on; echo $?",
         packages="qemu-system-x86", prepare=write("b.s", BOOT) + "as --32 b.s -o b.o && ld -m elf_i386 -Ttext 0x7c00 --oformat binary b.o -o d.img", counted=False),
    dict(name="valgrind", command=["valgrind", "-q", "--error-exitcode=3", "/usr/bin/perl", "-e", "my %h; $h{$_ % 50} .= $_ for 1..3000; print scalar keys %h"], packages="valgrind", counted=False),
    dict(name="strace", command="strace -f -c -o /dev/null perl -e 'my @a = map { `echo $_` } 1..20; print @a'", packages="strace"),
    dict(name="gdb-run", command=["gdb", "-nx", "-batch", "-ex", "run", "-ex", "bt 1", "--args", "/usr/bin/perl", "-e", "print 1+1"], packages="gdb", counted=False,
         ignore=r".*(Inferior|libthread_db|Debuginfod|debuginfod|detach|warning).*\n"),
    # servers
    dict(name="s_server", command=["openssl", "s_server", "-quiet", "-accept", "7422", "-key", "k.pem", "-cert", "c.pem", "-WWW"], packages="openssl", port=7422,
         prepare="openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -subj /CN=x 2>/dev/null; seq 1 5000 > f",
         clients=["for i in $(seq 1 20); do curl -sk https://127.0.0.1:7422/f; done | md5sum"]),
    dict(name="samba", command="exec smbd -F --no-process-group -s $PWD/smb.conf --debug-stdout", packages="samba smbclient", port=7423,
         prepare="mkdir -p s p && chmod 777 . s p && seq 1 30000 > s/f && printf '[global]\nsmb ports = 7423\nmap to guest = Bad User\nguest account = root\nlock directory = %s/p\nstate directory = %s/p\ncache directory = %s/p\npid directory = %s/p\nprivate dir = %s/p\n[s]\npath = %s/s\nguest ok = yes\n' $PWD $PWD $PWD $PWD $PWD $PWD > smb.conf",
         clients=["for i in 1 2 3; do smbclient -N -p 7423 //127.0.0.1/s -c 'get f g' >/dev/null 2>&1; md5sum < g; rm -f g; done"]),
    dict(name="redis", command=["redis-server", "--port", "7411", "--save", ""], packages="redis-server redis-tools", port=7411,
         clients=["redis-benchmark -p 7411 -q -n 30000 -r 1000 set k:__rand_int__ v > /dev/null; redis-cli -p 7411 ping"]),
    dict(name="memcached", command=["memcached", "-u", "root", "-p", "7412", "-t", "2"], packages="memcached", port=7412,
         clients=["for i in $(seq 1 200); do printf 'set k%d 0 0 5\\r\\nhello\\r\\nget k%d\\r\\nquit\\r\\n' $i $i | bash -c 'exec 3<>/dev/tcp/127.0.0.1/7412; cat >&3; cat <&3'; done | md5sum"]),
    dict(name="nginx", command="exec nginx -p $PWD -c $PWD/nginx.conf -e $PWD/error.log", packages="nginx-light curl", port=7413, stop=3,
         prepare="mkdir -p html && seq 1 20000 > html/f && printf 'daemon off; worker_processes 2; pid nginx.pid; events {} http { access_log off; server { listen 7413; root html; } }' > nginx.conf",
         clients=["for i in $(seq 1 200); do curl -s http://127.0.0.1:7413/f; done | md5sum"]),
    dict(name="haproxy", command=["haproxy", "-f", "h.cfg"], packages="haproxy curl", port=7414,
         prepare="printf 'defaults\\n mode http\\n timeout client 5s\\n timeout server 5s\\n timeout connect 5s\\nlisten l\\n bind 127.0.0.1:7414\\n http-request return status 200 content-type text/plain string hello\\n' > h.cfg",
         clients=["for i in $(seq 1 300); do curl -s http://127.0.0.1:7414/; done | md5sum"]),
    dict(name="squid", command="exec squid -N -f $PWD/s.conf", packages="squid curl", port=7415,
         prepare="printf 'http_port 7415\\nhttp_access allow all\\ncache deny all\\npid_filename none\\ncache_log none\\naccess_log none\\ncoredump_dir none\\ncache_effective_user proxy\\nshutdown_lifetime 1 seconds\\n' > s.conf",
         clients=["for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%{http_code}\\n' -x http://127.0.0.1:7415 http://127.0.0.1:1/; done"]),
    dict(name="varnish", command="exec varnishd -F -n $PWD/v -a 127.0.0.1:7416 -b 127.0.0.1:1", packages="varnish curl", port=7416,
         clients=["for i in $(seq 1 50); do curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:7416/; done"]),
    dict(name="php-fpm", command="exec $(ls /usr/sbin/php-fpm* | head -1) -F -R -y $PWD/p.conf", packages="php-fpm libfcgi-bin", port=7417,
         prepare="echo '<?php echo array_sum(range(1, 100000));' > p.php; printf '[global]\\nerror_log=/dev/null\\n[w]\\nuser=root\\nlisten=127.0.0.1:7417\\npm=static\\npm.max_children=3\\n' > p.conf",
         clients=["for i in $(seq 1 50); do SCRIPT_FILENAME=$PWD/p.php REQUEST_METHOD=GET cgi-fcgi -bind -connect 127.0.0.1:7417 | tail -1; echo; done"]),
    dict(name="dnsmasq", command=["dnsmasq", "-k", "-C", "/dev/null", "-p", "7418", "--no-resolv", "--no-hosts", "--address=/x.test/10.0.0.7", "-u", "root"],
         packages="dnsmasq-base dnsutils", port=7418, clients=["for i in 1 2 3 4 5; do dig +short +tcp -p 7418 @127.0.0.1 a$i.x.test; done"]),
    dict(name="postgres", command="exec setpriv --reuid postgres --regid postgres --clear-groups $(ls -d /usr/lib/postgresql/*/bin)/postgres -D $PWD/d -p 7419 -k $PWD", packages="postgresql", port=7419, stop=2,
         prepare="mkdir d && chown postgres . d && runuser -u postgres -- $(ls -d /usr/lib/postgresql/*/bin)/initdb -D $PWD/d >/dev/null",
         clients=["until pg_isready -q -h $PWD -p 7419; do sleep 0.1; done; runuser -u postgres -- sh -c 'pgbench -h $PWD -p 7419 -i -q postgres >/dev/null 2>&1; pgbench -h $PWD -p 7419 -c 4 -t 1000 -S postgres | grep processed; psql -h $PWD -p 7419 -tc \"select count(*) from pgbench_accounts\" postgres'"]),
    dict(name="mariadb", command="exec mariadbd --no-defaults --user=root --datadir=$PWD/d --socket=$PWD/s --port=7420 --pid-file=$PWD/p", packages="mariadb-server", port=7420,
         prepare="mariadb-install-db --no-defaults --user=root --datadir=$PWD/d --auth-root-authentication-method=normal >/dev/null",
         clients=["mariadb -S s -uroot -Ne 'select sum(seq * seq) from test.t' 2>/dev/null || mariadb -S s -uroot -Ne 'create database if not exists test; create table test.t as select seq from seq_1_to_200000; select sum(seq) from test.t'"]),
    dict(name="sshd", command="exec $(command -v sshd) -D -e -f $PWD/c", packages="openssh-server openssh-client", port=7421,
         prepare="mkdir -p /run/sshd; ssh-keygen -qt ed25519 -N '' -f k; cp k.pub a; ssh-keygen -qt ed25519 -N '' -f h; printf 'Port 7421\\nHostKey %s/h\\nAuthorizedKeysFile %s/a\\nPidFile none\\nStrictModes no\\nPermitRootLogin yes\\nUsePAM no\\nSetEnv HOME=/nonexistent\\n' $PWD $PWD > c",
         clients=["for i in $(seq 1 10); do ssh -p 7421 -i k -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1 echo in $i; done"]),
]
