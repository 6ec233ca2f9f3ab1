# What building, running and testing need of the machine. Sourced by lib.sh, never run.
# shellcheck shell=bash disable=SC2016  # some checks feed programs what looks like a shell's variables
#
# Each check proves that the thing works by using it: a file of the right name may belong to something else, lack a
# library, or be a wrapper around nothing. scripts/test-checks tests these functions.

# Where clang-sys, with which bindgen loads libclang, searches on Linux, in its order.
LIBCLANG_DIRECTORIES=('/usr/local/llvm*/lib*' '/usr/local/lib*/*/*' '/usr/local/lib*/*' '/usr/local/lib*'
    '/usr/lib*/*/*' '/usr/lib*/*' '/usr/lib*')

# rustup's cargo is there before any toolchain is.
have_rust() { cargo --version >/dev/null 2>&1 && rustc --version >/dev/null 2>&1; }

# A C compiler that compiles and links: Debian's gcc alone, without libc6-dev, cannot.
have_c_compiler() {
    command -v cc >/dev/null || return 1
    echo '#include <stdio.h>
          int main(void) { return puts("") < 0; }' | cc -x c -o /dev/null - 2>/dev/null
}

# libclang_files_in DIRECTORY ...: the files that clang-sys takes for libclang. libclang-cpp is another library.
libclang_files_in() {
    local directory file
    for directory; do
        for file in "$directory"/{libclang.so,libclang-*.so,libclang.so.*,libclang-*.so.*}; do
            [[ ${file##*/} != *-cpp.* && -f $file ]] || continue
            # clang-sys skips what is no ELF file of the machine's word size, which bash's own file is.
            ! cmp -s -n 5 "$file" "$BASH" || printf '%s\n' "$file"
        done
    done
}

# The directories that clang-sys searches, one a line.
libclang_directories() {
    local prefix pattern
    if prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null); then
        printf '%s\n' "$prefix/bin" "$prefix/lib" "$prefix/lib64"
    fi
    tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}" | grep . || true
    for pattern in "${LIBCLANG_DIRECTORIES[@]}"; do compgen -G "$pattern" || true; done
}

# Sorts files by the version in their name as clang-sys reads it, the highest first; equal ones stay in their order.
by_libclang_version() {
    awk -F/ '{
        version = ""
        if ($NF ~ /^libclang\.so\./) version = substr($NF, 13)
        else if ($NF ~ /^libclang-/) version = substr($NF, 10, length($NF) - 12)
        key = ""
        parts = split(version, part, ".")
        for (i = 1; i <= parts; i++) key = key sprintf("%09d.", part[i] ~ /^[0-9]+$/ ? part[i] : 0)
        print key "\t" $0
    }' | LC_ALL=C sort -s -r -t $'\t' -k 1,1 | cut -f 2-
}

# libclang_files: what clang-sys finds; the first is what it loads.
libclang_files() {
    local directories=()
    if [[ ! -v LIBCLANG_PATH ]]; then
        mapfile -t directories < <(libclang_directories)
    elif [[ $(libclang_files_in "$(dirname "$LIBCLANG_PATH")") == *"$LIBCLANG_PATH"* ]]; then
        printf '%s\n' "$LIBCLANG_PATH" && return
    else
        directories=("$LIBCLANG_PATH")
    fi
    libclang_files_in "${directories[@]}" | by_libclang_version
}

# compile_libclang_probe FILE: a program that loads the libclang named by its first argument and parses with it what
# redismodule.h includes. That takes clang's own headers (stddef.h), which Debian has in another package.
compile_libclang_probe() {
    cc -x c -o "$1" - -ldl 2>/dev/null <<'END'
#include <dlfcn.h>
#include <string.h>

struct unsaved_file { const char *name, *text; unsigned long length; };

int main(int argc, char **argv) {
    const char *text = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                       "#include <sys/types.h>\nuint64_t probe(size_t size, FILE *file);\n";
    struct unsaved_file file = { "probe.h", text, strlen(text) };
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) return 1;
    void *(*create_index)(int, int) = dlsym(library, "clang_createIndex");
    void *(*parse)(void *, const char *, const char *const *, int, struct unsaved_file *, unsigned, unsigned) =
        dlsym(library, "clang_parseTranslationUnit");
    unsigned (*diagnostics)(void *) = dlsym(library, "clang_getNumDiagnostics");
    void *(*diagnostic)(void *, unsigned) = dlsym(library, "clang_getDiagnostic");
    int (*severity)(void *) = dlsym(library, "clang_getDiagnosticSeverity");
    if (!create_index || !parse || !diagnostics || !diagnostic || !severity) return 1;
    void *index = create_index(0, 0);
    void *unit = index ? parse(index, file.name, (const char *const *)argv + 2, argc - 2, &file, 1, 0) : NULL;
    if (!unit) return 1;
    for (unsigned i = 0; i < diagnostics(unit); i++)
        if (severity(diagnostic(unit, i)) >= 3) return 1; /* CXDiagnostic_Error */
    return 0;
}
END
}

# working_libclang: the first file of libclang_files with which bindgen can work.
working_libclang() {
    local probe file arguments found=
    probe=$(mktemp)
    read -r -a arguments <<<"${BINDGEN_EXTRA_CLANG_ARGS:-}" || true
    if compile_libclang_probe "$probe"; then
        while [[ -z $found ]] && read -r file; do
            ! "$probe" "$file" "${arguments[@]}" >/dev/null 2>&1 || found=$file
        done < <(libclang_files)
    fi
    rm -f "$probe"
    [[ -n $found ]] && printf '%s\n' "$found"
}

# Needs a C compiler.
have_libclang() { working_libclang >/dev/null; }

# Where several libclangs are installed, clang-sys takes the highest version, and looks no further if that one lacks its
# headers. Then one that works is named to it.
choose_libclang() {
    local works first
    works=$(working_libclang) || return 1
    read -r first < <(libclang_files)
    [[ $works == "$first" ]] || export LIBCLANG_PATH=$works
}

# A server that starts, listens and ends. In a subshell, whose trap also stops the server when Ctrl-C ends the script.
have_redis_server() (
    command -v redis-server >/dev/null || return 1
    tries=300 listening='' status=1 pid=
    dir=$(mktemp -d)
    trap '[[ -z $pid ]] || kill -TERM "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
    (cd "$dir" && exec redis-server --port 0 --unixsocket socket --save '' --daemonize no) </dev/null >/dev/null 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ((tries-- > 0)); do
        [[ ! -S $dir/socket ]] || { listening=yes && break; }
        sleep 0.1
    done
    kill -TERM "$pid" 2>/dev/null || true
    ! wait "$pid" || status=0
    pid=
    [[ -n $listening ]] && ((status == 0))
)

# A client that runs, and the repair of append-only files, which scripts/run needs after a crash. Debian has both in
# redis-tools.
have_redis_tools() {
    local file status=1
    [[ $(redis-cli --version 2>/dev/null) == redis-cli* ]] || return 1
    file=$(mktemp)
    printf '*1\r\n$4\r\nPING\r\n' >"$file"
    [[ $(redis-check-aof "$file" 2>/dev/null) != *'is valid'* ]] || status=0
    rm -f "$file"
    return "$status"
}

# have_certificate FILE: not the empty bundle that an interrupted update-ca-certificates leaves.
have_certificate() {
    awk '/^-----BEGIN (TRUSTED )?CERTIFICATE-----/ { begun = 1 } /^-----END/ && begun { found = 1; exit } END { exit !found }' \
        "$1" 2>/dev/null
}

# Where cargo looks first: in what the environment names, then in the distributions' places.
have_root_certificates() {
    local file
    [[ -z ${CARGO_HTTP_CAINFO:-} ]] || { have_certificate "$CARGO_HTTP_CAINFO" && return; }
    for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        [[ -z $file ]] || ! have_certificate "$file" || return 0
    done
    return 1
}

# One that passes what is right and finds what is wrong.
have_shellcheck() {
    printf '#!/bin/sh\necho "$1"\n' | shellcheck - >/dev/null 2>&1 &&
        ! printf '#!/bin/sh\necho $1\n' | shellcheck - >/dev/null 2>&1
}

# Debian has a python3 that cannot make virtual environments, or makes them without pip.
have_python_venv() {
    local dir status=1
    command -v python3 >/dev/null || return 1
    dir=$(mktemp -d)
    if python3 -m venv "$dir/venv" >/dev/null 2>&1; then
        [[ $("$dir/venv/bin/pip" --version 2>/dev/null) != pip* ]] || status=0
    fi
    rm -rf "$dir"
    return "$status"
}

# have_schemathesis VENV: the virtual environment that scripts/test-api makes.
have_schemathesis() { [[ $("$1/bin/schemathesis" --version 2>/dev/null) == [Ss]chemathesis* ]]; }

have_pip() { [[ $(python3 -m pip --version 2>/dev/null) == pip* ]]; }

# Without libc6-dbg valgrind starts no program at all.
have_valgrind() { valgrind --quiet --error-exitcode=1 true >/dev/null 2>&1; }

# have_cargo_command NAME ARG ...: whether cargo NAME ARG ... does its work on a package in which there is nothing to find.
have_cargo_command() {
    local dir status=0
    dir=$(mktemp -d)
    printf '[package]\nname = "nothing"\nedition = "2024"\n[lib]\npath = "lib.rs"\n' >"$dir/Cargo.toml"
    echo '//! Nothing.' >"$dir/lib.rs"
    (cd "$dir" && CARGO_TARGET_DIR=$dir/target cargo "$@") >/dev/null 2>&1 || status=1
    rm -rf "$dir"
    return "$status"
}
