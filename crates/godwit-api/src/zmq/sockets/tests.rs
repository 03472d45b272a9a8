//! Subscribers who read, and some who do not.

use std::io::{Read, Write};
use std::net::TcpStream as Client;

use tokio::task::LocalSet;

use super::*;
use crate::zmq::DEFAULT_HIGH_WATER_MARK;

const MIB: usize = 1 << 20;
const WAITING_BYTES: usize = 32 * MIB;
const EACH: usize = WAITING_BYTES / SUBSCRIBER_SHARE;

/// What libzmq sends as a subscriber to everything.
fn hello() -> Vec<u8> {
    let ready = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04XSUB";
    [&wire::greeting()[..], ready, b"\x00\x01\x01"].concat()
}

fn subscribe(address: SocketAddr) -> Client {
    let mut client = Client::connect(address).expect("somebody listens");
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    client.write_all(&hello()).expect("it is read");
    client
}

/// The bodies' first bytes, of so many messages of this size behind the greeting.
fn read_all(mut client: Client, count: usize, size: usize) -> Vec<u8> {
    let mut greeting = vec![0; wire::GREETING_BYTES + wire::ready().len()];
    client.read_exact(&mut greeting).expect("a greeting");
    let mut message = vec![0; size];
    let firsts = (0..count).map(|_| {
        client.read_exact(&mut message).expect("a message");
        // Behind the topic's frame and the head of the body's.
        message[2 + 5 + 9]
    });
    firsts.collect()
}

fn message(n: usize, bytes: usize) -> Vec<u8> {
    wire::message(&[b"rawtx", &vec![n as u8; bytes], &[0; 4]])
}

/// Runs on a thread with sockets, and one address that is listened at.
fn with_sockets<T>(high_water_mark: usize, run: impl AsyncFnOnce(Sockets, SocketAddr) -> T) -> T {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let at = listener.local_addr().expect("an address");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let address = format!("tcp://{at}").parse().expect("an address");
        let listening = Listening { address, high_water_mark, listener };
        let sockets = Sockets::start(vec![listening], WAITING_BYTES).expect("it listens");
        run(sockets, at).await
    })
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Until the other side has closed, whatever it sends before.
async fn until_closed(client: &mut Client) {
    client.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 1024];
    let mut is_closed = || match client.read(&mut bytes) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    };
    until(&mut is_closed).await;
}

fn listeners(sockets: &Sockets) -> usize {
    sockets.audience(0, Topic::RawTx).len()
}

#[test]
fn who_does_not_read_misses_messages_and_others_get_all() {
    const COUNT: usize = 64;
    with_sockets(DEFAULT_HIGH_WATER_MARK as usize, async |sockets, address| {
        let size = message(0, MIB).len();
        let silent = subscribe(address);
        until(|| listeners(&sockets) == 1).await;
        let reads = subscribe(address);
        let reader = std::thread::spawn(move || read_all(reads, COUNT, size));
        until(|| listeners(&sockets) == 2).await;
        let mut most = 0;
        for n in 0..COUNT {
            // The one that reads is waited for, the other one only once.
            let deadline = Instant::now() + Duration::from_millis(if n < 2 { 1 } else { 20_000 });
            let next = message(n, MIB);
            sockets.wait_for_room(0, Topic::RawTx, next.capacity(), deadline).await;
            sockets.send(0, Topic::RawTx, next);
            most = most.max(sockets.0.kept.bytes());
            let all = sockets.0.subscribers.borrow();
            for subscriber in all.iter() {
                assert!(subscriber.bytes() <= EACH);
                let mut state = subscriber.state.borrow_mut();
                // As if it had been waited for in vain already: no test waits for a clock.
                state.is_slow |= subscriber.peer == silent.local_addr().expect("an address");
            }
        }
        sockets.flush();
        until(|| reader.is_finished()).await;
        let firsts = reader.join().expect("it reads");
        assert_eq!(firsts, (0..COUNT as u8).collect::<Vec<_>>());
        assert!(most <= 2 * EACH + size, "{most} bytes");
        drop(silent);
        until(|| listeners(&sockets) == 1 || listeners(&sockets) == 0).await;
        until(|| sockets.0.kept.bytes() == 0).await;
    });
}

#[test]
fn who_keeps_most_is_cut_off_where_memory_is_short() {
    with_sockets(0, async |sockets, address| {
        // Each may keep less than all that there is, but not all of them together.
        let silent: Vec<Client> = (0..8).map(|_| subscribe(address)).collect();
        until(|| listeners(&sockets) == silent.len()).await;
        for n in 0..40 * silent.len() {
            let subscriber = sockets.audience(0, Topic::RawTx).into_iter().nth(n % silent.len());
            let Some(subscriber) = subscriber else { continue };
            // A message of its own, as if only this one wanted it.
            let bytes = message(n, MIB);
            sockets.make_room(bytes.capacity());
            let message = Rc::new(Message::new(bytes, &sockets.0.kept));
            subscriber.state.borrow_mut().outgoing.push(&message);
            drop(message);
            subscriber.flush();
            assert!(sockets.0.kept.bytes() <= WAITING_BYTES);
            sleep(Duration::ZERO).await;
        }
        until(|| listeners(&sockets) < silent.len()).await;
        assert!(listeners(&sockets) > 0, "not all of them");
    });
}

#[test]
fn one_that_is_blocked_gives_no_room_however_often_it_is_tried() {
    with_sockets(0, async |sockets, address| {
        let silent = subscribe(address);
        until(|| listeners(&sockets) == 1).await;
        // More than the system keeps.
        sockets.send(0, Topic::RawTx, message(0, WAITING_BYTES / 2));
        for _ in 0..8 {
            sockets.flush();
            tokio::task::yield_now().await;
        }
        assert!(sockets.audience(0, Topic::RawTx)[0].state.borrow().is_blocked);
        assert!(timeout_at(Instant::now(), sockets.0.room.notified()).await.is_err());
        drop(silent);
        timeout_at(Instant::now() + HANDSHAKE, sockets.0.room.notified()).await.expect("it ended");
    });
}

#[test]
fn nothing_is_sent_to_who_is_cut_off() {
    with_sockets(0, async |sockets, address| {
        let _client = subscribe(address);
        until(|| listeners(&sockets) == 1).await;
        let subscriber = sockets.audience(0, Topic::RawTx).remove(0);
        let message = Rc::new(Message::new(message(0, 1), &sockets.0.kept));
        subscriber.state.borrow_mut().outgoing.push(&message);
        subscriber.cut_off();
        assert!(!subscriber.flush() && subscriber.state.borrow().outgoing.len() == 1);
        assert_eq!(listeners(&sockets), 0);
        assert!(!sockets.are_any(0, Topic::RawTx));
    });
}

#[test]
fn strangers_are_hung_up_on_and_there_are_only_so_many_subscribers() {
    with_sockets(0, async |sockets, address| {
        for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 200], &hello()[..64]] {
            let mut client = Client::connect(address).expect("somebody listens");
            client.write_all(nonsense).expect("it is read");
            client.shutdown(std::net::Shutdown::Write).expect("a socket");
            until_closed(&mut client).await;
        }
        until(|| sockets.0.subscribers.borrow().is_empty()).await;
        let all: Vec<Client> = (0..MAX_SUBSCRIBERS).map(|_| subscribe(address)).collect();
        until(|| listeners(&sockets) == MAX_SUBSCRIBERS).await;
        let mut refused = subscribe(address);
        until_closed(&mut refused).await;
        assert_eq!(listeners(&sockets), all.len());
    });
}

#[test]
fn notifiers_share_what_listens_at_their_address() {
    let notifier = |topic, port: u16| Notifier {
        topic,
        address: format!("tcp://127.0.0.1:{port}").parse().expect("an address"),
        high_water_mark: 1,
    };
    let all = [
        notifier(Topic::HashBlock, 5),
        notifier(Topic::RawTx, 3),
        notifier(Topic::RawBlock, 5),
        notifier(Topic::Sequence, 4),
    ];
    let places: Vec<usize> = all.iter().map(|notifier| place(&all, notifier)).collect();
    assert_eq!(places, [0, 1, 0, 2]);
}
