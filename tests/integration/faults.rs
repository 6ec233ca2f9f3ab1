//! A panic before the first change fails one command; a panic after it aborts the process. These tests use the build
//! with fault injection, which has `COUNTINT.PANIC`.

use std::os::unix::process::ExitStatusExt;

use countint_tests::{Server, env};

/// The signal of `abort()`.
const SIGABRT: i32 = 6;

#[test]
fn panic_before_the_first_change_fails_one_command() {
    let mut server = Server::builder().faults().start();
    let mut client = server.client();
    client.ok("CINT.INCRBY counters 0 5");
    for _ in 0..3 {
        client.expect("COUNTINT.PANIC BEFORE", "(error) ERR internal error");
        client.expect("COUNTINT.PANIC SIDEWAYS", "(error) ERR syntax error");
        client.expect("CINT.INCRBY counters 0 0", "(integer) 5");
    }
    client.ok("MULTI");
    client.ok("CINT.INCRBY counters 0 1");
    client.ok("COUNTINT.PANIC BEFORE");
    client.expect("EXEC", "1) (integer) 6\n2) (error) ERR internal error");
    client.expect(
        "EVAL \"return redis.pcall('COUNTINT.PANIC', 'BEFORE')\" 0",
        "(error) ERR internal error",
    );
    server.assert_alive();
    assert!(
        server.log().contains("asked for by COUNTINT.PANIC"),
        "the log names the panic:\n{}",
        server.log()
    );
}

/// The panic in the callback must not unwind through the server's C code.
#[test]
fn panic_in_a_scan_callback_fails_one_command() {
    let mut server = Server::builder().faults().start();
    let mut client = server.client();
    for set in ["SADD few 1 2 3", "SADD many a b c d 5"] {
        client.ok(set);
    }
    for _ in 0..3 {
        for key in ["few", "many"] {
            let panic = format!("COUNTINT.PANIC SCAN {key}");
            client.expect(&panic, "(error) ERR internal error");
        }
        client.expect("SCARD few", "(integer) 3");
    }
    client.ok("RBM.ADOPT few");
    client.expect("RBM.CARD few", "(integer) 3");
    server.assert_alive();
}

#[test]
fn panic_after_the_first_change_aborts_and_restart_recovers() {
    let mut server = Server::builder()
        .faults()
        .append_only(true)
        .config("appendfsync always")
        // The memory test of Redis's crash report writes to memory that jemalloc's thread reads. In one of fifty crashes
        // the report itself dies of SIGSEGV.
        .config("crash-memcheck-enabled no")
        .start();
    let mut client = server.client();
    client.ok("CINT.BATCHINCR counters 0 5 4 7");
    client.ok("RBM.ADD ids 1 18446744073709551615");
    let digest = client.digest();
    assert!(
        client.try_call(&["COUNTINT.PANIC", "AFTER"]).is_err(),
        "the connection ends with the process"
    );
    let status = server.wait_for_end();
    // Under valgrind the exit status is valgrind's.
    if env::slow() == 1.0 {
        let signal = status.signal().or(status.code().map(|code| code - 128));
        assert_eq!(signal, Some(SIGABRT), "{status}");
    }
    let log = server.log();
    assert!(log.contains("asked for by COUNTINT.PANIC"), "{log}");
    assert!(log.contains("a panic after the first change"), "{log}");

    server.start_again();
    assert_eq!(server.client().digest(), digest);
}
