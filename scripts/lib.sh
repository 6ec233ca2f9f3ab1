# What scripts/run, scripts/test and scripts/servers share. Sourced, never run.
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

# Rust is the one thing that the user brings. rustup leaves it out of the PATH of shells that were open before.
require_rust() {
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo >/dev/null || die "cargo is missing: install Rust (https://rustup.rs), then run this again"
}

# A C compiler that really compiles and links: Debian's gcc alone, without libc6-dev, cannot.
have_c_compiler() {
    command -v cc >/dev/null || return 1
    echo '#include <stdio.h>
          int main(void) { return puts("") < 0; }' | cc -x c -o /dev/null - 2>/dev/null
}

# bindgen loads libclang while redis-module is built; these are the places in which it looks on Linux.
have_libclang() {
    [[ -z ${LIBCLANG_PATH:-} ]] || return 0
    compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib*/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib/*-linux-gnu/libclang*.so*' >/dev/null
}

have_root_certificates() {
    [[ -e /etc/ssl/certs/ca-certificates.crt || -e /etc/pki/tls/certs/ca-bundle.crt || -e /etc/ssl/cert.pem ]]
}

# Debian packages that building the module and running it need and this machine lacks. What counts is what is
# there, not how it came: a redis-server built from source is as good as the package.
missing_packages() {
    have_c_compiler || printf '%s\n' gcc libc6-dev
    have_libclang || echo libclang-dev
    command -v redis-server >/dev/null || echo redis-server
    command -v redis-cli >/dev/null || echo redis-tools
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

# set_up [PACKAGE ...]: makes the machine able to build and run the module; the packages named are needed as well.
set_up() {
    local missing
    require_rust
    mapfile -t missing < <(missing_packages)
    install_packages "${missing[@]}" "$@"
}

# Started with sudo in a user's repository: cargo is that user's, and so must be the files that a build leaves. So
# install as root, then start again as that user.
leave_sudo() {
    [[ $EUID == 0 && -n ${SUDO_USER:-} && $SUDO_USER == "$(stat -c %U "$ROOT")" && $SUDO_USER != root ]] || return 0
    local missing
    mapfile -t missing < <(missing_packages)
    install_packages "${missing[@]}"
    exec sudo -u "$SUDO_USER" -H -- "$0" "$@"
}

# build_module [CARGO-ARG ...]: Cargo.lock is part of the repository and decides.
build_module() { (cd "$ROOT" && cargo build --release --locked "$@"); }
