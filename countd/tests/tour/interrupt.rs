//! Ctrl-C at each step of the start of scripts/run.

use super::stand::Stand;
use super::stub;
use countint_tests::{Client, wait_until};
use std::fs;
use std::process::{Command, ExitStatus};

/// A step of the start at which Ctrl-C comes: what the stubs of programs do that have one.
struct Step {
    name: &'static str,
    stubs: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, stubs: &'static [(&'static str, &'static str)]) -> Step {
    Step { name, stubs }
}

#[test]
fn ctrl_c_before_the_servers_start_ends_the_script_and_what_it_runs() {
    let mut stand = stand_with_data();
    for step in [
        step("asking for cargo's version", &[("cargo", "hold")]),
        step(
            "checking that redis-server works",
            &[("redis-server", "note_pid; hold")],
        ),
        step("building", &[("cargo", "[ \"$1\" != build ] || hold")]),
        step(
            "writing redis.conf",
            &[("awk", "case $1 in *loadmodule*) hold ;; esac")],
        ),
    ] {
        let (status, said) = interrupt_at(&mut stand, &step);
        assert!(!status.success(), "{}: {status}", step.name);
        assert!(!said.contains("Stop"), "{}: {said}", step.name);
    }
    assert_data_is_there(&mut stand);
}

#[test]
fn ctrl_c_while_redis_starts_ends_in_order() {
    let mut stand = stand_with_data();
    for step in [
        step("renaming the old log", &[("mv", "hold")]),
        step("before redis-server handles signals", &[("server", "hold")]),
        step("right after redis-server started", &[("server", "tell")]),
        step(
            "asking for the server's pid",
            &[("redis-cli", "[ \"$3\" != INFO ] || hold")],
        ),
        step(
            "asking whether the data is loaded",
            &[("redis-cli", "[ \"$3\" != PING ] || hold")],
        ),
        step(
            "asking for the modules",
            &[("redis-cli", "[ \"$3\" != MODULE ] || hold")],
        ),
        step(
            "waiting for the server",
            &[
                ("redis-cli", "[ \"$3\" != INFO ] || exit 1"),
                ("sleep", "[ ! -s \"$dir/pids\" ] || hold"),
            ],
        ),
    ] {
        assert_ends_in_order(&mut stand, &step);
    }
    assert_data_is_there(&mut stand);
}

#[test]
fn ctrl_c_while_countd_starts_ends_both_in_order() {
    let mut stand = stand_with_data();
    for step in [
        step(
            "reading the schema",
            &[("countd", "[ \"$2\" != get ] || hold")],
        ),
        step(
            "setting the schema",
            &[(
                "countd",
                "[ \"$2\" != get ] || exit 1; [ \"$2\" != set ] || hold",
            )],
        ),
        step(
            "before countd handles signals",
            &[("countd", "[ $# != 0 ] || hold")],
        ),
        step(
            "right after countd started",
            &[("countd", "[ $# != 0 ] || tell")],
        ),
        step(
            "waiting for countd",
            &[
                ("countd", "[ $# != 0 ] || exec /bin/sleep 120"),
                // The server and countd have noted theirs.
                (
                    "sleep",
                    "[ \"$(grep -c . \"$dir/pids\" 2>/dev/null)\" != 2 ] || hold",
                ),
            ],
        ),
    ] {
        assert_ends_in_order(&mut stand, &step);
    }
    assert_data_is_there(&mut stand);
}

#[test]
fn ctrl_c_at_the_welcome_ends_both_in_order() {
    let mut stand = stand_with_data();
    for step in [
        step("printing the welcome", &[("cat", "[ $# != 0 ] || hold")]),
        step("after the welcome", &[]),
    ] {
        assert_ends_in_order(&mut stand, &step);
    }
    assert_data_is_there(&mut stand);
}

/// A stand that was started once, given a counter, and stopped.
fn stand_with_data() -> Stand {
    let mut stand = Stand::start();
    let mut client = Client::connect(stand.port()).expect("the server answers");
    client.ok("CINT.INCRBY kept 0 7");
    let status = stand.interrupt();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    stand
}

fn assert_data_is_there(stand: &mut Stand) {
    stand.launch();
    let mut client = Client::connect(stand.port()).expect("the server answers");
    assert_eq!(client.ok("CINT.GET kept 0"), redis::Value::Int(7));
}

fn assert_ends_in_order(stand: &mut Stand, step: &Step) {
    let (status, said) = interrupt_at(stand, step);
    assert!(status.success(), "{}: {status}:\n{said}", step.name);
    assert!(
        said.contains("Stopped. The data is in"),
        "{}: {said}",
        step.name
    );
}

/// Starts scripts/run, interrupts it at this step, and waits until all that it started has ended. Returns its status and
/// what it said.
fn interrupt_at(stand: &mut Stand, step: &Step) -> (ExitStatus, String) {
    let dir = stand.dir().to_owned();
    for file in ["pids", "reached"] {
        // The step before may have left none.
        let _ = fs::remove_file(dir.join(file));
    }
    for (program, commands) in step.stubs {
        stub::write(&dir, program, commands);
    }
    let group = stand.spawn();
    wait_until(&format!("scripts/run is at: {}", step.name), || {
        assert!(
            !stand.is_ended(),
            "{}: it ended:\n{}",
            step.name,
            stand.errors()
        );
        let reached = dir.join("reached").exists();
        reached || (step.stubs.is_empty() && stand.is_welcome())
    });
    let status = stand.interrupt();
    for (program, _) in step.stubs {
        stub::reset(&dir, program);
    }
    let said = stand.errors();
    let status = status.unwrap_or_else(|| panic!("{}: it did not end:\n{said}", step.name));
    let pids = fs::read_to_string(dir.join("pids")).unwrap_or_default();
    for pid in pids.lines() {
        wait_until(&format!("{}: server {pid} has ended", step.name), || {
            !is_alive(pid)
        });
    }
    wait_until(&format!("{}: what it ran has ended", step.name), || {
        !is_alive(&format!("-{group}"))
    });
    (status, said)
}

/// Whether a process or, with a minus, a process of a group is there.
fn is_alive(pid: &str) -> bool {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -0 {pid} 2>/dev/null")])
        .status();
    kill.expect("sh runs").success()
}
