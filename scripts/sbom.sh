# What the SBOMs of scripts/package must contain. Sourced, never run.
# shellcheck shell=bash
#
# cargo-cyclonedx writes each field on a line of its own, with two spaces for each level, so sed can read it.

# sbom_field FILE FIELD: a field of the component that the SBOM describes.
sbom_field() { sed -n "/^    \"component\": {/,/^    }/ s/^      \"$2\": \"\(.*\)\",\{0,1\}\$/\1/p" "$1"; }

# sbom_crates FILE: the crates of the list, as `name version`.
sbom_crates() {
    sed -n '/^  "components": \[/,/^  \]/ s|^      "purl": "pkg:cargo/\([^@"]*\)@\([^?"]*\).*|\1 \2|p' "$1" | sort -u
}

# linked_crates PACKAGE: the crates that cargo compiles for the package besides itself, without those that only build scripts and tests use.
linked_crates() {
    cargo tree --locked --package "$1" --edges normal --prefix none --format '{p}' |
        awk -v package="$1" '$1 != package { print $1, substr($2, 2) }' | sort -u
}

# locked_crates: all crates of Cargo.lock.
locked_crates() {
    sed -n 's/^name = "\(.*\)"/\1/p; s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.lock" | paste -d ' ' - - | sort -u
}

# package_version PACKAGE: as Cargo.toml says.
package_version() {
    local id
    id=$(cargo pkgid --locked --package "$1")
    printf '%s\n' "${id##*[#@]}"
}

# first_of LINES: the first of them, in one line.
first_of() { head -n 10 <<<"$1" | paste -sd , -; }

# check_sbom FILE PACKAGE: fails, and says why, unless the file is an SBOM of the package with all crates that are linked into it. It may have more
# crates of Cargo.lock: cargo-cyclonedx also names those of optional features that only the tests switch on.
check_sbom() {
    local file=$1 package=$2 crates missing unknown
    if ! grep -q '^  "bomFormat": "CycloneDX",$' "$file" || ! grep -q '^  "specVersion": "1.5",$' "$file"; then
        say "$file is not CycloneDX 1.5" && return 1
    fi
    if [[ $(sbom_field "$file" name) != "$package" || $(sbom_field "$file" version) != "$(package_version "$package")" ]]; then
        say "$file describes $(sbom_field "$file" name) $(sbom_field "$file" version), not $package $(package_version "$package")" && return 1
    fi
    crates=$(sbom_crates "$file")
    missing=$(comm -13 <(printf '%s\n' "$crates") <(linked_crates "$package"))
    if [[ -n $missing ]]; then
        say "$file lacks crates that are linked into $package: $(first_of "$missing")" && return 1
    fi
    unknown=$(comm -23 <(printf '%s\n' "$crates") <(locked_crates))
    if [[ -n $unknown ]]; then
        say "$file names crates that Cargo.lock does not have: $(first_of "$unknown")" && return 1
    fi
}
