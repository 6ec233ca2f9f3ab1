//! The differences between the module and the functions, with their reasons. docs/fallback.md documents them.

/// Commands of the module without a function.
pub const NO_FUNCTION: [(&str, &str); 40] = [
    ("cint.adopt", "a String of u40 fields is an object already"),
    ("rbm.adopt", "marks are a plain Set already"),
    ("rbm.add", "SADD"),
    ("rbm.rem", "SREM"),
    ("rbm.contains", "SISMEMBER"),
    ("rbm.mcontains", "SMISMEMBER"),
    ("rbm.page", "SISMEMBER of each key"),
    ("rbm.mmark", MANY),
    ("rbm.munmark", MANY),
    ("rbm.card", "SCARD"),
    ("rbm.mcard", "SCARD of each key"),
    ("rbm.min", UNORDERED),
    ("rbm.max", UNORDERED),
    ("rbm.rank", UNORDERED),
    ("rbm.select", UNORDERED),
    ("rbm.count", UNORDERED),
    ("rbm.scan", "SSCAN, in no order"),
    ("rbm.op", "SINTERSTORE, SUNIONSTORE, SDIFFSTORE"),
    ("rbm.opcard", "SINTERCARD"),
    ("rbm.export", "a Set has no such form"),
    ("rbm.import", "a Set has no such form"),
    ("rbm.info", "OBJECT ENCODING, MEMORY USAGE"),
    ("ctab.init", TABLE),
    ("ctab.get", TABLE),
    ("ctab.mget", TABLE),
    ("ctab.mread", TABLE),
    ("ctab.page", TABLE),
    ("ctab.incrby", TABLE),
    ("ctab.batchincr", TABLE),
    ("ctab.mincrby", TABLE),
    ("ctab.set", TABLE),
    ("ctab.getset", TABLE),
    ("ctab.mapply", TABLE),
    ("ctab.del", TABLE),
    ("ctab.card", TABLE),
    ("ctab.scan", TABLE),
    ("ctab.resize", TABLE),
    ("ctab.export", TABLE),
    ("ctab.import", TABLE),
    ("ctab.info", TABLE),
];

const TABLE: &str = "an object for each row holds the same counts, in more memory";
const MANY: &str = "cint_mark or cint_unmark for each member; members are any strings, which a list in one field cannot separate";
const UNORDERED: &str = "a Set has no order";

/// Scenarios of commands without a function.
pub const MODULE_ONLY_SCENARIOS: [(&str, &str); 21] = [
    ("cint_adopt_hash.txt", "CINT.ADOPT"),
    ("cint_adopt_string.txt", "CINT.ADOPT"),
    ("ctab_batch.txt", "CTAB.BATCHINCR"),
    ("ctab_del_scan.txt", "CTAB.DEL"),
    ("ctab_export_import.txt", "CTAB.EXPORT"),
    ("ctab_incrby.txt", "CTAB.INCRBY"),
    ("ctab_mapply.txt", "CTAB.MAPPLY"),
    ("ctab_mark.txt", "CTAB.SET"),
    ("ctab_page.txt", "CTAB.PAGE"),
    ("ctab_set.txt", "CTAB.SET"),
    ("expiry.txt", "RBM.OP; the rest is in cases.txt"),
    ("generic.txt", "RBM.OP; the rest is in cases.txt"),
    ("rbm_add_rem.txt", "RBM.ADD"),
    ("rbm_adopt.txt", "RBM.ADOPT"),
    ("rbm_export_import.txt", "RBM.EXPORT"),
    ("rbm_mcard.txt", "RBM.MCARD"),
    ("rbm_mmark.txt", "RBM.MMARK"),
    ("rbm_op.txt", "RBM.OP"),
    ("rbm_order.txt", "RBM.RANK"),
    ("rbm_page.txt", "RBM.PAGE"),
    ("rbm_scan.txt", "RBM.SCAN"),
];

/// A reply that differs. A row that covers no reply fails the tests.
pub struct Difference {
    /// Patterns of commands, such as `CINT.*`.
    pub commands: &'static [&'static str],
    /// The module's reply.
    pub module: &'static str,
    /// The reply of the function or of the server's own command.
    pub fallback: &'static str,
    /// The reason.
    pub why: &'static str,
}

const WRONGTYPE: &str = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "(error) ERR value is not an integer or out of range";

/// All differences.
pub const DIFFERENCES: [Difference; 11] = [
    Difference {
        commands: &["TYPE"],
        module: "CountInt5",
        fallback: "string",
        why: "a counter object is a String",
    },
    Difference {
        commands: &["TYPE"],
        module: "RoaringBM",
        fallback: "set",
        why: "marks are a plain Set",
    },
    Difference {
        commands: &["CINT.*", "RBM.MARK", "RBM.UNMARK"],
        module: WRONGTYPE,
        fallback: "(error) ERR invalid payload",
        why: "a String of another length is a broken object, not another type",
    },
    Difference {
        commands: &["CINT.LEN"],
        module: WRONGTYPE,
        fallback: "(integer) 1",
        why: "any String of the right length is an object",
    },
    Difference {
        commands: &["GET"],
        module: WRONGTYPE,
        fallback: r#""\x00\x00\x00\x00\x01""#,
        why: "the server's own commands for Strings work on objects",
    },
    Difference {
        commands: &["SADD"],
        module: WRONGTYPE,
        fallback: "(integer) 1",
        why: "the server's own commands for Sets work on marks",
    },
    Difference {
        commands: &["RBM.MARK", "RBM.UNMARK"],
        module: WRONGTYPE,
        fallback: "1) (integer) 0\n2) (nil)",
        why: "a plain Set is what marks are",
    },
    Difference {
        commands: &["RBM.MARK"],
        module: NOT_AN_INTEGER,
        fallback: "1) (integer) 1\n2) (nil)",
        why: "members may be any strings",
    },
    Difference {
        commands: &["RBM.UNMARK"],
        module: NOT_AN_INTEGER,
        fallback: "1) (integer) 0\n2) (nil)",
        why: "members may be any strings",
    },
    Difference {
        commands: &["RBM.UNMARK"],
        module: NOT_AN_INTEGER,
        fallback: "1) (integer) 1\n2) (nil)",
        why: "members may be any strings",
    },
    Difference {
        commands: &["RBM.MARK"],
        module: "1) (integer) 1\n2) (nil)",
        fallback: "(error) ERR too many fields",
        why: "Lua passes a limited number of arguments to XADD",
    },
];

impl Difference {
    /// Whether this row covers the two replies to a command.
    pub fn explains(&self, command: &str, module: &str, fallback: &str) -> bool {
        let named = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(start) => command.starts_with(start),
            None => command == *pattern,
        };
        self.module == module && self.fallback == fallback && self.commands.iter().any(named)
    }
}
