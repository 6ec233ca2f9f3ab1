//! countd as a process, and requests to it.

pub mod workload;
pub mod worlds;

use countint_tests::env::{TempDir, deadline, free_port};
use countint_tests::{Client, Server, Value, reply, wait_until};
use serde_json::{Value as Json, json};
use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A running countd; dropped, it is killed and its directory removed.
pub struct Countd {
    process: Option<Child>,
    command: &'static str,
    port: u16,
    redis: String,
    dir: TempDir,
}

/// What it is started with, beside where Redis is and what it listens on.
pub struct Settings<'a> {
    /// `all`, `serve` or `consume`.
    pub command: &'static str,
    /// More configuration.
    pub config: &'a str,
}

impl Countd {
    /// Serves and consumes, on a server that gets the schema `v1`.
    pub fn start(server: &Server, config: &str) -> Countd {
        set_schema(server, config);
        let command = "all";
        Countd::with(server, &Settings { command, config })
    }

    /// Starts it, and waits until it answers: actions and questions, or operators alone.
    pub fn with(server: &Server, settings: &Settings<'_>) -> Countd {
        let mut countd = Countd {
            process: None,
            command: settings.command,
            port: free_port(),
            redis: url(server),
            dir: TempDir::new(),
        };
        write_config(&countd.dir, settings.config);
        countd.launch();
        countd
    }

    /// Starts it again after it was killed or stopped.
    pub fn launch(&mut self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("countd.log"))
            .expect("the test's directory is writable");
        let process = Command::new(env!("CARGO_BIN_EXE_countd"))
            .arg("--config")
            .arg(self.dir.path().join("countd.toml"))
            .arg(self.command)
            .env("COUNTD_REDIS__URL", &self.redis)
            .env("COUNTD_HTTP__LISTEN", format!("127.0.0.1:{}", self.port))
            .env(
                "COUNTD_CONSUMER__LISTEN",
                format!("127.0.0.1:{}", self.port),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.process = Some(process.expect("countd starts"));
        let port = self.port;
        wait_until("countd listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may be gone already.
            let _ = process.kill();
            process.wait().expect("a killed process can be waited for");
        }
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let status = Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", process.id())])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "it can be told to stop"
        );
        let mut ended = None;
        wait_until("countd stops", || {
            ended = process.try_wait().expect("a child can be waited for");
            ended.is_some()
        });
        assert!(
            ended.is_some_and(|status| status.success()),
            "{ended:?}:\n{}",
            self.log()
        );
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("countd.log")).unwrap_or_default()
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends requests to it.
    pub fn api(&self) -> Api {
        Api::new(self.port)
    }
}

impl Drop for Countd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- countd {}, end of its log:\n{end}\n---", self.command);
        }
        self.kill();
    }
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/", server.port())
}

fn write_config(dir: &TempDir, text: &str) -> PathBuf {
    let file = dir.path().join("countd.toml");
    fs::write(&file, text).expect("the test's directory is writable");
    file
}

/// Runs a command of countd that ends by itself.
pub fn run(server: &Server, config: &str, arguments: &[&str]) -> Output {
    let dir = TempDir::new();
    Command::new(env!("CARGO_BIN_EXE_countd"))
        .arg("--config")
        .arg(write_config(&dir, config))
        .env("COUNTD_REDIS__URL", url(server))
        .args(arguments)
        .output()
        .expect("countd runs")
}

/// What a command printed; it must have gone well.
#[track_caller]
pub fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The schema of the default configuration.
pub fn set_schema(server: &Server, config: &str) {
    let words = "schema set v1 read like fav comment repost";
    let words: Vec<&str> = words.split(' ').collect();
    printed(&run(server, config, &words));
}

/// Requests to one countd.
#[derive(Clone)]
pub struct Api {
    agent: ureq::Agent,
    port: u16,
    authorization: String,
}

impl Api {
    fn new(port: u16) -> Api {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(deadline(30)))
            .build();
        Api {
            agent: config.into(),
            port,
            authorization: String::new(),
        }
    }

    /// The same with this in the header of that name.
    pub fn authorized(&self, authorization: &str) -> Api {
        Api {
            authorization: authorization.to_owned(),
            ..self.clone()
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A request as it goes, with the status and the body of its answer.
    pub fn try_post(&self, path: &str, body: &str) -> Result<(u16, String), String> {
        self.try_send(path, "application/json", body)
    }

    /// The same with a content type.
    pub fn try_send(&self, path: &str, of: &str, body: &str) -> Result<(u16, String), String> {
        let sent = self
            .agent
            .post(self.url(path))
            .header("authorization", &self.authorization)
            .header("content-type", of)
            .send(body);
        let mut answer = sent.map_err(|why| why.to_string())?;
        let text = answer
            .body_mut()
            .read_to_string()
            .map_err(|why| why.to_string())?;
        Ok((answer.status().as_u16(), text))
    }

    /// The status and the JSON of an answer.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Json) -> (u16, Json) {
        let (status, text) = self.try_post(path, &body.to_string()).expect("an answer");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    /// The status and the JSON of an answer.
    #[track_caller]
    pub fn get(&self, path: &str) -> (u16, Json) {
        let mut answer = self
            .agent
            .get(self.url(path))
            .header("authorization", &self.authorization)
            .call()
            .expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    /// A question, or with a body a post, with more headers.
    #[track_caller]
    pub fn answer(&self, path: &str, headers: &[(&str, &str)], body: Option<&Json>) -> Answer {
        let mut request = ureq::http::Request::builder()
            .uri(self.url(path))
            .header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.map_or(String::new(), Json::to_string);
        let request = request.method(method).body(body).expect("a request");
        let mut answer = self.agent.run(request).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        let retry_after = answer.headers().get("retry-after");
        Answer {
            status: answer.status().as_u16(),
            retry_after: retry_after
                .map(|value| value.to_str().expect("a text").parse().expect("seconds")),
            json: serde_json::from_str(&text).unwrap_or(Json::String(text)),
        }
    }

    /// An answer that must be 200.
    #[track_caller]
    pub fn ok(&self, (status, json): (u16, Json)) -> Json {
        assert_eq!(status, 200, "{json}");
        json
    }

    /// An action that must be done.
    #[track_caller]
    pub fn act(&self, metric: &str, action: Json) -> Json {
        self.ok(self.post(&format!("/action/{metric}"), &action))
    }

    /// An entity's counters.
    #[track_caller]
    pub fn counts(&self, eid: u64) -> Json {
        self.ok(self.get(&format!("/counter/note/{eid}")))["counts"].clone()
    }

    /// A user's counters.
    #[track_caller]
    pub fn user(&self, uid: u64) -> Json {
        self.ok(self.get(&format!("/relation/counter?uid={uid}")))["counts"].clone()
    }
}

/// A number that `/metrics` shows: of one that has labels, `name` is with them. What is not there is 0.
#[track_caller]
pub fn metric(api: &Api, name: &str) -> u64 {
    let (_, text) = api.get("/metrics");
    let mut lines = text.as_str().expect("a text").lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = value.map(|value| value.parse::<f64>().expect("a number"));
    number.unwrap_or(0.0) as u64
}

/// An answer, with what matters of its headers.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// Its body.
    pub json: Json,
}

/// An action on a note.
pub fn on_note(eid: u64, uid: u64) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}

/// `on_note` with more fields.
pub fn with(mut action: Json, more: Json) -> Json {
    let (Some(action_fields), Json::Object(more)) = (action.as_object_mut(), more) else {
        panic!("two objects");
    };
    action_fields.extend(more);
    action
}

/// A request that must be refused with this status and code.
#[track_caller]
pub fn refused(api: &Api, path: &str, body: &Json, status: u16, code: &str) {
    let (found, answer) = api.post(path, body);
    assert_eq!(
        (found, answer["error"]["code"].as_str()),
        (status, Some(code)),
        "{path} {body}: {answer}"
    );
}

/// Waits until every log is counted and every outbox empty; gives up when there is no progress.
pub fn wait_until_drained(server: &Server, partitions: u16) {
    wait_until_all_drained(std::slice::from_ref(server), partitions);
}

/// The same for the nodes of a cluster.
pub fn wait_until_all_drained(servers: &[Server], partitions: u16) {
    let mut clients: Vec<Client> = servers.iter().map(Server::client).collect();
    let tagged = clients[0].info("cluster")["cluster_enabled"] == "1";
    let (mut before, mut since) = (i64::MAX, Instant::now());
    let mut look = || -> i64 {
        let waiting = clients
            .iter_mut()
            .map(|client| waiting(client, partitions, tagged));
        waiting.sum()
    };
    loop {
        // Twice: what is handed over between looking at the one and at the other partition is seen then.
        let now = look() + look();
        if now == 0 {
            return;
        }
        if now < before {
            (before, since) = (now, Instant::now());
        }
        assert!(
            since.elapsed() < deadline(60),
            "{now} entries are never counted"
        );
        pause();
    }
}

/// How many entries are not counted, or not handed over.
fn waiting(client: &mut Client, partitions: u16, tagged: bool) -> i64 {
    let mut calls = Vec::new();
    for p in 0..partitions {
        let log = if tagged {
            format!("x:cnt-update:{{{p}}}")
        } else {
            format!("x:cnt-update:{p}")
        };
        let positions = if tagged { &log } else { "x:cnt-update" };
        for line in [
            format!("XREVRANGE {log} + - COUNT 1"),
            format!("HGET {positions}:pos {p}"),
            format!("XLEN {log}:out"),
        ] {
            calls.push(line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let replies = client.pipeline(&calls);
    let of_partition = |replies: &[Value]| {
        // Another node has it.
        if matches!(replies[0], Value::ServerError(_)) {
            return 0;
        }
        let last = match reply::array(replies[0].clone()).first() {
            Some(Value::Array(entry)) => offset(&reply::text(entry[0].clone())),
            _ => 0,
        };
        let next = match &replies[1] {
            Value::Nil => 1,
            next => reply::text(next.clone()).parse().expect("a number"),
        };
        last + 1 - next + reply::int(replies[2].clone())
    };
    replies.chunks(3).map(of_partition).sum()
}

fn offset(id: &str) -> i64 {
    let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("not an id of the log: {id}"))
}

/// A server in cluster mode, with all slots: every key that a step touches is in one slot, or the server refuses it, and
/// users' counters go through the outbox.
pub fn one_node_cluster() -> Server {
    let server = Server::builder()
        .config("cluster-enabled yes")
        .append_only(true)
        .start();
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until_up(&server);
    server
}

/// Waits until a server in cluster mode works: it takes a while after its start.
pub fn wait_until_up(server: &Server) {
    let mut client = server.client();
    wait_until("the cluster is up", || {
        reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
    });
}

/// A pause between two attempts.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
