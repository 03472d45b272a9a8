//! What a closure can write to though it captures no more than a shared reference, or nothing at all: locks,
//! atomics, channels, and statics that hold one of them. No bound on a closure tells them from other
//! references.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ItemStatic;

use super::revealing::plain;

/// Types that are written to through a shared reference in any thread.
const TYPES: [&str; 8] =
    ["Mutex", "RwLock", "OnceLock", "LazyLock", "Sender", "SyncSender", "mpsc", "thread_local"];

/// What they are written to by. A name that other types have too (`set`, `swap`, `write`) is no sign of them.
const METHODS: [&str; 9] = [
    "lock",
    "try_lock",
    "store",
    "send",
    "try_send",
    "get_or_init",
    "with_borrow_mut",
    "spawn",
    "compare_exchange",
];

fn is_type(name: &str) -> bool {
    TYPES.contains(&name) || name.starts_with("Atomic")
}

fn is_method(name: &str) -> bool {
    METHODS.contains(&name) || name.starts_with("fetch_")
}

/// How many of these types, methods and statics the tokens of a function name.
pub(super) fn times_in(tokens: TokenStream, statics: &BTreeSet<String>) -> usize {
    let (mut times, mut behind_dot) = (0, false);
    for token in tokens {
        match &token {
            TokenTree::Ident(word) => {
                let name = plain(&word.to_string());
                let found = is_type(&name) || statics.contains(&name);
                times += usize::from(found || behind_dot && is_method(&name));
            }
            TokenTree::Group(group) => times += times_in(group.stream(), statics),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        behind_dot = matches!(token, TokenTree::Punct(mark) if mark.as_char() == '.');
    }
    times
}

/// Whether a static can be written to.
pub(super) fn is_writable(item: &ItemStatic) -> bool {
    let is_mutable = matches!(item.mutability, syn::StaticMutability::Mut(_));
    is_mutable
        || any_word(item.ty.to_token_stream(), &|word| is_type(word) || word.contains("Cell"))
}

/// The statics that tokens of `thread_local!` declare.
pub(super) fn of_threads(tokens: TokenStream, statics: &mut BTreeSet<String>) {
    let mut behind_static = false;
    for token in tokens {
        if let TokenTree::Ident(word) = &token {
            if behind_static {
                statics.insert(plain(&word.to_string()));
            }
            behind_static = *word == "static";
        }
    }
}

fn any_word(tokens: TokenStream, is: &dyn Fn(&str) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => is(&plain(&word.to_string())),
        TokenTree::Group(group) => any_word(group.stream(), is),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
