//! Redis Sentinel: countd finds the master, and follows failovers.

use crate::support::{
    Countd, Settings, on_note, run_with_url, set_schema, wait_until_drained, with,
};
use countint_tests::env::{TempDir, free_port, server_command};
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::json;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

/// A Sentinel process. Dropping it kills the process.
struct Sentinel {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel of the master `counts`. Two Sentinels must agree on a failover.
    fn start(master: &Server) -> Sentinel {
        let (dir, port) = (TempDir::new(), free_port());
        let file = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nrequirepass sesame\nsentinel sentinel-pass sesame\n\
             sentinel monitor counts 127.0.0.1 {} 2\nsentinel down-after-milliseconds counts 1000\n\
             sentinel failover-timeout counts 3000\n",
            dir.path().display(),
            master.port()
        );
        fs::write(&file, text).expect("written");
        let mut words = server_command().into_iter();
        let program = words.next().expect("a server");
        let log = File::create(dir.path().join("sentinel.log")).expect("written");
        let process = Command::new(program)
            .args(words)
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("a Sentinel");
        Sentinel {
            process,
            port,
            _dir: dir,
        }
    }

    /// Whether it knows a replica of the master and both other Sentinels.
    fn knows_all(&self) -> bool {
        let Ok(mut client) = Client::connect(self.port) else {
            return false;
        };
        let _ = client.try_call(&["AUTH", "sesame"]);
        let state = client.run("SENTINEL MASTER counts");
        let lines: Vec<&str> = state.lines().collect();
        let field = |name: &str| {
            let at = lines
                .iter()
                .position(|line| line.ends_with(&format!("\"{name}\"")))?;
            Some(lines.get(at + 1)?.split('"').nth(1)?.to_owned())
        };
        field("num-slaves").as_deref() == Some("1")
            && field("num-other-sentinels").as_deref() == Some("2")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start_sentinels(master: &Server) -> Vec<Sentinel> {
    let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(master)).collect();
    wait_until("the Sentinels know each other", || {
        sentinels.iter().all(Sentinel::knows_all)
    });
    sentinels
}

/// The first address is one at which no Sentinel listens.
fn config(sentinels: &[Sentinel], more: &str) -> String {
    let addresses = [free_port()].into_iter();
    let addresses = addresses.chain(sentinels.iter().map(|sentinel| sentinel.port));
    let addresses: Vec<String> = addresses
        .map(|port| format!("\"127.0.0.1:{port}\""))
        .collect();
    format!(
        "[redis]\nresponse_timeout_ms = 3000\n{more}[redis.sentinel]\naddresses = [{}]\nmaster = \"counts\"\npassword = \"sesame\"\n\
         [log]\npartitions = 16\n[consumer]\nsession_timeout_ms = 1000\n",
        addresses.join(", ")
    )
}

/// The host and port of the URL are not used.
const URL: &str = "redis://nowhere.invalid:1/";

/// Whether a server is a master. One that becomes a master closes its connections.
fn is_master(server: &Server) -> bool {
    let reply = server.client().try_call(&["INFO", "replication"]);
    reply.is_ok_and(|reply| reply::text(reply).contains("role:master"))
}

/// Sends actions until one succeeds with this user.
fn act(countd: &Countd, uid: u64) {
    let body = with(on_note(1, uid), json!({ "author": 7 })).to_string();
    let api = countd.api();
    wait_until("an action succeeds", || {
        matches!(api.try_post("/action/like", &body), Ok((200, _)))
    });
}

/// Fails over by `interrupt`, which makes the master unavailable, and returns when the replica is the master.
fn counts_after(interrupt: impl Fn(&mut Server), more: &str) {
    let mut master = Server::builder().append_only(true).start();
    let replica = master.replica();
    let sentinels = start_sentinels(&master);
    set_schema(&master, "[log]\npartitions = 16\n");
    let config = config(&sentinels, more);
    let command = "all";
    let settings = Settings {
        command,
        config: &config,
    };
    let environment = vec![("COUNTD_REDIS__URL".into(), URL.into())];
    let countd = Countd::with_environment(&master, &settings, environment);
    (1..=20).for_each(|uid| act(&countd, uid));
    wait_until_drained(&master, 16);
    // Replication is asynchronous: what the replica does not have is lost with the master.
    master.wait_for_replica(&replica);
    interrupt(&mut master);
    wait_until("the replica is the master", || is_master(&replica));
    (21..=40).for_each(|uid| act(&countd, uid));
    wait_until_drained(&replica, 16);
    let api = countd.api();
    wait_until("reads come from the new master", || {
        api.try_get("/counter/note/1")
            .is_ok_and(|(status, body)| status == 200 && body.contains("\"like\":40"))
    });
    assert_eq!(api.user(7)["likesReceived"], 40);
    wait_until("it is ready", || api.get("/readyz").0 == 200);
}

#[test]
fn a_master_that_is_killed_is_replaced() {
    counts_after(Server::kill, "");
}

/// Its connections stay open, and nothing answers.
#[test]
fn a_master_that_hangs_is_replaced() {
    counts_after(|master| master.signal("STOP"), "read_from = \"replica\"\n");
}

#[test]
fn a_master_that_no_sentinel_knows_is_refused() {
    let master = Server::start();
    let _replica = master.replica();
    let sentinels = start_sentinels(&master);
    let known = config(&sentinels, "");
    let check = |config: &str| {
        let output = run_with_url(URL.to_owned(), config, &["check"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let errors = check(&known);
    assert!(!errors.contains("cannot connect"), "{errors}");
    let errors = check(&known.replace("\"counts\"", "\"other\""));
    assert!(errors.contains("No such master"), "{errors}");
    let errors = check(&known.replace("sesame", "wrong"));
    assert!(errors.contains("cannot connect"), "{errors}");
}
