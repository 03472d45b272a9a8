//! `setban`, `listbanned`, `clearbanned`.

use godwit_p2p::{Ban, Bans, Host, HostRange, MAX_BANS, NodeCommand};
use godwit_rpc::{Json, RpcError, code, find, help_of};

use super::{Call, parse};
use crate::seam::NodeState;

/// Seconds of a ban whose length is not said (Core `DEFAULT_MISBEHAVING_BANTIME`).
const USUAL: i64 = 24 * 60 * 60;

/// Memory of a ban in the answer.
const PER_BAN: usize = 900;

/// Whom a ban concerns.
#[derive(Clone, Copy)]
enum Whom {
    Host(Host),
    Range(HostRange),
}

impl Whom {
    fn parse(text: &str) -> Option<Self> {
        let range: HostRange = text.parse().ok()?;
        match text.contains('/') {
            true => Some(Self::Range(range)),
            false => range.host().filter(|host| host.is_valid()).map(Self::Host),
        }
    }

    fn range(self) -> HostRange {
        match self {
            Self::Host(host) => HostRange::of_host(host),
            Self::Range(range) => range,
        }
    }

    /// A host may be banned with others; of a range, only the ban of exactly this one counts.
    fn is_banned(self, bans: &Bans) -> bool {
        match self {
            Self::Host(host) => bans.contains(&host),
            Self::Range(range) => bans.has(&range),
        }
    }
}

/// Changes the bans and writes them to their file.
fn change<T: Send + 'static>(
    call: &Call<'_>,
    change: impl FnOnce(&mut dyn NodeState) -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let writing = call.api.bans.begin();
    let (changed, bans) = call.node.ask(|node| {
        let changed = change(node)?;
        Ok((changed, node.peers().bans().clone()))
    })??;
    writing.write(&bans);
    Ok(changed)
}

/// Bans for a time, which is read behind the look at the bans: of these an error is told first.
fn ban(node: &mut dyn NodeState, whom: Whom, time: &Json, absolute: bool) -> Result<(), RpcError> {
    let (bans, now) = (node.peers().bans(), node.now().unix);
    if whom.is_banned(bans) {
        let text = "Error: IP/Subnet already banned";
        return Err(RpcError::new(code::NODE_ALREADY_ADDED, text));
    }
    let time: i64 = parse::integer(time, 0)?;
    if absolute && time < now {
        let text = "Error: Absolute timestamp is in the past";
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    if bans.len() >= MAX_BANS {
        return Err(RpcError::new(code::LIMIT_EXCEEDED, "Error: Too many bans"));
    }
    let until = match (absolute, time) {
        (_, ..=0) => now.saturating_add(USUAL),
        (true, time) => time,
        (false, time) => now.saturating_add(time),
    };
    node.command(NodeCommand::Ban(whom.range(), Ban { created: now, until }));
    Ok(())
}

pub(super) fn set(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (text, command) = (call.arg(0).as_text()?, call.arg(1).as_text()?);
    if !matches!(command, "add" | "remove") {
        let method = find("setban").expect("it is this method");
        return Err(RpcError::new(code::MISC_ERROR, help_of(method)));
    }
    let refused = |text: &str| RpcError::new(code::INVALID_IP_OR_SUBNET, text);
    let whom = Whom::parse(text).ok_or_else(|| refused("Error: Invalid IP/Subnet"))?;
    if command == "add" {
        let (time, absolute) = (call.arg(2).clone(), parse::flag(call.arg(3), false)?);
        change(call, move |node| ban(node, whom, &time, absolute))?;
        return Ok(Json::Null);
    }
    change(call, move |node| {
        let range = whom.range();
        if !node.peers().bans().has(&range) {
            return Err(RpcError::new(
                code::INVALID_IP_OR_SUBNET,
                "Error: Unban failed. Requested address/subnet was not previously manually banned.",
            ));
        }
        node.command(NodeCommand::Unban(range));
        Ok(Json::Null)
    })
}

pub(super) fn clear(call: &mut Call<'_>) -> Result<Json, RpcError> {
    change(call, |node| {
        node.command(NodeCommand::ClearBans);
        Ok(Json::Null)
    })
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (bans, now) = call.node.ask(|node| (node.peers().bans().clone(), node.now().unix))?;
    call.room.grow(bans.len() * PER_BAN)?;
    let json = |(range, ban): (HostRange, Ban)| {
        Json::object([
            ("address", range.to_string().into()),
            ("ban_created", ban.created.into()),
            ("banned_until", ban.until.into()),
            ("ban_duration", ban.until.saturating_sub(ban.created).into()),
            ("time_remaining", ban.until.saturating_sub(now).into()),
        ])
    };
    // Some may have ended in this turn.
    Ok(bans.iter().filter(|(_, ban)| ban.until >= now).map(json).collect())
}
