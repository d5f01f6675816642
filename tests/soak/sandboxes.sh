#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs with seccomp filters under `sonde record --follow`: logins to an OpenSSH server, and pages of headless
# Chromium with its sandbox. Every login and every page must succeed, with each set of sensors.
# `./run soak sandboxes`, as root. SOAK_LOGINS and SOAK_PAGES: how many with the default sensors; SOAK_PORT: the
# server's port; SOAK_USER: who runs Chromium.
sonde=${SONDE:-build-test/bin/sonde} logins=${SOAK_LOGINS:-100} pages=${SOAK_PAGES:-100} port=${SOAK_PORT:-27022} user=${SOAK_USER:-nobody}
for program in /usr/sbin/sshd ssh ssh-keyscan chromium; do
  command -v "$program" > /dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
folder=$(mktemp -d)
failed=0
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N "" -f "$folder/host"
ssh-keygen -q -t ed25519 -N "" -f "$folder/key"
cat > "$folder/config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $folder/host
AuthorizedKeysFile $folder/key.pub
StrictModes no
PidFile none
UsePAM no
PermitRootLogin yes
SetEnv HOME=/nonexistent
END
echo '<p id=x></p><script>document.getElementById("x").textContent = "sum " + (40 + 2)</script>' > "$folder/page.html"

count() { # WHAT GOOD ALL OPTIONS
  [ "$2" = "$3" ] || failed=1
  echo "$1 [$4]: $2 of $3"
}

login() { # COUNT OPTIONS...
  all=$1 good=0 number=0
  shift
  "$sonde" record --follow "$@" -o "$folder/sshd.sonde" -- /usr/sbin/sshd -D -e -f "$folder/config" 2> "$folder/log" &
  recorder=$!
  tries=0
  until ssh-keyscan -p "$port" 127.0.0.1 2> "$folder/scan" | grep -q ed25519 || [ $tries = 100 ]; do
    tries=$((tries + 1))
    sleep 0.2
  done
  while [ $number -lt "$all" ]; do
    number=$((number + 1))
    said=$(timeout 60 ssh -p "$port" -i "$folder/key" -o StrictHostKeyChecking=no -o BatchMode=yes \
      -o UserKnownHostsFile=/dev/null root@127.0.0.1 echo "login $number" 2> "$folder/ssh")
    [ "$said" = "login $number" ] && good=$((good + 1))
  done
  kill -TERM $recorder
  wait $recorder
  count sshd $good "$all" "$*"
  rm -f "$folder"/*.sonde
}

page() { # COUNT OPTIONS...
  all=$1 good=0 number=0
  shift
  mkdir -m 777 "$folder/pages"
  while [ $number -lt "$all" ]; do
    number=$((number + 1))
    su -s /bin/sh "$user" -c "cd '$folder/pages' && HOME='$folder/pages' timeout 100 '$sonde' record --follow $* \
      -o c.sonde -- chromium --headless --disable-gpu --dump-dom 'file://$folder/page.html'" 2> "$folder/log" |
      grep -q "sum 42" && good=$((good + 1))
    rm -f "$folder"/pages/*.sonde
  done
  count chromium $good "$all" "$*"
  rm -rf "$folder/pages"
}

twentieth() { # COUNT: a twentieth of it, at least one
  echo $((($1 + 19) / 20))
}

login "$logins"
page "$pages"
for options in --malloc=all --malloc=live --wall --cpu --stall --audit "--trace=libcrypto*:*"; do
  login "$(twentieth "$logins")" "$options"
  page "$(twentieth "$pages")" "$options"
done
exit $failed
