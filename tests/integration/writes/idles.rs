//! Calls that change nothing: what they ask for is so already, or they fail.

use super::Idle;
use super::changes::{IMPORT_1_2, IMPORT_FENCES, IMPORT_NO_ROWS, IMPORT_ROWS};

const fn idle(setup: &'static [&'static str], line: &'static str, reply: &'static str) -> Idle {
    Idle { setup, line, reply }
}

const WRONG_TYPE: &str =
    "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
const INDEX: &str = "(error) ERR index out of range";
const NUMBER: &str = "(error) ERR value is not an integer or out of range";
const LENGTH: &str = "(error) ERR length must be between 1 and 65535";
const OVERFLOW: &str = "(error) ERR increment would overflow";
const EXISTS: &str = "(error) ERR key already exists";
const MISSING: &str = "(error) ERR no such key";
const SYNTAX: &str = "(error) ERR syntax error";
const PAYLOAD: &str = "(error) ERR invalid payload";
const NOT_ZERO: &str = "(error) ERR field is not zero";
const SAME_KEYS: &str = "(error) ERR keys must differ";
const ARITY: &str = "(error) ERR wrong number of arguments for";

const COUNTERS: &[&str] = &["CINT.SET k LEN 3 0 0 1 7 2 1099511627775"];
/// Offsets 0 to 9 were applied; the fence is field 2.
const FENCED: &[&str] = &["CINT.SET k LEN 3 0 7 2 10"];
/// A row (0, 7, 2^40-1); the fence of slot 3 is 10.
const TABLE: &[&str] = &[
    "CTAB.MAPPLY k 3 0 9 LEN 3 7 0 0",
    "CTAB.SET k 7 1 7 2 1099511627775",
];
/// Rows of two counters.
const PAIRS: &[&str] = &["CTAB.SET k 8 LEN 2 0 1"];
const SET: &[&str] = &["RBM.ADD k 1 2", "RBM.ADD a 1", "RBM.ADD b 2"];
const STRING: &[&str] = &["SET k abcde"];

/// None changes anything.
pub const IDLES: &[Idle] = &[
    idle(COUNTERS, "CINT.INIT k 3", EXISTS),
    idle(STRING, "CINT.INIT k 3", WRONG_TYPE),
    idle(&[], "CINT.INIT k 0", LENGTH),
    idle(&[], "CINT.INIT k", ARITY),
    idle(COUNTERS, "CINT.INCRBY k 1 0", "(integer) 7"),
    idle(COUNTERS, "CINT.INCRBY k 1 0 LEN 3", "(integer) 7"),
    idle(
        COUNTERS,
        "CINT.INCRBY k 1 0 LEN 2 OVERFLOW FAIL",
        "(integer) 7",
    ),
    idle(COUNTERS, "CINT.INCRBY k 0 -5", "(integer) 0"),
    idle(COUNTERS, "CINT.INCRBY k 2 5", "(integer) 1099511627775"),
    idle(COUNTERS, "CINT.INCRBY k 2 5 OVERFLOW FAIL", OVERFLOW),
    idle(COUNTERS, "CINT.INCRBY k 2 5 OVERFLOW FAIL LEN 9", OVERFLOW),
    idle(COUNTERS, "CINT.INCRBY k 3 5", INDEX),
    idle(COUNTERS, "CINT.INCRBY k 9 5 LEN 9", INDEX),
    idle(&[], "CINT.INCRBY k 5 1", INDEX),
    idle(&[], "CINT.INCRBY k 0 -1 OVERFLOW FAIL", OVERFLOW),
    idle(COUNTERS, "CINT.INCRBY k 1 +1", NUMBER),
    idle(COUNTERS, "CINT.INCRBY k 1 1 LEN", SYNTAX),
    idle(STRING, "CINT.INCRBY k 0 1", WRONG_TYPE),
    idle(
        COUNTERS,
        "CINT.BATCHINCR k 1 5 1 -5",
        "1) (integer) 12\n2) (integer) 7",
    ),
    idle(
        COUNTERS,
        "CINT.BATCHINCR k LEN 3 0 -1 2 1",
        "1) (integer) 0\n2) (integer) 1099511627775",
    ),
    idle(COUNTERS, "CINT.BATCHINCR k OVERFLOW FAIL 1 5 2 1", OVERFLOW),
    idle(COUNTERS, "CINT.BATCHINCR k LEN 9 1 5 9 1", INDEX),
    idle(&[], "CINT.BATCHINCR k 0 1 5 1", INDEX),
    idle(COUNTERS, "CINT.BATCHINCR k 0 1 1", ARITY),
    idle(STRING, "CINT.BATCHINCR k 0 1", WRONG_TYPE),
    idle(COUNTERS, "CINT.SET k 1 7", "OK"),
    idle(COUNTERS, "CINT.SET k LEN 3 0 0 1 7", "OK"),
    idle(COUNTERS, "CINT.SET k 1 6 1 7", "OK"),
    idle(COUNTERS, "CINT.SET k LEN 2 1 6 3 7", INDEX),
    idle(COUNTERS, "CINT.SET k 1 1099511627776", NUMBER),
    idle(STRING, "CINT.SET k 0 1", WRONG_TYPE),
    idle(COUNTERS, "CINT.GETSET k 1 7", "(integer) 7"),
    idle(COUNTERS, "CINT.GETSET k 3 7", INDEX),
    idle(&[], "CINT.GETSET k 5 7", INDEX),
    idle(STRING, "CINT.GETSET k 0 7", WRONG_TYPE),
    idle(COUNTERS, "CINT.RESIZE k 3", "OK"),
    idle(COUNTERS, "CINT.RESIZE k 2", NOT_ZERO),
    idle(&[], "CINT.RESIZE k 2", MISSING),
    idle(STRING, "CINT.RESIZE k 2", WRONG_TYPE),
    idle(COUNTERS, "CINT.IMPORT k abcde", EXISTS),
    idle(&[], "CINT.IMPORT k abcd", PAYLOAD),
    idle(&[], "CINT.IMPORT k \"\"", PAYLOAD),
    idle(STRING, "CINT.IMPORT k abcde", WRONG_TYPE),
    idle(COUNTERS, "CINT.ADOPT k LEN 9", "OK"),
    idle(COUNTERS, "CINT.ADOPT k FIELDS a", "OK"),
    idle(&[], "CINT.ADOPT k LEN 9", MISSING),
    idle(STRING, "CINT.ADOPT k LEN 9 WIDTH 4", PAYLOAD),
    idle(STRING, "CINT.ADOPT k LEN 9 WIDTH 6", SYNTAX),
    idle(STRING, "CINT.ADOPT k FIELDS a", WRONG_TYPE),
    idle(&["SET k 12345 EX 9000"], "CINT.ADOPT k LEN 9", PAYLOAD),
    idle(&["HSET k a 1 b 2"], "CINT.ADOPT k FIELDS a", PAYLOAD),
    idle(&["HSET k a 1 b x"], "CINT.ADOPT k FIELDS a b", PAYLOAD),
    idle(FENCED, "CINT.APPLY k 2 0 9 0 5", "(integer) 10"),
    idle(FENCED, "CINT.APPLY k 2 9 9 LEN 9 8 5", "(integer) 10"),
    idle(FENCED, "CINT.APPLY k 2 5 15 0 5", "(integer) 10"),
    idle(FENCED, "CINT.APPLY k 2 10 10 2 5", INDEX),
    idle(FENCED, "CINT.APPLY k 2 10 10 3 5", INDEX),
    idle(FENCED, "CINT.APPLY k 3 10 10 0 5", INDEX),
    idle(FENCED, "CINT.APPLY k 2 11 10 0 5", NUMBER),
    idle(FENCED, "CINT.APPLY k 2 10 1099511627775 0 5", NUMBER),
    idle(FENCED, "CINT.APPLY k 2 10 10 0", ARITY),
    idle(FENCED, "CINT.APPLY k 2 10 10 LEN 0 0 5", LENGTH),
    idle(&[], "CINT.APPLY k 5 0 0 0 5", INDEX),
    idle(STRING, "CINT.APPLY k 2 0 0 0 5", WRONG_TYPE),
    idle(TABLE, "CTAB.INIT k 3", EXISTS),
    idle(STRING, "CTAB.INIT k 3", WRONG_TYPE),
    idle(&[], "CTAB.INIT k 0", LENGTH),
    idle(TABLE, "CTAB.INCRBY k 7 1 0", "(integer) 7"),
    idle(
        TABLE,
        "CTAB.INCRBY k 7 1 0 LEN 2 OVERFLOW FAIL",
        "(integer) 7",
    ),
    idle(TABLE, "CTAB.INCRBY k 7 0 -5", "(integer) 0"),
    idle(TABLE, "CTAB.INCRBY k 7 2 5", "(integer) 1099511627775"),
    idle(TABLE, "CTAB.INCRBY k 7 2 5 OVERFLOW FAIL LEN 9", OVERFLOW),
    idle(TABLE, "CTAB.INCRBY k 9 2 -5 OVERFLOW FAIL", OVERFLOW),
    idle(TABLE, "CTAB.INCRBY k 9 9 5 LEN 9", INDEX),
    idle(&[], "CTAB.INCRBY k 7 5 1", INDEX),
    idle(&[], "CTAB.INCRBY k 7 0 -1 OVERFLOW FAIL", OVERFLOW),
    idle(TABLE, "CTAB.INCRBY k -7 0 1", NUMBER),
    idle(TABLE, "CTAB.INCRBY k 7 0 1 LEN", SYNTAX),
    idle(STRING, "CTAB.INCRBY k 7 0 1", WRONG_TYPE),
    idle(
        TABLE,
        "CTAB.BATCHINCR k 7 1 5 1 -5",
        "1) (integer) 12\n2) (integer) 7",
    ),
    idle(
        TABLE,
        "CTAB.BATCHINCR k 7 LEN 3 0 -1 2 1",
        "1) (integer) 0\n2) (integer) 1099511627775",
    ),
    idle(TABLE, "CTAB.BATCHINCR k 9 OVERFLOW FAIL 1 5 1 -6", OVERFLOW),
    idle(TABLE, "CTAB.BATCHINCR k 9 LEN 9 1 5 9 1", INDEX),
    idle(TABLE, "CTAB.BATCHINCR k 7 0 1 1", ARITY),
    idle(STRING, "CTAB.BATCHINCR k 7 0 1", WRONG_TYPE),
    idle(
        TABLE,
        "CTAB.MINCRBY k 7 1 5 7 0 -1 7 1 -5",
        "1) (integer) 12\n2) (integer) 0\n3) (integer) 7",
    ),
    idle(TABLE, "CTAB.MINCRBY k OVERFLOW FAIL 9 1 5 7 2 1", OVERFLOW),
    idle(TABLE, "CTAB.MINCRBY k LEN 9 9 1 5 7 9 1", INDEX),
    idle(&[], "CTAB.MINCRBY k 9 1 5 7 5 1", INDEX),
    idle(TABLE, "CTAB.MINCRBY k 9 1 5 7 1", ARITY),
    idle(TABLE, "CTAB.MINCRBY k 9 1 5 7 1 x", NUMBER),
    idle(STRING, "CTAB.MINCRBY k 7 0 1", WRONG_TYPE),
    idle(TABLE, "CTAB.SET k 7 1 7", "OK"),
    idle(TABLE, "CTAB.SET k 7 LEN 3 0 0 1 6 1 7", "OK"),
    idle(TABLE, "CTAB.SET k 9 LEN 4 1 6 4 7", INDEX),
    idle(TABLE, "CTAB.SET k 9 1 1099511627776", NUMBER),
    idle(STRING, "CTAB.SET k 7 0 1", WRONG_TYPE),
    idle(TABLE, "CTAB.GETSET k 7 1 7", "(integer) 7"),
    idle(TABLE, "CTAB.GETSET k 9 3 7", INDEX),
    idle(&[], "CTAB.GETSET k 7 5 7", INDEX),
    idle(STRING, "CTAB.GETSET k 7 0 7", WRONG_TYPE),
    idle(TABLE, "CTAB.MAPPLY k 3 0 9 9 0 5", "(integer) 10"),
    idle(TABLE, "CTAB.MAPPLY k 3 9 9 LEN 9 9 8 5", "(integer) 10"),
    idle(TABLE, "CTAB.MAPPLY k 3 5 15 9 0 5", "(integer) 10"),
    idle(TABLE, "CTAB.MAPPLY k 3 10 10 9 3 5", INDEX),
    idle(TABLE, "CTAB.MAPPLY k 65535 10 10 9 0 5", INDEX),
    idle(TABLE, "CTAB.MAPPLY k 3 11 10 9 0 5", NUMBER),
    idle(TABLE, "CTAB.MAPPLY k 3 10 10 9 0", ARITY),
    idle(&[], "CTAB.MAPPLY k 3 0 0 9 5 5", INDEX),
    idle(STRING, "CTAB.MAPPLY k 3 0 0 9 0 5", WRONG_TYPE),
    idle(TABLE, "CTAB.DEL k 8 9", "(integer) 0"),
    idle(&[], "CTAB.DEL k 7", "(integer) 0"),
    idle(TABLE, "CTAB.DEL k 7 x", NUMBER),
    idle(STRING, "CTAB.DEL k 7", WRONG_TYPE),
    idle(TABLE, "CTAB.RESIZE k 3", "OK"),
    idle(TABLE, "CTAB.RESIZE k 2", NOT_ZERO),
    idle(&[], "CTAB.RESIZE k 2", MISSING),
    idle(STRING, "CTAB.RESIZE k 2", WRONG_TYPE),
    idle(PAIRS, IMPORT_ROWS, "(error) ERR id already exists"),
    idle(TABLE, IMPORT_ROWS, "(error) ERR lengths differ"),
    idle(PAIRS, IMPORT_FENCES, "(error) ERR fences differ"),
    idle(PAIRS, IMPORT_NO_ROWS, "(integer) 0"),
    idle(&[IMPORT_FENCES], IMPORT_FENCES, "(integer) 0"),
    idle(&[], "CTAB.IMPORT k CTAB", PAYLOAD),
    idle(STRING, IMPORT_ROWS, WRONG_TYPE),
    idle(SET, "RBM.ADD k 1 2 1", "(integer) 0"),
    idle(SET, "RBM.ADD k 3 x", NUMBER),
    idle(SET, "RBM.ADD k 3 18446744073709551616", NUMBER),
    idle(STRING, "RBM.ADD k 1", WRONG_TYPE),
    idle(SET, "RBM.REM k 3 4", "(integer) 0"),
    idle(&[], "RBM.REM k 1", "(integer) 0"),
    idle(SET, "RBM.REM k 1 -1", NUMBER),
    idle(STRING, "RBM.REM k 1", WRONG_TYPE),
    idle(SET, "RBM.OP OR k a b", "(integer) 2"),
    idle(SET, "RBM.OP AND k k", "(integer) 2"),
    idle(&["RBM.ADD a 1"], "RBM.OP DIFF k a a", "(integer) 0"),
    idle(SET, "RBM.OP NOR k a b", SYNTAX),
    idle(STRING, "RBM.OP OR k k", WRONG_TYPE),
    idle(SET, "RBM.OP OR k", ARITY),
    idle(&["SET a x"], "RBM.OP OR k a", WRONG_TYPE),
    idle(SET, IMPORT_1_2, "(integer) 0"),
    idle(
        SET,
        r#"RBM.IMPORT k "\x00\x00\x00\x00\x00\x00\x00\x00""#,
        "(integer) 0",
    ),
    idle(
        &[],
        r#"RBM.IMPORT k "\x00\x00\x00\x00\x00\x00\x00\x00""#,
        "(integer) 0",
    ),
    idle(SET, "RBM.IMPORT k abc", PAYLOAD),
    idle(STRING, IMPORT_1_2, WRONG_TYPE),
    idle(SET, "RBM.ADOPT k", "OK"),
    idle(&[], "RBM.ADOPT k", MISSING),
    idle(STRING, "RBM.ADOPT k", WRONG_TYPE),
    idle(&["SADD k 1 x"], "RBM.ADOPT k", PAYLOAD),
    idle(SET, "RBM.ADOPT k k", ARITY),
    idle(SET, "RBM.MARK k 1", "1) (integer) 0\n2) (nil)"),
    // What was marked before creates, counts and tells nothing.
    idle(
        SET,
        "RBM.MARK k 1 COUNT c 0 LEN 3 EVENT x f v",
        "1) (integer) 0\n2) (nil)",
    ),
    idle(SET, "RBM.MARK k 3 COUNT k 0", SAME_KEYS),
    idle(SET, "RBM.MARK k 3 COUNT c 0 EVENT c f v", SAME_KEYS),
    idle(SET, "RBM.MARK k 3 COUNT a 0", WRONG_TYPE),
    idle(SET, "RBM.MARK k 3 COUNT c 5", INDEX),
    idle(SET, "RBM.MARK k 3 EVENT a f v", WRONG_TYPE),
    idle(SET, "RBM.MARK k 3 COUNT c 0 EVENT x f", ARITY),
    idle(SET, "RBM.MARK k 3 EVENT x MAXLEN -1 f v", NUMBER),
    idle(SET, "RBM.MARK k 3 COUNT c", SYNTAX),
    idle(SET, "RBM.MARK k -1", NUMBER),
    idle(STRING, "RBM.MARK k 1", WRONG_TYPE),
    // The stream's last id leaves no room for another.
    idle(
        &["XADD x 0-18446744073709551615 f v"],
        "RBM.MARK k 3 COUNT c 0 EVENT x SEQ f v",
        "(error) ERR ",
    ),
    idle(&[], "RBM.UNMARK k 1", "1) (integer) 0\n2) (nil)"),
    idle(
        SET,
        "RBM.UNMARK k 3 COUNT c 0 LEN 3 EVENT x f v",
        "1) (integer) 0\n2) (nil)",
    ),
    idle(SET, "RBM.UNMARK k 1 EVENT k f v", SAME_KEYS),
    idle(SET, "RBM.UNMARK k 1 COUNT a 0", WRONG_TYPE),
    idle(SET, "RBM.UNMARK k 1 EVENT a f v", WRONG_TYPE),
    idle(SET, "RBM.UNMARK k x", NUMBER),
    idle(STRING, "RBM.UNMARK k 1", WRONG_TYPE),
];
