# The packages in the bare Debian of scripts/fresh, with systemd. Sourced by scripts/fresh, never run.
# shellcheck shell=bash
#
# Runs the commands of docs/countd/deploy.md as they are written: "Build" and "Install" in the chroot, then boots systemd there, in namespaces
# of its own and without a network, and runs the rest. Then it kills, stalls and restarts the services.

PAGE=docs/countd/deploy.md
INIT=   # the process ID of systemd outside the namespaces
UNSHARE=   # the process that waits for it
CGROUP= # its control group

# section HEADING: the commands of a section of the page. The clone is already there.
section() {
    local commands
    commands=$(awk -v heading="### $1" '
        /^##/ { wanted = $0 == heading; next }
        /^```/ { shell = $0 == "```sh"; next }
        wanted && shell && !/^git clone/ { print }' "$FRESH$CLONE/$PAGE")
    [[ -n $commands ]] || die "$PAGE has no commands in the section $1"
    printf 'set -ex\n%s\n' "$commands"
}

build_and_install() {
    if [[ -n $BUILT ]]; then
        mkdir -p "$FRESH$CLONE/target/"{package,release}
        cp "$ROOT/target/package/"*.deb "$FRESH$CLONE/target/package"
        cp "$TARGET_DIR/release/"{countd,libcountint.so} "$FRESH$CLONE/target/release"
    else
        quietly "built the packages" "${ENTER[@]}" "$CLONE" sh -c "$(section Build)"
    fi
    # Without systemd, Debian's redis-server would be started by its init script.
    printf '#!/bin/sh\nexit 101\n' >"$FRESH/usr/sbin/policy-rc.d"
    chmod 755 "$FRESH/usr/sbin/policy-rc.d"
    quietly "installed the packages" "${ENTER[@]}" "$CLONE" env DEBIAN_FRONTEND=noninteractive sh -c "$(section Install)"
    rm "$FRESH/usr/sbin/policy-rc.d"
}

# systemd needs a control group of its own, and mounts that show its namespaces.
boot() {
    mkdir "$WORK/cgroup"
    mount -t cgroup2 cgroup2 "$WORK/cgroup"
    CGROUP=$WORK/cgroup/countint-fresh.$$
    mkdir "$CGROUP"
    # shellcheck disable=SC2016  # for the shells in there to expand
    setsid bash -c 'echo 0 >"$2/cgroup.procs" && exec unshare --cgroup --mount --propagation private \
        --pid --fork --kill-child --net --uts --ipc bash -c "$3" "$0" "$1"' "$FRESH" "$WORK" "$CGROUP" '
        set -e
        read -r pid _ </proc/self/stat
        echo "$pid" >"$1/init-pid"
        # Sandboxes need a root that is a mount, which a chroot is not.
        mount --rbind "$0" "$0"
        mount -t proc proc "$0/proc"
        # systemd would mount the devices of this machine, if there were no mount.
        mount --rbind "$0/dev" "$0/dev"
        mount -t sysfs sysfs "$0/sys"
        mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
        cd "$0"
        pivot_root . .
        umount --lazy .
        exec env -i container=chroot PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' </dev/null >"$WORK/boot.log" 2>&1 &
    UNSHARE=$!
    trap shut_down EXIT
    until_within 120 "systemd starts" booted
    say "fresh: booted systemd"
}

# in_boot COMMAND ...: runs a command as root of the booted Debian.
in_boot() {
    nsenter --target "$INIT" --mount --uts --ipc --net --pid --cgroup --root --wd env -i HOME=/root \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

booted() {
    INIT=$(cat "$WORK/init-pid" 2>/dev/null) && [[ $(in_boot systemctl is-system-running 2>/dev/null) == @(running|degraded) ]]
}

# until_within SECONDS WHAT COMMAND ...
until_within() {
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < limit)) || fail_in_boot "$what"
        sleep 0.2
    done
}

fail_in_boot() {
    { tail -n 5 "$WORK/"*.log && in_boot journalctl --no-pager --lines 40; } >&2 || true
    die "not so: $1"
}

# in_boot_quietly WHAT SCRIPT
in_boot_quietly() {
    local since=$SECONDS
    in_boot sh -ec "$2" >"$WORK/log" 2>&1 || { tail -n 20 "$WORK/log" >&2 && fail_in_boot "$1"; }
    say "fresh: $1 ($((SECONDS - since)) s)"
}

property() { in_boot systemctl show --value --property "$2" "$1"; }
# restarts UNIT NUMBER: whether systemd has restarted it so often, and it is ready.
restarts() { [[ $(property "$1" NRestarts) == "$2" && $(property "$1" ActiveState) == active ]]; }
count_is() { [[ $(in_boot curl --silent http://127.0.0.1:8090/api/v1/counter/note/1) == *"\"like\":$1"* ]]; }

LIKE_OF_43="curl --fail --silent -H content-type:application/json -d '{\"etype\":\"note\",\"eid\":\"1\",\"uid\":\"43\"}' http://127.0.0.1:8090/api/v1/action/like"

try_failures() {
    in_boot_quietly "killed countd" 'systemctl kill --signal KILL countd'
    until_within 60 "countd runs again" restarts countd 1
    in_boot_quietly "stopped its threads" 'systemctl kill --signal STOP countd'
    until_within 120 "the watchdog restarts countd" restarts countd 2
    # shellcheck disable=SC2016  # for the shell in there to expand
    in_boot_quietly "no connection is refused while countd restarts" 'systemctl restart --no-block countd
        for i in $(seq 100); do curl --fail --silent --show-error http://127.0.0.1:8090/healthz; done'
    in_boot_quietly "liked a post" "$LIKE_OF_43"
    in_boot_quietly "restarted Redis" 'systemctl restart countint-redis'
    until_within 60 "the likes are still there" count_is 2
    in_boot_quietly "saved a user of Redis" 'redis-cli ACL SETUSER feed on nopass +ping && redis-cli ACL SAVE'
}

# A write that a power failure cut off: Redis does not start until the page's repair.
try_repair() {
    # shellcheck disable=SC2016  # for the shell in there to expand
    in_boot_quietly "cut the last write off" 'systemctl stop countd.socket countd countint-redis
        file=$(ls /var/lib/countint/appendonlydir/*.incr.aof)
        printf "*3\r\n\$3\r\nSET\r\n\$1\r\nk\r\n\$5\r\nva" >>"$file"
        if systemctl start countint-redis; then exit 1; fi
        journalctl --unit countint-redis | grep "Unexpected end of file reading the append only file"'
    in_boot_quietly "repaired it as the page says" "$(section 'Repair the append-only file')"
    in_boot_quietly "started countd" 'systemctl start countd.socket countd'
    until_within 60 "the likes are still there" count_is 2
    in_boot_quietly "and the user of Redis" 'redis-cli ACL LIST | grep "user feed "'
}

try_removal() {
    in_boot_quietly "the packages have manual pages and completions" 'test -s /usr/share/man/man1/countd-serve.1.gz &&
        test -s /usr/share/bash-completion/completions/countd && test -s /usr/share/zsh/vendor-completions/_countd'
    # shellcheck disable=SC2016  # for the shell in there to expand
    in_boot_quietly "installed the packages again, which keeps the configuration and restarts countd" '
        before=$(systemctl show --value --property MainPID countd)
        echo "# changed" >>/etc/countd/countd.toml
        dpkg -i '"$CLONE"'/target/package/*.deb
        grep "# changed" /etc/countd/countd.toml
        [ "$(stat -c "%a %U %G" /etc/countd/countd.toml)" = "640 root countd" ]
        [ "$(stat -c "%a %U %G" /etc/countint/redis.conf)" = "640 root countint-redis" ]
        [ "$(systemctl show --value --property MainPID countd)" != "$before" ]
        curl --fail --silent http://127.0.0.1:8090/healthz'
    in_boot_quietly "purged the packages, which keeps the data" '
        dpkg --purge countd countint-module
        if systemctl is-active countd countd.socket countint-redis || [ -e /etc/countd/countd.toml ]; then exit 1; fi
        ls /var/lib/countint/appendonlydir/*.aof'
}

shut_down() {
    kill -KILL "$UNSHARE" 2>/dev/null || true
    wait "$UNSHARE" 2>/dev/null || true
    # The kernel empties the groups a moment after it has killed their processes.
    local limit=$((SECONDS + 10))
    until find "$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || [[ ! -d $CGROUP ]] || ((SECONDS > limit)); do sleep 0.2; done
    umount "$WORK/cgroup"
    trap - EXIT
}

try_packages() {
    in_boot_quietly "started the services as the page says" "$(section Start)"
    in_boot_quietly "liked a post as the page says" "$(section 'Try it')"
    until_within 60 "it has one like" count_is 1
    try_monitor
    try_failures
    try_repair
    try_removal
}

# A copy of the bare Debian for the stages of the container file. Images have a policy that starts no services.
keep_base() {
    cp -a --one-file-system "$FRESH" "$WORK/base"
    printf '#!/bin/sh\nexit 101\n' >"$WORK/base/usr/sbin/policy-rc.d"
    chmod 755 "$WORK/base/usr/sbin/policy-rc.d"
}

# docs/countd/deploy.md: packages under systemd, then images in its network, when the packages no longer use the ports.
try_deploy() {
    build_and_install
    install_monitor
    boot
    try_packages
    try_images
    shut_down
}
