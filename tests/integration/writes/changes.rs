//! Calls that change something.

use super::call::Change;

/// A call that is replicated verbatim.
const fn verbatim(
    setup: &'static [&'static str],
    line: &'static str,
    events: &'static [&'static str],
) -> Change {
    rewritten(setup, line, "", events)
}

/// A call that is replicated in another form.
const fn rewritten(
    setup: &'static [&'static str],
    line: &'static str,
    sent: &'static str,
    events: &'static [&'static str],
) -> Change {
    Change {
        setup,
        line,
        sent,
        events,
    }
}

/// Rows 7 and 8 of three counters; the fence of source 3 is 10.
const TABLE: &[&str] = &["CTAB.MAPPLY k 3 0 9 LEN 3 7 0 0 8 0 3", "CTAB.SET k 7 1 7"];

/// Calls that change `k` once.
pub const CHANGES: &[Change] = &[
    verbatim(&[], "CINT.INIT k 3", &["cint.init"]),
    // Creation is replicated with its length, and is a change even if all fields are 0.
    rewritten(
        &[],
        "CINT.INCRBY k 0 5",
        "CINT.INCRBY k 0 5 LEN 5",
        &["cint.incrby"],
    ),
    rewritten(
        &[],
        "CINT.INCRBY k 0 0",
        "CINT.INCRBY k 0 0 LEN 5",
        &["cint.incrby"],
    ),
    rewritten(
        &[],
        "CINT.INCRBY k 4 -1",
        "CINT.INCRBY k 4 -1 LEN 5",
        &["cint.incrby"],
    ),
    rewritten(
        &[],
        "cint.IncrBy k 4 7 overflow fail",
        "cint.IncrBy k 4 7 overflow fail LEN 5",
        &["cint.incrby"],
    ),
    verbatim(&[], "CINT.INCRBY k 0 5 LEN 2", &["cint.incrby"]),
    verbatim(
        &[],
        "CINT.INCRBY k 65534 5 OVERFLOW SAT len 65535",
        &["cint.incrby"],
    ),
    verbatim(&["CINT.INIT k 3"], "CINT.INCRBY k 0 5", &["cint.incrby"]),
    verbatim(
        &["CINT.INIT k 3"],
        "CINT.INCRBY k 0 0 LEN 4",
        &["cint.incrby"],
    ),
    verbatim(
        &["CINT.SET k 0 1099511627774"],
        "CINT.INCRBY k 0 9223372036854775807",
        &["cint.incrby"],
    ),
    verbatim(
        &["CINT.SET k 0 1"],
        "CINT.INCRBY k 0 -9223372036854775808",
        &["cint.incrby"],
    ),
    rewritten(
        &[],
        "CINT.BATCHINCR k 0 1 1 2",
        "CINT.BATCHINCR k LEN 5 0 1 1 2",
        &["cint.batchincr"],
    ),
    rewritten(
        &[],
        "CINT.BATCHINCR k OVERFLOW FAIL 0 1 0 -1",
        "CINT.BATCHINCR k LEN 5 OVERFLOW FAIL 0 1 0 -1",
        &["cint.batchincr"],
    ),
    verbatim(
        &[],
        "CINT.BATCHINCR k OVERFLOW SAT LEN 9 8 1",
        &["cint.batchincr"],
    ),
    verbatim(
        &["CINT.INIT k 3"],
        "CINT.BATCHINCR k 0 1 2 1 0 1",
        &["cint.batchincr"],
    ),
    verbatim(
        &["CINT.INIT k 3"],
        "CINT.BATCHINCR k LEN 4 0 1 0 -1",
        &["cint.batchincr"],
    ),
    // -1 saturates at 0, so the order matters.
    verbatim(
        &["CINT.INIT k 3"],
        "CINT.BATCHINCR k 0 -1 0 1",
        &["cint.batchincr"],
    ),
    rewritten(&[], "CINT.SET k 0 5", "CINT.SET k LEN 5 0 5", &["cint.set"]),
    rewritten(
        &[],
        "CINT.SET k 4 0 0 0",
        "CINT.SET k LEN 5 4 0 0 0",
        &["cint.set"],
    ),
    verbatim(&[], "CINT.SET k LEN 1 0 5", &["cint.set"]),
    verbatim(&["CINT.INIT k 3"], "CINT.SET k 0 5 1 6", &["cint.set"]),
    verbatim(&["CINT.INIT k 3"], "CINT.SET k LEN 4 0 0", &["cint.set"]),
    rewritten(
        &[],
        "CINT.GETSET k 1 7",
        "CINT.SET k LEN 5 1 7",
        &["cint.getset"],
    ),
    rewritten(
        &[],
        "CINT.GETSET k 4 0",
        "CINT.SET k LEN 5 4 0",
        &["cint.getset"],
    ),
    rewritten(
        &[],
        "CINT.GETSET k 0 1099511627775",
        "CINT.SET k LEN 5 0 1099511627775",
        &["cint.getset"],
    ),
    verbatim(&["CINT.SET k 1 7"], "CINT.GETSET k 1 0", &["cint.getset"]),
    verbatim(&["CINT.INIT k 3"], "CINT.RESIZE k 4", &["cint.resize"]),
    verbatim(&["CINT.INIT k 3"], "CINT.RESIZE k 1", &["cint.resize"]),
    verbatim(
        &[],
        r#"CINT.IMPORT k "\x00\x00\x00\x00\x07""#,
        &["cint.import"],
    ),
    verbatim(&["SETRANGE k 14 x"], "CINT.ADOPT k LEN 3", &["cint.adopt"]),
    verbatim(
        &["SET k abcdefgh EX 9000"],
        "CINT.ADOPT k len 4 width 4",
        &["cint.adopt"],
    ),
    verbatim(
        &["SET k 12345"],
        "CINT.ADOPT k LEN 1 FORCE",
        &["cint.adopt"],
    ),
    verbatim(
        &["HSET k a 1 b 2"],
        "CINT.ADOPT k FIELDS b c a",
        &["cint.adopt"],
    ),
    rewritten(
        &[],
        "CINT.APPLY k 4 0 9 0 5",
        "CINT.APPLY k 4 0 9 LEN 5 0 5",
        &["cint.apply"],
    ),
    verbatim(&[], "CINT.APPLY k 2 0 9 LEN 3 0 5 1 -1", &["cint.apply"]),
    // Only the fence moves.
    verbatim(
        &["CINT.INIT k 3"],
        "CINT.APPLY k 2 7 7 0 0",
        &["cint.apply"],
    ),
    verbatim(
        &["CINT.SET k LEN 3 2 10"],
        "CINT.APPLY k 2 10 19 LEN 4 3 1",
        &["cint.apply"],
    ),
    verbatim(&[], "CTAB.INIT k 3", &["ctab.init"]),
    rewritten(
        &[],
        "CTAB.INCRBY k 7 0 5",
        "CTAB.INCRBY k 7 0 5 LEN 5",
        &["ctab.incrby"],
    ),
    rewritten(
        &[],
        "ctab.IncrBy k 7 4 0 overflow fail",
        "ctab.IncrBy k 7 4 0 overflow fail LEN 5",
        &["ctab.incrby"],
    ),
    verbatim(&[], "CTAB.INCRBY k 7 0 5 LEN 2", &["ctab.incrby"]),
    // A new row is a change, even if all counters are 0.
    verbatim(
        &["CTAB.INIT k 3"],
        "CTAB.INCRBY k 18446744073709551615 0 0",
        &["ctab.incrby"],
    ),
    verbatim(TABLE, "CTAB.INCRBY k 7 0 5", &["ctab.incrby"]),
    verbatim(TABLE, "CTAB.INCRBY k 7 0 0 LEN 4", &["ctab.incrby"]),
    verbatim(
        TABLE,
        "CTAB.INCRBY k 7 1 -9223372036854775808",
        &["ctab.incrby"],
    ),
    rewritten(
        &[],
        "CTAB.BATCHINCR k 7 0 1 1 2",
        "CTAB.BATCHINCR k 7 LEN 5 0 1 1 2",
        &["ctab.batchincr"],
    ),
    verbatim(
        TABLE,
        "CTAB.BATCHINCR k 9 OVERFLOW FAIL 0 1 0 -1",
        &["ctab.batchincr"],
    ),
    verbatim(TABLE, "CTAB.BATCHINCR k 7 0 -1 0 1", &["ctab.batchincr"]),
    rewritten(
        &[],
        "CTAB.MINCRBY k OVERFLOW SAT 7 0 1 8 1 2",
        "CTAB.MINCRBY k LEN 5 OVERFLOW SAT 7 0 1 8 1 2",
        &["ctab.mincrby"],
    ),
    verbatim(
        TABLE,
        "CTAB.MINCRBY k 7 0 1 7 0 -1 9 0 0",
        &["ctab.mincrby"],
    ),
    verbatim(
        TABLE,
        "CTAB.MINCRBY k LEN 9 7 0 1 7 0 -1",
        &["ctab.mincrby"],
    ),
    rewritten(
        &[],
        "CTAB.SET k 7 0 5",
        "CTAB.SET k 7 LEN 5 0 5",
        &["ctab.set"],
    ),
    verbatim(TABLE, "CTAB.SET k 7 0 1 1 6", &["ctab.set"]),
    verbatim(TABLE, "CTAB.SET k 9 0 0", &["ctab.set"]),
    verbatim(TABLE, "CTAB.SET k 7 LEN 9 1 7", &["ctab.set"]),
    rewritten(
        &[],
        "CTAB.GETSET k 7 0 5",
        "CTAB.SET k 7 LEN 5 0 5",
        &["ctab.getset"],
    ),
    verbatim(TABLE, "CTAB.GETSET k 7 1 0", &["ctab.getset"]),
    verbatim(TABLE, "CTAB.GETSET k 9 1 0", &["ctab.getset"]),
    rewritten(
        &[],
        "CTAB.MAPPLY k 4 0 9 7 0 5",
        "CTAB.MAPPLY k 4 0 9 LEN 5 7 0 5",
        &["ctab.mapply"],
    ),
    // Only the fence moves.
    verbatim(TABLE, "CTAB.MAPPLY k 3 20 20 7 0 0", &["ctab.mapply"]),
    verbatim(
        TABLE,
        "CTAB.MAPPLY k 65534 20 20 LEN 9 8 8 1",
        &["ctab.mapply"],
    ),
    verbatim(TABLE, "CTAB.DEL k 7 9 7", &["ctab.del"]),
    // An empty table is kept.
    verbatim(TABLE, "CTAB.DEL k 7 8", &["ctab.del"]),
    verbatim(TABLE, "CTAB.RESIZE k 4", &["ctab.resize"]),
    verbatim(TABLE, "CTAB.RESIZE k 2", &["ctab.resize"]),
    verbatim(&[], IMPORT_ROWS, &["ctab.import"]),
    verbatim(&[], IMPORT_NO_ROWS, &["ctab.import"]),
    verbatim(&["CTAB.SET k 6 LEN 2 0 1"], IMPORT_ROWS, &["ctab.import"]),
    // Fences without rows.
    verbatim(&["CTAB.INIT k 2"], IMPORT_FENCES, &["ctab.import"]),
    verbatim(&[], "RBM.ADD k 1", &["rbm.add"]),
    verbatim(
        &["RBM.ADD k 1"],
        "RBM.ADD k 1 2 18446744073709551615 2",
        &["rbm.add"],
    ),
    verbatim(&["RBM.ADD k 1 2"], "RBM.REM k 1 3 1", &["rbm.rem"]),
    verbatim(&["RBM.ADD k 1 2"], "RBM.REM k 1 2", &["rbm.rem", "del"]),
    verbatim(&["RBM.ADD a 1 2"], "RBM.OP OR k a nosuch", &["rbm.op"]),
    verbatim(&["RBM.ADD a 1 2", "SET k x"], "rbm.op and k a", &["rbm.op"]),
    verbatim(
        &["RBM.ADD a 1 2", "RBM.ADD k 2"],
        "RBM.OP DIFF k a k",
        &["rbm.op"],
    ),
    // Equal members, but the TTL is removed.
    verbatim(
        &["RBM.ADD a 1 2", "RBM.ADD k 1 2", "EXPIRE k 9000"],
        "RBM.OP OR k a",
        &["rbm.op"],
    ),
    verbatim(&["RBM.ADD k 1 2"], "RBM.OP XOR k k k", &["del"]),
    verbatim(&["SET k x"], "RBM.OP AND k nosuch", &["del"]),
    verbatim(&[], IMPORT_1_2, &["rbm.import"]),
    verbatim(&["RBM.ADD k 2"], IMPORT_1_2, &["rbm.import"]),
    verbatim(&["SADD k 1 2"], "RBM.ADOPT k", &["rbm.adopt"]),
    verbatim(
        &["SADD k 18446744073709551615", "EXPIRE k 9000"],
        "rbm.adopt k",
        &["rbm.adopt"],
    ),
    // A mark is replicated as its effects.
    rewritten(&[], "RBM.MARK k 1", "RBM.ADD k 1", &["rbm.mark"]),
    rewritten(
        &["RBM.ADD k 1"],
        "rbm.mark k 18446744073709551615",
        "RBM.ADD k 18446744073709551615",
        &["rbm.mark"],
    ),
    rewritten(
        &["RBM.ADD k 1 2"],
        "RBM.UNMARK k 2",
        "RBM.REM k 2",
        &["rbm.unmark"],
    ),
    rewritten(
        &["RBM.ADD k 1"],
        "RBM.UNMARK k 1",
        "RBM.REM k 1",
        &["rbm.unmark", "del"],
    ),
    // Only the members that change are replicated.
    rewritten(
        &["RBM.ADD k 2"],
        "RBM.MMARK k 3 2 1 3",
        "RBM.ADD k 3 1",
        &["rbm.mmark"],
    ),
    rewritten(&[], "RBM.MMARK k 1 2", "RBM.ADD k 1 2", &["rbm.mmark"]),
    rewritten(
        &["RBM.ADD k 1 2 3"],
        "RBM.MUNMARK k 4 2 1 2",
        "RBM.REM k 2 1",
        &["rbm.munmark"],
    ),
    rewritten(
        &["RBM.ADD k 1 2"],
        "RBM.MUNMARK k 2 1",
        "RBM.REM k 2 1",
        &["rbm.munmark", "del"],
    ),
    // The counter is missing, and is not created.
    rewritten(
        &["RBM.ADD k 1 2"],
        "RBM.UNMARK k 2 COUNT a 0 LEN 3",
        "RBM.REM k 2",
        &["rbm.unmark"],
    ),
    // The table or the row is missing, and is not created.
    rewritten(
        &["RBM.ADD k 1 2"],
        "RBM.UNMARK k 2 COUNT a ROW 7 0 LEN 3",
        "RBM.REM k 2",
        &["rbm.unmark"],
    ),
    rewritten(
        &["RBM.ADD k 1 2", "CTAB.SET a 8 LEN 1 0 5"],
        "RBM.UNMARK k 2 COUNT a ROW 7 0 LEN 3",
        "RBM.REM k 2",
        &["rbm.unmark"],
    ),
    // The counter is at a bound.
    rewritten(
        &["CTAB.SET a 7 LEN 1 0 1099511627775"],
        "RBM.MARK k 1 COUNT a ROW 7 0",
        "RBM.ADD k 1",
        &["rbm.mark"],
    ),
    rewritten(
        &["CINT.SET a LEN 1 0 1099511627775"],
        "RBM.MARK k 1 COUNT a 0",
        "RBM.ADD k 1",
        &["rbm.mark"],
    ),
];

/// The portable form of {1, 2}.
pub const IMPORT_1_2: &str = r#"RBM.IMPORT k "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x10\x00\x00\x00\x01\x00\x02\x00""#;

/// The rows 7 (5, 0) and 8 (0, 300).
pub const IMPORT_ROWS: &str = r#"CTAB.IMPORT k "CTAB\x01\x02\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x00\x03\t\x05\x00\x96Wv[\x81""#;

/// A table of two counters without rows.
pub const IMPORT_NO_ROWS: &str = r#"CTAB.IMPORT k "CTAB\x01\x02\x00\x00\x00\xc1\xe2\xff\xe7""#;

/// The same, with the fence of source 3 at 10.
pub const IMPORT_FENCES: &str =
    r#"CTAB.IMPORT k "CTAB\x01\x02\x00\x01\x00\x03\x00\n\x00\x00\x00\x00\xbaYeA""#;
