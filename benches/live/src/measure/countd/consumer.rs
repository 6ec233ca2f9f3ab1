//! Throughput of the event log and its consumer: appends events, then times `countd consume`.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::connection::Connection;
use crate::driver::control::Control;
use crate::driver::countd::{Countd, Target};
use crate::driver::server::Server;
use crate::error::Result;
use crate::measure::countd::results::ConsumerRates;
use crate::workload::counts::SplitMix;
use crate::workload::events::{EntityPool, PARTITIONS, event, push_append};
use crate::workload::scale::CountdScale;

/// The pipeline depth, also of `redis-benchmark`.
const DEPTH: u64 = 64;
/// The number of commands of `redis-benchmark`.
const BENCHMARK_COMMANDS: u64 = 300_000;
/// The timeout for consuming the log.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The write commands that countd uses.
const WRITES: [&str; 15] = [
    "hincrby",
    "cint.incrby",
    "cint.batchincr",
    "ctab.batchincr",
    "ctab.mincrby",
    "hset",
    "hsetnx",
    "xadd",
    "xtrim",
    "xdel",
    "set",
    "del",
    "zadd",
    "zremrangebyscore",
    "zrem",
];

/// Appends events to the log and times the consumer until it has processed all of them.
pub fn measure(target: &Target, scale: &CountdScale, pool: EntityPool) -> Result<ConsumerRates> {
    let (server, events) = (target.server, scale.events);
    let xadd = redis_benchmark(server)?;
    let append = fill(server, pool, events)?;
    let mut control = server.control()?;
    control.call("CONFIG RESETSTAT")?;
    let server_before = server.cpu_ns()?;
    let started = Instant::now();
    let countd = Countd::start(target, "consume")?;
    wait_until_counted(server, events)?;
    let seconds = started.elapsed().as_secs_f64();
    let rates = ConsumerRates {
        xadd,
        append,
        consume: events as f64 / seconds,
        writes: writes(&mut control)? as f64 / events as f64 * 100.0,
        countd_cpu: countd.cpu_seconds()? / events as f64,
        server_cpu: (server.cpu_ns()? - server_before) as f64 / 1e9 / events as f64,
    };
    drop(countd);
    check(&mut control, events)?;
    Ok(rates)
}

/// The XADD throughput that `redis-benchmark` reports for one stream and the same entry.
fn redis_benchmark(server: &Server) -> Result<f64> {
    let event = event(1, &mut SplitMix(1));
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-c", "4", "--csv"])
        .args(["-P", &DEPTH.to_string()])
        .args(["-n", &BENCHMARK_COMMANDS.to_string()])
        .args(["XADD", "bench:xadd", "*", "e", &event])
        .output()
        .map_err(|e| format!("cannot start redis-benchmark: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    server.control()?.call("DEL bench:xadd")?;
    // The first CSV column contains the event with its quotes and commas, so columns are counted from the end.
    let line = text.lines().last().unwrap_or_default();
    let columns: Vec<&str> = line.rsplit(',').collect();
    let rate = columns.get(6).map(|rate| rate.trim_matches('"'));
    let rate = rate.and_then(|rate| rate.parse().ok());
    rate.ok_or_else(|| format!("cannot parse the output of redis-benchmark:\n{text}").into())
}

/// Appends events and returns their number per second.
pub fn fill(server: &Server, pool: EntityPool, events: u64) -> Result<f64> {
    let mut random = SplitMix(1);
    let mut connection = Connection::open(server.port())?;
    let mut busy = Duration::ZERO;
    let mut left = events;
    while left > 0 {
        // Encoded outside the measured time.
        let chunk = left.min(DEPTH * 256);
        let mut batches = Vec::new();
        for _ in 0..chunk.div_ceil(DEPTH) {
            let mut batch = Vec::new();
            for _ in 0..DEPTH.min(left) {
                push_append(&mut batch, pool, &mut random);
            }
            let count = DEPTH.min(left);
            left -= count;
            batches.push((batch, count));
        }
        let started = Instant::now();
        for (batch, count) in batches {
            connection.send(&batch, count)?;
        }
        connection.wait()?;
        busy += started.elapsed();
    }
    Ok(events as f64 / busy.as_secs_f64())
}

/// Waits until the consumer has processed this many log entries.
pub fn wait_until_counted(server: &Server, events: u64) -> Result<()> {
    wait_until_reached(server, "x:cnt-update:pos", events)
}

/// Waits until the consumer has archived this many log entries.
pub fn wait_until_archived(server: &Server, events: u64) -> Result<()> {
    wait_until_reached(server, "x:cnt-update:archive", events)
}

/// Waits until all partitions have an archived offset.
pub fn wait_until_archive_begins(server: &Server) -> Result<()> {
    let (mut control, started) = (server.control()?, Instant::now());
    // Beside the partitions, the Hash has a time.
    let script = "local n=0 for _,k in ipairs(redis.call('HKEYS',KEYS[1])) do if tonumber(k) then n=n+1 end end return n";
    let begun = ["EVAL", script, "1", "x:cnt-update:archive"];
    while control.call_words(&begun)? != PARTITIONS.to_string() {
        if started.elapsed() > TIMEOUT {
            return Err("countd does not begin an archive".into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits until the offsets of all partitions in the hash `key` are behind this many log entries.
fn wait_until_reached(server: &Server, key: &str, events: u64) -> Result<()> {
    let (mut control, started) = (server.control()?, Instant::now());
    let script = "local s,of=0,redis.call('HGETALL',KEYS[1]) for i=1,#of,2 do if tonumber(of[i]) then s=s+of[i+1]-1 end end return s";
    while control
        .call_words(&["EVAL", script, "1", key])?
        .parse::<u64>()?
        < events
    {
        if started.elapsed() > TIMEOUT {
            return Err("the consumer does not reach the end of the log".into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The number of write commands since the statistics were reset.
fn writes(control: &mut Control) -> Result<u64> {
    let text = control.call("INFO commandstats")?;
    let mut sum = 0;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(":calls=") else {
            continue;
        };
        if WRITES.contains(&name.trim_start_matches("cmdstat_")) {
            sum += rest.split(',').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Sums the reads of all notes: of objects, and of rows of tables. A packed counter has five bytes.
const SUM: &str = "
local sum, cursor = 0, '0'
local function each(pattern, add)
  repeat
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do add(key) end
  until cursor == '0'
end
each('cnt:v1:note:*', function(key) sum = sum + redis.call('CINT.GET', key, 0) end)
each('tab:v1:note:*', function(key)
  local from = '0'
  repeat
    local page = redis.call('CTAB.SCAN', key, from, 'COUNT', 1000)
    from = page[1]
    local packed = redis.call('CTAB.MREAD', 1, key, unpack(page[2]))
    for at = 1, #packed, 5 do
      sum = sum + packed:byte(at) * 2 ^ 32 + struct.unpack('>I4', packed, at + 1)
    end
  until from == '0'
end)
return string.format('%d', sum)";

/// The sum of the reads of all notes.
pub fn sum(control: &mut Control) -> Result<u64> {
    Ok(control.call_words(&["EVAL", SUM, "0"])?.parse()?)
}

/// Fails unless the sum of all counters is the number of events.
pub fn check(control: &mut Control, events: u64) -> Result<()> {
    match sum(control)? {
        sum if sum == events => Ok(()),
        sum => Err(format!("the counters of {events} events add up to {sum}").into()),
    }
}
