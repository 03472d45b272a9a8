//! The byte strings for which a search of memory looks to find copies of a connection's secrets.

use godwit_secret::residue::{Needle, NeedleError};
use godwit_secret::{Declassified, RandomError, SecretArray, run_on_secret_stack};

use super::cipher::PacketKey;
use super::session::Session;

impl Session {
    /// The keys of both directions at the moment, and those of the tags of the next packets. They show
    /// nothing of them.
    pub(crate) fn needles(&self) -> Result<Vec<Needle>, NeedleError> {
        let made = run_on_secret_stack(|| {
            let (send, receive) = (self.send_packet.packet_key(), self.receive_packet.packet_key());
            Ok::<_, NeedleError>(Declassified(vec![
                Needle::new("key of lengths sent", self.send_length.key())?,
                Needle::new("key of lengths received", self.receive_length.key())?,
                Needle::new("key of packets sent", send.key())?,
                Needle::new("key of packets received", receive.key())?,
                tag_key("key of the next tag sent", send)?,
                tag_key("key of the next tag received", receive)?,
            ]))
        });
        Ok(made.map_err(RandomError::Memory)??.0)
    }
}

fn tag_key(name: &str, key: &PacketKey) -> Result<Needle, NeedleError> {
    let copy =
        key.expose_tag_key((), |key, ()| SecretArray::<32>::from_fn_in_place(|copy| *copy = *key));
    Needle::new(name, &copy.map_err(RandomError::Memory)?)
}

#[cfg(test)]
mod tests {
    use godwit_secret::residue::scan;

    use super::*;
    use crate::v2::Handshake;

    fn sessions() -> [Session; 2] {
        let [ours, theirs] = [true, false].map(|initiator| {
            let key = SecretArray::random().expect("memory");
            Handshake::new(key, [7; 32], initiator, [1; 4]).expect("nearly every key")
        });
        let (our_public, their_public) = (*ours.public_key(), *theirs.public_key());
        [ours.agree(&their_public), theirs.agree(&our_public)]
    }

    /// Which needles are found, and how often; all in the memory for secrets.
    fn found(needles: &[Needle]) -> Vec<String> {
        let report = scan(needles).expect("a scan");
        let plain = report.findings.iter().find(|finding| !finding.protected);
        assert_eq!(plain, None);
        let mut names: Vec<_> = report.findings.into_iter().map(|found| found.needle).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_keys_of_a_session_are_in_locked_memory_and_then_nowhere() {
        let [mut ours, theirs] = sessions();
        let needles = ours.needles().expect("memory");
        // Each side has the keys of both directions.
        let names = [
            "key of lengths received",
            "key of lengths sent",
            "key of packets received",
            "key of packets sent",
        ];
        let twice: Vec<&str> = names.iter().flat_map(|name| [*name; 2]).collect();
        assert_eq!(found(&needles), twice);
        for _ in 0..224 {
            ours.seal(&mut [0; 4], &mut [], &[]);
        }
        drop(theirs);
        assert_eq!(found(&needles), [names[0], names[2]], "what was sent has new keys");
        drop(ours);
        assert_eq!(found(&needles), [""; 0]);
    }
}
