use super::*;

fn ops(mut script: &[u8]) -> (Vec<(u8, Vec<u8>)>, bool) {
    let mut found = Vec::new();
    loop {
        match next_op(&mut script) {
            Ok(Some((opcode, data))) => found.push((opcode, data.to_vec())),
            Ok(None) => return (found, false),
            Err(Truncated) => return (found, true),
        }
    }
}

#[test]
fn every_push_form_is_read() {
    let script = [0x02, 7, 8, 0x4c, 1, 9, 0x4d, 1, 0, 10, 0x4e, 1, 0, 0, 0, 11, 0x4c, 0, 0xac];
    let expected = [
        (0x02, vec![7, 8]),
        (0x4c, vec![9]),
        (0x4d, vec![10]),
        (0x4e, vec![11]),
        (0x4c, vec![]),
        (0xac, vec![]),
    ];
    assert_eq!(ops(&script), (expected.to_vec(), false));
}

#[test]
fn truncated_pushes_are_told_from_the_end() {
    for script in [
        &[0x01][..],
        &[0x4b, 0],
        &[0x4c],
        &[0x4c, 1],
        &[0x4d, 1],
        &[0x4d, 1, 0],
        &[0x4e, 0, 0, 0],
        &[0x4e, 0xff, 0xff, 0xff, 0xff, 0],
    ] {
        assert_eq!(ops(script), (vec![], true), "{script:?}");
        assert_eq!(last_push(script), None);
    }
    assert_eq!(ops(&[]), (vec![], false));
}

#[test]
fn last_push_takes_numbers_for_empty_and_refuses_other_operations() {
    assert_eq!(last_push(&[]), Some(&[][..]));
    assert_eq!(last_push(&[0x01, 5, 0x02, 6, 7]), Some(&[6, 7][..]));
    assert_eq!(last_push(&[0x01, 5, 0x60]), Some(&[][..]));
    assert_eq!(last_push(&[0x01, 5, 0x61]), None);
}

#[test]
fn witness_programs_have_2_to_40_bytes_and_version_0_to_16() {
    let script = |version: u8, size: usize| {
        let mut script = vec![version, size as u8];
        script.resize(size + 2, 7);
        script
    };
    assert_eq!(witness_program(&script(0, 1)), None);
    assert_eq!(witness_program(&script(0, 2)), Some((0, &[7, 7][..])));
    assert_eq!(witness_program(&script(0x51, 40)), Some((1, &[7; 40][..])));
    assert_eq!(witness_program(&script(0x51, 41)), None);
    assert_eq!(witness_program(&script(0x60, 20)), Some((16, &[7; 20][..])));
    assert_eq!(witness_program(&script(0x61, 20)), None);
    assert_eq!(witness_program(&script(0x50, 20)), None);
    assert_eq!(witness_program(&[0, 3, 7, 7]), None);
    assert_eq!(witness_program(&[0]), None);
}

/// Independent form of the number: minimal little-endian bytes, padded when the top bit is set.
fn naive_height(height: u32) -> Vec<u8> {
    if height == 0 {
        return vec![0];
    }
    if height <= 16 {
        return vec![0x50 + height as u8];
    }
    let mut number = height.to_le_bytes().to_vec();
    while number.last() == Some(&0) {
        number.pop();
    }
    if number.last().is_some_and(|top| top & 0x80 != 0) {
        number.push(0);
    }
    let mut script = vec![number.len() as u8];
    script.extend(number);
    script
}

#[test]
fn heights_are_pushed_minimally() {
    let powers = (0..32).map(|shift| 1u32 << shift);
    let edges = powers.flat_map(|power| [power - 1, power, power + 1]);
    for height in edges.chain([227_931, 1_983_702, u32::MAX]) {
        assert_eq!(HeightPush::new(height).as_slice(), naive_height(height), "{height}");
    }
    assert_eq!(HeightPush::new(227_931).as_slice(), [0x03, 0x5b, 0x7a, 0x03]);
}

#[test]
fn pushes_use_the_shortest_opcode() {
    for (size, prefix) in [
        (0, vec![0]),
        (75, vec![75]),
        (76, vec![0x4c, 76]),
        (255, vec![0x4c, 255]),
        (256, vec![0x4d, 0, 1]),
        (65_535, vec![0x4d, 255, 255]),
        (65_536, vec![0x4e, 0, 0, 1, 0]),
    ] {
        let mut script = Vec::new();
        push_data(&mut script, &vec![1; size]);
        assert_eq!(script[..prefix.len()], prefix);
        assert_eq!(script.len(), prefix.len() + size);
    }
}
