//! The table of the options that concern the RPC server.

use std::ffi::OsStr;

use godwit_api::RpcAuth;
use godwit_program::options::{FilePlace, Form, OptionSpec, values as plain};

use super::{Draft, Godwit, OF_BOTH_ENDS, OF_NODE, RPC, setting, values};
use crate::options::rpc::PlainPassword;
use values::OrOff;

/// Most threads and most requests that wait.
const MAX_THREADS: usize = 256;
const MAX_QUEUE: usize = 10_000;
/// Longest silence of a client in seconds, a year: clocks have an end.
const MAX_TIMEOUT: i64 = 365 * 24 * 60 * 60;

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    rpc_flag("server", "Answer JSON-RPC, as godwit-cli speaks it (default: 1).", |draft, text| {
        plain::flag(text).map(|on| draft.rpc.server = Some(on))
    }),
    OptionSpec {
        file: FilePlace::PerNetwork,
        ..shared_setting(
            "rpcport",
            "PORT",
            "a port from 1 to 65535",
            "Listen for JSON-RPC on this port (default: 8332, test 18332, testnet4 48332, signet 38332, \
             regtest 18443).",
            |draft, text| {
                draft.rpc.port = Some(plain::port(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        file: FilePlace::PerNetwork,
        ..rpc_setting(
            "rpcbind",
            "ADDRESS[:PORT]",
            "an IP address and perhaps a port; [ADDRESS]:PORT for IPv6",
            "Listen for JSON-RPC on this address (default: 127.0.0.1 and ::1). Of no effect without \
             -rpcallowip. What is sent there is not encrypted. May be given several times.",
            |draft, text| {
                draft.rpc.bind.push(values::ip_port(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..rpc_setting(
            "rpcallowip",
            "NETWORK",
            "an address, address/bits or address/mask",
            "Answer these addresses, besides this machine's own. May be given several times.",
            |draft, text| {
                draft.rpc.allowed.push(text.to_str()?.parse().ok()?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..rpc_setting(
            "rpcauth",
            "USER:SALT$HASH",
            "USER:SALT$HASH, as Bitcoin Core's share/rpcauth makes it",
            "Let this user in; HASH is HMAC-SHA-256 of the password, with SALT as its key. May be given \
             several times.",
            |draft, text| {
                draft.rpc.auth.push(RpcAuth::parse(text.to_str()?).ok()?);
                Some(())
            },
        )
    },
    shared_setting("rpcuser", "NAME", "a name", "The user of -rpcpassword.", |draft, text| {
        draft.rpc.user = Some(values::named(text)?.to_owned());
        Some(())
    }),
    shared_setting(
        "rpcpassword",
        "PASSWORD",
        "a password",
        "Let -rpcuser in with this password, and write no cookie. All users who can read the file, or \
         see the list of processes, know it: -rpcauth is better.",
        |draft, text| {
            draft.rpc.password = Some(PlainPassword::new(values::named(text)?));
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value { placeholder: "FILE", expected: "the path of a file", off: Some("0") },
        ..shared_setting(
            "rpccookiefile",
            "",
            "",
            "Write the password of this run there, for programs that may read it (default: .cookie in the \
             network's directory); -norpccookiefile writes none.",
            |draft, text| {
                draft.rpc.cookie_file = Some(OrOff::parse(text, plain::path)?);
                Some(())
            },
        )
    },
    rpc_setting(
        "rpccookieperms",
        "WHO",
        "owner, group or all",
        "Who may read the cookie: owner, group or all (default: owner).",
        |draft, text| {
            draft.rpc.cookie_permissions = Some(text.to_str()?.parse().ok()?);
            Some(())
        },
    ),
    OptionSpec {
        repeats: true,
        ..rpc_setting(
            "rpcwhitelist",
            "USER:METHOD,...",
            "a user and the methods that he may call",
            "Let this user call only these methods. May be given several times; if so for one user, \
             only what all of them name.",
            |draft, text| {
                draft.rpc.whitelist.lines.push(values::named(text)?.to_owned());
                Some(())
            },
        )
    },
    rpc_flag(
        "rpcwhitelistdefault",
        "Let users that -rpcwhitelist does not name call nothing (default: 1 if -rpcwhitelist is given, \
         else 0).",
        |draft, text| plain::flag(text).map(|on| draft.rpc.whitelist.default = Some(on)),
    ),
    rpc_flag(
        "rest",
        "Answer REST as well, on the addresses of JSON-RPC and without a password (default: 0).",
        |draft, text| plain::flag(text).map(|on| draft.rpc.rest = Some(on)),
    ),
    OptionSpec {
        repeats: true,
        ..rpc_setting(
            "deprecatedrpc",
            "NAME",
            "a name",
            "Answer older programs with what Bitcoin Core has removed from its answers: bip125 (bip125-replaceable \
             of getmempoolentry and getrawmempool), fullrbf (of getmempoolinfo) or warnings (one text in place of \
             a list). May be given several times.",
            |draft, text| {
                // In Core an empty one is a name that nothing has.
                draft.rpc.deprecated.push(text.to_str()?.to_owned());
                Some(())
            },
        )
    },
    rpc_setting(
        "rpcthreads",
        "N",
        "a number of threads up to 256",
        "Answer this many requests at once (default: 16).",
        |draft, text| {
            draft.rpc.threads = Some(at_least_one(text, MAX_THREADS)?);
            Some(())
        },
    ),
    rpc_setting(
        "rpcworkqueue",
        "N",
        "a number of requests up to 10000",
        "Let this many requests wait for a thread; further ones get status 503 (default: 64).",
        |draft, text| {
            draft.rpc.queue = Some(at_least_one(text, MAX_QUEUE)?);
            Some(())
        },
    ),
    rpc_setting(
        "rpcservertimeout",
        "SECONDS",
        "a number of seconds up to 31536000",
        "Close a connection whose client is silent for this long; 0: never (default: 30).",
        |draft, text| {
            let seconds = plain::number::<i64>(text).filter(|seconds| *seconds <= MAX_TIMEOUT)?;
            draft.rpc.timeout = Some(u64::try_from(seconds).unwrap_or(0));
            Some(())
        },
    ),
];

/// A number up to `most`; what is less than one stands for one, as in Core.
fn at_least_one(text: &OsStr, most: usize) -> Option<usize> {
    let number = usize::try_from(plain::number::<i64>(text)?.max(1)).ok()?;
    (number <= most).then_some(number)
}

const fn rpc_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { commands: OF_NODE, group: RPC, ..every }
}

/// Of the command that asks the node as well.
const fn shared_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    OptionSpec { commands: OF_BOTH_ENDS, ..rpc_setting(name, placeholder, expected, help, set) }
}

const fn rpc_flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    OptionSpec { form: Form::Flag, ..rpc_setting(name, "", "", help, set) }
}
