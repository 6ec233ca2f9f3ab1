//! Runs the commands of a page and compares the output.

use super::script_run::ScriptRun;
use crate::support::{Api, wait_until_clients_drained};
use countint_tests::console::{self, Console, Entry};
use countint_tests::page::{self, Block};
use countint_tests::{Client, line, reply, scenario, wait_until};
use serde_json::Value as Json;

/// The prefixes of countd's keys, as docs/countd/internals.md lists them.
const COUNTDS_KEYS: [&str; 16] = [
    "aut:", "auth:", "tab:", "utab:", "cnt:", "ucnt:", "rbm:", "bm:", "s:", "x:", "act:",
    "schema:", "countd:", "rtl:", "rev:", "wtl:",
];

/// A reader of pages, with their `scripts/run`.
pub struct Reader {
    script_run: ScriptRun,
    console: Console,
}

impl Reader {
    /// A reader that has just started `scripts/run`.
    pub fn new(script_run: ScriptRun) -> Reader {
        let page = include_str!("../../../docs/countd/internals.md");
        for prefix in COUNTDS_KEYS {
            assert!(page.contains(&format!("`{prefix}")), "{prefix}");
        }
        let console = Console::new(script_run.port());
        Reader {
            script_run,
            console,
        }
    }

    /// Runs all commands of a page, at least `commands`, and compares their output.
    pub fn read(&mut self, name: &str, commands: usize) {
        let mut done = 0;
        for block in page::read(name) {
            let at = format!("{name}:{}", block.line);
            match block.mark.as_str() {
                "redis" | "console" => {
                    self.follow(&block.lead);
                    let entries = entries(&block).unwrap_or_else(|error| panic!("{name}:{error}"));
                    self.perform(name, &block, &entries);
                    done += entries.len();
                }
                "sh" => assert!(is_started(&block), "{at}: no test runs this"),
                // examples/clients/run and other tests run these languages.
                "text" | "python" | "js" | "java" | "go" | "rust" => {}
                mark => panic!("{at}: an unknown mark: {mark:?}"),
            }
        }
        assert!(done >= commands, "{name}: only {done} commands");
    }

    /// Restarts the script if the paragraph before a block says so.
    fn follow(&mut self, lead: &str) {
        if lead.contains("Ctrl-C") && lead.contains("start it again with `scripts/run`") {
            self.script_run.restart();
        }
    }

    fn perform(&self, name: &str, block: &Block, entries: &[Entry]) {
        // Retries only where the page says that a count appears later.
        let later = block.lead.contains("a moment later");
        for entry in entries {
            let at = format!("{name}:{}: {}", entry.line, entry.command);
            if later {
                assert!(
                    is_read_request(&entry.command),
                    "{at}: must be sent only once"
                );
                let what = format!("{at} prints {}", entry.printed);
                wait_until(&what, || self.run(block, &entry.command) == entry.printed);
            } else {
                assert_eq!(self.run(block, &entry.command), entry.printed, "{at}");
            }
        }
        if later {
            let client = Client::connect(self.script_run.port()).expect("the server answers");
            wait_until_clients_drained(vec![client], 1024);
            for entry in entries {
                let got = self.run(block, &entry.command);
                assert_eq!(
                    got, entry.printed,
                    "{name}:{}: it does not change",
                    entry.line
                );
            }
        }
    }

    fn run(&self, block: &Block, command: &str) -> String {
        if block.mark == "redis" {
            self.assert_no_countd_key(&line::split(command).expect("a command line"));
            self.console.type_into_cli(command, false)
        } else {
            self.run_in_shell(command)
        }
    }

    /// The output of a shell command: runs `redis-cli`, and sends the request of `curl`.
    fn run_in_shell(&self, command: &str) -> String {
        let words = line::split(command).expect("a command line");
        let words: Vec<_> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        match words.as_slice() {
            ["curl", rest @ ..] => self.curl(command, rest),
            ["redis-cli", rest @ ..] => {
                let arguments = match rest {
                    ["-p", _, arguments @ ..] => arguments,
                    arguments => arguments,
                };
                self.assert_no_countd_key(arguments);
                self.console.run(&[command]).remove(0)
            }
            _ => panic!("no test runs this: {command}"),
        }
    }

    fn curl(&self, command: &str, words: &[&str]) -> String {
        let printed = format!("127.0.0.1:{}", self.script_run.http_port());
        let path = |url: &str| {
            url.strip_prefix("localhost:8090")
                .or_else(|| url.strip_prefix(&printed))
                .unwrap_or_else(|| panic!("no request to countd: {command}"))
                .to_owned()
        };
        let api = Api::new(self.script_run.http_port());
        let (answer, expected) = match words {
            ["-H", header, "-d", body, url] => {
                let content_type = header.strip_prefix("content-type:");
                let content_type = content_type.expect("a content type");
                (api.try_send(&path(url), content_type, body), 200)
            }
            ["-X", "DELETE", url] => (api.try_delete(&path(url)), 202),
            [url] => (api.try_get(&path(url)), 200),
            _ => panic!("unsupported curl command: {command}"),
        };
        let (status, body) = answer.unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(status, expected, "{command}: {body}");
        with_fixed_times(body.trim_end())
    }

    /// Asserts that a command of Redis uses no key of countd.
    fn assert_no_countd_key<A: AsRef<[u8]>>(&self, command: &[A]) {
        let mut call = vec![b"COMMAND".as_slice(), b"GETKEYS"];
        call.extend(command.iter().map(AsRef::as_ref));
        let mut client = Client::connect(self.script_run.port()).expect("the server answers");
        for key in reply::array(client.call(&call)) {
            let key = reply::text(key);
            let is_countd_key = COUNTDS_KEYS.iter().any(|prefix| key.starts_with(prefix));
            assert!(!is_countd_key, "{key} is a key of countd");
        }
    }

    /// The existing keys that are not countd's.
    pub fn foreign_keys(&self) -> Vec<String> {
        let mut client = Client::connect(self.script_run.port()).expect("the server answers");
        let keys = reply::array(client.ok("KEYS *"))
            .into_iter()
            .map(reply::text);
        let mut keys: Vec<String> = keys
            .filter(|key| !COUNTDS_KEYS.iter().any(|prefix| key.starts_with(prefix)))
            .collect();
        keys.sort();
        keys
    }

    /// Runs each command of the welcome of scripts/run. The text after `: ` in a comment is the expected reply: the values that
    /// redis-cli prints, or parts of the JSON, joined by `and`.
    pub fn try_welcome(&self) {
        let welcome = self.script_run.stdout();
        let mut done = 0;
        for line in welcome.lines() {
            let Some(line) = line.strip_prefix("  ") else {
                continue;
            };
            let (command, comment) = line.split_once(" # ").expect("it says what it does");
            let printed = self.run_in_shell(command.trim_end());
            match comment.split_once(": ") {
                Some((_, expected)) if command.starts_with("curl") => {
                    for part in expected.split(" and ") {
                        assert!(printed.contains(part), "{command}: {printed}");
                    }
                }
                Some((_, expected)) => assert_eq!(values(&printed), expected, "{command}"),
                // The OpenAPI document.
                None => {
                    let json: Json = serde_json::from_str(&printed).expect("JSON");
                    let paths = json["paths"].as_object().expect("a description of an API");
                    assert!(paths.contains_key("/action/{metric}"), "{paths:?}");
                }
            }
            done += 1;
        }
        assert!(done >= 8, "the welcome has too few commands:\n{welcome}");
    }
}

/// Whether the block has the two commands of the README that are already running.
fn is_started(block: &Block) -> bool {
    let lines = block.numbered();
    let commands: Vec<&str> = lines
        .map(|(_, line)| line.split('#').next().unwrap_or_default().trim())
        .collect();
    commands == ["scripts/run", "scripts/test"]
}

fn entries(block: &Block) -> Result<Vec<Entry>, String> {
    if block.mark == "console" {
        return console::parse(block.numbered());
    }
    let steps = scenario::parse(block.numbered())?;
    let entry = |step: scenario::Step| Entry {
        line: step.line,
        command: step.command,
        printed: step.reply,
    };
    Ok(steps.into_iter().map(entry).collect())
}

/// A reply with the times and the ids of jobs that the pages print, which differ in each run.
fn with_fixed_times(body: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<Json>(body) else {
        return body.to_owned();
    };
    let mut text = body.to_owned();
    let mut values = vec![&mut json];
    while let Some(value) = values.pop() {
        match value {
            Json::Array(items) => values.extend(items),
            Json::Object(fields) => {
                for (name, value) in fields {
                    if ["ts", "created"].contains(&name.as_str()) && value.is_u64() {
                        text = text.replace(&value.to_string(), "1764000000000");
                    } else if name == "id" && value.as_str().is_some_and(|id| id.len() == 32) {
                        let id = value.as_str().unwrap_or_default();
                        text = text.replace(id, "45c48cce2e2d7fbdea1afc51c7c6ad26");
                    } else {
                        values.push(value);
                    }
                }
            }
            _ => {}
        }
    }
    text
}

/// Whether a request changes nothing.
fn is_read_request(command: &str) -> bool {
    let paths = [
        "/counter/",
        "/status/",
        "/relation/",
        "/who/",
        "/entity/",
        "/feed",
        "/user/",
    ];
    command.starts_with("curl ")
        && paths.iter().any(|path| command.contains(path))
        && !command.contains("/counter/reset")
        && !command.contains("DELETE")
}

/// The values of a reply as redis-cli printed it, without types and indexes.
fn values(printed: &str) -> String {
    let value = |line: &str| {
        let value = line.rsplit_once(") ").map_or(line, |(_, value)| value);
        value.replace("(nil)", "nil")
    };
    let values: Vec<String> = printed.lines().map(value).collect();
    values.join(" ")
}
