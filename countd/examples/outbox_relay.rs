//! Relays the outbox of an application's database (here SQLite) to countd. Each committed event counts exactly once.
//!
//!     cargo run -p countd --example outbox_relay -- demo shop.db 1000
//!     cargo run -p countd --example outbox_relay -- relay shop.db http://127.0.0.1:8090 --until-empty
//!
//! `demo` is the application: it writes a like and its event in one transaction, so there is no like without an event. `relay`
//! sends the events and then marks them as sent. If it is killed in between, it sends them again, which is harmless: countd
//! recognises repeats by their `event_id`. COUNTD_TOKEN is the bearer token if countd requires one.

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::error::Error;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// Events per request.
const BATCH: u32 = 200;
/// The delay when the outbox is empty or countd is unavailable.
const PAUSE: Duration = Duration::from_millis(200);

type BoxError = Box<dyn Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["demo", file, likes] => demo(file, likes),
        ["relay", file, url] => relay(file, url, false),
        ["relay", file, url, "--until-empty"] => relay(file, url, true),
        _ => Err("usage: outbox_relay demo FILE LIKES | relay FILE URL [--until-empty]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("outbox_relay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(file: &str) -> Result<Connection, BoxError> {
    let database = Connection::open(file)?;
    database.busy_timeout(Duration::from_secs(10))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE IF NOT EXISTS likes (note INTEGER, user INTEGER, PRIMARY KEY (note, user));
         CREATE TABLE IF NOT EXISTS outbox (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             event_id TEXT NOT NULL UNIQUE,
             event_type TEXT NOT NULL,
             aggregate_type TEXT NOT NULL,
             aggregate_id TEXT NOT NULL,
             payload TEXT NOT NULL,
             state TEXT NOT NULL DEFAULT 'new',
             reason TEXT);
         CREATE INDEX IF NOT EXISTS outbox_new ON outbox (id) WHERE state = 'new';",
    )?;
    Ok(database)
}

/// Inserts likes of fifty notes, each like with its event in one transaction.
fn demo(file: &str, likes: &str) -> Result<(), BoxError> {
    let mut database = open(file)?;
    let first: i64 = database.query_row("SELECT count(*) FROM likes", [], |row| row.get(0))?;
    for user in first..first + likes.parse::<i64>()? {
        let note = user % 50;
        let payload =
            json!({ "metric": "like", "delta": 1, "uid": user.to_string(), "author": "7" });
        let step = database.transaction()?;
        step.execute("INSERT INTO likes VALUES (?1, ?2)", params![note, user])?;
        step.execute(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload) \
             VALUES (?1, 'NoteLiked', 'note', ?2, ?3)",
            params![format!("like-{note}-{user}"), note, payload.to_string()],
        )?;
        step.commit()?;
    }
    println!("{likes} likes");
    Ok(())
}

/// Sends new events, oldest first: forever, or until the outbox is empty.
fn relay(file: &str, url: &str, until_empty: bool) -> Result<(), BoxError> {
    let mut database = open(file)?;
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build();
    let agent = ureq::Agent::from(config);
    let mut sent = 0;
    loop {
        let page = page(&database)?;
        if page.is_empty() {
            if until_empty {
                println!("{sent} events sent");
                return Ok(());
            }
            sleep(PAUSE);
            continue;
        }
        match send(&agent, url, &page) {
            Ok(SendResult::Accepted) => {
                mark_sent(&mut database, &page)?;
                sent += page.len();
            }
            Ok(SendResult::Refused(items)) => mark_refused(&mut database, &page, &items)?,
            Ok(SendResult::Later(pause)) => sleep(pause),
            Err(error) => {
                eprintln!("outbox_relay: {error}; will retry");
                sleep(PAUSE);
            }
        }
    }
}

/// A row of the outbox and its envelope.
struct Row {
    id: i64,
    envelope: Value,
}

fn page(database: &Connection) -> Result<Vec<Row>, BoxError> {
    let mut rows = database.prepare(
        "SELECT id, event_id, event_type, aggregate_type, aggregate_id, payload \
         FROM outbox WHERE state = 'new' ORDER BY id LIMIT ?1",
    )?;
    let rows = rows.query_map([BATCH], |row| {
        let text = |column: usize| row.get::<_, String>(column);
        let envelope = json!({
            "event_id": text(1)?, "event_type": text(2)?, "aggregate_type": text(3)?, "aggregate_id": text(4)?,
            "payload": text(5)?,
        });
        Ok(Row { id: row.get(0)?, envelope })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The result of a request.
enum SendResult {
    /// All events are in the log.
    Accepted,
    /// No event is in the log, because of these items: index and reason.
    Refused(Vec<(usize, String)>),
    /// countd is unavailable; retry after this delay.
    Later(Duration),
}

fn send(agent: &ureq::Agent, url: &str, page: &[Row]) -> Result<SendResult, BoxError> {
    let lines: Vec<String> = page.iter().map(|row| row.envelope.to_string()).collect();
    let mut request = agent
        .post(format!("{url}/events"))
        .header("content-type", "application/x-ndjson");
    if let Ok(token) = std::env::var("COUNTD_TOKEN") {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut response = request.send(lines.join("\n"))?;
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    match status {
        200 => Ok(SendResult::Accepted),
        400 | 422 => {
            let failure: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
            let items = failure["errors"].as_array();
            let refused = items.into_iter().flatten().filter_map(|item| {
                let at = usize::try_from(item["item"].as_u64()?).ok()?;
                Some((at, item["detail"].as_str()?.to_owned()))
            });
            let refused: Vec<_> = refused.collect();
            if refused.is_empty() {
                return Err(format!("countd refuses: {failure}").into());
            }
            Ok(SendResult::Refused(refused))
        }
        429 | 503 => Ok(SendResult::Later(
            retry_after.map_or(PAUSE, Duration::from_secs),
        )),
        status => Err(format!("countd replies {status}").into()),
    }
}

fn mark_sent(database: &mut Connection, page: &[Row]) -> Result<(), BoxError> {
    let step = database.transaction()?;
    for row in page {
        step.execute("UPDATE outbox SET state = 'sent' WHERE id = ?1", [row.id])?;
    }
    Ok(step.commit()?)
}

/// Marks events that cannot be counted as refused, for inspection, so that they do not block the others.
fn mark_refused(
    database: &mut Connection,
    page: &[Row],
    items: &[(usize, String)],
) -> Result<(), BoxError> {
    let step = database.transaction()?;
    for (at, reason) in items {
        let row = page
            .get(*at)
            .ok_or("countd refuses an item that was not sent")?;
        eprintln!("outbox_relay: {}: {reason}", row.envelope["event_id"]);
        step.execute(
            "UPDATE outbox SET state = 'refused', reason = ?2 WHERE id = ?1",
            params![row.id, reason],
        )?;
    }
    Ok(step.commit()?)
}
