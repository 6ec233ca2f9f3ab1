# Checks for the tools that building, running and testing need. Sourced by lib.sh, never run.
# shellcheck shell=bash disable=SC2016  # some checks feed programs what looks like a shell's variables
#
# Each check uses the tool: a file of the right name may be another program, lack a library, or be a broken wrapper.
# scripts/test-checks tests these functions.

# Where clang-sys, which loads libclang for bindgen, searches on Linux, in its order.
LIBCLANG_DIRECTORIES=('/usr/local/llvm*/lib*' '/usr/local/lib*/*/*' '/usr/local/lib*/*' '/usr/local/lib*'
    '/usr/lib*/*/*' '/usr/lib*/*' '/usr/lib*')

# rustup's cargo exists even without a toolchain.
have_rust() { cargo --version >/dev/null 2>&1 && rustc --version >/dev/null 2>&1; }

# A C compiler that can link: Debian's gcc without libc6-dev cannot.
have_c_compiler() {
    command -v cc >/dev/null || return 1
    echo '#include <stdio.h>
          int main(void) { return puts("") < 0; }' | cc -x c -o /dev/null - 2>/dev/null
}

# A C++ compiler with its standard library.
have_cxx_compiler() {
    command -v c++ >/dev/null || return 1
    printf '#include <string>\nint main() { return static_cast<int>(std::string().size()); }\n' | c++ -x c++ -o /dev/null - 2>/dev/null
}

have_make() { make --version >/dev/null 2>&1; }

# The libraries and headers of OpenSSL, where pkg-config finds them.
have_openssl() {
    local flags
    flags=$(pkg-config --cflags --libs openssl 2>/dev/null) || return 1
    # shellcheck disable=SC2086  # flags are words
    echo '#include <openssl/ssl.h>
          int main(void) { return SSL_CTX_new(TLS_method()) == 0; }' | cc -x c -o /dev/null - $flags 2>/dev/null
}

# libclang_files_in DIRECTORY ...: the files that clang-sys accepts as libclang. libclang-cpp is a different library.
libclang_files_in() {
    local directory file
    for directory; do
        for file in "$directory"/{libclang.so,libclang-*.so,libclang.so.*,libclang-*.so.*}; do
            [[ ${file##*/} != *-cpp.* && -f $file ]] || continue
            # clang-sys accepts only ELF files of the machine's word size, such as bash's.
            ! cmp -s -n 5 "$file" "$BASH" || printf '%s\n' "$file"
        done
    done
}

# The directories that clang-sys searches, one per line.
libclang_directories() {
    local prefix pattern
    if prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null); then
        printf '%s\n' "$prefix/bin" "$prefix/lib" "$prefix/lib64"
    fi
    tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}" | grep . || true
    for pattern in "${LIBCLANG_DIRECTORIES[@]}"; do compgen -G "$pattern" || true; done
}

# Sorts files by the version in their name, as clang-sys does: the highest first, stable.
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

# libclang_files: the files that clang-sys finds; it loads the first.
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

# compile_libclang_probe FILE: builds a program that loads the libclang in its first argument and parses the headers that
# redismodule.h includes. This requires clang's own headers (stddef.h), which Debian has in another package.
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

# working_libclang: the first of libclang_files that works for bindgen.
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

# clang-sys loads the highest version of libclang, even if its headers are missing. Sets LIBCLANG_PATH to one that works
# in that case.
choose_libclang() {
    local works first
    works=$(working_libclang) || return 1
    read -r first < <(libclang_files)
    [[ $works == "$first" ]] || export LIBCLANG_PATH=$works
}

# A server that starts, listens and exits. `exec` in the subshell also resets signals, so that Ctrl-C ends the server.
have_redis_server() {
    local dir pid tries=300 listening='' status=1
    command -v redis-server >/dev/null || return 1
    dir=$(mktemp -d)
    (cd "$dir" && exec redis-server --port 0 --unixsocket socket --save '' --daemonize no) </dev/null >/dev/null 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ((tries-- > 0)); do
        [[ ! -S $dir/socket ]] || { listening=yes && break; }
        sleep 0.1
    done
    kill -TERM "$pid" 2>/dev/null || true
    ! wait "$pid" || status=0
    rm -rf "$dir"
    [[ -n $listening ]] && ((status == 0))
}

# redis-cli, and redis-check-aof, which scripts/run needs after a crash. Debian has both in redis-tools.
have_redis_tools() {
    local file status=1
    [[ $(redis-cli --version 2>/dev/null) == redis-cli* ]] || return 1
    file=$(mktemp)
    printf '*1\r\n$4\r\nPING\r\n' >"$file"
    [[ $(redis-check-aof "$file" 2>/dev/null) != *'is valid'* ]] || status=0
    rm -f "$file"
    return "$status"
}

# have_certificate FILE: an interrupted update-ca-certificates leaves an empty bundle.
have_certificate() {
    awk '/^-----BEGIN (TRUSTED )?CERTIFICATE-----/ { begun = 1 } /^-----END/ && begun { found = 1; exit } END { exit !found }' \
        "$1" 2>/dev/null
}

# In cargo's order: the environment's variables, then the distributions' files.
have_root_certificates() {
    local file
    [[ -z ${CARGO_HTTP_CAINFO:-} ]] || { have_certificate "$CARGO_HTTP_CAINFO" && return; }
    for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        [[ -z $file ]] || ! have_certificate "$file" || return 0
    done
    return 1
}

# Accepts a correct script and rejects an incorrect one.
have_shellcheck() {
    printf '#!/bin/sh\necho "$1"\n' | shellcheck - >/dev/null 2>&1 &&
        ! printf '#!/bin/sh\necho $1\n' | shellcheck - >/dev/null 2>&1
}

# Debian's python3 alone cannot create virtual environments, or creates them without pip.
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

# have_schemathesis VENV: the virtual environment of scripts/test-api.
have_schemathesis() { [[ $("$1/bin/schemathesis" --version 2>/dev/null) == [Ss]chemathesis* ]]; }

# have_deploy_checks VENV: the virtual environment of scripts/test-deploy.
have_deploy_checks() {
    "$1/bin/hadolint" --version >/dev/null 2>&1 && "$1/bin/kubernetes-validate" --help >/dev/null 2>&1 &&
        "$1/bin/check-jsonschema" --version >/dev/null 2>&1
}

# The version with --offline, of Debian 12 and Ubuntu 24.04.
have_systemd_analyze() {
    local version
    version=$(systemd-analyze --version 2>/dev/null | awk 'NR == 1 { print $2 }')
    [[ $version =~ ^[0-9]+$ ]] && ((version >= 250))
}

# The program of Chromium, wherever it came from.
chromium_program() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

have_chromium() { [[ $("$(chromium_program)" --version 2>/dev/null) == *Chrom* ]]; }

# The tests of the pages need Node 18; their libraries come from npm.
have_node() { { node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' && npm --version; } >/dev/null 2>&1; }

have_pip() { [[ $(python3 -m pip --version 2>/dev/null) == pip* ]]; }

# The program that finds the packages of the libraries that a binary needs.
have_dpkg_dev() { [[ $(dpkg-shlibdeps --version 2>/dev/null) == *dpkg-shlibdeps* ]]; }

# Without libc6-dbg valgrind cannot start any program.
have_valgrind() { valgrind --quiet --error-exitcode=1 true >/dev/null 2>&1; }

# Debian's PostgreSQL keeps the programs of the server off the PATH.
# The version of the language, such as 17.
java_version() { java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p'; }

# Java 17 or newer, which Kafka needs.
have_java() {
    local version
    version=$(java_version)
    ((${version:-0} >= 17))
}

have_maven() { mvn --version >/dev/null 2>&1; }

have_postgres() {
    local initdb
    initdb=$(command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1) || return 1
    [[ $("$initdb" --version 2>/dev/null) == initdb* && $("${initdb%/*}/postgres" --version 2>/dev/null) == postgres* ]]
}

# The server, and the program that creates its files. Debian's server is in /usr/sbin.
have_mariadb() {
    local PATH=$PATH:/usr/sbin
    command -v mariadb-install-db >/dev/null && [[ $(mariadbd --version 2>/dev/null) == *MariaDB* ]]
}

# promtool of Prometheus, for the alerts.
have_promtool() { [[ $(promtool --version 2>&1) == promtool,* ]]; }

# have_cargo_command NAME ARG ...: whether cargo NAME ARG ... succeeds on an empty package.
have_cargo_command() {
    local dir status=0
    dir=$(mktemp -d)
    printf '[package]\nname = "nothing"\nedition = "2024"\n[lib]\npath = "lib.rs"\n' >"$dir/Cargo.toml"
    echo '//! Nothing.' >"$dir/lib.rs"
    (cd "$dir" && CARGO_TARGET_DIR=$dir/target cargo "$@") >/dev/null 2>&1 || status=1
    rm -rf "$dir"
    return "$status"
}
