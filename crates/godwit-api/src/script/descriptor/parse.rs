//! Reading descriptors (Core `ParseScript`), with Core's errors.

use data_encoding::HEXLOWER_PERMISSIVE;
use godwit_primitives::Network;

use super::super::address::Address;
use super::key::{Key, KeyContext};
use super::{Descriptor, Tree, checksum};

/// Keys of a multisig script, of one in taproot, and of one without a hash before it.
const MAX_KEYS: usize = 20;
const MAX_LEAF_KEYS: usize = 999;
const MAX_BARE_KEYS: usize = 3;
/// Longest script behind a hash of a script.
const MAX_PUSH: usize = 520;
/// Deepest leaf of taproot.
const MAX_DEPTH: usize = 128;

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Top,
    ScriptHash,
    WitnessScriptHash,
    Leaf,
}

impl Context {
    fn key_context(self) -> KeyContext {
        match self {
            Self::Top => KeyContext::Top,
            Self::ScriptHash => KeyContext::ScriptHash,
            Self::WitnessScriptHash => KeyContext::Witness,
            Self::Leaf => KeyContext::Taproot,
        }
    }
}

/// The body of a descriptor whose checksum, if it has one, is right.
fn body(text: &str, needs_checksum: bool) -> Result<&str, String> {
    let parts: Vec<&str> = text.split('#').collect();
    let (body, given) = match parts[..] {
        [_] if needs_checksum => return Err("Missing checksum".to_owned()),
        [body] => (body, None),
        [body, given] => (body, Some(given)),
        _ => return Err("Multiple '#' symbols".to_owned()),
    };
    if let Some(given) = given.filter(|given| given.len() != 8) {
        return Err(format!("Expected 8 character checksum, not {} characters", given.len()));
    }
    let right = checksum(body).ok_or("Invalid characters in payload")?;
    match given {
        Some(given) if given != right => {
            Err(format!("Provided checksum '{given}' does not match computed checksum '{right}'"))
        }
        _ => Ok(body),
    }
}

/// The inside of `name(...)`.
fn inside<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

/// Takes an expression up to a comma or a bracket that closes what is around it.
fn take<'a>(text: &mut &'a str) -> &'a str {
    let mut level = 0;
    let mut end = text.len();
    for (at, character) in text.char_indices() {
        match character {
            '(' | '{' => level += 1,
            ')' | '}' if level > 0 => level -= 1,
            ')' | '}' | ',' if level == 0 => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

fn skip(text: &mut &str, character: char) -> bool {
    let rest = text.strip_prefix(character);
    if let Some(rest) = rest {
        *text = rest;
    }
    rest.is_some()
}

/// Characters of a descriptor at most: `multi_a` of as many extended keys as fit a script.
const MAX_TEXT: usize = 256 << 10;

/// How many times as much memory as its text a descriptor takes at most while it is read: several long paths
/// have their first steps each.
pub(crate) const DESCRIPTOR_GROWTH: usize = 230;

impl Descriptor {
    /// # Errors
    ///
    /// What Core says of such a text.
    pub(crate) fn parse(
        text: &str,
        network: Network,
        needs_checksum: bool,
    ) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("Descriptor is longer than {MAX_TEXT} characters"));
        }
        let mut rest = body(text, needs_checksum)?;
        let expression = take(&mut rest);
        let found = Reader { network }.script(expression, Context::Top)?;
        // As Core: nothing is said of what follows.
        if rest.is_empty() { Ok(found) } else { Err(String::new()) }
    }
}

/// Whether each of the counts of paths is the largest one, or one that goes with any other.
fn counts_fit(counts: &[usize], most: usize) -> bool {
    counts.iter().all(|&count| count == 1 || count == most)
}

struct Reader {
    network: Network,
}

impl Reader {
    fn key(&self, name: &str, text: &str, context: KeyContext) -> Result<Key, String> {
        Key::parse(text, context, self.network).map_err(|error| format!("{name}(): {error}"))
    }

    fn script(&self, text: &str, context: Context) -> Result<Descriptor, String> {
        let top = context == Context::Top;
        let outer = matches!(context, Context::Top | Context::ScriptHash);
        let only = |text: &str| Err(text.to_owned());
        if let Some(key) = inside("pk", text) {
            return self.key("pk", key, context.key_context()).map(Descriptor::PublicKey);
        }
        if let Some(key) = inside("pkh", text).filter(|_| context != Context::Leaf) {
            return self.key("pkh", key, context.key_context()).map(Descriptor::PublicKeyHash);
        }
        if let Some(key) = inside("combo", text) {
            return match top {
                true => self.key("combo", key, KeyContext::Top).map(Descriptor::Combo),
                false => only("Can only have combo() at top level"),
            };
        }
        for (name, sorted, leaf) in [
            ("multi", false, false),
            ("sortedmulti", true, false),
            ("multi_a", false, true),
            ("sortedmulti_a", true, true),
        ] {
            let Some(arguments) = inside(name, text) else { continue };
            return match (leaf, context == Context::Leaf) {
                (false, true) => {
                    only("Can only have multi/sortedmulti at top level, in sh(), or in wsh()")
                }
                (true, false) => only("Can only have multi_a/sortedmulti_a inside tr()"),
                _ => self.multisig(arguments, sorted, context),
            };
        }
        if let Some(key) = inside("wpkh", text) {
            return match outer {
                true => self.key("wpkh", key, KeyContext::Witness).map(Descriptor::WitnessKeyHash),
                false => only("Can only have wpkh() at top level or inside sh()"),
            };
        }
        if let Some(inner) = inside("sh", text) {
            return match top {
                true => self
                    .nested(inner, Context::ScriptHash)
                    .map(|inner| Descriptor::ScriptHash(inner.into())),
                false => only("Can only have sh() at top level"),
            };
        }
        if let Some(inner) = inside("wsh", text) {
            return match outer {
                true => self
                    .nested(inner, Context::WitnessScriptHash)
                    .map(|inner| Descriptor::WitnessScriptHash(inner.into())),
                false => only("Can only have wsh() at top level or inside sh()"),
            };
        }
        if let Some(found) = self.of_top(text, top) {
            return found;
        }
        match context {
            Context::Top => Err(format!("'{text}' is not a valid descriptor function")),
            Context::ScriptHash => only("A function is needed within P2SH"),
            Context::WitnessScriptHash | Context::Leaf => {
                Err(format!("'{text}' is no function that is read here: miniscript is not"))
            }
        }
    }

    /// A function that stands for a whole script by itself; `None` for what is none.
    fn of_top(&self, text: &str, top: bool) -> Option<Result<Descriptor, String>> {
        type Read = fn(&Reader, &str) -> Result<Descriptor, String>;
        let functions: [(&str, &str, Read); 5] = [
            ("addr", "Can only have addr() at top level", Self::address),
            ("tr", "Can only have tr at top level", Self::taproot),
            ("rawtr", "Can only have rawtr at top level", Self::raw_taproot),
            ("unused", "Can only have unused at top level", Self::unused),
            ("raw", "Can only have raw() at top level", Self::raw),
        ];
        functions.into_iter().find_map(|(name, elsewhere, read)| {
            let arguments = inside(name, text)?;
            Some(if top { read(self, arguments) } else { Err(elsewhere.to_owned()) })
        })
    }

    fn address(&self, address: &str) -> Result<Descriptor, String> {
        Address::parse(address, self.network)
            .map(Descriptor::Address)
            .map_err(|_| "Address is not valid".to_owned())
    }

    fn raw_taproot(&self, mut key: &str) -> Result<Descriptor, String> {
        let first = take(&mut key);
        match key.is_empty() {
            true => self.key("rawtr", first, KeyContext::Taproot).map(Descriptor::RawTaproot),
            false => Err("rawtr(): only one key expected.".to_owned()),
        }
    }

    fn unused(&self, mut text: &str) -> Result<Descriptor, String> {
        let first = take(&mut text);
        if !text.is_empty() {
            return Err("unused(): only one key expected".to_owned());
        }
        // As Core: here alone, nothing is put before what is wrong with the key.
        let key = Key::parse(first, KeyContext::Top, self.network)?;
        match key.is_range() {
            true => Err("unused(): key cannot be ranged".to_owned()),
            false => Ok(Descriptor::Unused(key)),
        }
    }

    fn raw(&self, hex: &str) -> Result<Descriptor, String> {
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok();
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        bytes.map(Descriptor::Raw).ok_or_else(|| "Raw script is not hex".to_owned())
    }

    fn nested(&self, mut text: &str, context: Context) -> Result<Descriptor, String> {
        let inner = self.script(take(&mut text), context)?;
        // As Core: nothing is said of what follows.
        if text.is_empty() { Ok(inner) } else { Err(String::new()) }
    }

    fn multisig(
        &self,
        mut text: &str,
        sorted: bool,
        context: Context,
    ) -> Result<Descriptor, String> {
        let threshold = take(&mut text);
        let digits = threshold.bytes().all(|byte| byte.is_ascii_digit());
        let needed = threshold.parse::<u32>().ok().filter(|_| digits);
        let needed =
            needed.ok_or_else(|| format!("Multi threshold '{threshold}' is not valid"))? as usize;
        let mut keys = Vec::new();
        while !text.is_empty() {
            if !skip(&mut text, ',') {
                let got = text.chars().next().unwrap_or_default();
                return Err(format!("Multi: expected ',', got '{got}'"));
            }
            let key = Key::parse(take(&mut text), context.key_context(), self.network);
            keys.push(key.map_err(|error| format!("Multi: {error}"))?);
        }
        let count = keys.len();
        let (most, name) = match context {
            Context::Leaf => (MAX_LEAF_KEYS, "multi_a"),
            _ => (MAX_KEYS, "multisig"),
        };
        if count == 0 || count > most {
            return Err(format!(
                "Cannot have {count} keys in {name}; must have between 1 and {most} keys, inclusive"
            ));
        }
        if needed < 1 {
            return Err(format!("Multisig threshold cannot be {needed}, must be at least 1"));
        }
        if needed > count {
            return Err(format!(
                "Multisig threshold cannot be larger than the number of keys; threshold is {needed} but \
                 only {count} keys specified"
            ));
        }
        if context == Context::Top && count > MAX_BARE_KEYS {
            return Err(format!(
                "Cannot have {count} pubkeys in bare multisig; only at most 3 pubkeys"
            ));
        }
        let size: usize = keys.iter().map(|key| if key.is_compressed() { 34 } else { 66 }).sum();
        if context == Context::ScriptHash && size + 3 > MAX_PUSH {
            return Err(format!(
                "P2SH script is too large, {} bytes is larger than {MAX_PUSH} bytes",
                size + 3
            ));
        }
        let counts: Vec<usize> = keys.iter().map(Key::paths).collect();
        match counts_fit(&counts, counts.iter().copied().max().unwrap_or(1)) {
            true => Ok(Descriptor::Multisig { needed, keys, sorted }),
            false => Err("multi(): Multipath derivation paths have mismatched lengths".to_owned()),
        }
    }

    fn taproot(&self, mut text: &str) -> Result<Descriptor, String> {
        let internal = self.key("tr", take(&mut text), KeyContext::Taproot)?;
        if text.is_empty() {
            return Ok(Descriptor::Taproot { internal, tree: None });
        }
        if !skip(&mut text, ',') {
            let got = text.chars().next().unwrap_or_default();
            return Err(format!("tr: expected ',', got '{got}'"));
        }
        let tree = self.tree(&mut text, 0)?;
        if !text.is_empty() {
            return Err("tr(): expected ')' after script expression".to_owned());
        }
        let counts: Vec<usize> = tree.leaves().iter().map(|leaf| leaf.paths()).collect();
        let of_leaves = counts.iter().copied().max().unwrap_or(1);
        if !counts_fit(&counts, of_leaves.max(internal.paths())) {
            return Err("tr(): Multipath subscripts have mismatched lengths".to_owned());
        }
        if internal.paths() > 1 && internal.paths() < of_leaves {
            let text = "tr(): Multipath internal key mismatches multipath subscripts lengths";
            return Err(text.to_owned());
        }
        Ok(Descriptor::Taproot { internal, tree: Some(tree) })
    }

    fn tree(&self, text: &mut &str, depth: usize) -> Result<Tree, String> {
        if !skip(text, '{') {
            let leaf = self.script(take(text), Context::Leaf)?;
            return Ok(Tree::Leaf(leaf.into()));
        }
        if depth == MAX_DEPTH {
            return Err(format!("tr() supports at most {MAX_DEPTH} nesting levels"));
        }
        let left = self.tree(text, depth + 1)?;
        if !skip(text, ',') {
            return Err("tr(): expected ',' after script expression".to_owned());
        }
        let right = self.tree(text, depth + 1)?;
        match skip(text, '}') {
            true => Ok(Tree::Branch(left.into(), right.into())),
            false => Err("tr(): expected '}' after script expression".to_owned()),
        }
    }
}
