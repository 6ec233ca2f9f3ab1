# The stages of the container file in bare Debians. Sourced by scripts/fresh, never run.
# shellcheck shell=bash
#
# Builds and runs the images without a container engine: each stage is a copy of the bare Debian, in which the instructions of the container
# file are executed. Then it runs what the images run as their users, without capabilities and on a read-only file system.

# Of the stage that was built last.
IMAGE_ENVIRONMENT=()
IMAGE_USER=
IMAGE_ENTRYPOINT=
IMAGE_COMMAND=
IMAGE_RUN=() # see image_command

# instructions STAGE: one on each line.
instructions() {
    awk -v stage="$1" '
        /^#/ || /^$/ { next }
        { line = line $0 }
        sub(/\\$/, "", line) { next }
        { if (line ~ /^FROM /) wanted = line ~ " AS " stage "$"; else if (wanted) print line; line = "" }' \
        "$FRESH$CLONE/deploy/container/Containerfile"
}

# in_stage ROOT DIR COMMAND ...: with this machine's network.
in_stage() {
    local FRESH=$1 ENTER=()
    prepare_to_enter
    "${ENTER[@]}" "${@:2}"
}

# copy STAGE DIR [--from=STAGE] SOURCE ... TARGET: the instruction COPY.
copy() {
    local root=$WORK/image-$1 dir=$2 from=$FRESH$CLONE target=${*: -1} sources parents=()
    shift 2
    [[ $1 != --from=* ]] || { from=$WORK/image-${1#--from=} && shift; }
    sources=("${@:1:$#-1}")
    # The whole context is what .dockerignore leaves, which may be files in directories.
    if [[ ${sources[*]} == . ]]; then
        mapfile -t sources < <(sed -n 's/^!//p' "$from/.dockerignore")
        parents=(--parents)
    fi
    [[ $target == /* ]] || target=$dir/$target
    mkdir -p "$root$(dirname "$target")"
    (cd "$from" && cp -R "${parents[@]}" --preserve=mode -- "${sources[@]/#\//./}" "$root$target")
}

# build_stage STAGE
build_stage() {
    local stage=$1 root=$WORK/image-$1 dir=/ instruction rest words
    [[ -e $root ]] || cp -a "$WORK/base" "$root"
    IMAGE_ENVIRONMENT=()
    while read -r instruction rest <&4; do
        case $instruction in
            WORKDIR) dir=$rest && mkdir -p "$root$dir" ;;
            RUN) quietly "$stage: ${rest%% && *}" in_stage "$root" "$dir" sh -c "$rest" ;;
            COPY) read -r -a words <<<"$rest" && copy "$stage" "$dir" "${words[@]}" ;;
            ENV) read -r -a IMAGE_ENVIRONMENT <<<"$rest" ;;
            USER) IMAGE_USER=${rest%:*} ;;
            # One argument in each, without a shell.
            ENTRYPOINT) IMAGE_ENTRYPOINT=${rest//[][\"]/} ;;
            CMD) IMAGE_COMMAND=${rest//[][\"]/} ;;
            EXPOSE | HEALTHCHECK | STOPSIGNAL | VOLUME) ;;
            *) die "the container file has $instruction, which this script cannot execute" ;;
        esac
    done 4< <(instructions "$stage")
}

# The image of Rust has a compiler, too. With an existing build, cargo does nothing.
prepare_build_stage() {
    local root=$WORK/image-build
    cp -a "$WORK/base" "$root"
    quietly "build: what the image of Rust has" in_stage "$root" / sh -c 'apt-get update && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev'
    if [[ -n $IMAGES_BUILT ]]; then
        mkdir -p "$root/src/target/release"
        cp "$FRESH$CLONE/target/release/"{countd,libcountint.so} "$root/src/target/release"
        printf '#!/bin/sh\n' >"$root/usr/local/bin/cargo"
        chmod 755 "$root/usr/local/bin/cargo"
    else
        mkdir -p "$root/opt/rust" "$root/src/target"
        mount --bind "$FRESH/opt/rust" "$root/opt/rust"
        # The dependencies are built.
        mount --bind "$FRESH$CLONE/target" "$root/src/target"
    fi
}

# image_command STAGE VARIABLE ... -- COMMAND ...: sets IMAGE_RUN, which runs a command as the container would, in the network of the booted
# Debian. A signal to its process reaches the command.
image_command() {
    local root=$WORK/image-$1 environment=()
    shift
    while [[ $1 != -- ]]; do environment+=("$1") && shift; done
    shift
    IMAGE_RUN=(nsenter --target "$INIT" --net env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${environment[@]}" chroot "$root"
        setpriv --reuid "$IMAGE_USER" --regid "$IMAGE_USER" --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@")
}

run_image() { image_command "$@" && "${IMAGE_RUN[@]}" </dev/null; }

# Nothing but the volume can be written.
make_read_only() {
    mount --bind "$1" "$1"
    mount -o remount,bind,ro "$1"
    [[ ! -d $1/data ]] || mount -t tmpfs -o "mode=700,uid=$IMAGE_USER,gid=$IMAGE_USER" tmpfs "$1/data"
}

# stop_image PID LOG
stop_image() {
    kill -TERM "$1"
    wait "$1" || die "it ended with status $?: $(tail -n 5 "$2")"
}

try_images() {
    local redis countd environment
    prepare_build_stage
    build_stage build
    build_stage redis
    make_read_only "$WORK/image-redis"
    environment=(REDIS_PASSWORD=from-the-test)
    image_command redis "${environment[@]}" -- "$IMAGE_ENTRYPOINT" "$IMAGE_COMMAND"
    "${IMAGE_RUN[@]}" </dev/null >"$WORK/redis.log" 2>&1 &
    redis=$!
    until_within 60 "the image of Redis is healthy" run_image redis "${environment[@]}" -- redis-healthy
    build_stage countd
    # As Compose mounts a secret.
    mkdir -p "$WORK/image-countd/run/secrets"
    echo '[{"name":"test","token":"a-token-for-tests-alone","rights":["read"]}]' >"$WORK/image-countd/run/secrets/countd_tokens"
    make_read_only "$WORK/image-countd"
    environment=("${IMAGE_ENVIRONMENT[@]}" COUNTD_REDIS__URL=redis://:from-the-test@127.0.0.1:6379/
        COUNTD_AUTH__TOKENS_FILE=/run/secrets/countd_tokens)
    image_command countd "${environment[@]}" -- "$IMAGE_ENTRYPOINT"
    "${IMAGE_RUN[@]}" </dev/null >"$WORK/countd.log" 2>&1 &
    countd=$!
    until_within 60 "the image of countd is healthy" run_image countd -- countd-healthy
    say "fresh: the images run as users, without capabilities and on read-only file systems"
    stop_image "$countd" "$WORK/countd.log"
    stop_image "$redis" "$WORK/redis.log"
    compgen -G "$WORK/image-redis/data/appendonlydir/*.aof" >/dev/null || die "Redis has no data in /data"
    say "fresh: both stopped at SIGTERM"
}
