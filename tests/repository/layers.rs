//! The modules of a crate form layers: imports have no cycle, and a layer imports only layers declared before it.

use crate::imports::{Graph, Module, display};
use countint_tests::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate whose top-level modules are layers.
struct Crate {
    /// The file of its root, relative to the workspace.
    root: &'static str,
    /// Its top-level modules. Each imports only modules before it.
    layers: &'static [&'static str],
}

/// The crates whose layers are checked, one line each.
#[rustfmt::skip]
const CRATES: &[Crate] = &[
    Crate { root: "benches/live/src/main.rs", layers: &["error", "driver", "workload", "measure", "report", "sections", "options"] },
    Crate { root: "countd/src/lib.rs", layers: &["domain", "http_client", "trace", "redis", "log", "storage", "facts", "repair", "query", "ingest", "consumer", "maintenance", "database", "relay", "sink", "monitor", "http"] },
    Crate { root: "src/lib.rs", layers: &["error", "config", "stats", "scratch", "server", "types", "commands", "registry", "entry"] },
    Crate { root: "core/src/lib.rs", layers: &["decimal", "search", "size_class", "countint", "counttab", "idset"] },
    Crate { root: "tests/support/lib.rs", layers: SUPPORT },
];

/// Crates whose modules have no declared order: binaries and tests.
const UNORDERED: &[&str] = &[
    "countd/src/main.rs",
    "countd/tests/main.rs",
    "tests/integration/main.rs",
    "tests/repository/main.rs",
];

/// The modules of the test support, from the bottom up.
#[rustfmt::skip]
const SUPPORT: &[&str] = &[
    "line", "reply", "env", "wait", "kafka", "shim", "clock", "disk", "page", "scenario", "routing", "client", "payload", "console", "builder", "server", "stream",
    "cluster", "play", "snapshot",
];

fn graph(root: &str) -> Graph {
    Graph::of_crate(&env::workspace().join(root))
}

fn names(modules: &[Module]) -> String {
    let names: Vec<String> = modules.iter().map(display).collect();
    names.join(", ")
}

#[test]
fn imports_have_no_cycle() {
    for root in CRATES
        .iter()
        .map(|one| one.root)
        .chain(UNORDERED.iter().copied())
    {
        let cycles: Vec<String> = graph(root).cycles().iter().map(|c| names(c)).collect();
        assert!(cycles.is_empty(), "{root}:\n{}", cycles.join("\n"));
    }
}

#[test]
fn a_layer_imports_only_layers_before_it() {
    for Crate { root, layers } in CRATES {
        for (module, imports) in graph(root).top_level().imports {
            let place = |name: &str| {
                let found = layers.iter().position(|layer| *layer == name);
                found.unwrap_or_else(|| panic!("{root}: {name} is not in the list of layers"))
            };
            for import in imports {
                assert!(
                    place(&import[0]) < place(&module[0]),
                    "{root}: {} imports {}",
                    display(&module),
                    display(&import)
                );
            }
        }
    }
}

/// A crate in a temporary folder, which is removed on drop.
struct TemporaryCrate(PathBuf);

impl TemporaryCrate {
    fn new(name: &str, files: &[(&str, &str)]) -> TemporaryCrate {
        let root = std::env::temp_dir().join(format!("layers-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a file has a directory"))
                .expect("a temporary folder can be created");
            fs::write(path, text).expect("a temporary file can be written");
        }
        TemporaryCrate(root)
    }

    fn cycles(&self) -> Vec<String> {
        let graph = Graph::of_crate(&self.0.join("lib.rs"));
        graph.cycles().iter().map(|cycle| names(cycle)).collect()
    }
}

impl Drop for TemporaryCrate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

#[test]
fn cycles_are_found_in_every_kind_of_import() {
    let other = ("b/mod.rs", "use crate::a::A; pub mod c; pub struct B;");
    for (name, import) in [
        ("use", "use crate::b::B; pub struct A;"),
        ("group", "use crate::{b::{self, B}}; pub struct A;"),
        ("super", "use super::b::B; pub struct A;"),
        (
            "path",
            "pub struct A; fn f() -> crate::b::B { crate::b::B }",
        ),
        (
            "macro",
            "pub struct A; fn f() { println!(\"{}\", crate::b::B) }",
        ),
    ] {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", import),
            other,
            ("b/c.rs", ""),
        ];
        let found = TemporaryCrate::new(name, &files).cycles();
        assert_eq!(found, ["a, b"], "{name}");
    }
}

#[test]
fn imports_of_tests_are_ignored() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ];
    assert!(TemporaryCrate::new("tests", &files).cycles().is_empty());
}

/// `pub(in path)` restricts visibility. It imports nothing.
#[test]
fn visibilities_are_ignored() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b; pub use b::B;"),
        (
            "a/b.rs",
            "pub(in super::super) struct B; pub(super) struct C;",
        ),
    ];
    assert!(
        TemporaryCrate::new("visibility", &files)
            .cycles()
            .is_empty()
    );
}

#[test]
fn a_parent_and_a_child_can_form_a_cycle() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; use b::B; pub struct A;"),
        ("a/b.rs", "use super::A; pub struct B;"),
    ];
    let found = TemporaryCrate::new("child", &files).cycles();
    assert_eq!(found, ["a, a::b"]);
}
