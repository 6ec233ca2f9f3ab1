//! The Lua scripts that use counters or facts. Each is put together from files: what such a script does with counters and sets of
//! ids, which is one file for servers with the module and another one for those without; what several scripts share; and the
//! script itself. Those that use neither are made of [`script`].

use redis::Script;
use std::sync::OnceLock;

/// How a server keeps counters and sets of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// As the module's types.
    Module,
    /// As Strings and Sets.
    Plain,
}

impl Backing {
    /// Its name in the data.
    pub fn name(self) -> &'static str {
        match self {
            Backing::Module => "module",
            Backing::Plain => "plain",
        }
    }

    fn prelude(self) -> &'static str {
        match self {
            Backing::Module => include_str!("../lua/server_module.lua"),
            Backing::Plain => include_str!("../lua/server_plain.lua"),
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
pub struct Code {
    /// Its text.
    pub source: String,
    /// Its name there.
    pub script: Script,
}

impl Code {
    /// Of its text.
    pub fn new(source: String) -> Code {
        let script = Script::new(&source);
        Code { source, script }
    }
}

/// A script in both forms.
pub struct Parts {
    first_line: &'static str,
    files: &'static [&'static str],
    module: OnceLock<Code>,
    plain: OnceLock<Code>,
}

impl Parts {
    /// One that writes.
    pub const fn writing(files: &'static [&'static str]) -> Parts {
        Parts::new("#!lua", files)
    }

    /// One that only reads: it also works when memory is full, and on replicas.
    pub const fn reading(files: &'static [&'static str]) -> Parts {
        Parts::new("#!lua flags=no-writes", files)
    }

    const fn new(first_line: &'static str, files: &'static [&'static str]) -> Parts {
        Parts {
            first_line,
            files,
            module: OnceLock::new(),
            plain: OnceLock::new(),
        }
    }

    /// The form for a server.
    pub fn on(&self, backing: Backing) -> &Code {
        let form = match backing {
            Backing::Module => &self.module,
            Backing::Plain => &self.plain,
        };
        form.get_or_init(|| {
            let mut files = vec![self.first_line, MAY, REFUSAL, backing.prelude()];
            files.extend(self.files);
            Code::new(files.join("\n"))
        })
    }
}
