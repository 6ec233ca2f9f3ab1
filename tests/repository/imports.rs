//! The graph of imports between the modules of a crate: an edge for each module that another names by `use` or by path.
//!
//! Modules under `#[cfg(test)]`, declarations of child modules and visibilities are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Ident, ItemMod, ItemUse, Macro, UseTree};

/// The path of a module from the root of the crate. The root is empty.
pub type Module = Vec<String>;

/// The modules of a crate and their imports.
#[derive(Default)]
pub struct Graph {
    /// The modules of the same crate that each module names.
    pub imports: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    /// Reads a crate, given the file of its root.
    pub fn of_crate(root: &Path) -> Graph {
        let mut paths = BTreeMap::new();
        read_module(root, &Module::new(), &mut paths);
        let modules: BTreeSet<Module> = paths.keys().cloned().collect();
        let resolved = paths.into_iter().map(|(module, paths)| {
            let named = paths.iter().map(|path| enclosing(path, &modules));
            let others: BTreeSet<Module> = named.filter(|other| *other != module).collect();
            (module, others)
        });
        Graph {
            imports: resolved.collect(),
        }
    }

    /// The graph of the top-level modules, each with all modules in it. The root is left out.
    pub fn top_level(&self) -> Graph {
        let mut graph = Graph::default();
        for (module, others) in &self.imports {
            let Some(top) = module.first() else { continue };
            let imports = graph.imports.entry(vec![top.clone()]).or_default();
            let others = others.iter().filter_map(|other| other.first());
            imports.extend(
                others
                    .filter(|other| *other != top)
                    .map(|t| vec![t.clone()]),
            );
        }
        graph
    }

    /// The cycles: the strongly connected components of more than one module.
    pub fn cycles(&self) -> Vec<Vec<Module>> {
        let reachable: BTreeMap<&Module, BTreeSet<&Module>> = self
            .imports
            .keys()
            .map(|module| (module, self.reachable_from(module)))
            .collect();
        let mut components: BTreeSet<Vec<Module>> = BTreeSet::new();
        for (module, others) in &reachable {
            let mutual = others
                .iter()
                .filter(|other| reachable[**other].contains(module));
            let component: Vec<Module> = mutual.map(|&other| other.clone()).collect();
            if component.len() > 1 {
                components.insert(component);
            }
        }
        components.into_iter().collect()
    }

    fn reachable_from<'a>(&'a self, module: &'a Module) -> BTreeSet<&'a Module> {
        let (mut seen, mut pending) = (BTreeSet::new(), vec![module]);
        while let Some(module) = pending.pop() {
            for other in &self.imports[module] {
                if seen.insert(other) {
                    pending.push(other);
                }
            }
        }
        seen
    }
}

/// The path of a module as text. The root is `crate`.
pub fn display(module: &Module) -> String {
    match module.is_empty() {
        true => "crate".into(),
        false => module.join("::"),
    }
}

/// The longest prefix of a path that is a module.
fn enclosing(path: &[String], modules: &BTreeSet<Module>) -> Module {
    let prefixes = (0..=path.len()).rev().map(|length| path[..length].to_vec());
    let mut known = prefixes
        .into_iter()
        .filter(|prefix| modules.contains(prefix));
    known.next().unwrap_or_default()
}

/// Reads the files of a module and its children, and collects the paths in this crate that each of them names.
fn read_module(file: &Path, module: &Module, paths: &mut BTreeMap<Module, Vec<Module>>) {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut collector = Collector::new(module.clone());
    collector.visit_file(&parsed);
    paths.insert(module.clone(), collector.paths);
    for (child, path) in collector.children {
        let directory = file.parent().expect("a file has a directory");
        let file = path.map_or_else(
            || file_of_child(file, module, &child),
            |path| directory.join(path),
        );
        let child = [&module[..], &[child]].concat();
        read_module(&file, &child, paths);
    }
}

/// The file of a child module without a `path` attribute.
fn file_of_child(parent: &Path, module: &Module, child: &str) -> PathBuf {
    let directory = parent.parent().expect("a file has a directory");
    let stem = parent.file_stem().expect("a file has a name");
    // The children of `x.rs` are in `x/`. Those of the root and of `mod.rs` are beside it.
    let directory = match module.is_empty() || stem == "mod" {
        true => directory.to_path_buf(),
        false => directory.join(stem),
    };
    let file = directory.join(format!("{child}.rs"));
    match file.is_file() {
        true => file,
        false => directory.join(child).join("mod.rs"),
    }
}

/// Collects the paths that begin with `crate`, `self`, `super` or a child module.
struct Collector {
    module: Module,
    paths: Vec<Module>,
    /// The child modules in files of their own, with their `path` attributes.
    children: Vec<(String, Option<String>)>,
    /// The enclosing inline modules, which count as part of the file's module.
    inline: Vec<String>,
}

impl Collector {
    fn new(module: Module) -> Collector {
        Collector {
            module,
            paths: Vec::new(),
            children: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// Records a path if it is in this crate.
    fn add(&mut self, segments: &[String]) {
        let mut base: Module = [&self.module[..], &self.inline[..]].concat();
        let mut rest = segments;
        match segments.first().map(String::as_str) {
            Some("crate") => {
                base.clear();
                rest = &segments[1..];
            }
            Some("self") if segments.len() > 1 => rest = &segments[1..],
            Some("super") => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            // `child::Item` names a child module. Any other first segment is a crate or an item in scope.
            Some(name) if self.children.iter().any(|(child, _)| child == name) => {}
            _ => return,
        }
        base.extend(rest.iter().cloned());
        self.paths.push(base);
    }

    fn add_tree(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        let name = |ident: &Ident| ident.to_string();
        match tree {
            UseTree::Path(path) => {
                prefix.push(name(&path.ident));
                self.add_tree(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(prefix, tree);
                }
            }
            UseTree::Name(leaf) => self.add(&[&prefix[..], &[name(&leaf.ident)]].concat()),
            UseTree::Rename(leaf) => self.add(&[&prefix[..], &[name(&leaf.ident)]].concat()),
            UseTree::Glob(_) => self.add(&prefix.clone()),
        }
    }

    /// Records the `crate::` and `super::` paths in the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_macro_path(&path);
                        path.clear();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                _ => {
                    self.add_macro_path(&path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.add_macro_path(&path);
    }

    fn add_macro_path(&mut self, path: &[String]) {
        if path.len() > 1 && ["crate", "super"].contains(&path[0].as_str()) {
            self.add(path);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_file(&mut self, file: &'ast syn::File) {
        // Children first, since `use` items can precede their declarations.
        for item in &file.items {
            if let syn::Item::Mod(item) = item
                && item.content.is_none()
                && !is_test(&item.attrs)
            {
                self.children
                    .push((item.ident.to_string(), path_attribute(&item.attrs)));
            }
        }
        syn::visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            self.inline.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.inline.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.add_tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.add(&segments);
        }
        syn::visit::visit_path(self, path);
    }

    /// The path of `pub(in path)` is not an import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.add_tokens(invocation.tokens.clone());
        syn::visit::visit_macro(self, invocation);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Ident>()
                    .is_ok_and(|condition| condition == "test")
    })
}

/// The value of a `#[path = "..."]` attribute.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|a| a.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}
