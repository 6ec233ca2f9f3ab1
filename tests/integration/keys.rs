//! The keys of every command and their flags, for access control, routing and client-side caching.
//!
//! Keys that begin with `c` hold counters, `r` sets, `t` tables, `x` streams; other keys do not exist.

use crate::writes::name;
use std::collections::BTreeMap;

/// A call and its keys.
pub struct Keys {
    /// The call.
    pub line: &'static str,
    /// Each key with its flags as `COMMAND GETKEYSANDFLAGS` prints them.
    pub keys: &'static [(&'static str, &'static str)],
}

impl Keys {
    /// The command in lower case.
    pub fn command(&self) -> String {
        name(self.line)
    }

    /// Whether it can change keys.
    pub fn writes(&self) -> bool {
        self.keys.iter().any(|(_, flags)| !flags.starts_with("RO"))
    }

    /// For each key, whether the call needs permission to read it (`%R~`) and to write it (`%W~`). Access to metadata only
    /// needs either of them.
    pub fn required_permissions(&self) -> BTreeMap<&'static str, (bool, bool)> {
        let mut needs = BTreeMap::new();
        for (key, flags) in self.keys {
            let has = |word: &&str| flags.contains(*word);
            let (reads, writes) = needs.entry(*key).or_default();
            *reads |= has(&"access");
            *writes |= ["update", "insert", "delete"].iter().any(has);
        }
        needs
    }
}

const fn row(line: &'static str, keys: &'static [(&'static str, &'static str)]) -> Keys {
    Keys { line, keys }
}

const READ: &str = "RO access";
/// Only metadata is read.
const METADATA: &str = "RO";

/// Read and changed: the reply depends on the old value.
const CHANGED: &str = "RW access update";

/// Appended to, without reading.
const APPENDED: &str = "RW insert";

/// Every command, in each form with different keys.
pub const KEYS: &[Keys] = &[
    row("CINT.INIT n 3", &[("n", "RW insert")]),
    row("CINT.GET c 0", &[("c", READ)]),
    row("CINT.MGET c 0 1", &[("c", READ)]),
    row("CINT.INCRBY c 0 1", &[("c", CHANGED)]),
    row("CINT.BATCHINCR c LEN 3 0 1 1 2", &[("c", CHANGED)]),
    row("CINT.SET c LEN 3 0 1 1 2", &[("c", "RW update")]),
    row("CINT.GETSET c 0 1", &[("c", CHANGED)]),
    row("CINT.LEN c", &[("c", METADATA)]),
    row("CINT.DUMP c", &[("c", READ)]),
    row("CINT.MDUMP c", &[("c", READ)]),
    row(
        "CINT.MDUMP c c2 c",
        &[("c", READ), ("c2", READ), ("c", READ)],
    ),
    row("CINT.MREAD 5 c", &[("c", READ)]),
    row(
        "CINT.MREAD 5 c c2 c3",
        &[("c", READ), ("c2", READ), ("c3", READ)],
    ),
    row("CINT.RESIZE c 3", &[("c", "RW update")]),
    row("CINT.EXPORT c", &[("c", READ)]),
    row("CINT.IMPORT n abcde", &[("n", "RW insert")]),
    row("CINT.ADOPT c LEN 3", &[("c", "RW update")]),
    row("CINT.ADOPT c FIELDS x y z", &[("c", "RW update")]),
    row("CINT.APPLY c 2 0 9 LEN 3 0 1", &[("c", CHANGED)]),
    row("CTAB.INIT n 3", &[("n", "RW insert")]),
    row("CTAB.GET t 1 0", &[("t", READ)]),
    row("CTAB.MGET t 1 2", &[("t", READ)]),
    row("CTAB.MREAD 5 t 1 2", &[("t", READ)]),
    row("CTAB.PAGE 5 1 t 1", &[("t", READ)]),
    row(
        "CTAB.PAGE 5 4 t 1 t2 2 t3 1 t 3",
        &[("t", READ), ("t2", READ), ("t3", READ), ("t", READ)],
    ),
    row("CTAB.INCRBY t 1 0 1", &[("t", CHANGED)]),
    row("CTAB.BATCHINCR t 1 LEN 3 0 1 1 2", &[("t", CHANGED)]),
    row("CTAB.MINCRBY t LEN 3 1 0 1 2 1 2", &[("t", CHANGED)]),
    row("CTAB.SET t 1 LEN 3 0 1 1 2", &[("t", "RW update")]),
    row("CTAB.GETSET t 1 0 1", &[("t", CHANGED)]),
    row("CTAB.MAPPLY t 2 0 9 LEN 3 1 0 1", &[("t", CHANGED)]),
    row("CTAB.DEL t 1 2", &[("t", "RW delete")]),
    row("CTAB.CARD t", &[("t", METADATA)]),
    row("CTAB.SCAN t 0 COUNT 5", &[("t", READ)]),
    row("CTAB.RESIZE t 5", &[("t", "RW update")]),
    row("CTAB.EXPORT t 0 9", &[("t", READ)]),
    row(
        r#"CTAB.IMPORT n "CTAB\x01\x02\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x00\x03\t\x05\x00\x96Wv[\x81""#,
        &[("n", "RW insert")],
    ),
    row("CTAB.INFO t", &[("t", READ)]),
    row("RBM.ADD r 1 2", &[("r", "RW insert")]),
    row("RBM.REM r 1 2", &[("r", "RW delete")]),
    row("RBM.CONTAINS r 1", &[("r", READ)]),
    row("RBM.MCONTAINS r 1 2", &[("r", READ)]),
    row("RBM.PAGE 1 r", &[("r", READ)]),
    row(
        "RBM.PAGE 1 r r2 r",
        &[("r", READ), ("r2", READ), ("r", READ)],
    ),
    row("RBM.CARD r", &[("r", METADATA)]),
    row("RBM.MCARD r", &[("r", METADATA)]),
    row(
        "RBM.MCARD r r2 r",
        &[("r", METADATA), ("r2", METADATA), ("r", METADATA)],
    ),
    row("RBM.MIN r", &[("r", READ)]),
    row("RBM.MAX r", &[("r", READ)]),
    row("RBM.RANK r 1", &[("r", READ)]),
    row("RBM.SELECT r 0", &[("r", READ)]),
    row("RBM.COUNT r 0 9", &[("r", READ)]),
    row("RBM.SCAN r 0 COUNT 5 REV", &[("r", READ)]),
    row("RBM.OP OR d r", &[("d", "OW update"), ("r", READ)]),
    row(
        "RBM.OP AND d r r2 d",
        &[("d", "OW update"), ("r", READ), ("r2", READ), ("d", READ)],
    ),
    row("RBM.OPCARD OR r", &[("r", READ)]),
    row("RBM.OPCARD DIFF r r2", &[("r", READ), ("r2", READ)]),
    row("RBM.EXPORT r", &[("r", READ)]),
    row("RBM.EXPORT r 0 9", &[("r", READ)]),
    row(
        "RBM.IMPORT r \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"",
        &[("r", "RW insert")],
    ),
    row("RBM.INFO r", &[("r", METADATA)]),
    row("RBM.ADOPT r", &[("r", "RW update")]),
    row("RBM.MARK r 1", &[("r", CHANGED)]),
    row("RBM.MARK r 1 COUNT c 0", &[("r", CHANGED), ("c", CHANGED)]),
    row(
        "RBM.MARK r 1 count c 0 len 3",
        &[("r", CHANGED), ("c", CHANGED)],
    ),
    row(
        "RBM.MARK r 1 COUNT t ROW 7 0",
        &[("r", CHANGED), ("t", CHANGED)],
    ),
    row(
        "RBM.MARK r 1 COUNT ROW row 7 0 LEN 3 EVENT x SEQ COUNT y",
        &[("r", CHANGED), ("ROW", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK r 1 EVENT x f v",
        &[("r", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK r 1 event x seq maxlen 9 f v",
        &[("r", CHANGED), ("x", APPENDED)],
    ),
    // The arguments after an event's stream are data, even if they look like keywords.
    row(
        "RBM.MARK r 1 EVENT x COUNT y EVENT z LEN 3",
        &[("r", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK r 1 COUNT c 0 LEN 3 EVENT x MAXLEN 9 COUNT y",
        &[("r", CHANGED), ("c", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK r 1 COUNT c 0 EVENT x SEQ SEQ MAXLEN",
        &[("r", CHANGED), ("c", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK new 1 COUNT t ROW 7 0 LEN 3 VERIFY EVENT x VERIFY y",
        &[("new", CHANGED), ("t", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MARK VERIFY 1 count VERIFY2 0 verify event x f v",
        &[("VERIFY", CHANGED), ("VERIFY2", CHANGED), ("x", APPENDED)],
    ),
    row("RBM.MMARK r 1", &[("r", CHANGED)]),
    row(
        "RBM.MMARK r 1 2 3 COUNT c 0",
        &[("r", CHANGED), ("c", CHANGED)],
    ),
    row(
        "RBM.MMARK COUNT 1 2 count EVENT row 7 0 len 3 verify event x COUNT y",
        &[("COUNT", CHANGED), ("EVENT", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.MMARK r 1 2 EVENT x MAXLEN 9 EVENT y",
        &[("r", CHANGED), ("x", APPENDED)],
    ),
    row("RBM.MUNMARK r 1 2", &[("r", CHANGED)]),
    row(
        "RBM.MUNMARK r 1 2 COUNT t ROW 7 0 EVENT x f v",
        &[("r", CHANGED), ("t", CHANGED), ("x", APPENDED)],
    ),
    row("RBM.UNMARK r 1", &[("r", CHANGED)]),
    row(
        "RBM.UNMARK r 1 COUNT c 0",
        &[("r", CHANGED), ("c", CHANGED)],
    ),
    row(
        "RBM.UNMARK r 1 COUNT t ROW 7 0 EVENT x f v",
        &[("r", CHANGED), ("t", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.UNMARK missing 1 COUNT c 0 VERIFY EVENT x f v",
        &[("missing", CHANGED), ("c", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.UNMARK r 1 EVENT x COUNT y",
        &[("r", CHANGED), ("x", APPENDED)],
    ),
    row(
        "RBM.UNMARK r 1 COUNT c 0 LEN 3 EVENT x SEQ EVENT y",
        &[("r", CHANGED), ("c", CHANGED), ("x", APPENDED)],
    ),
];
