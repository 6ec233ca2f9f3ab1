//! The comparisons: what is run against what, and which ratio is asked for.

use crate::dataset::DataSet;
use crate::numbers::Pick;

/// Commands that do the same job, measured side by side.
pub struct Comparison {
    /// What `--only` calls it.
    pub name: &'static str,
    /// Its heading in the report.
    pub title: &'static str,
    /// What is counted: operations, or the entities that one operation reads.
    pub unit: &'static str,
    /// Units in one operation.
    pub units: u64,
    /// How ids are chosen.
    pub pick: Pick,
    /// The commands, ours first.
    pub sides: &'static [Side],
    /// Which side is compared with which.
    pub ratios: &'static [Ratio],
}

/// One way to do the job.
pub struct Side {
    /// Its name in tables.
    pub label: &'static str,
    /// What it runs on.
    pub data: DataSet,
    /// The database which that is loaded into.
    pub database: usize,
    /// The commands, in the notation of [`crate::template`].
    pub commands: &'static str,
    /// The commands that take a round back, where it would run out of new things to do.
    pub undo: Option<&'static str>,
}

/// A comparison of two sides, by their places in [`Comparison::sides`].
pub struct Ratio {
    /// Ours.
    pub of: usize,
    /// What a user would use instead.
    pub to: usize,
    /// The least ratio of throughputs at depth 64 that is asked for.
    pub bar: Option<f64>,
}

const fn side(
    label: &'static str,
    (data, database): (DataSet, usize),
    commands: &'static str,
) -> Side {
    Side {
        label,
        data,
        database,
        commands,
        undo: None,
    }
}

const fn ratio(of: usize, to: usize, bar: f64) -> Ratio {
    Ratio {
        of,
        to,
        bar: Some(bar),
    }
}

/// All of them, in the order in which they run.
pub const COMPARISONS: &[Comparison] = &[
    CONTROL,
    INCRBY,
    BATCHINCR,
    DUMP,
    MREAD,
    CONTAINS,
    CONTAINS_HALF,
    ADD,
    MARK,
    APPLY,
];

/// What the method itself is worth: a ratio of two sides that are alike should be 1.
const CONTROL: Comparison = Comparison {
    name: "control",
    title: "The control: the same command on the same data, twice",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "HGET",
            (DataSet::Hashes, 0),
            "HGET cnt:v1:note:<id> <field>",
        ),
        side(
            "HGET again",
            (DataSet::Hashes, 1),
            "HGET cnt:v1:note:<id> <field>",
        ),
    ],
    ratios: &[Ratio {
        of: 0,
        to: 1,
        bar: None,
    }],
};

const INCRBY: Comparison = Comparison {
    name: "incrby",
    title: "One counter, plus one",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "CINT.INCRBY",
            (DataSet::CountInts, 0),
            "CINT.INCRBY cnt:v1:note:<id> <i> 1",
        ),
        side(
            "HINCRBY",
            (DataSet::Hashes, 1),
            "HINCRBY cnt:v1:note:<id> <field> 1",
        ),
        side(
            "BITFIELD INCRBY",
            (DataSet::Strings, 2),
            "BITFIELD cnt:v1:note:<id> INCRBY u40 #<i> 1",
        ),
    ],
    ratios: &[ratio(0, 1, 1.1), ratio(0, 2, 1.15)],
};

const BATCHINCR: Comparison = Comparison {
    name: "batchincr",
    title: "Five counters of one object, plus one each",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "CINT.BATCHINCR of five",
            (DataSet::CountInts, 0),
            "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
        ),
        side(
            "BITFIELD of five INCRBY",
            (DataSet::Strings, 1),
            "BITFIELD cnt:v1:note:<id> INCRBY u40 #0 1 INCRBY u40 #1 1 INCRBY u40 #2 1 INCRBY u40 #3 1 INCRBY u40 #4 1",
        ),
        side(
            "MULTI, five HINCRBY, EXEC",
            (DataSet::Hashes, 2),
            "MULTI; HINCRBY cnt:v1:note:<id> read 1; HINCRBY cnt:v1:note:<same> like 1; \
             HINCRBY cnt:v1:note:<same> fav 1; HINCRBY cnt:v1:note:<same> comment 1; \
             HINCRBY cnt:v1:note:<same> repost 1; EXEC",
        ),
    ],
    ratios: &[ratio(0, 1, 2.0), ratio(0, 2, 3.2)],
};

const DUMP: Comparison = Comparison {
    name: "dump",
    title: "Reading the five counters of one object",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "CINT.DUMP",
            (DataSet::CountInts, 0),
            "CINT.DUMP cnt:v1:note:<id>",
        ),
        side(
            "HMGET of five",
            (DataSet::Hashes, 1),
            "HMGET cnt:v1:note:<id> read like fav comment repost",
        ),
    ],
    ratios: &[ratio(0, 1, 1.3)],
};

const MREAD: Comparison = Comparison {
    name: "mread",
    title: "Reading a page of 100 objects",
    unit: "entities",
    units: 100,
    pick: Pick::Uniform,
    sides: &[
        side(
            "CINT.MREAD 5",
            (DataSet::CountInts, 0),
            "CINT.MREAD 5 cnt:v1:note:<id>*100",
        ),
        side(
            "MGET of packed Strings",
            (DataSet::Strings, 1),
            "MGET cnt:v1:note:<id>*100",
        ),
        side(
            "CINT.MDUMP",
            (DataSet::CountInts, 0),
            "CINT.MDUMP cnt:v1:note:<id>*100",
        ),
    ],
    ratios: &[
        ratio(0, 1, 0.95),
        Ratio {
            of: 2,
            to: 1,
            bar: None,
        },
    ],
};

const CONTAINS: Comparison = Comparison {
    name: "contains",
    title: "Membership in a million successive ids, all asked for are members",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "RBM.CONTAINS",
            (DataSet::RbmDense, 0),
            "RBM.CONTAINS rbm:like:note:1 <id>",
        ),
        side(
            "SISMEMBER",
            (DataSet::SetDense, 1),
            "SISMEMBER rbm:like:note:1 <id>",
        ),
    ],
    ratios: &[ratio(0, 1, 1.2)],
};

const CONTAINS_HALF: Comparison = Comparison {
    name: "contains-half",
    title: "Membership in a random half of two million ids, half of those asked for are members",
    unit: "operations",
    units: 1,
    pick: Pick::UniformOfTwo,
    sides: &[
        side(
            "RBM.CONTAINS",
            (DataSet::RbmHalf, 0),
            "RBM.CONTAINS rbm:like:note:1 <id>",
        ),
        side(
            "SISMEMBER",
            (DataSet::SetHalf, 1),
            "SISMEMBER rbm:like:note:1 <id>",
        ),
    ],
    ratios: &[ratio(0, 1, 1.2)],
};

const ADD: Comparison = Comparison {
    name: "add",
    title: "Adding new members, in scattered order, to a set of a million",
    unit: "operations",
    units: 1,
    pick: Pick::EachAbsent,
    sides: &[
        Side {
            undo: Some("RBM.REM rbm:like:note:1 <id>"),
            ..side(
                "RBM.ADD",
                (DataSet::RbmHalf, 0),
                "RBM.ADD rbm:like:note:1 <id>",
            )
        },
        Side {
            undo: Some("SREM rbm:like:note:1 <id>"),
            ..side("SADD", (DataSet::SetHalf, 1), "SADD rbm:like:note:1 <id>")
        },
    ],
    ratios: &[Ratio {
        of: 0,
        to: 1,
        bar: None,
    }],
};

/// What people use today for a fact, its count and its event as one step: a script on a Set, a Hash and a Stream.
const MARK_SCRIPT: &str = "if redis.call('SADD',KEYS[1],ARGV[1])==1 then \
     local n=redis.call('HINCRBY',KEYS[2],'like',1) redis.call('XADD',KEYS[3],'MAXLEN','~',100000,'*','uid',ARGV[1],'delta',1) \
     return {1,n} end return {0,false}";
/// It taken back.
const UNMARK_SCRIPT: &str = "if redis.call('SREM',KEYS[1],ARGV[1])==1 then \
     local n=redis.call('HINCRBY',KEYS[2],'like',-1) redis.call('XADD',KEYS[3],'MAXLEN','~',100000,'*','uid',ARGV[1],'delta',-1) \
     return {1,n} end return {0,false}";

/// The scripts that comparisons call by their SHA-1.
pub const SCRIPTS: &[&str] = &[MARK_SCRIPT, UNMARK_SCRIPT];

const MARK: Comparison = Comparison {
    name: "mark",
    title: "A new fact, its count and its event as one step",
    unit: "operations",
    units: 1,
    pick: Pick::EachAbsent,
    sides: &[
        Side {
            undo: Some(
                "RBM.UNMARK rbm:like:note:1 <id> COUNT cnt:mark 1 EVENT x:mark MAXLEN 100000 uid <same> delta -1",
            ),
            ..side(
                "RBM.MARK",
                (DataSet::RbmHalf, 0),
                "RBM.MARK rbm:like:note:1 <id> COUNT cnt:mark 1 EVENT x:mark MAXLEN 100000 uid <same> delta 1",
            )
        },
        Side {
            undo: Some(
                "EVALSHA b2c926f7dc617f08ea18861592aa50d5f912ab01 3 rbm:like:note:1 cnt:mark x:mark <id>",
            ),
            ..side(
                "a script: SADD, HINCRBY, XADD",
                (DataSet::SetHalf, 1),
                "EVALSHA 60b35e82aa4b175f9e937f7f95c9590d0bda5956 3 rbm:like:note:1 cnt:mark x:mark <id>",
            )
        },
    ],
    ratios: &[Ratio {
        of: 0,
        to: 1,
        bar: None,
    }],
};

const APPLY: Comparison = Comparison {
    name: "apply",
    title: "Four counters of one object from a log, exactly once",
    unit: "operations",
    units: 1,
    pick: Pick::Uniform,
    sides: &[
        side(
            "CINT.APPLY of four",
            (DataSet::CountInts, 0),
            "CINT.APPLY cnt:v1:note:<id> 4 <offset> <same-offset> 0 1 1 1 2 1 3 1",
        ),
        side(
            "CINT.BATCHINCR of four",
            (DataSet::CountInts, 1),
            "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1",
        ),
    ],
    ratios: &[Ratio {
        of: 0,
        to: 1,
        bar: None,
    }],
};

impl Comparison {
    /// Whether it compares a thing with itself, which nobody wins.
    pub fn is_control(&self) -> bool {
        self.name == CONTROL.name
    }

    /// What has to be loaded, and into which database.
    pub fn data(&self) -> Vec<(DataSet, usize)> {
        let mut data: Vec<(DataSet, usize)> = Vec::new();
        for side in self.sides {
            if !data.contains(&(side.data, side.database)) {
                data.push((side.data, side.database));
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_name_sides_and_names_are_unique() {
        for (i, comparison) in COMPARISONS.iter().enumerate() {
            assert!(COMPARISONS[..i].iter().all(|c| c.name != comparison.name));
            for ratio in comparison.ratios {
                assert!(ratio.of < comparison.sides.len() && ratio.to < comparison.sides.len());
                assert_ne!(ratio.of, ratio.to);
            }
        }
    }

    #[test]
    fn what_runs_out_of_new_ids_can_be_undone() {
        for comparison in COMPARISONS {
            let finite = comparison.pick == Pick::EachAbsent;
            assert!(
                comparison
                    .sides
                    .iter()
                    .all(|side| side.undo.is_some() == finite),
                "{}",
                comparison.name
            );
        }
    }

    #[test]
    fn no_database_holds_two_kinds_of_data() {
        for comparison in COMPARISONS {
            let data = comparison.data();
            for (i, (_, database)) in data.iter().enumerate() {
                assert!(
                    data[..i].iter().all(|(_, other)| other != database),
                    "{}",
                    comparison.name
                );
            }
        }
        assert!(MREAD.data() == [(DataSet::CountInts, 0), (DataSet::Strings, 1)]);
    }
}
