//! Serves compact block filters (BIP157): read in turn like blocks, and only as fast as the peer takes them.
//!
//! Source: Core `net_processing.cpp`, `PrepareBlockFilterRequest`, `ProcessGetCFilters`,
//! `ProcessGetCFHeaders`, `ProcessGetCFCheckPt`.

use super::filter_span::FilterSpan;
use super::requests::Request;
use super::{Serving, may_be_served};
use crate::message::{BASIC_FILTER, FilterData, FilterRequest};
use crate::peer_id::PeerId;
use crate::peers::action::{ChainRequest, ReadId};
use crate::peers::context::Context;
use crate::peers::misbehaviour::DisconnectReason;
use crate::peers::relay::recent::RecentBlock;
use crate::services::Services;

/// What a request asks for, if it may be asked.
fn span(cx: &Context<'_>, request: &FilterRequest) -> Result<FilterSpan, DisconnectReason> {
    let FilterRequest { query, filter_type, start, stop } = *request;
    let is_offered = cx.config.services.contains(Services::COMPACT_FILTERS);
    if filter_type != BASIC_FILTER || !is_offered {
        return Err(DisconnectReason::NotOffered(query.command()));
    }
    let refused = DisconnectReason::FilterRange(query.command());
    let found = cx.index.find(&stop).filter(|id| may_be_served(cx, *id));
    let stop = found.ok_or(refused)?;
    let last = cx.index.get(stop).height;
    if start > last || last - start >= query.too_many() {
        return Err(refused);
    }
    Ok(FilterSpan::new(cx.index, query, start, stop))
}

impl Serving {
    /// A request for filters. It is queued behind those that came before.
    pub(in crate::peers) fn on_getfilters(
        &mut self,
        cx: &mut Context<'_>,
        recent: Option<&RecentBlock>,
        id: PeerId,
        request: &FilterRequest,
    ) {
        let span = match span(cx, request) {
            Ok(span) => span,
            Err(why) => return cx.disconnect(id, why),
        };
        if let Some(peer) = cx.table.get_mut(id) {
            peer.serving.requests.push(Request::Filters(Box::new(span)));
            self.serve(cx, recent, id);
        }
    }

    /// False when the peer has to wait for its turn.
    pub(super) fn serve_filters(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        span: Box<FilterSpan>,
    ) -> bool {
        if !self.may_read(cx, id) {
            self.wait_for_turn(cx, id, Request::Filters(span));
            return false;
        }
        let (request, read) = (cx.out.next_read(), span.read(cx.index));
        if let Some(peer) = cx.table.get_mut(id) {
            peer.serving.reading = Some((request, Request::Filters(span)));
            cx.memory.begin_read(request);
            cx.out.push(ChainRequest::ReadFilters { request, read });
        }
        true
    }

    /// The answer to a [`ChainRequest::ReadFilters`].
    pub(in crate::peers) fn on_filters(
        &mut self,
        cx: &mut Context<'_>,
        recent: Option<&RecentBlock>,
        request: ReadId,
        data: Option<&FilterData>,
    ) {
        let Some((id, Request::Filters(span))) = self.take_reading(cx, request) else { return };
        // As in Core, a request for what is not there has no answer.
        if let Some(data) = data {
            let command = span.query.answer();
            for payload in data.payloads(&span.stop_hash, &cx.config.pool) {
                cx.send_block(id, command, payload);
            }
            if let (Some(peer), Some(left)) = (cx.table.get_mut(id), span.behind(data)) {
                peer.serving.requests.put_back(Request::Filters(Box::new(left)));
            }
        }
        self.serve(cx, recent, id);
    }
}
