//! What is said to be ours, what is, and what comes back.

use super::*;

/// The option that permits anything of the output with this script.
pub(super) fn permitted(script: &bitcoin::ScriptBuf) -> String {
    let address = bitcoin::Address::from_script(script, bitcoin::Network::Regtest);
    let name = address.map_or_else(|_| script.to_hex_string(), |address| address.to_string());
    format!("-anyoutput={name}")
}

#[test]
fn every_lie_about_an_output_is_shown_before_it_is_refused() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let mut unsigned = made_here::spend(&[0, 1, 2].map(|index| made_here::wpkh('F', index)));
    for index in [0, 2] {
        let key = made_here::public_key('A', index as u32).inner;
        unsigned.outputs[index].bip32_derivation.insert(key, made_here::source(index as u32));
    }
    let (shown, _) = inspect(&place, &keys, &file(&place, "a.psbt", unsigned.serialize()));
    let lines: Vec<&str> = shown.lines().collect();
    for (index, wrong) in [(0, true), (1, false), (2, true)] {
        let start = format!("output {index}: ");
        let at = lines.iter().position(|line| line.starts_with(&start)).expect("it is shown");
        let line = "  wrong: it names a key of ours that its script does not have";
        assert_eq!(lines[at + 1] == line, wrong, "{shown}");
    }
}

#[test]
fn an_input_of_ours_that_is_hidden_is_not_signed_beside() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let mut unsigned = made_here::spend(&[made_here::wpkh('F', 0)]);
    unsigned.inputs[1].bip32_derivation.clear();
    let path = file(&place, "a.psbt", unsigned.serialize());
    let (shown, _) = inspect(&place, &keys, &path);
    let place_of_it = shown.lines().skip_while(|line| !line.starts_with("input 1"));
    let told = place_of_it.take_while(|line| !line.starts_with("output")).collect::<String>();
    assert!(told.contains(", descriptor 1, index 1: wpkh("), "{shown}");
    assert!(told.contains("which the PSBT hides"), "{shown}");
    let options = ["-unprovenamounts", "-foreigninputs", &permitted(&made_here::wpkh('F', 0))];
    let refused = sign(&place, &keys, &path, &options).expect(Exit::Failure);
    assert!(refused.stderr.contains("not signed: input 1: it is ours, and"), "{refused:?}");
    assert_eq!(refused.stdout, "");
}

#[test]
fn an_output_is_ours_when_a_descriptor_derives_it() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let (ours, theirs) = (made_here::public_key('A', 5), made_here::public_key('F', 5));
    let shared = made_here::one_of([ours, theirs]);
    let burnt = bitcoin::ScriptBuf::new_op_return(ours.inner.serialize());
    let outputs = [made_here::wpkh('A', 5), made_here::wpkh('F', 5), shared.to_p2wsh(), burnt];
    let mut unsigned = made_here::spend(&outputs);
    for output in &mut unsigned.outputs {
        output.bip32_derivation.insert(ours.inner, made_here::source(5));
    }
    unsigned.outputs[2].witness_script = Some(shared);
    let path = file(&place, "a.psbt", unsigned.serialize());
    let refused = sign(&place, &keys, &path, &["-unprovenamounts"]).expect(Exit::Failure);
    let line = "not signed: output 1: it names a key of ours that its script does not have; -anyoutput \
                with its address signs all the same\n";
    assert!(refused.stderr.ends_with(line), "{refused:?}");
    // Each permission is one of its output alone, whether that has an address or none.
    let named: Vec<String> = outputs[1..].iter().map(permitted).collect();
    for missing in 0..named.len() {
        let mut options: Vec<&str> = named.iter().map(String::as_str).collect();
        options[missing] = "-unprovenamounts";
        let refused = sign(&place, &keys, &path, &options).expect(Exit::Failure);
        let line = format!("not signed: output {}: it names a key of ours", missing + 1);
        assert!(refused.stderr.contains(&line), "{refused:?}");
    }
    for (named, exit, told) in [
        (permitted(&made_here::wpkh('F', 6)), Exit::Failure, "no output of the PSBT goes to"),
        (
            "-anyoutput=bc1q9vza2e8x573nczrlzms0wvx3gsqjx7vavgkx0l".into(),
            Exit::Configuration,
            "-chain",
        ),
        ("-anyoutput=nonsense".into(), Exit::Configuration, "the address of an output"),
    ] {
        let refused = sign(&place, &keys, &path, &["-unprovenamounts", &named]).expect(exit);
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let mut options = vec!["-unprovenamounts"];
    options.extend(named.iter().map(String::as_str));
    let signed = sign(&place, &keys, &path, &options).expect(Exit::Success);
    let lines: Vec<&str> =
        signed.stderr.lines().filter(|line| line.starts_with("output ")).collect();
    assert!(lines[0].ends_with(", which is ours"), "{lines:?}");
    assert!(!lines[1].contains("our"), "{lines:?}");
    for line in &lines[2..] {
        assert!(!line.contains("which is ours"), "{line}");
        assert!(line.contains(", which names a key of ours, but no descriptor"), "{line}");
    }
}

#[test]
fn change_that_nobody_would_find_is_not_signed() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    // Inputs are at 0 and 1.
    for (index, signed) in [(201, true), (202, false), (99_999, false)] {
        let mut unsigned = made_here::spend(&[made_here::wpkh('A', index)]);
        let key = made_here::public_key('A', index).inner;
        unsigned.outputs[0].bip32_derivation.insert(key, made_here::source(index));
        let path = file(&place, "a.psbt", unsigned.serialize());
        let (shown, _) = inspect(&place, &keys, &path);
        assert_eq!(shown.contains("no wallet that is restored looks there"), !signed, "{shown}");
        assert_eq!(shown.contains("net: 0.00001000 BTC leave"), signed, "{shown}");
        let ended = sign(&place, &keys, &path, &["-unprovenamounts"]);
        if !signed {
            let refused = ended.expect(Exit::Failure);
            let told = "-anyindex with its address signs all the same";
            assert!(refused.stderr.contains(told), "{refused:?}");
            let named = permitted(&made_here::wpkh('A', index)).replace("output", "index");
            let options = ["-unprovenamounts", &named];
            sign(&place, &keys, &path, &options).expect(Exit::Success);
        } else {
            ended.expect(Exit::Success);
        }
    }
}

#[test]
fn what_leaves_and_what_comes_back_is_told() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let outputs = [made_here::wpkh('A', 7), made_here::wpkh('F', 0)];
    let mut unsigned = made_here::spend(&outputs);
    unsigned.unsigned_tx.output[0].value = bitcoin::Amount::from_sat(15_000_000);
    unsigned.unsigned_tx.output[1].value = bitcoin::Amount::from_sat(4_900_000);
    let key = made_here::public_key('A', 7).inner;
    unsigned.outputs[0].bip32_derivation.insert(key, made_here::source(7));
    let (shown, _) = inspect(&place, &keys, &file(&place, "a.psbt", unsigned.serialize()));
    let net = "net: 0.05000000 BTC leave (0.20000000 BTC of ours are spent, 0.15000000 BTC come back); the \
               fee is 2.0 % of what leaves";
    assert!(shown.contains(net), "{shown}");
    let entry = shown.lines().find(|line| line.starts_with("  ours by entry ")).expect("one is");
    assert!(entry.contains(", descriptor 1, index 7: wpkh("), "{entry}");
}

#[test]
fn change_that_others_may_take_is_told_as_leaving() {
    let place = signer("regtest");
    let [ours, theirs] = ['A', 'F'].map(made_here::extended_public_key);
    let shared = format!("wsh(multi(1,{ours}/*,{theirs}/*))");
    let keys = made_here::key_file_with(&place, "test.keys", NetworkKind::Test, &[shared]);
    let script = made_here::one_of(['A', 'F'].map(|letter| made_here::public_key(letter, 3)));
    let mut unsigned = made_here::spend(&[script.to_p2wsh(), made_here::wpkh('A', 4)]);
    for (index, output) in (3..).zip(&mut unsigned.outputs) {
        let key = made_here::public_key('A', index).inner;
        output.bip32_derivation.insert(key, made_here::source(index));
    }
    unsigned.outputs[0].witness_script = Some(script);
    let path = file(&place, "a.psbt", unsigned.serialize());
    let (shown, _) = inspect(&place, &keys, &path);
    let outputs: Vec<&str> = shown.lines().filter(|line| line.starts_with("output ")).collect();
    let told = ", which is shared with other keys or conditions; it does not only come back to you, and counts as leaving";
    assert!(outputs[0].ends_with(told), "{shown}");
    assert!(outputs[1].ends_with(", which is ours"), "{shown}");
    assert!(shown.contains(", descriptor 2, index 3: wsh(multi(1,"), "{shown}");
    assert!(shown.contains("net: 0.10000500 BTC leave"), "{shown}");
    sign(&place, &keys, &path, &["-unprovenamounts"]).expect(Exit::Success);
}

#[test]
fn an_input_of_ours_by_no_descriptor_is_told_and_not_signed_beside_others() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let script = made_here::one_of([made_here::public_key('F', 0), made_here::public_key('A', 1)]);
    let mut unsigned = made_here::spend(&[made_here::wpkh('F', 0)]);
    unsigned.inputs[1].witness_utxo.as_mut().expect("it has one").script_pubkey = script.to_p2wsh();
    unsigned.inputs[1].witness_script = Some(script);
    let path = file(&place, "a.psbt", unsigned.serialize());
    let (shown, _) = inspect(&place, &keys, &path);
    assert!(shown.contains("\n  ours by no descriptor of the key file\n"), "{shown}");
    let net = "net: 0.20000000 BTC leave (0.20000000 BTC of ours are spent, 0.10000000 BTC of that by no \
               descriptor, 0.00000000 BTC come back); the fee is 0.0 % of what leaves without inputs of no \
               descriptor";
    assert!(shown.contains(net), "{shown}");
    sign(&place, &keys, &path, &["-unprovenamounts"]).expect(Exit::Success);
    let script_pubkey = made_here::wpkh('F', 9);
    unsigned.inputs[0].witness_utxo.as_mut().expect("it has one").script_pubkey = script_pubkey;
    unsigned.inputs[0].bip32_derivation.clear();
    let path = file(&place, "b.psbt", unsigned.serialize());
    let options = ["-unprovenamounts", "-foreigninputs"];
    let refused = sign(&place, &keys, &path, &options).expect(Exit::Failure);
    let line =
        "nothing tells whether inputs of others are ours too; -anyinputs signs all the same\n";
    assert!(refused.stderr.ends_with(line), "{refused:?}");
    let options = ["-unprovenamounts", "-foreigninputs", "-anyinputs"];
    sign(&place, &keys, &path, &options).expect(Exit::Success);
}
