//! The uses in the source, found in its syntax: comments, strings and tests do not count.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Macro, TraitItemFn, Type};

use super::{Kind, Place, Uses};

/// The uses below `root`: the sources of the crates.
pub(super) fn uses(root: &Path) -> io::Result<Uses> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let source = entry?.path().join("src");
        collect(&source, &mut files)?;
    }
    let mut only_tests = BTreeSet::new();
    for (path, text) in &files {
        only_tests.extend(test_modules(path, text));
    }
    let mut uses = Uses::new();
    for (path, text) in &files {
        let stem = path.trim_end_matches(".rs");
        let tests = only_tests.iter().any(|test: &String| {
            stem == test || stem.strip_prefix(test.as_str()).is_some_and(|x| x.starts_with('/'))
        });
        if !tests {
            let shown = path.strip_prefix(&format!("{}/", root.display())).unwrap_or(path);
            let shown = shown.strip_prefix("crates/").unwrap_or(shown);
            add(shown, text, &mut uses)?;
        }
    }
    Ok(uses)
}

/// Adds the uses of one file.
pub(super) fn add(path: &str, text: &str, uses: &mut Uses) -> io::Result<()> {
    let file = parse(path, text)?;
    let mut visitor = Visitor { path, owner: None, function: Vec::new(), uses };
    visitor.visit_file(&file);
    Ok(())
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
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((path.display().to_string(), fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// The files, without `.rs`, of the modules that a file declares for tests alone.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let Ok(file) = parse(path, text) else { return Vec::new() };
    let stem = path.trim_end_matches(".rs");
    let base = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && for_tests(&module.attrs) => {
            Some(format!("{base}/{}", module.ident))
        }
        _ => None,
    });
    modules.collect()
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<Ident>().is_ok_and(|name| name == "test"))
    })
}

struct Visitor<'a> {
    path: &'a str,
    owner: Option<String>,
    function: Vec<String>,
    uses: &'a mut Uses,
}

impl Visitor<'_> {
    fn identifier(&mut self, identifier: &Ident) {
        let Some(kind) = Kind::of(&identifier.to_string()) else { return };
        let function = match kind {
            Kind::DataStream => "-".to_owned(),
            _ => self.function.first().cloned().unwrap_or_else(|| "-".to_owned()),
        };
        let place = Place { path: self.path.to_owned(), function, kind };
        *self.uses.entry(place).or_default() += 1;
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(identifier) => self.identifier(&identifier),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn within(&mut self, name: &Ident, visit: impl FnOnce(&mut Self)) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{name}"),
            None => name.to_string(),
        };
        self.function.push(name);
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
            self.within(&function.sig.ident, |this| visit::visit_item_fn(this, function));
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !for_tests(&function.attrs) {
            self.within(&function.sig.ident, |this| visit::visit_impl_item_fn(this, function));
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.within(&function.sig.ident, |this| visit::visit_trait_item_fn(this, function));
    }

    fn visit_macro(&mut self, macro_call: &'ast Macro) {
        self.tokens(macro_call.tokens.clone());
    }

    // Documentation is an attribute with a string, and no macro of an attribute handles secrets.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_ident(&mut self, identifier: &'ast Ident) {
        self.identifier(identifier);
    }
}
