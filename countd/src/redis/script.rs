//! Lua scripts.
//!
//! A script that uses counters or id sets is assembled from files: the functions for the backend, which is one file for the module and
//! another for Strings; functions that several scripts share; and the script itself.

use crate::redis::permissions::Permissions;
use redis::Script;
use std::sync::OnceLock;

/// How the data stores counters and id sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterBackend {
    /// As the module's types.
    Module,
    /// As Strings and Sets.
    Strings,
    /// In both forms, since an adoption begins: the type of a key tells which one it has. What is new is a String or a Set.
    StringsOrModule,
    /// In both forms, until an adoption ends: the type of a key tells which one it has. What is new has a type of the module.
    ModuleOrStrings,
}

impl CounterBackend {
    /// The number of backends.
    pub const COUNT: usize = 4;

    /// All backends, each at its index.
    pub const ALL: [CounterBackend; CounterBackend::COUNT] = [
        CounterBackend::Module,
        CounterBackend::Strings,
        CounterBackend::StringsOrModule,
        CounterBackend::ModuleOrStrings,
    ];

    /// Its name in the stored layout.
    pub fn name(self) -> &'static str {
        match self {
            CounterBackend::Module => "module",
            CounterBackend::Strings => "plain",
            CounterBackend::StringsOrModule => "plain-or-module",
            CounterBackend::ModuleOrStrings => "module-or-plain",
        }
    }

    /// The backend with this name.
    pub fn from_name(name: &str) -> Option<CounterBackend> {
        let mut all = CounterBackend::ALL.into_iter();
        all.find(|backend| backend.name() == name)
    }

    /// Whether an adoption converts the data: keys have either form.
    pub fn is_mixed(self) -> bool {
        matches!(
            self,
            CounterBackend::StringsOrModule | CounterBackend::ModuleOrStrings
        )
    }

    /// Whether there can be tables.
    pub fn has_tables(self) -> bool {
        self != CounterBackend::Strings
    }

    /// Whether there can be Strings with counters, and Sets in place of id sets.
    pub fn has_strings(self) -> bool {
        self != CounterBackend::Module
    }

    /// Whether what belongs in a table is written to one.
    pub fn writes_tables(self) -> bool {
        matches!(
            self,
            CounterBackend::Module | CounterBackend::ModuleOrStrings
        )
    }

    fn functions(self) -> String {
        let mixed = |prefers_module: bool, fence: &str| {
            format!(
                "local PREFERS_MODULE, IS_MIXED = {prefers_module}, true\n{fence}{MIXED_FUNCTIONS}"
            )
        };
        match self {
            CounterBackend::Module => MODULE_FUNCTIONS.to_owned(),
            CounterBackend::Strings => STRINGS_FUNCTIONS.to_owned(),
            CounterBackend::StringsOrModule => mixed(false, ADOPTION_FENCE),
            CounterBackend::ModuleOrStrings => mixed(true, ""),
        }
    }
}

const MODULE_FUNCTIONS: &str = concat!(
    "local PREFERS_MODULE, IS_MIXED = true, false\n",
    include_str!("../lua/backend_module.lua")
);
const STRINGS_FUNCTIONS: &str = concat!(
    "local PREFERS_MODULE, IS_MIXED = false, false\n",
    include_str!("../lua/adoption_fence.lua"),
    include_str!("../lua/backend_strings.lua")
);
/// Ends scripts of steps of an adoption that are over.
const ADOPTION_FENCE: &str = include_str!("../lua/adoption_fence.lua");
/// Both as tables of functions, and the functions that choose one of them by the type of a key.
const MIXED_FUNCTIONS: &str = concat!(
    "local in_module = (function()\n",
    include_str!("../lua/backend_module.lua"),
    include_str!("../lua/backend_functions.lua"),
    "end)()\nlocal in_strings = (function()\n",
    include_str!("../lua/backend_strings.lua"),
    include_str!("../lua/backend_functions.lua"),
    "end)()\n",
    include_str!("../lua/backend_mixed.lua"),
);
const WRITES: &str = "#!lua";
/// A script with this flag also runs on replicas and when the server is out of memory.
const NO_WRITES: &str = "#!lua flags=no-writes";
const PERMISSION: &str = include_str!("../lua/permission.lua");
/// The functions of scripts that use authors of entities.
pub const AUTHOR: &str = include_str!("../lua/author.lua");
/// The function that reads the state of the sums of credits.
pub const SUMS_STATE: &str = include_str!("../lua/sums_state.lua");
/// The function that announces changed counters.
pub const CHANGES: &str = include_str!("../lua/changes.lua");
/// The function that reads the optional keys of a call.
pub const OPTIONAL_KEYS: &str = include_str!("../lua/optional_keys.lua");
/// The functions that append to the audit.
pub const AUDIT: &str = include_str!("../lua/audit.lua");
/// The functions that count facts.
pub const SOURCES: &str = include_str!("../lua/sources.lua");
/// The functions that decide which differences of counters are corrected.
pub const DRIFT: &str = include_str!("../lua/drift.lua");
/// The function that appends changes without an event to the log.
pub const JOURNAL: &str = include_str!("../lua/journal.lua");
/// Functions of idempotency keys.
pub(super) const IDEMPOTENCY: &str = include_str!("../lua/idempotency.lua");
/// The functions of scripts that count by day.
pub const DAY_COUNTS: &str = include_str!("../lua/day_counts.lua");
/// The functions of scripts that compare the numbers of counts by day. They follow [`DAY_COUNTS`].
pub const DAY_NUMBERS: &str = concat!(
    include_str!("../lua/day_totals.lua"),
    include_str!("../lua/day_numbers.lua")
);
/// Precedes a script that changes a counter with counts by day.
const DAY: &str = include_str!("../lua/day.lua");
/// Precedes the same script for other counters.
pub(super) const NO_DAY: &str = include_str!("../lua/no_day.lua");
/// Moves counters from objects to rows.
const COUNTER_MOVE: &str = include_str!("../lua/counter_move.lua");
/// Precedes a script that uses counters at one place, which a migration moves.
const MOVING_ONE: &str = include_str!("../lua/moving_one.lua");
/// Precedes a script that uses many counters, some of which a migration moves.
const MOVING_MANY: &str = include_str!("../lua/moving_many.lua");
const NUMBERS: &str = include_str!("../lua/numbers.lua");
const COUNTER_ERROR: &str = include_str!("../lua/counter_error.lua");

/// A script as it is loaded into a server.
pub struct LoadedScript {
    /// Its source.
    pub source: String,
    /// The script, with its hash.
    pub script: Script,
    /// What [`required_permissions`](Self::required_permissions) returns, from the first call on.
    required: OnceLock<Permissions>,
}

impl LoadedScript {
    /// A script with this source, which is complete.
    pub fn new(source: impl Into<String>) -> LoadedScript {
        let source = source.into();
        let script = Script::new(&source);
        LoadedScript {
            source,
            script,
            required: OnceLock::new(),
        }
    }

    /// A script that writes and uses neither counters nor id sets.
    pub fn writing(file: &str) -> LoadedScript {
        LoadedScript::new([WRITES, PERMISSION, file].join("\n"))
    }

    /// A script that writes nothing and uses neither counters nor id sets.
    pub fn reading(file: &str) -> LoadedScript {
        LoadedScript::new([NO_WRITES, file].join("\n"))
    }

    /// The permissions that running the script requires. The source is parsed once, since the check of permissions calls this for each
    /// kind of key.
    pub fn required_permissions(&self) -> Permissions {
        let required = self
            .required
            .get_or_init(|| Permissions::of_script(&self.source));
        required.clone()
    }
}

/// A script that uses counters or id sets, assembled for each backend on first use.
pub struct ScriptTemplate {
    first_line: &'static str,
    files: &'static [&'static str],
    /// What precedes the script while a migration moves its counters, if it uses any.
    prelude: Option<&'static str>,
    /// Whether it changes a counter that may have counts by day.
    has_days: bool,
    /// For each backend.
    on: [OnceLock<LoadedScript>; CounterBackend::COUNT],
    moving: OnceLock<LoadedScript>,
    daily: [OnceLock<LoadedScript>; CounterBackend::COUNT],
    daily_moving: OnceLock<LoadedScript>,
}

impl ScriptTemplate {
    /// A script that writes.
    pub const fn writing(files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate::new(WRITES, files)
    }

    /// A script that writes nothing.
    pub const fn reading(files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate::new(NO_WRITES, files)
    }

    const fn new(first_line: &'static str, files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate {
            first_line,
            files,
            prelude: None,
            has_days: false,
            on: [const { OnceLock::new() }; CounterBackend::COUNT],
            moving: OnceLock::new(),
            daily: [const { OnceLock::new() }; CounterBackend::COUNT],
            daily_moving: OnceLock::new(),
        }
    }

    /// The script uses the counters at one place.
    pub const fn with_counters(mut self) -> ScriptTemplate {
        self.prelude = Some(MOVING_ONE);
        self
    }

    /// The script changes the counter at one place, which may have counts by day.
    pub const fn with_days(mut self) -> ScriptTemplate {
        self.has_days = true;
        self.with_counters()
    }

    /// The script uses the counters at many places.
    pub const fn with_many_counters(mut self) -> ScriptTemplate {
        self.prelude = Some(MOVING_MANY);
        self
    }

    /// The script itself moves counters.
    pub const fn with_moves(mut self) -> ScriptTemplate {
        self.prelude = Some("");
        self
    }

    /// The script for a backend.
    pub fn on(&self, backend: CounterBackend) -> &LoadedScript {
        let script = &self.on[backend as usize];
        script.get_or_init(|| self.assemble(backend, &[], self.no_day()))
    }

    /// The script for a backend and a counter with counts by day. Its last keys and arguments are those of the day.
    pub fn daily(&self, backend: CounterBackend) -> &LoadedScript {
        let script = &self.daily[backend as usize];
        script.get_or_init(|| self.assemble(backend, &[], &[DAY_COUNTS, DAY]))
    }

    /// [`moving`](Self::moving), for a counter with counts by day. The keys and arguments of the day precede those of the migration.
    pub fn daily_moving(&self) -> &LoadedScript {
        self.daily_moving.get_or_init(|| {
            let prelude = self.prelude.unwrap_or_default();
            let moving = [COUNTER_MOVE, prelude];
            self.assemble(CounterBackend::Module, &moving, &[DAY_COUNTS, DAY])
        })
    }

    fn no_day(&self) -> &'static [&'static str] {
        match self.has_days {
            true => &[NO_DAY],
            false => &[],
        }
    }

    /// The script while a migration moves its counters. Its last keys and arguments are those of the file that precedes it.
    pub fn moving(&self) -> &LoadedScript {
        self.moving.get_or_init(|| {
            let prelude = self.prelude.unwrap_or_default();
            let moving = [COUNTER_MOVE, prelude];
            self.assemble(CounterBackend::Module, &moving, self.no_day())
        })
    }

    fn assemble(&self, backend: CounterBackend, prelude: &[&str], day: &[&str]) -> LoadedScript {
        let functions = backend.functions();
        let mut files = vec![
            self.first_line,
            PERMISSION,
            IDEMPOTENCY,
            COUNTER_ERROR,
            NUMBERS,
            &functions,
        ];
        files.extend(prelude);
        files.extend(day);
        files.extend(self.files);
        LoadedScript::new(files.join("\n"))
    }

    /// The permissions that running the script requires, also while a migration moves its counters.
    pub fn required_permissions(&self, backend: CounterBackend) -> Permissions {
        let mut required = self.on(backend).required_permissions();
        if self.has_days {
            required = required.and(self.daily(backend).required_permissions());
        }
        if backend == CounterBackend::Module && self.prelude.is_some() {
            required = required.and(self.moving().required_permissions());
            if self.has_days {
                required = required.and(self.daily_moving().required_permissions());
            }
        }
        required
    }
}
