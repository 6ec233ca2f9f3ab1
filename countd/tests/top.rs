//! `countd top`.

use crate::support::{Countd, Settings, on_note, printed, run, run_as_user, wait_until_drained};
use countint_tests::env::TempDir;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CONFIG: &str = "[auth]\ntokens = [{ name = \"ops\", token = \"0123456789abcdef0123456789abcdef\", rights = [\"admin\"] }]\n";

fn view(server: &Server, arguments: &[&str]) -> Json {
    let arguments = [&["top", "--once", "--json", "--interval", "1"], arguments].concat();
    let text = printed(&run(server, "", &arguments));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn one_view_has_the_state_of_redis_and_of_a_countd() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    api.ok(api.post("/action/like", &on_note(7, 1)));
    wait_until_drained(&server, 1024);
    let url = format!("http://127.0.0.1:{}", countd.port());
    let view = view(&server, &["--url", &url]);
    assert_eq!(view["problems"], json!([]), "{view}");
    assert!(
        view["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds >= 1.0),
        "{view}"
    );
    assert_eq!(view["processes"]["consumers"], 1, "{view}");
    assert_eq!(view["log"]["deadLetters"], 0, "{view}");
    assert!(
        view["log"]["counted"]
            .as_u64()
            .is_some_and(|counted| counted >= 1),
        "{view}"
    );
    let node = &view["nodes"][0];
    assert!(
        node["up"] == true && node["memoryBytes"].as_f64() > Some(0.0),
        "{view}"
    );
    // Its own commands, and those of the countd.
    assert!(node["commandsPerSecond"].as_f64() > Some(0.0), "{view}");
    let service = &view["service"];
    assert!(service["requestsPerSecond"].as_f64() > Some(0.0), "{view}");
    assert_eq!(service["failuresPerSecond"], 0.0, "{view}");
    let text = printed(&run(&server, "", &["top", "--once", "--interval", "1"]));
    assert!(
        text.contains("1 consumers") && text.contains("Redis"),
        "{text}"
    );
}

#[test]
fn an_idle_backlog_and_a_missing_consumer_are_shown() {
    let server = Server::start();
    let (command, config) = ("serve", "");
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    for user in 0..5 {
        api.ok(api.post("/action/read", &on_note(7, user)));
    }
    let view = view(&server, &[]);
    assert_eq!(view["log"]["lag"], 5, "{view}");
    assert_eq!(view["partitions"][0]["lag"], 5, "{view}");
    assert_eq!(view["partitions"][0]["growthPerSecond"], 0.0, "{view}");
    assert_eq!(view["processes"]["consumers"], 0, "{view}");
    assert!(view["service"].is_null(), "{view}");
    let text = printed(&run(&server, "", &["top", "--once", "--interval", "1"]));
    assert!(text.contains("no consumer"), "{text}");
}

#[test]
fn a_token_is_sent_and_failures_of_the_countd_are_problems() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let url = format!("http://127.0.0.1:{}", countd.port());
    let dir = TempDir::new();
    let file = dir.path().join("token");
    fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("written");
    let file = file.display().to_string();
    let with_token = view(&server, &["--url", &url, "--token-file", &file]);
    assert!(!with_token["service"].is_null(), "{with_token}");
    let without = view(&server, &["--url", &url]);
    let problems = without["problems"].to_string();
    assert!(
        without["service"].is_null() && problems.contains("/metrics: 401"),
        "{without}"
    );
    // The rest is shown.
    assert_eq!(without["processes"]["consumers"], 1, "{without}");
    for url in ["127.0.0.1:80", "ftp://a/"] {
        let refused = run(&server, "", &["top", "--json", "--url", url]);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && errors.contains("is not a URL"),
            "{errors}"
        );
    }
}

#[test]
fn a_live_view_needs_a_terminal() {
    let server = Server::start();
    let refused = run(&server, "", &["top"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && errors.contains("--once"),
        "{errors}"
    );
}

#[test]
fn a_user_with_the_printed_permissions_may_run_it() {
    let server = Server::start();
    for command in printed(&run(&server, "", &["acl"])).lines() {
        server.client().ok(&command.replace(">PASSWORD", ">secret"));
    }
    let arguments = ["top", "--json", "--interval", "1"];
    let text = printed(&run_as_user(&server, "countd", "", &arguments));
    let view: Json = serde_json::from_str(&text).expect("JSON");
    assert_eq!(view["problems"], json!([]), "{view}");
}

/// A pseudo-terminal in which `countd top` runs, by `script` of util-linux, and what is written to it.
struct Terminal {
    script: Child,
    dir: TempDir,
}

impl Terminal {
    fn start(server: &Server) -> Terminal {
        let dir = TempDir::new();
        let (config, screen) = (dir.path().join("countd.toml"), dir.path().join("screen"));
        fs::write(&config, "").expect("written");
        // After its end, the state of the terminal and its exit status.
        let command = format!(
            "stty rows 30 cols 100; echo $$ > {pid}; \"{countd}\" --config {config} top --interval 1; echo \"status $?\"; stty -a",
            pid = dir.path().join("pid").display(),
            countd = env!("CARGO_BIN_EXE_countd"),
            config = config.display(),
        );
        let script = Command::new("script")
            .args(["--quiet", "--flush", "--command", &command])
            .arg(&screen)
            .env("TERM", "xterm")
            .env(
                "COUNTD_REDIS__URL",
                format!("redis://127.0.0.1:{}/", server.port()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let script = script.expect("util-linux is installed");
        Terminal { script, dir }
    }

    fn screen(&self) -> String {
        let bytes = fs::read(self.dir.path().join("screen")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        wait_until("the terminal shows a text", || self.screen().contains(text));
    }

    fn type_keys(&mut self, keys: &str) {
        let input = self.script.stdin.as_mut().expect("piped");
        input
            .write_all(keys.as_bytes())
            .expect("the terminal is open");
        input.flush().expect("the terminal is open");
    }

    /// The process ID of `countd top`: the child of the shell.
    fn process_id(&self) -> u32 {
        let shell =
            fs::read_to_string(self.dir.path().join("pid")).expect("the shell has written it");
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let children = fs::read_to_string(Path::new(&children)).expect("the shell runs");
        let child = children.split_whitespace().next().expect("it runs");
        child.parse().expect("a process ID")
    }

    /// Waits for the end, and checks that it succeeded and that the terminal is as before.
    fn assert_clean_end(mut self) {
        self.wait_for("status ");
        let ended = self.script.wait().expect("a child can be waited for");
        assert!(ended.success(), "{ended}");
        let screen = self.screen();
        assert!(screen.contains("status 0"), "{screen:?}");
        let (entered, left) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
        let at = |text: &str| {
            screen
                .rfind(text)
                .unwrap_or_else(|| panic!("{text:?} in {screen:?}"))
        };
        assert!(
            at(entered) < at(left) && at(left) < at("status 0"),
            "{screen:?}"
        );
        // The cursor is visible, and lines are edited and echoed again.
        assert!(at("\u{1b}[?25h") > at("\u{1b}[?25l"), "{screen:?}");
        let settings = &screen[at("status 0")..];
        for setting in [" icanon", " echo "] {
            assert!(settings.contains(setting), "{setting}: {settings}");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test fails.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn a_terminal_is_left_as_it_was_after_a_key() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server);
    terminal.wait_for("Processes");
    terminal.wait_for("127.0.0.1");
    terminal.type_keys("p");
    terminal.wait_for("PAUSED");
    terminal.type_keys("\tq");
    terminal.assert_clean_end();
}

#[test]
fn a_terminal_is_left_as_it_was_after_a_signal() {
    let server = Server::start();
    let terminal = Terminal::start(&server);
    terminal.wait_for("Processes");
    let status = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", terminal.process_id())])
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    terminal.assert_clean_end();
}
