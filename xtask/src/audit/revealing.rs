//! Which functions show a secret to their callers, whatever they are called.
//!
//! The types of `godwit-secret` begin: they show their bytes through the functions of `ROOTS`, and what is
//! private to them has no other name. A function that calls one of those, or one that was found, and takes
//! a closure of a reference, or returns a type that holds bare bytes of a key, hands the secret on. A token
//! that revealing functions would take says no more than such a signature does, and would stand in every
//! call.
//!
//! What a closure returns, and what it writes into, is `Releasable` or is called `Declassified` or
//! `Unprotected`, so that the types see to containers. What types do not see, because it is shared, has a
//! row of its own (`shared`).

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::Signature;

/// What shows the bytes of a secret type, and the ways out of the process.
const ROOTS: [&str; 8] = [
    "expose_secret",
    "expose_secret_into",
    "expose_secret_mut",
    "expose_secret_mut_into",
    "bare_bytes",
    "use_key",
    "write_secret_to",
    "write_secrets_to",
];

/// Types of libraries that hold a key as bare bytes.
const BARE: [&str; 7] =
    ["SecretKey", "Keypair", "ChaCha20", "XChaCha20Poly1305", "Poly1305", "Hkdf", "Hmac"];

/// A function as far as it matters here.
pub(super) struct Function {
    pub(super) name: String,
    /// Whether it takes a closure of a reference or returns a type of [`BARE`].
    hands_on: bool,
    /// All identifiers in it.
    pub(super) identifiers: BTreeSet<String>,
}

impl Function {
    pub(super) fn new(signature: &Signature, identifiers: BTreeSet<String>) -> Self {
        let name = plain(&signature.ident.to_string());
        let generics = signature.generics.to_token_stream().to_string();
        let bounds = signature.generics.where_clause.to_token_stream().to_string();
        let inputs = signature.inputs.to_token_stream().to_string();
        let shows = [generics, bounds, inputs].iter().any(|text| takes_closure_of_reference(text));
        let output = signature.output.to_token_stream().to_string();
        let returns = output.split(|c: char| !c.is_alphanumeric()).any(|word| BARE.contains(&word));
        Self { name, hands_on: shows || returns, identifiers }
    }
}

/// As tokens are printed, with a space between any two.
fn takes_closure_of_reference(text: &str) -> bool {
    let text: String = text.split_whitespace().collect();
    let closures = ["FnOnce(", "FnMut(", "Fn(", "fn("];
    let mut behind = closures.iter().flat_map(|closure| text.split(closure).skip(1));
    // Among its arguments, whichever comes first.
    behind.any(|behind| arguments(behind).contains('&'))
}

/// The text up to the parenthesis that ends it.
fn arguments(text: &str) -> &str {
    let mut open = 1;
    let end = text.find(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// A name without the mark of a raw one.
pub(super) fn plain(name: &str) -> String {
    name.strip_prefix("r#").unwrap_or(name).to_owned()
}

/// The names of all functions that reveal.
pub(super) fn names(functions: &[Function]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = ROOTS.into_iter().map(str::to_owned).collect();
    loop {
        let before = names.len();
        for function in functions.iter().filter(|function| function.hands_on) {
            if !function.identifiers.is_disjoint(&names) {
                names.insert(function.name.clone());
            }
        }
        if names.len() == before {
            return names;
        }
    }
}
