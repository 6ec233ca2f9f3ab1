//! Ctrl-C at each step of the start of scripts/run.

use super::script_run::ScriptRun;
use super::stub;
use countint_tests::{Client, wait_until};
use std::fs;
use std::process::{Command, ExitStatus};

/// A step of the start at which Ctrl-C is sent. The stubs stop the script at this step.
struct Step {
    name: &'static str,
    stubs: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, stubs: &'static [(&'static str, &'static str)]) -> Step {
    Step { name, stubs }
}

#[test]
fn ctrl_c_before_the_servers_start_ends_the_script_and_what_it_runs() {
    let mut script_run = script_run_with_data();
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
        let (status, stderr) = interrupt_at(&mut script_run, &step);
        assert!(!status.success(), "{}: {status}", step.name);
        assert!(!stderr.contains("Stop"), "{}: {stderr}", step.name);
    }
    assert_data_is_kept(&mut script_run);
}

#[test]
fn ctrl_c_while_redis_starts_stops_it_gracefully() {
    let mut script_run = script_run_with_data();
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
        assert_stops_gracefully(&mut script_run, &step);
    }
    assert_data_is_kept(&mut script_run);
}

#[test]
fn ctrl_c_while_countd_starts_stops_both_gracefully() {
    let mut script_run = script_run_with_data();
    for step in [
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
                // The server and countd have recorded their process ids.
                (
                    "sleep",
                    "[ \"$(grep -c . \"$dir/pids\" 2>/dev/null)\" != 2 ] || hold",
                ),
            ],
        ),
    ] {
        assert_stops_gracefully(&mut script_run, &step);
    }
    assert_data_is_kept(&mut script_run);
}

#[test]
fn ctrl_c_at_the_welcome_stops_both_gracefully() {
    let mut script_run = script_run_with_data();
    for step in [
        step("printing the welcome", &[("cat", "[ $# != 0 ] || hold")]),
        step("after the welcome", &[]),
    ] {
        assert_stops_gracefully(&mut script_run, &step);
    }
    assert_data_is_kept(&mut script_run);
}

/// A script that was started, and stopped after a counter was written.
fn script_run_with_data() -> ScriptRun {
    let mut script_run = ScriptRun::start();
    let mut client = Client::connect(script_run.port()).expect("the server answers");
    client.ok("CINT.INCRBY kept 0 7");
    let status = script_run.interrupt();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    script_run
}

fn assert_data_is_kept(script_run: &mut ScriptRun) {
    script_run.launch();
    let mut client = Client::connect(script_run.port()).expect("the server answers");
    assert_eq!(client.ok("CINT.GET kept 0"), redis::Value::Int(7));
}

fn assert_stops_gracefully(script_run: &mut ScriptRun, step: &Step) {
    let (status, stderr) = interrupt_at(script_run, step);
    assert!(status.success(), "{}: {status}:\n{stderr}", step.name);
    assert!(
        stderr.contains("Stopped. The data is in"),
        "{}: {stderr}",
        step.name
    );
}

/// Starts scripts/run, interrupts it at this step, and waits until all processes that it started have ended. Returns its status and
/// its stderr.
fn interrupt_at(script_run: &mut ScriptRun, step: &Step) -> (ExitStatus, String) {
    let dir = script_run.dir().to_owned();
    for file in ["pids", "reached"] {
        // The files do not exist before the first step.
        let _ = fs::remove_file(dir.join(file));
    }
    for (program, commands) in step.stubs {
        stub::write(&dir, program, commands);
    }
    let group = script_run.spawn();
    wait_until(&format!("scripts/run is at: {}", step.name), || {
        assert!(
            !script_run.has_ended(),
            "{}: it ended:\n{}",
            step.name,
            script_run.stderr()
        );
        let reached = dir.join("reached").exists();
        reached || (step.stubs.is_empty() && script_run.has_printed_welcome())
    });
    let status = script_run.interrupt();
    for (program, _) in step.stubs {
        stub::reset(&dir, program);
    }
    let stderr = script_run.stderr();
    let status = status.unwrap_or_else(|| panic!("{}: it did not end:\n{stderr}", step.name));
    let pids = fs::read_to_string(dir.join("pids")).unwrap_or_default();
    for pid in pids.lines() {
        wait_until(&format!("{}: server {pid} has ended", step.name), || {
            !is_alive(pid)
        });
    }
    wait_until(&format!("{}: its processes have ended", step.name), || {
        !is_alive(&format!("-{group}"))
    });
    (status, stderr)
}

/// Whether a process exists; with a minus sign before the id, whether the process group has a process.
fn is_alive(pid: &str) -> bool {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -0 {pid} 2>/dev/null")])
        .status();
    kill.expect("sh runs").success()
}
