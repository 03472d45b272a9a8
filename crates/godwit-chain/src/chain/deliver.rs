//! Delivers the reports of jobs and threads to the station that asked for them.

use super::{Chain, history};
use crate::ending::Ending;
use crate::error::ChainError;
use crate::event::Event;
use crate::index::BlockIndex;
use crate::lookahead::LookaheadError;
use crate::message::Message;
use crate::reads::{BlockUnreadable, Read};
use crate::tree::NodeId;

impl Chain {
    /// Delivers every message to its station, and lets the coins store handle what its own jobs
    /// reported.
    pub(crate) fn deliver(&mut self) -> Result<(), ChainError> {
        self.coins.poll()?;
        if let Some(Err(error)) = self.history.as_mut().map(|station| station.coins.poll()) {
            history::failed(self, error.into())?;
        }
        while let Ok(message) = self.mailbox.inbox.try_recv() {
            self.deliver_one(message)?;
        }
        Ok(())
    }

    pub(super) fn deliver_one(&mut self, message: Message) -> Result<(), ChainError> {
        let Self { env, index, coins, .. } = self;
        match message {
            Message::Intake(arrival) => self.intake.arrived(arrival),
            Message::Lookahead(answer) => match self.lookahead.answered(index, coins, answer) {
                Ok(()) => {}
                Err(LookaheadError::Store(error)) => return Err(error.into()),
                Err(LookaheadError::Damaged(id)) => self.lose(id),
            },
            Message::HistoryLookahead(answer) => {
                let Some(station) = &mut self.history else { return Ok(()) };
                match station.lookahead.answered(index, &station.coins, answer) {
                    Ok(()) => {}
                    Err(LookaheadError::Store(error)) => history::failed(self, error.into())?,
                    Err(LookaheadError::Damaged(id)) => self.lose(id),
                }
            }
            Message::HistoryWindow(answer) => {
                let Some(station) = &mut self.history else { return Ok(()) };
                let layers = station.coins.layers();
                match station.window.answered(env, index, layers, answer) {
                    Ok(Some(id)) => self.lose(id),
                    Ok(None) => {}
                    Err(error) => history::failed(self, error)?,
                }
            }
            Message::History(answer) => history::hashed(self, answer)?,
            Message::Appender(answer) => {
                self.appender.answered(answer)?;
            }
            Message::Window(answer) => {
                if let Some(id) = self.window.answered(env, index, coins.layers(), answer)? {
                    self.lose(id);
                }
            }
            Message::Durability(answer) => {
                self.durability.answered(index, coins, answer)?;
                history::committed(self)?;
            }
            Message::Recovery(answer) => self.recovery.answered(answer)?,
            Message::Reads(answer) => {
                let Read { ticket, bytes } = self.reads.answered(env, index, answer);
                let (bytes, unreadable) = match bytes {
                    Ok(bytes) => (Some(bytes), None),
                    Err(unreadable) => (None, Some(unreadable)),
                };
                self.events.push_back(Event::Read { ticket, bytes });
                if let Some(unreadable) = unreadable {
                    note_unreadable(self, &unreadable);
                }
            }
            Message::Scrub(answer) => {
                for id in self.durability.scrub.answered(env, index, answer)? {
                    match self.goal.copies_come() {
                        true => self.lose(id),
                        false => log::error!(
                            "Scrub: block {} is damaged, and nobody fetches it.",
                            self.index.node(id).hash
                        ),
                    }
                }
            }
            Message::Import(error) => return Err(error.into()),
            Message::Panicked => {
                self.ending = Ending::Panicked;
                return self.ending.check_threads();
            }
        }
        Ok(())
    }
}

/// A reader could not read a stored block. What is not there any more as it was written is fetched again,
/// whether its bytes are damaged or its file is missing. Where the block's place is another one by now, or
/// none, it was pruned meanwhile.
pub fn note_unreadable(chain: &mut Chain, unreadable: &BlockUnreadable) {
    if chain.index.node(unreadable.id).position != Some(unreadable.position) {
        log::debug!("A block was pruned before it was read: {unreadable}");
        return;
    }
    log::error!("A stored block is not served: {unreadable}");
    if unreadable.is_lost() && is_worth_fetching(chain, unreadable.id) {
        chain.lose(unreadable.id);
    }
}

/// Whether peers are to be asked for a block that a reader cannot have. One that was written again is not
/// served, and nothing more: a reader's wish is no reason to end, nor to fetch it over and over; nor to ask
/// peers for one of a branch that was left, which they need not have.
fn is_worth_fetching(chain: &Chain, id: NodeId) -> bool {
    let Chain { index, goal, .. } = chain;
    goal.copies_come() && is_on_the_way(index, id) && !index.damaged.was_rewritten(id)
}

/// Whether a block is connected, or on the way to the best candidate.
fn is_on_the_way(index: &BlockIndex, id: NodeId) -> bool {
    let leads_to = |end| index.tree().is_ancestor(id, end);
    leads_to(index.tip()) || index.best().is_some_and(leads_to)
}
