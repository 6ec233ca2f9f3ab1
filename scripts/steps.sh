# The steps of scripts/test and their summary. Sourced by it, never run.
# shellcheck shell=bash

SUMMARY=()
FAILED=
NOT_RUN=
RETRY=          # yes: failed tests run a second time, one by one
MINUTES=        # after this time, tests are stopped
FAILURES=()     # files with the output of failed tests
REPEATED=()     # files with the output of tests that passed only when repeated

# step NAME COMMAND [ARG ...]: runs a command and records its result.
step() {
    local name=$1 start=$SECONDS result=ok
    shift
    printf '\n==== %s\n' "$name"
    "$@" || { result=FAILED && FAILED=yes; }
    SUMMARY+=("$(printf '%-7s %4d s  %s' "$result" $((SECONDS - start)) "$name")")
    [[ $result == ok ]]
}

# not_run NAME WHY: records a step that cannot run here.
not_run() {
    printf '\n==== %s: not run, %s\n' "$1" "$2"
    SUMMARY+=("$(printf '%-7s %4s    %s: %s' 'not run' '' "$1" "$2")")
    NOT_RUN=yes
}

# failed_tests LOG: the names in the lists at the end of each binary's output. An earlier line "failures:" begins their output.
failed_tests() {
    awk '/^failures:$/ { count = 0; listing = 1; next }
         /^test result: / { if (listing) for (i = 0; i < count; i++) print names[i]; listing = 0; next }
         listing && /^    / { names[count++] = substr($0, 5) }' "$1" | sort -u
}

# endless_tests LOG: tests that did not end.
endless_tests() {
    awk '/^test .* has been running for over 60 seconds$/ { running[$2] = 1; next }
         /^test .* \.\.\. / { delete running[$2] }
         END { for (name in running) print name }' "$1" | sort
}

# failed_so_far LOG: tests that failed in a run that was stopped: the lists of failed_tests come at the end of a binary.
failed_so_far() { awk '/^test .* \.\.\. FAILED$/ { print $2 }' "$1" | sort; }

# failed_outputs LOG: what failed tests printed, up to 60 lines of each.
failed_outputs() {
    awk '/^---- .* stdout ----$/ { wanted = 60 }
         /^failures:$/ { wanted = 0 }
         wanted > 0 { print; wanted-- }' "$1"
}

# failed_seed LOG TEST: the seed that a failed test printed (COUNTINT_SEED=N), if it is a randomised one.
failed_seed() {
    awk -v begin="---- $2 stdout ----" '
        /^---- .* stdout ----$/ { wanted = $0 == begin; next }
        /^failures:$/ { wanted = 0 }
        wanted && sub(/^COUNTINT_SEED=/, "") { print; exit }' "$1"
}

# passed_tests LOG: how many tests passed, of all binaries.
passed_tests() { awk '/^test result: / { passed += $4 } END { print passed + 0 }' "$1"; }

# again LOG TEST ARG ...: runs a test that failed once more. A randomised one uses the seed with which it failed, because it could pass
# with another one.
again() {
    local seed targets=() separator=(--)
    seed=$(failed_seed "$1" "$2")
    [[ " ${*:3} " != *" -- "* ]] || separator=()
    # Without examples in documentation, for which rustdoc reads each crate again.
    [[ " ${*:3} " == *" --test "* || $2 == *" (line "* ]] || targets=(--lib --bins --tests)
    RUST_TEST_THREADS=1 within_time env ${seed:+"COUNTINT_SEED=$seed"} cargo test --locked --no-fail-fast "${targets[@]}" "${@:3}" "${separator[@]}" --exact "$2" 2>&1
}

# within_time COMMAND [ARG ...]: runs a command that is stopped when MINUTES have passed since the script began, with the status of `timeout`.
# A test that waits without end would otherwise hide the results of all others.
within_time() {
    local left
    if [[ -z $MINUTES ]]; then
        "$@"
        return
    fi
    left=$((MINUTES * 60 - SECONDS))
    ((left > 0)) || return 124
    timeout --kill-after=10 "$left" "$@"
}

# cargo_test ARG ...: `cargo test` of everything that ARG selects, also after a failure. With RETRY, tests that failed run once more, one by
# one: beside as many others, on a slow machine, one can starve. Those that pass then are in the summary, because they may have found a race.
cargo_test() {
    local log status=0 name names
    log=$(mktemp)
    within_time cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
    if ((status == 124 || status == 137)); then
        SUMMARY+=("stopped after $MINUTES minutes; did not end: $(endless_tests "$log" | paste -sd ' '); failed: $(failed_so_far "$log" | paste -sd ' ')")
        FAILURES+=("$log")
        return 1
    fi
    mapfile -t names < <(failed_tests "$log")
    if ((status != 0)) && [[ -n $RETRY ]] && ((${#names[@]} > 0 && ${#names[@]} <= 20)); then
        printf '\n==== once more, one by one: %s\n' "${names[*]}"
        status=0
        for name in "${names[@]}"; do again "$log" "$name" "$@" | tee -a "$log.again" || status=1; done
        # A name that no binary knows runs nothing.
        ((status != 0)) || (($(passed_tests "$log.again") >= ${#names[@]})) || status=1
        if ((status == 0)); then
            SUMMARY+=("passed only when repeated: ${names[*]}")
            REPEATED+=("$log")
        else
            FAILURES+=("$log.again")
        fi
    fi
    ((status == 0)) || FAILURES+=("$log")
    return "$status"
}

LANE=           # the process of the lane
LANE_DIR=

# start_lane FUNCTION: runs steps beside those that follow. They must not use the same thing, such as a port.
start_lane() {
    LANE_DIR=$(mktemp -d)
    run_lane "$1" >"$LANE_DIR/output" 2>&1 </dev/null &
    LANE=$!
}

run_lane() {
    SUMMARY=() FAILED='' NOT_RUN='' FAILURES=()
    "$1"
    printf '%s\n' "${SUMMARY[@]}" >"$LANE_DIR/summary"
    printf '%s\n' "${FAILURES[@]}" >"$LANE_DIR/failures"
    [[ -z $FAILED ]] || touch "$LANE_DIR/failed"
    [[ -z $NOT_RUN ]] || touch "$LANE_DIR/not-run"
}

# end_lane: waits for the steps of the lane, prints their output, and adds their results to the summary.
end_lane() {
    local line
    # The lane itself fails only if its results are not known.
    wait "$LANE" || FAILED=yes
    cat "$LANE_DIR/output"
    while read -r line; do [[ -z $line ]] || SUMMARY+=("$line"); done <"$LANE_DIR/summary"
    while read -r line; do [[ -z $line ]] || FAILURES+=("$line"); done <"$LANE_DIR/failures"
    [[ ! -e $LANE_DIR/failed ]] || FAILED=yes
    [[ ! -e $LANE_DIR/not-run ]] || NOT_RUN=yes
    rm -rf "$LANE_DIR"
}

# print_failures TITLE LOG ...: the failed tests of each log, and what they printed.
print_failures() {
    local log
    for log in "${@:2}"; do
        printf '\n==== %s\n' "$1"
        failed_tests "$log"
        failed_outputs "$log"
    done
}

# Prints the summary, and ends the script.
finish() {
    print_failures "Tests that passed only when repeated" "${REPEATED[@]}"
    print_failures "Failed tests" "${FAILURES[@]}"
    printf '\n==== Summary (%d:%02d minutes)\n' $((SECONDS / 60)) $((SECONDS % 60))
    printf '%s\n' "${SUMMARY[@]}"
    [[ -z $FAILED ]] || exit 1
    if [[ -z $NOT_RUN ]]; then echo "Everything passed."; else echo "Everything that was run passed."; fi
    exit 0
}
