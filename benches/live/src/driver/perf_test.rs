//! Kafka's performance tests, `kafka-producer-perf-test` and `kafka-consumer-perf-test`: their arguments, and what they print.

use crate::driver::kafka::Kafka;
use crate::error::Result;

/// What the test of producers has measured.
#[derive(Debug, PartialEq)]
pub struct Produced {
    /// Records per second.
    pub per_second: f64,
    /// The median of the latency in seconds, in whole milliseconds.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// CPU seconds of the program, from its start on.
    pub cpu_seconds: f64,
}

/// What the test of consumers has measured.
#[derive(Debug, PartialEq)]
pub struct Consumed {
    /// Records per second while it fetched, without the time for joining a group.
    pub per_second: f64,
    /// Bytes of a record, key and value.
    pub record_bytes: f64,
    /// CPU seconds of the program, from its start on.
    pub cpu_seconds: f64,
}

/// Produces records as safely as countd does: idempotent, confirmed by all in-sync replicas, and with its `linger.ms`. `per_second` limits
/// the rate.
pub fn produce(
    kafka: &Kafka,
    topic: &str,
    (records, bytes): (u64, u64),
    per_second: Option<f64>,
) -> Result<Produced> {
    let throughput = per_second.map_or("-1".to_owned(), |rate| format!("{rate:.0}"));
    let brokers = format!("bootstrap.servers={}", kafka.address());
    let ended = kafka.perf_test(
        "org.apache.kafka.tools.ProducerPerformance",
        &[
            "--topic",
            topic,
            "--num-records",
            &records.to_string(),
            "--record-size",
            &bytes.to_string(),
            "--throughput",
            &throughput,
            "--producer-props",
            &brokers,
            "acks=all",
            "enable.idempotence=true",
            "linger.ms=1",
        ],
    )?;
    let produced = parse_produced(&ended.output, records);
    let (per_second, p50, p99) =
        produced.ok_or_else(|| unexpected("kafka-producer-perf-test", &ended.output))?;
    Ok(Produced {
        per_second,
        p50,
        p99,
        cpu_seconds: ended.cpu_seconds,
    })
}

/// Consumes the first records of a topic.
pub fn consume(kafka: &Kafka, topic: &str, records: u64) -> Result<Consumed> {
    let ended = kafka.perf_test(
        "org.apache.kafka.tools.ConsumerPerformance",
        &[
            "--bootstrap-server",
            &kafka.address(),
            "--topic",
            topic,
            "--messages",
            &records.to_string(),
            "--timeout",
            "60000",
            "--hide-header",
        ],
    )?;
    let consumed = parse_consumed(&ended.output, records);
    let (per_second, record_bytes) =
        consumed.ok_or_else(|| unexpected("kafka-consumer-perf-test", &ended.output))?;
    Ok(Consumed {
        per_second,
        record_bytes,
        cpu_seconds: ended.cpu_seconds,
    })
}

fn unexpected(program: &str, output: &str) -> String {
    format!("unexpected output of {program}:\n{output}")
}

/// Records per second, and the median and the 99th percentile of the latency in seconds, from the last line: `1000000 records sent, 250000.0
/// records/sec (45.30 MB/sec), 12.30 ms avg latency, 300.00 ms max latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.`
fn parse_produced(output: &str, records: u64) -> Option<(f64, f64, f64)> {
    let line = output.lines().rev().find(|line| line.contains(" 99th"))?;
    let number = |part: &str| part.split_whitespace().next()?.parse::<f64>().ok();
    let part = |suffix: &str| line.split(", ").find(|part| part.ends_with(suffix));
    let sent = number(part(" records sent")?)?;
    let rate = number(line.split(", ").find(|part| part.contains("records/sec"))?)?;
    let [p50, p99] = [part(" 50th"), part(" 99th")];
    (sent == records as f64).then_some((rate, number(p50?)? / 1e3, number(p99?)? / 1e3))
}

/// Records per second and bytes of a record, from the last line: `2026-11-26 10:00:00:000, 2026-11-26 10:00:04:000, 181.2, 45.3, 1000000,
/// 250000.0, 3100, 900, 201.3, 1111111.1`. The columns are start, end, MB, MB/s, records, records/s, time for joining a group, time for
/// fetching, and MB/s and records/s of that time.
fn parse_consumed(output: &str, records: u64) -> Option<(f64, f64)> {
    /// The unit of the columns.
    const MB: f64 = 1024.0 * 1024.0;
    let lines = output.lines().rev();
    let mut rows = lines.map(|line| line.split(", ").collect::<Vec<_>>());
    let row = rows.find(|row| row.len() == 10)?;
    let number = |column: usize| row[column].trim().parse::<f64>().ok();
    let (megabytes, found, rate) = (number(2)?, number(4)?, number(9)?);
    (found >= records as f64).then_some((rate, megabytes * MB / found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_producer_is_the_result() {
        let output = "400 records sent, 79.9 records/sec (0.01 MB/sec), 2.5 ms avg latency, 90.0 ms max latency.\n\
            1000 records sent, 250000.5 records/sec (45.30 MB/sec), 12.30 ms avg latency, 300.00 ms max latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.\n";
        let found = parse_produced(output, 1_000);
        assert_eq!(found, Some((250_000.5, 0.001, 0.003)));
        assert_eq!(parse_produced(output, 2_000), None, "records are missing");
        assert_eq!(parse_produced("an exception", 1), None);
    }

    #[test]
    fn the_time_for_joining_a_group_is_left_out() {
        let line = "2026-11-26 10:00:00:000, 2026-11-26 10:00:04:000, 190.7349, 47.6837, 1000000, 250000.0, 3000, 1000, 190.7349, 1000000.0\n";
        let (rate, bytes) = parse_consumed(line, 1_000_000).unwrap();
        assert_eq!(rate, 1_000_000.0);
        assert!((199.9..200.1).contains(&bytes), "{bytes}");
        assert_eq!(parse_consumed(line, 1_000_001), None, "records are missing");
        assert_eq!(parse_consumed("", 1), None);
    }
}
