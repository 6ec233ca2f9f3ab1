//! The Lua scripts that use counters or facts. Each is put together from files: what such a script does with counters and sets of
//! ids, which is one file for servers with the module and another one for those without; what several scripts share; and the
//! script itself. Those that use neither are made of [`script`].

use redis::Script;
use std::sync::OnceLock;

/// How a server keeps counters and sets of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterBackend {
    /// As the module's types.
    Module,
    /// As Strings and Sets.
    Strings,
}

impl CounterBackend {
    /// Its name in the data.
    pub fn name(self) -> &'static str {
        match self {
            CounterBackend::Module => "module",
            CounterBackend::Strings => "plain",
        }
    }

    fn prelude(self) -> &'static str {
        match self {
            CounterBackend::Module => include_str!("../lua/server_module.lua"),
            CounterBackend::Strings => include_str!("../lua/server_plain.lua"),
        }
    }
}

/// How scripts find out what their user may do.
const MAY: &str = include_str!("../lua/may.lua");
/// How they refuse counters.
const REFUSAL: &str = include_str!("../lua/refusal.lua");

/// The text of a script that writes and uses no counters.
pub fn script(file: &str) -> String {
    ["#!lua", MAY, file].join("\n")
}

/// A script as a server gets it.
pub struct LoadedScript {
    /// Its text.
    pub source: String,
    /// Its name there.
    pub script: Script,
}

impl LoadedScript {
    /// Of its text.
    pub fn new(source: String) -> LoadedScript {
        let script = Script::new(&source);
        LoadedScript { source, script }
    }
}

/// A script in both forms.
pub struct ScriptTemplate {
    first_line: &'static str,
    files: &'static [&'static str],
    module: OnceLock<LoadedScript>,
    plain: OnceLock<LoadedScript>,
}

impl ScriptTemplate {
    /// One that writes.
    pub const fn writing(files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate::new("#!lua", files)
    }

    /// One that only reads: it also works when memory is full, and on replicas.
    pub const fn reading(files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate::new("#!lua flags=no-writes", files)
    }

    const fn new(first_line: &'static str, files: &'static [&'static str]) -> ScriptTemplate {
        ScriptTemplate {
            first_line,
            files,
            module: OnceLock::new(),
            plain: OnceLock::new(),
        }
    }

    /// The form for a server.
    pub fn on(&self, backend: CounterBackend) -> &LoadedScript {
        let form = match backend {
            CounterBackend::Module => &self.module,
            CounterBackend::Strings => &self.plain,
        };
        form.get_or_init(|| {
            let mut files = vec![self.first_line, MAY, REFUSAL, backend.prelude()];
            files.extend(self.files);
            LoadedScript::new(files.join("\n"))
        })
    }
}
