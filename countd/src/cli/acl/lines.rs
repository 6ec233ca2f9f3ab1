//! The commands, in words. Those in braces stand for keys.

use countd::redis::script::CounterBackend;

/// Words in braces stand for keys.
pub(super) type Lines = &'static [&'static str];

pub(super) const EVERYBODY: Lines = &[
    "PING",
    "TIME",
    "INFO everything",
    "SCRIPT LOAD x",
    "HGET {layout} f",
    "HSETNX {layout} f v",
    "HSET {layout} f v",
];
pub(super) const ON_A_CLUSTER: Lines = &["CLUSTER SLOTS", "ASKING"];
pub(super) const ON_SCHEMAS: Lines = &["HGETALL {schema}"];
pub(super) const ON_LOGS: Lines = &[
    "EVALSHA x 1 {log}",
    "EVALSHA x 1 {new}",
    "EVALSHA x 1 {pos}",
    "XADD {log} 0-* f v",
    "XDEL {log} 0-1",
    "XRANGE {log} - +",
    "XREVRANGE {log} + - COUNT 1",
    "XINFO STREAM {log}",
    "EXISTS {log}",
    "DEL {log}",
    "XADD {new} 0-* f v",
    "XINFO STREAM {new}",
    "EXISTS {new}",
    "RENAME {new} {log}",
    "HGET {pos} 0",
];

pub(super) const TO_SERVE: Lines = &[
    "EVALSHA x 1 {dedup}",
    "EXISTS {dedup}",
    "SET {dedup} 1 EX 1",
];
pub(super) const TO_LIMIT: Lines = &["EVALSHA x 1 {limit}", "GET {limit}", "SET {limit} 1 PX 1"];
pub(super) const TO_CONSUME: Lines = &[
    "XREAD COUNT 1 STREAMS {log} 0-0",
    "XTRIM {log} MINID 0-1",
    "MEMORY USAGE {log} SAMPLES 0",
    "HMGET {pos} 0",
    "HGETALL {pos}",
    "EVALSHA x 1 {dead}",
    "XINFO STREAM {dead}",
    "HSET {pos} 0 1",
    "XADD {dead} * f v",
    "XDEL {dead} 0-1",
    "XLEN {dead}",
    "XTRIM {dead} MAXLEN 1",
    "MEMORY USAGE {dead} SAMPLES 0",
    "EVALSHA x 1 {out}",
    "XADD {out} 0-* f v",
    "XDEL {out} 0-1",
    "EVALSHA x 1 {counted}",
    "EXISTS {counted}",
    "SET {counted} 1 EX 1",
    "EVALSHA x 1 {consumers}",
    "ZREMRANGEBYSCORE {consumers} -inf 0",
    "ZADD {consumers} 0 m",
    "ZRANGE {consumers} 0 -1",
    "ZREM {consumers} m",
];
pub(super) const TO_HAND_OVER: Lines = &[
    "XINFO STREAM {out}",
    "XRANGE {out} - +",
    "XTRIM {out} MINID 0-1",
];

pub(super) fn to_count(backend: CounterBackend) -> Lines {
    match backend {
        CounterBackend::Module => &[
            "EVALSHA x 1 {counters}",
            "CINT.LEN {counters}",
            "CINT.BATCHINCR {counters} LEN 1 0 1",
        ],
        CounterBackend::Strings => &[
            "EVALSHA x 1 {counters}",
            "STRLEN {counters}",
            "BITFIELD {counters} INCRBY u40 #0 1",
        ],
    }
}

pub(super) fn to_read(backend: CounterBackend) -> Lines {
    match backend {
        CounterBackend::Module => &["CINT.MREAD 1 {counters}"],
        CounterBackend::Strings => &["GETRANGE {counters} 0 4"],
    }
}

/// Beside counting, what actions do with counters at once.
pub(super) fn to_act(backend: CounterBackend) -> Lines {
    match backend {
        CounterBackend::Module => &["CINT.GET {counters} 0", "CINT.GETSET {counters} 0 0"],
        CounterBackend::Strings => &["EXISTS {counters}", "BITFIELD_RO {counters} GET u40 #0"],
    }
}

pub(super) const IN_A_SET: Lines = &[
    "EVALSHA x 1 {set}",
    "SISMEMBER {set} m",
    "SADD {set} m",
    "SREM {set} m",
    "SCARD {set}",
    "SMEMBERS {set}",
    "SSCAN {set} 0",
    "EXISTS {set}",
];
pub(super) const IN_RBM: Lines = &[
    "EVALSHA x 1 {ids}",
    "RBM.MARK {ids} 0 EVENT {log} SEQ e x",
    "RBM.UNMARK {ids} 0 EVENT {log} SEQ e x",
    "RBM.CONTAINS {ids} 0",
    "RBM.SCAN {ids} 0 COUNT 1 REV",
];
pub(super) const IN_RBM_AND_COUNTED: Lines = &[
    "RBM.MARK {ids} 0 COUNT {counters} 0 LEN 1",
    "RBM.UNMARK {ids} 0 COUNT {counters} 0 LEN 1",
];
pub(super) const IN_BITS: Lines = &[
    "EVALSHA x 1 {bits}",
    "GETBIT {bits} 0",
    "SETBIT {bits} 0 1",
    "BITPOS {bits} 1",
    "BITCOUNT {bits}",
    "GET {bits}",
    "DEL {bits}",
    "EXISTS {bits}",
    "EVALSHA x 1 {chunks}",
    "ZCARD {chunks}",
    "ZADD {chunks} 0 0",
    "ZREM {chunks} 0",
    "ZREVRANGEBYSCORE {chunks} 0 0",
];
pub(super) const IN_DAYS: Lines = &[
    "EVALSHA x 1 {set_days}",
    "ZADD {set_days} 0 0",
    "ZREM {set_days} 0",
    "ZREVRANGE {set_days} 0 -1",
    "ZREVRANGEBYSCORE {set_days} 0 0",
    "EVALSHA x 1 {days}",
    "ZCARD {days}",
    "ZADD {days} 0 0",
    "ZREM {days} 0",
    "EVALSHA x 1 {old}",
    "SISMEMBER {old} m",
    "SREM {old} m",
    "SCARD {old}",
    "SMEMBERS {old}",
    "SSCAN {old} 0",
    "EVALSHA x 1 {ids}",
];
pub(super) const TO_FOLD: Lines = &[
    "EVALSHA x 1 {days}",
    "ZRANGEBYSCORE {days} 0 0",
    "ZCARD {days}",
    "ZREM {days} 0",
    "EVALSHA x 1 {set_days}",
    "ZCARD {set_days}",
    "ZREM {set_days} 0",
    "EVALSHA x 1 {set}",
    "SPOP {set} 1",
    "EXISTS {set}",
    "EVALSHA x 1 {old}",
    "SADD {old} m",
    "SCARD {old}",
    "EVALSHA x 1 {ids}",
];

/// What is folded is in a set of ids: those who ask, and those who fold.
pub(super) fn of_folded(backend: CounterBackend) -> (Lines, Lines) {
    match backend {
        CounterBackend::Module => (
            &[
                "RBM.CONTAINS {ids} 0",
                "RBM.REM {ids} 0",
                "RBM.SCAN {ids} 0 COUNT 1 REV",
                "EXISTS {ids}",
            ],
            &["RBM.CONTAINS {ids} 0", "RBM.ADD {ids} 0"],
        ),
        CounterBackend::Strings => (
            &[
                "SISMEMBER {ids} 0",
                "SREM {ids} 0",
                "SCARD {ids}",
                "SMEMBERS {ids}",
                "SSCAN {ids} 0",
                "EXISTS {ids}",
            ],
            &["SISMEMBER {ids} 0", "SADD {ids} 0"],
        ),
    }
}
