# Shared functions of the scripts. Sourced, never run.
# shellcheck shell=bash disable=SC2034  # variables are used by the sourcing scripts

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
MODULE=$TARGET_DIR/release/libcountint.so

# Messages go to stderr, because other scripts read the stdout of some. A closed terminal is not an error.
say() { printf '%s\n' "$*" >&2 || true; }
die() {
    say "$(basename "$0"): $*"
    exit 1
}

# Prints the comment at the top of the running script.
usage() { awk 'NR > 1 { if (!sub(/^# ?/, "")) exit; print }' "$0"; }

# shellcheck source=checks.sh
source "$ROOT/scripts/checks.sh"

# Rust is the only prerequisite. Shells opened before rustup's installation do not have it on their PATH.
require_rust() {
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo >/dev/null || die "cargo is missing: install Rust (https://rustup.rs), then run this again"
    have_rust || die "cargo or rustc does not run: $( (cargo --version && rustc --version) 2>&1 || true)"
}

# The missing Debian packages for building and running the module. A tool that works counts as installed, wherever it
# came from.
missing_packages() {
    if have_c_compiler; then
        have_libclang || echo libclang-dev
    else
        printf '%s\n' gcc libc6-dev
        # Whether libclang works cannot be checked without a compiler, only whether the file exists.
        [[ -n $(libclang_files) ]] || echo libclang-dev
    fi
    # librdkafka, which countd contains, is compiled by make, with a part in C++.
    have_cxx_compiler || echo g++
    have_make || echo make
    have_openssl || printf '%s\n' libssl-dev pkg-config
    have_redis_server || echo redis-server
    have_redis_tools || echo redis-tools
    have_root_certificates || echo ca-certificates
}

# The missing Debian packages for scripts/kafka.
kafka_packages() {
    have_java || echo default-jdk-headless
    have_maven || echo maven
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

# Debian or a derivative.
on_debian() { command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; }

# install_packages PACKAGE ...: does nothing without arguments.
install_packages() {
    (($# > 0)) || return 0
    on_debian ||
        die "this is not Debian or Ubuntu: install the equivalents of these Debian packages, then run this again: $*"
    say "Installing: $*"
    as_root "$ROOT/scripts/install-packages" "$@"
}

# install_missing CHECK ...: installs the packages that these functions print, and runs them again, because an installed
# package may still not work.
install_missing() {
    local check package missing tried=' '
    while
        mapfile -t missing < <(for check; do "$check"; done)
        ((${#missing[@]} > 0))
    do
        for package in "${missing[@]}"; do
            [[ $tried != *" $package "* ]] ||
                die "$package is installed but does not work: is another one first on the" \
                    "PATH${LIBCLANG_PATH+, or is LIBCLANG_PATH=$LIBCLANG_PATH wrong}?"
        done
        tried+="${missing[*]} "
        install_packages "${missing[@]}"
    done
}

# set_up [CHECK ...]: installs what building and running the module needs, and the packages that the CHECK functions print.
set_up() {
    require_rust
    install_missing missing_packages "$@"
    choose_libclang
}

# With sudo in a user's repository, cargo and the build's files belong to that user: install packages as root, then run
# the script again as that user.
leave_sudo() {
    [[ $EUID == 0 && -n ${SUDO_USER:-} && $SUDO_USER == "$(stat -c %U "$ROOT")" && $SUDO_USER != root ]] || return 0
    install_missing missing_packages
    exec sudo -u "$SUDO_USER" -H -- "$0" "$@"
}

# build_module [CARGO-ARG ...]
build_module() { (cd "$ROOT" && cargo build --release --locked "$@"); }

# build_workspace: a debug build of everything, unless the caller has done so: cargo waits for other builds even if there is nothing to do.
build_workspace() { [[ -n ${COUNTINT_BUILT:-} ]] || (cd "$ROOT" && cargo build --locked --quiet --workspace); }
