# What the scripts share. Sourced, never run.
# shellcheck shell=bash disable=SC2034  # its variables are for those that source it

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
MODULE=$TARGET_DIR/release/libcountint.so

# Messages go to stderr: the stdout of some scripts is read by others. A terminal that is gone is no error.
say() { printf '%s\n' "$*" >&2 || true; }
die() {
    say "$(basename "$0"): $*"
    exit 1
}

# The comment at the top of the script that runs.
usage() { awk 'NR > 1 { if (!sub(/^# ?/, "")) exit; print }' "$0"; }

# shellcheck source=checks.sh
source "$ROOT/scripts/checks.sh"

# Rust is the one thing that the user brings. rustup leaves it out of the PATH of shells that were open before.
require_rust() {
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo >/dev/null || die "cargo is missing: install Rust (https://rustup.rs), then run this again"
    have_rust || die "cargo and rustc are there and do not run: $( (cargo --version && rustc --version) 2>&1 || true)"
}

# Debian packages that building the module and running it need and this machine lacks. What counts is what works, not
# how it came: a redis-server built from source is as good as the package.
missing_packages() {
    if have_c_compiler; then
        have_libclang || echo libclang-dev
    else
        printf '%s\n' gcc libc6-dev
        # Whether a libclang works cannot be told without a compiler; that one is there can.
        [[ -n $(libclang_files) ]] || echo libclang-dev
    fi
    have_redis_server || echo redis-server
    have_redis_tools || echo redis-tools
    have_root_certificates || echo ca-certificates
}

# as_root COMMAND [ARG ...]
as_root() {
    if ((EUID == 0)); then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo here; run as root: $*"
    fi
}

# Debian and what derives from it.
on_debian() { command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; }

# install_packages PACKAGE ...: nothing to do without arguments.
install_packages() {
    (($# > 0)) || return 0
    on_debian ||
        die "this is not Debian or Ubuntu: install what these Debian packages hold, then run this again: $*"
    say "Installing: $*"
    as_root "$ROOT/scripts/install-packages" "$@"
}

# install_missing CHECK ...: installs the packages that these functions name as missing, and asks them again, because
# an installed package proves nothing yet.
install_missing() {
    local check package names missing tried=' '
    while
        # Not a process substitution: bash has those ignore Ctrl-C.
        names=$(for check; do "$check"; done)
        [[ -n $names ]]
    do
        mapfile -t missing <<<"$names"
        for package in "${missing[@]}"; do
            [[ $tried != *" $package "* ]] ||
                die "$package is installed, and still what it is for does not work here: does another one come first" \
                    "on the PATH${LIBCLANG_PATH+, or is LIBCLANG_PATH=$LIBCLANG_PATH wrong}?"
        done
        tried+="${missing[*]} "
        install_packages "${missing[@]}"
    done
}

# set_up [CHECK ...]: makes the machine able to build and run the module; the functions named print the packages that
# are missing beyond that.
set_up() {
    require_rust
    install_missing missing_packages "$@"
    choose_libclang
}

# Started with sudo in a user's repository: cargo is that user's, and so must be the files that a build leaves. So
# install as root, then start again as that user.
leave_sudo() {
    [[ $EUID == 0 && -n ${SUDO_USER:-} && $SUDO_USER == "$(stat -c %U "$ROOT")" && $SUDO_USER != root ]] || return 0
    install_missing missing_packages
    exec sudo -u "$SUDO_USER" -H -- "$0" "$@"
}

# build_module [CARGO-ARG ...]: Cargo.lock is part of the repository and decides.
build_module() { (cd "$ROOT" && cargo build --release --locked "$@"); }
