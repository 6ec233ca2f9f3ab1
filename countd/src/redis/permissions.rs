//! The permissions that countd's Redis user needs, declared beside the code that needs them.
//!
//! A declaration is an example of a command, such as `XADD {log} 0-* f v`. A name in braces stands for a kind of key.
//!
//! - Lua code declares the commands that it calls in comments: `-- requires: XADD {log} 0-* f v`. Declarations directly above a
//!   function belong to the function. All other declarations belong to the main code of the script. A script requires the declared
//!   commands of its main code and of the functions that it calls.
//! - Rust code that sends a command by itself declares it in a constant of the same file.

use std::collections::{BTreeSet, HashMap};

/// The prefix of a declaration in Lua.
const REQUIRES: &str = "-- requires: ";

/// Declared commands, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(BTreeSet<String>);

impl Permissions {
    /// The permissions to send these commands.
    pub fn of_commands(commands: &[&str]) -> Permissions {
        Permissions(commands.iter().map(|&line| line.to_owned()).collect())
    }

    /// The permissions to run a script.
    pub fn of_script(source: &str) -> Permissions {
        let functions = functions(source);
        // Functions for different backends have the same names: a call may be of any of them.
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, function) in functions.iter().enumerate().skip(1) {
            named.entry(function.name).or_default().push(at);
        }
        let (mut called, mut required) = (BTreeSet::new(), BTreeSet::new());
        let mut pending = vec![0];
        while let Some(at) = pending.pop() {
            if called.insert(at) {
                let caller = &functions[at];
                required.extend(caller.required.iter().map(|&line| line.to_owned()));
                let callees = caller.callees();
                let known = callees.iter().filter_map(|name| named.get(name));
                pending.extend(known.flatten());
            }
        }
        Permissions(required).through_script()
    }

    /// Adds the permission to pass the keys of these commands to a script.
    pub fn through_script(mut self) -> Permissions {
        let arguments = self.0.iter().flat_map(|line| line.split(' ').skip(1));
        let kinds: BTreeSet<&str> = arguments
            .filter(|argument| kind_of_key(argument).is_some())
            .collect();
        let calls: Vec<String> = kinds
            .iter()
            .map(|kind| format!("EVALSHA x 1 {kind}"))
            .collect();
        self.0.extend(calls);
        self
    }

    /// The union of two sets of permissions.
    pub fn and(mut self, others: Permissions) -> Permissions {
        self.0.extend(others.0);
        self
    }

    /// The declarations.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// The kind of key that an argument of a declaration names.
pub fn kind_of_key(argument: &str) -> Option<&str> {
    argument.strip_prefix('{')?.strip_suffix('}')
}

/// A function of a Lua script, or the main code, whose name is empty.
#[derive(Default)]
struct LuaFunction<'a> {
    name: &'a str,
    required: Vec<&'a str>,
    body: Vec<&'a str>,
}

impl<'a> LuaFunction<'a> {
    /// The names before an opening parenthesis. Each line is read once, because every process does this for all scripts when it starts.
    fn callees(&self) -> BTreeSet<&'a str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let lines = self.body.iter();
        lines
            .flat_map(|line| line.match_indices('(').map(|(at, _)| &line[..at]))
            .filter_map(|before| before.rsplit(|c| !is_word(c)).next())
            .collect()
    }
}

/// The main code of a script and its functions, each with its declarations.
fn functions(source: &str) -> Vec<LuaFunction<'_>> {
    let (mut main, mut found) = (LuaFunction::default(), Vec::new());
    let mut declared = Vec::new();
    let mut current: Option<LuaFunction<'_>> = None;
    for line in source.lines() {
        if let Some(mut function) = current.take() {
            if line == "end" {
                found.push(function);
            } else {
                function.body.push(line);
                current = Some(function);
            }
        } else if let Some(command) = line.strip_prefix(REQUIRES) {
            declared.push(command.trim_end());
        } else if let Some(rest) = line.strip_prefix("local function ") {
            current = Some(LuaFunction {
                name: rest.split('(').next().unwrap_or(rest),
                required: std::mem::take(&mut declared),
                body: Vec::new(),
            });
        } else if !line.starts_with("--") {
            main.required.append(&mut declared);
            main.body.push(line);
        }
    }
    main.required.append(&mut declared);
    found.insert(0, main);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const LIBRARY: &str = "
-- Reads.
-- requires: GET {counters}
local function value(key)
  return redis.call('GET', key)
end

-- requires: SET {counters} 0
local function write(key)
  value(key)
  redis.call('SET', key, 0)
end
";

    fn lines(source: &str) -> Vec<String> {
        let permissions = Permissions::of_script(source);
        permissions.lines().map(str::to_owned).collect()
    }

    #[test]
    fn script_requires_what_the_functions_it_calls_require() {
        let reads =
            "-- requires: XADD {log} 0-* f v\n\nredis.call('XADD', KEYS[2])\nvalue(KEYS[1])";
        assert_eq!(
            lines(&[LIBRARY, reads].join("\n")),
            [
                "EVALSHA x 1 {counters}",
                "EVALSHA x 1 {log}",
                "GET {counters}",
                "XADD {log} 0-* f v"
            ]
        );
        let writes = lines(&[LIBRARY, "return write(KEYS[1])"].join("\n"));
        assert_eq!(
            writes,
            [
                "EVALSHA x 1 {counters}",
                "GET {counters}",
                "SET {counters} 0"
            ]
        );
        assert!(lines(&[LIBRARY, "return my_value(1)"].join("\n")).is_empty());
    }

    /// The commands that Lua code calls by name.
    fn called<'a>(body: &[&'a str]) -> BTreeSet<&'a str> {
        let calls = body.iter().flat_map(|line| line.split("call('").skip(1));
        calls.filter_map(|rest| rest.split('\'').next()).collect()
    }

    fn command(line: &str) -> &str {
        line.split(' ').next().unwrap_or(line)
    }

    #[test]
    fn lua_files_declare_exactly_the_commands_they_call() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lua");
        let mut files = 0;
        for file in fs::read_dir(directory).expect("the Lua files") {
            let path = file.expect("a file").path();
            let source = fs::read_to_string(&path).expect("a text");
            files += 1;
            let functions = functions(&source);
            let in_file: BTreeSet<&str> = functions
                .iter()
                .flat_map(|function| called(&function.body))
                .collect();
            let main: BTreeSet<&str> = functions[0].required.iter().map(|l| command(l)).collect();
            for function in &functions {
                let name = format!("{}: {}", path.display(), function.name);
                let declared: BTreeSet<&str> =
                    function.required.iter().map(|line| command(line)).collect();
                for command in called(&function.body) {
                    let is_declared = declared.contains(command) || main.contains(command);
                    assert!(
                        is_declared,
                        "{name} calls {command} and does not declare it"
                    );
                }
                let own = called(&function.body);
                let calls = if function.name.is_empty() {
                    &in_file
                } else {
                    &own
                };
                for command in declared {
                    assert!(
                        calls.contains(command),
                        "{name} declares {command} and does not call it"
                    );
                }
            }
        }
        assert!(files > 20, "{files}");
    }

    fn rust_files(directory: &Path, files: &mut Vec<String>) {
        for file in fs::read_dir(directory).expect("a directory") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                rust_files(&path, files);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let source = fs::read_to_string(&path).expect("a text");
                files.push(source);
            }
        }
    }

    #[test]
    fn rust_files_declare_the_commands_they_send() {
        let mut files = Vec::new();
        rust_files(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut files,
        );
        let mut sent = 0;
        for source in files {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            for rest in code.split("cmd(\"").skip(1) {
                let command = rest.split('"').next().unwrap_or_default();
                // AUTH needs no permission. SENTINEL is not for the servers of the data. The others are declared in redis/store.rs and by each script.
                if ["AUTH", "EVALSHA", "SCRIPT", "SELECT", "SENTINEL"].contains(&command) {
                    continue;
                }
                sent += 1;
                let is_declared = [format!("\"{command}\""), format!("\"{command} ")]
                    .iter()
                    .map(|declaration| code.matches(declaration.as_str()).count())
                    .sum::<usize>()
                    > code.matches(&format!("cmd(\"{command}\"")).count();
                assert!(
                    is_declared,
                    "{command} is not declared where it is sent:\n{rest:.200}"
                );
            }
        }
        assert!(sent > 15, "{sent}");
    }
}
