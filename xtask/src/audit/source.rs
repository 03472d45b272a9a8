//! The uses in the source, found in its syntax: comments, strings and tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, ItemStatic, ItemTrait, Macro,
    Signature, TraitItemFn, Type, UseName, UseRename,
};

use super::revealing::{self, Function, plain};
use super::shared;
use super::{Kind, Place, Uses};

/// The uses below `root`: in the crates, their tests and tools.
pub(super) fn uses(root: &Path) -> io::Result<Uses> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz", "tools"] {
        collect(&root.join(folder), &mut files)?;
    }
    let prefix = format!("{}/", root.display());
    for (path, _) in &mut files {
        let shown = path.strip_prefix(&prefix).unwrap_or(path);
        *path = shown.strip_prefix("crates/").unwrap_or(shown).to_owned();
    }
    of_files(&files)
}

/// The uses in these files, by path and text.
pub(super) fn of_files(files: &[(String, String)]) -> io::Result<Uses> {
    // What one file declares for tests alone, another one may compile: a library and a program beside it.
    let (mut only_tests, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in files {
        let (tests, rest) = modules(path, text);
        only_tests.extend(tests);
        others.extend(rest);
    }
    only_tests.retain(|module| !others.contains(module));
    let mut read = Vec::new();
    let (mut functions, mut statics) = (Vec::new(), BTreeSet::new());
    for (path, text) in files {
        let stem = path.trim_end_matches(".rs");
        let tests = only_tests.iter().any(|test: &String| {
            stem == test || stem.strip_prefix(test.as_str()).is_some_and(|x| x.starts_with('/'))
        });
        if !tests && !is_counterexample(path) {
            let file = parse(path, text)?;
            if is_source(path) {
                let mut elsewhere = Elsewhere { found: false };
                elsewhere.visit_file(&file);
                if elsewhere.found {
                    let message = format!("{path}: source from another file is not read");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                let mut collector = Collector { functions: &mut functions, statics: &mut statics };
                collector.visit_file(&file);
            }
            read.push((path, file));
        }
    }
    let revealing = revealing::names(&functions);
    let mut uses = Uses::new();
    for (path, file) in &read {
        let mut visitor = Visitor {
            path,
            is_source: is_source(path),
            types: types(file),
            owner: None,
            function: Vec::new(),
            revealing: &revealing,
            statics: &statics,
            uses: &mut uses,
        };
        visitor.visit_file(file);
    }
    for used in uses.values_mut() {
        used.tokens = match used.tokens.is_empty() {
            true => "-".to_owned(),
            false => format!("{:08x}", hash(&used.tokens)),
        };
    }
    Ok(uses)
}

/// Whether a file is compiled into what is shipped, so far as its place tells.
fn is_source(path: &str) -> bool {
    let elsewhere = ["/tests/", "/examples/", "/benches/"];
    !path.starts_with("xtask/")
        && !path.starts_with("fuzz/")
        && !path.starts_with("tools/")
        && !path.ends_with("build.rs")
        && !elsewhere.iter().any(|folder| path.contains(folder) && !path.contains("/src/"))
}

/// Files that must not compile are no Rust, or call what is not there.
fn is_counterexample(path: &str) -> bool {
    path.contains("/compile-fail/")
}

/// FNV-1a. It tells that somebody has changed a function, not that nobody has tried to hide it.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn parse(path: &str, text: &str) -> io::Result<syn::File> {
    syn::parse_file(text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {error}")))
}

fn collect(directory: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            // What cargo and the fuzzer make.
            if !path.ends_with("target") && !path.ends_with("corpus") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((path.display().to_string(), fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// The files, without `.rs`, of the modules that a file declares for tests, and of the others.
fn modules(path: &str, text: &str) -> (Vec<String>, Vec<String>) {
    let Ok(file) = parse(path, text) else { return (Vec::new(), Vec::new()) };
    let stem = path.trim_end_matches(".rs");
    let base = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let declared = |tests: bool| {
        let modules = file.items.iter().filter_map(move |item| match item {
            syn::Item::Mod(module) if module.content.is_none() => {
                (for_tests(&module.attrs) == tests).then(|| format!("{base}/{}", module.ident))
            }
            _ => None,
        });
        modules.collect()
    };
    (declared(true), declared(false))
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<Ident>().is_ok_and(|name| name == "test"))
    })
}

/// Looks for files that are compiled as a part of this one.
struct Elsewhere {
    found: bool,
}

impl<'ast> Visit<'ast> for Elsewhere {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.found |= module.attrs.iter().any(|attribute| {
            let mut words = BTreeSet::new();
            identifiers_of(attribute.meta.to_token_stream(), &mut words);
            // The attribute itself, or one under a condition.
            attribute.path().is_ident("path")
                || attribute.path().is_ident("cfg_attr") && words.contains("path")
        });
        visit::visit_item_mod(self, module);
    }

    fn visit_macro(&mut self, macro_call: &'ast Macro) {
        let name = macro_call.path.segments.last().map(|last| plain(&last.ident.to_string()));
        self.found |= name.is_some_and(|name| name == "include");
    }
}

/// Collects functions, and statics that can be written to.
struct Collector<'a> {
    functions: &'a mut Vec<Function>,
    statics: &'a mut BTreeSet<String>,
}

impl Collector<'_> {
    fn add(&mut self, attributes: &[Attribute], signature: &Signature, body: TokenStream) {
        if !for_tests(attributes) {
            let mut identifiers = BTreeSet::new();
            identifiers_of(body, &mut identifiers);
            self.functions.push(Function::new(signature, identifiers));
        }
    }
}

fn identifiers_of(tokens: TokenStream, identifiers: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(identifier) => {
                identifiers.insert(plain(&identifier.to_string()));
            }
            TokenTree::Group(group) => identifiers_of(group.stream(), identifiers),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.attrs, &function.sig, function.block.to_token_stream());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.attrs, &function.sig, function.block.to_token_stream());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if shared::is_writable(item) && !for_tests(&item.attrs) {
            self.statics.insert(plain(&item.ident.to_string()));
        }
        visit::visit_item_static(self, item);
    }

    fn visit_macro(&mut self, macro_call: &'ast Macro) {
        if macro_call.path.segments.last().is_some_and(|last| last.ident == "thread_local") {
            shared::of_threads(macro_call.tokens.clone(), self.statics);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.add(&function.attrs, &function.sig, function.default.to_token_stream());
        visit::visit_trait_item_fn(self, function);
    }
}

/// Without attributes, so that a comment asks for nothing.
fn tokens_of(signature: &Signature, block: &Block) -> TokenStream {
    let mut tokens = signature.to_token_stream();
    block.to_tokens(&mut tokens);
    tokens
}

/// Tokens of the structs and enums of a file, by name.
fn types(file: &syn::File) -> BTreeMap<String, String> {
    let types = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((&item.ident, item.to_token_stream())),
        Item::Enum(item) => Some((&item.ident, item.to_token_stream())),
        _ => None,
    });
    types
        .map(|(name, tokens)| (plain(&name.to_string()), without_attributes(tokens).to_string()))
        .collect()
}

/// Tokens without `#[…]`, documentation among them.
fn without_attributes(tokens: TokenStream) -> TokenStream {
    let mut kept = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let is_attribute = |next: &TokenTree| matches!(next, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket);
                if tokens.next_if(is_attribute).is_none() {
                    kept.extend([TokenTree::Punct(mark)]);
                }
            }
            TokenTree::Group(group) => {
                let inside = without_attributes(group.stream());
                kept.extend([TokenTree::Group(Group::new(group.delimiter(), inside))]);
            }
            token => kept.extend([token]),
        }
    }
    kept
}

fn is_releasable(name: &Ident) -> bool {
    plain(&name.to_string()) == "Releasable"
}

struct Visitor<'a> {
    path: &'a str,
    is_source: bool,
    /// Tokens of the types that the file defines.
    types: BTreeMap<String, String>,
    owner: Option<String>,
    /// Name and tokens of each function around.
    function: Vec<(String, String)>,
    revealing: &'a BTreeSet<String>,
    /// Those that can be written to.
    statics: &'a BTreeSet<String>,
    uses: &'a mut Uses,
}

impl Visitor<'_> {
    fn identifier(&mut self, identifier: &Ident) {
        let name = plain(&identifier.to_string());
        let Some(kind) = Kind::of(&name, self.revealing) else { return };
        // The streams of tests and tools carry what is public or invented.
        if !self.is_source && kind != Kind::Reveal {
            return;
        }
        let whole_file = kind == Kind::DataStream || !self.is_source;
        match self.function.first().filter(|_| !whole_file).cloned() {
            Some((function, tokens)) => self.count(kind, &function, &tokens),
            None => self.count(kind, "-", ""),
        }
    }

    fn count(&mut self, kind: Kind, function: &str, tokens: &str) {
        let place = Place { path: self.path.to_owned(), function: function.to_owned(), kind };
        let used = self.uses.entry(place).or_default();
        used.times += 1;
        if !used.tokens.contains(tokens) {
            used.tokens += tokens;
        }
    }

    /// Counts an implementation of `Releasable`, by its type where the file defines that.
    fn release(&mut self, block: &ItemImpl, of: Option<&str>) {
        let tokens = without_attributes(block.to_token_stream()).to_string();
        match of.and_then(|of| Some((of, self.types.get(of)?.clone()))) {
            Some((of, definition)) => self.count(Kind::Releasable, of, &(tokens + &definition)),
            None => self.count(Kind::Releasable, "-", &tokens),
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(identifier) => {
                    self.identifier(&identifier);
                    if self.is_source && is_releasable(&identifier) {
                        self.count(Kind::Releasable, "-", "");
                    }
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn within(&mut self, name: &Ident, tokens: TokenStream, visit: impl FnOnce(&mut Self)) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{name}"),
            None => name.to_string(),
        };
        if self.is_source && self.function.is_empty() {
            let mut identifiers = BTreeSet::new();
            identifiers_of(tokens.clone(), &mut identifiers);
            if !identifiers.is_disjoint(self.revealing) {
                for _ in 0..shared::times_in(tokens.clone(), self.statics) {
                    self.count(Kind::Shared, &name, &tokens.to_string());
                }
            }
        }
        self.function.push((name, tokens.to_string()));
        visit(self);
        self.function.pop();
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if for_tests(&block.attrs) {
            return;
        }
        let name = match &*block.self_ty {
            Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        let of = block.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if self.is_source && of.is_some_and(|of| is_releasable(&of.ident)) {
            // A path of several segments leads to another file's type, whatever its last name.
            let is_path =
                |ty: &Type| matches!(ty, Type::Path(path) if path.path.segments.len() > 1);
            let own = name.as_deref().filter(|_| !is_path(&block.self_ty));
            self.release(block, own);
        }
        let outer = std::mem::replace(&mut self.owner, name);
        visit::visit_item_impl(self, block);
        self.owner = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let outer = self.owner.replace(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.owner = outer;
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !for_tests(&function.attrs) {
            let tokens = tokens_of(&function.sig, &function.block);
            self.within(&function.sig.ident, tokens, |this| visit::visit_item_fn(this, function));
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !for_tests(&function.attrs) {
            let tokens = tokens_of(&function.sig, &function.block);
            self.within(&function.sig.ident, tokens, |this| {
                visit::visit_impl_item_fn(this, function)
            });
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        let tokens = function.default.to_token_stream();
        self.within(&function.sig.ident, tokens, |this| visit::visit_trait_item_fn(this, function));
    }

    fn visit_macro(&mut self, macro_call: &'ast Macro) {
        self.tokens(macro_call.tokens.clone());
    }

    // That a name is imported lets nothing out, but as another name it would not be found.
    fn visit_use_name(&mut self, name: &'ast UseName) {
        let kind = Kind::of(&plain(&name.ident.to_string()), self.revealing);
        if !matches!(kind, Some(Kind::Declassified | Kind::Unprotected)) {
            visit::visit_use_name(self, name);
        }
    }

    fn visit_use_rename(&mut self, rename: &'ast UseRename) {
        if self.is_source && is_releasable(&rename.ident) {
            self.count(Kind::Releasable, "-", "");
        }
        visit::visit_use_rename(self, rename);
    }

    // Documentation is an attribute with a string, and no macro of an attribute handles secrets.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_ident(&mut self, identifier: &'ast Ident) {
        self.identifier(identifier);
    }
}
