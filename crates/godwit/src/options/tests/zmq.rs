//! The addresses at which `-zmqpub…` has each topic published.

use super::*;

#[test]
fn notifications_are_published_by_topic_each_at_its_addresses() {
    let zmq = |arguments: &[&str]| {
        let all = Home::new().config(arguments).zmq;
        let text = |of: &godwit_api::Notifier| {
            format!("{} {} {}", of.topic.name(), of.address, of.high_water_mark)
        };
        all.iter().map(text).collect::<Vec<_>>()
    };
    assert!(zmq(&[]).is_empty());
    let given = [
        "-zmqpubsequence=tcp://[::1]:3",
        "-zmqpubrawtx=tcp://127.0.0.1:2",
        "-zmqpubrawtx=tcp://*:1",
        "-zmqpubrawtxhwm=7",
        "-zmqpubrawtxhwm=0",
        "-zmqpubhashtxhwm=5",
    ];
    let expected =
        ["rawtx tcp://127.0.0.1:2 0", "rawtx tcp://*:1 0", "sequence tcp://[::1]:3 1000"];
    assert_eq!(zmq(&given), expected);
    for wrong in [
        "-zmqpubrawtx=127.0.0.1:1",
        "-zmqpubrawtx=tcp://localhost:1",
        "-zmqpubrawtx=tcp://127.0.0.1",
        "-zmqpubrawtx=tcp://127.0.0.1:0",
        "-zmqpubrawtx=tcp://*:65536",
        "-zmqpubrawtx=ipc:///x",
        "-zmqpubrawtxhwm=-1",
        "-zmqpubrawtxhwm=2147483648",
    ] {
        assert!(error(&[wrong]).contains("expected"), "{wrong}");
    }
}
