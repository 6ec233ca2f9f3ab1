//! The memory of users' facts.

use crate::support::workload::Random;
use crate::support::{Countd, on_note, wait_until_drained};
use countint_tests::{Client, Server, Value, reply};

const PARTITIONS: u16 = 1024;
/// The facts that are measured for each number of facts a user.
const FACTS: u64 = 200_000;
/// The number of newest facts whose times are kept.
const LATEST: usize = 1_000;

/// For a number of facts a user, the maximum number of bytes a fact.
const BARS: [(usize, u64); 4] = [(10, 45), (100, 20), (1_000, 16), (10_000, 10)];

/// Writes facts as lua/timelines.lua does: the newest ones with their times, the others without.
const WRITE: &str = "
local latest = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  if i <= 2 * latest then
    redis.call('CTAB.SET', KEYS[1], ARGV[i], 'LEN', 1, 0, ARGV[i + 1])
  else
    redis.call('RBM.ADD', KEYS[2], ARGV[i])
  end
end";
const WRITE_SETS: &str = "
local latest = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  if i <= 2 * latest then
    redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  else
    redis.call('SADD', KEYS[2], ARGV[i])
  end
end";

/// The bytes of a fact of users with this many facts. Their ids are snowflakes of three years.
fn bytes_per_fact(client: &mut Client, random: &mut Random, facts: usize, is_table: bool) -> u64 {
    const THREE_YEARS: u64 = 3 * 365 * 24 * 3_600_000;
    let (script, form) = match is_table {
        true => (WRITE, ""),
        false => (WRITE_SETS, ":s"),
    };
    let users = FACTS / facts as u64;
    let before = client.used_memory_when_idle();
    for _ in 0..users {
        let uid = random.below(THREE_YEARS) << 22 | random.below(1 << 22);
        let keys = ["rtl", "rev"].map(|prefix| format!("{prefix}:like:note:{uid}{form}"));
        let mut times: Vec<u64> = (0..facts).map(|_| random.below(THREE_YEARS)).collect();
        times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
        let mut call: Vec<String> = ["EVAL", script, "2"].map(str::to_owned).to_vec();
        call.extend(keys);
        call.push(LATEST.to_string());
        for time in times {
            let eid = time << 22 | random.below(1 << 22);
            // The user likes a note up to a day after it was written.
            let liked = 5 * THREE_YEARS / 3 + time + random.below(24 * 3_600_000);
            call.extend([eid.to_string(), liked.to_string()]);
        }
        let call: Vec<&str> = call.iter().map(String::as_str).collect();
        assert!(!matches!(client.call(&call), Value::ServerError(_)));
    }
    (client.used_memory_when_idle() - before) / FACTS
}

#[test]
fn a_fact_of_a_user_takes_a_few_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let countd = Countd::start(&server, "");
    countd.api().act("like", on_note(7, 42));
    wait_until_drained(&server, PARTITIONS);
    let rows = reply::array(client.ok("CTAB.MGET rtl:like:note:42 7"));
    assert!(matches!(rows[..], [Value::Array(_)]), "{rows:?}");
    drop(countd);
    let mut random = Random(1);
    let measured = BARS.map(|(facts, max)| {
        let bytes = bytes_per_fact(&mut client, &mut random, facts, true);
        let in_sets = bytes_per_fact(&mut client, &mut random, facts, false);
        eprintln!("{facts} facts a user: {bytes} bytes a fact, {in_sets} in sets");
        (facts, bytes, max)
    });
    for (facts, bytes, max) in measured {
        assert!(bytes <= max, "{bytes} bytes with {facts} facts a user");
    }
}
