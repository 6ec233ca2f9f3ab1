# The README's first command in the bare Debian of scripts/fresh. Sourced by it, never run.
# shellcheck shell=bash

LIKE='{"etype":"note","eid":"2","uid":"42"}'
RUN= # the process of scripts/run, and of its process group as a terminal would make it

# start WHAT: starts scripts/run and waits for its welcome and for countd's address in the log.
start() {
    local since=$SECONDS log=$FRESH$CLONE/data/countd.log
    rm -f "$log"
    setsid "${ENTER[@]}" "$CLONE" scripts/run >"$WORK/run.log" 2>&1 &
    RUN=$!
    until ADDRESS=$(sed -n 's/.*"serving","address":"\([^"]*\)".*/\1/p' "$log" 2>/dev/null) && [[ -n $ADDRESS ]] &&
        grep -q '^Ctrl-C stops both' "$WORK/run.log"; do
        kill -0 "$RUN" 2>/dev/null || fail "scripts/run ended"
        ((SECONDS < since + 3600)) || fail "scripts/run is not ready after an hour"
        sleep 0.2
    done
    say "fresh: $1 ($((SECONDS - since)) s)"
}

fail() {
    tail -n 60 "$WORK/run.log" >&2 || true
    die "$1"
}

# stop COMMAND ...: sends a signal with this command, and waits until scripts/run ends successfully.
stop() {
    "$@"
    wait "$RUN" || fail "scripts/run ended with status $?"
    grep -q '^Stopped' "$WORK/run.log" || fail "scripts/run did not say that it stopped"
}

# http METHOD PATH [BODY]: prints the whole response. curl may be missing here and in the bare Debian.
http() {
    {
        printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n' \
            "$1" "$2" "$ADDRESS" >&3
        printf 'Content-Length: %d\r\n\r\n%s' "${#3}" "$3" >&3
        timeout 30 cat <&3
    } 3<>"/dev/tcp/${ADDRESS%:*}/${ADDRESS##*:}"
}

# expect WHAT METHOD PATH BODY RESPONSE: within 30 seconds.
expect() {
    local since=$SECONDS answer
    until answer=$(http "$2" "$3" "$4") && [[ $answer == 'HTTP/1.1 200 '*"$5"* ]]; do
        ((SECONDS < since + 30)) || fail "$1: $answer"
        sleep 0.2
    done
    say "fresh: $1"
}

try_run() {
    start "scripts/run is ready"
    expect "liked a post" POST /action/like "$LIKE" '{"changed":true,"count":1}'
    expect "it has one like" GET /counter/note/2 '' '"like":1'
    stop kill -INT -- "-$RUN"
    say "fresh: Ctrl-C stopped it"
    start "scripts/run is ready again"
    expect "it still has one like" GET /counter/note/2 '' '"like":1'
    expect "and knows whose" POST /action/like "$LIKE" '{"changed":false,"count":1}'
    stop kill -TERM "$RUN"
    say "fresh: SIGTERM stopped it"
}
