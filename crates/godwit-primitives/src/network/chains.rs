//! The tables: one constant for each network.

use std::borrow::Cow;

use ethnum::U256;

use super::{AssumeUtxo, ChainTxData, HeadersSyncParams, Network, Params};
use crate::{BlockHash, BlockHeader, MerkleRoot, ScriptFlags};

/// Bytes in hashing order of a hash written as Core prints it. Evaluated by the compiler: a digit
/// that is wrong or missing does not build.
const fn reversed(text: &str) -> [u8; 32] {
    let digits = text.as_bytes();
    assert!(digits.len() == 64);
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[31 - i] = nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]);
        i += 1;
    }
    bytes
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("not a hexadecimal digit"),
    }
}

const fn block(text: &str) -> BlockHash {
    BlockHash::from_bytes(reversed(text))
}

const fn number(text: &str) -> U256 {
    let bytes = reversed(text);
    let mut words = [0u128; 2];
    let mut i = 32;
    while i > 0 {
        i -= 1;
        words[i / 16] = words[i / 16] << 8 | bytes[i] as u128;
    }
    U256::from_words(words[1], words[0])
}

const fn genesis(time: u32, nonce: u32, bits: u32, merkle_root: &str) -> BlockHeader {
    BlockHeader {
        version: 1,
        prev_blockhash: BlockHash::ZERO,
        merkle_root: MerkleRoot::from_bytes(reversed(merkle_root)),
        time,
        bits,
        nonce,
    }
}

/// Every genesis coinbase but testnet4's is the same transaction.
const GENESIS_TXID: &str = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";

const fn snapshot(height: u32, hash: &str, chain_tx_count: u64, blockhash: &str) -> AssumeUtxo {
    AssumeUtxo {
        height,
        hash_serialized: reversed(hash),
        chain_tx_count,
        blockhash: block(blockhash),
    }
}

/// What is left for the one main network block that breaks a taproot rule.
const P2SH_WITNESS: ScriptFlags = ScriptFlags::ALL
    .without(ScriptFlags::DERSIG)
    .without(ScriptFlags::NULLDUMMY)
    .without(ScriptFlags::CHECKLOCKTIMEVERIFY)
    .without(ScriptFlags::CHECKSEQUENCEVERIFY)
    .without(ScriptFlags::TAPROOT);

/// The main network.
pub(super) const MAIN: Params = Params {
    network: Network::Main,
    magic: [0xf9, 0xbe, 0xb4, 0xd9],
    default_port: 8333,
    subdir: "",
    genesis: genesis(1_231_006_505, 2_083_236_893, 0x1d00_ffff, GENESIS_TXID),
    genesis_hash: block("000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"),
    subsidy_halving_interval: 210_000,
    bip34_height: 227_931,
    bip34_hash: Some(block("000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8")),
    bip65_height: 388_381,
    bip66_height: 363_725,
    csv_height: 419_328,
    segwit_height: 481_824,
    script_flag_exceptions: &[
        // BIP16
        (
            block("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"),
            ScriptFlags::NONE,
        ),
        // Taproot
        (block("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad"), P2SH_WITNESS),
    ],
    pow_limit: number("00000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    pow_target_timespan: 1_209_600,
    pow_target_spacing: 600,
    allow_min_difficulty: false,
    enforce_bip94: false,
    no_retargeting: false,
    signet_challenge: None,
    minimum_chain_work: number("0000000000000000000000000000000000000001128750f82f4c366153a3a030"),
    // 938343
    assume_valid: Some(block("00000000000000000000ccebd6d74d9194d8dcdc1d177c478e094bfad51ba5ac")),
    assumeutxo: &[
        snapshot(
            840_000,
            "a2a5521b1b5ab65f67818e5e8eccabb7171a517f9e2382208f77687310768f96",
            991_032_194,
            "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5",
        ),
        snapshot(
            880_000,
            "dbd190983eaf433ef7c15f78a278ae42c00ef52e0fd2a54953782175fbadcea9",
            1_145_604_538,
            "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880",
        ),
        snapshot(
            910_000,
            "4daf8a17b4902498c5787966a2b51c613acdab5df5db73f196fa59a4da2f1568",
            1_226_586_151,
            "0000000000000000000108970acb9522ffd516eae17acddcb1bd16469194a821",
        ),
        snapshot(
            935_000,
            "e4b90ef9eae834f56c4b64d2d50143cee10ad87994c614d7d04125e2a6025050",
            1_305_397_408,
            "0000000000000000000147034958af1652b2b91bba607beacc5e72a56f0fb5ee",
        ),
    ],
    chain_tx_data: ChainTxData {
        time: 1_772_055_173,
        tx_count: 1_315_805_869,
        tx_rate: 5.40111006496122,
    },
    headers_sync: HeadersSyncParams { commitment_period: 641, redownload_buffer_size: 15_218 },
};

/// Test network 3.
pub(super) const TESTNET3: Params = Params {
    network: Network::Testnet3,
    magic: [0x0b, 0x11, 0x09, 0x07],
    default_port: 18333,
    subdir: "testnet3",
    genesis: genesis(1_296_688_602, 414_098_458, 0x1d00_ffff, GENESIS_TXID),
    genesis_hash: block("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"),
    subsidy_halving_interval: 210_000,
    bip34_height: 21_111,
    bip34_hash: Some(block("0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8")),
    bip65_height: 581_885,
    bip66_height: 330_776,
    csv_height: 770_112,
    segwit_height: 834_624,
    script_flag_exceptions: &[
        // BIP16
        (
            block("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"),
            ScriptFlags::NONE,
        ),
    ],
    pow_limit: number("00000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    pow_target_timespan: 1_209_600,
    pow_target_spacing: 600,
    allow_min_difficulty: true,
    enforce_bip94: false,
    no_retargeting: false,
    signet_challenge: None,
    minimum_chain_work: number("0000000000000000000000000000000000000000000017dde1c649f3708d14b6"),
    // 4842348
    assume_valid: Some(block("000000007a61e4230b28ac5cb6b5e5a0130de37ac1faf2f8987d2fa6505b67f4")),
    assumeutxo: &[
        snapshot(
            2_500_000,
            "f841584909f68e47897952345234e37fcd9128cd818f41ee6c3ca68db8071be7",
            66_484_552,
            "0000000000000093bcb68c03a9a168ae252572d348a2eaeba2cdf9231d73206f",
        ),
        snapshot(
            4_840_000,
            "ce6bb677bb2ee9789c4a1c9d73e6683c53fc20e8fdbedbdaaf468982a0c8db2a",
            536_078_574,
            "00000000000000f4971a7fb37fbdff89315b69a2e1920c467654a382f0d64786",
        ),
    ],
    chain_tx_data: ChainTxData {
        time: 1_772_051_651,
        tx_count: 536_108_416,
        tx_rate: 0.02691479016257117,
    },
    headers_sync: HeadersSyncParams { commitment_period: 673, redownload_buffer_size: 14_460 },
};

/// Test network 4.
pub(super) const TESTNET4: Params = Params {
    network: Network::Testnet4,
    magic: [0x1c, 0x16, 0x3f, 0x28],
    default_port: 48333,
    subdir: "testnet4",
    genesis: genesis(
        1_714_777_860,
        393_743_547,
        0x1d00_ffff,
        "7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e",
    ),
    genesis_hash: block("00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"),
    subsidy_halving_interval: 210_000,
    bip34_height: 1,
    bip34_hash: None,
    bip65_height: 1,
    bip66_height: 1,
    csv_height: 1,
    segwit_height: 1,
    script_flag_exceptions: &[],
    pow_limit: number("00000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    pow_target_timespan: 1_209_600,
    pow_target_spacing: 600,
    allow_min_difficulty: true,
    enforce_bip94: true,
    no_retargeting: false,
    signet_challenge: None,
    minimum_chain_work: number("0000000000000000000000000000000000000000000009a0fe15d0177d086304"),
    // 123613
    assume_valid: Some(block("0000000002368b1e4ee27e2e85676ae6f9f9e69579b29093e9a82c170bf7cf8a")),
    assumeutxo: &[
        snapshot(
            90_000,
            "784fb5e98241de66fdd429f4392155c9e7db5c017148e66e8fdbc95746f8b9b5",
            11_347_043,
            "0000000002ebe8bcda020e0dd6ccfbdfac531d2f6a81457191b99fc2df2dbe3b",
        ),
        snapshot(
            120_000,
            "10b05d05ad468d0971162e1b222a4aa66caca89da2bb2a93f8f37fb29c4794b0",
            14_141_057,
            "000000000bd2317e51b3c5794981c35ba894ce27d3e772d5c39ecd9cbce01dc8",
        ),
    ],
    chain_tx_data: ChainTxData {
        time: 1_772_013_387,
        tx_count: 14_191_421,
        tx_rate: 0.01848579579528412,
    },
    headers_sync: HeadersSyncParams { commitment_period: 606, redownload_buffer_size: 16_092 },
};

/// 1-of-2 multisig.
const SIGNET_CHALLENGE: [u8; 71] = [
    0x51, 0x21, 0x03, 0xad, 0x5e, 0x0e, 0xda, 0xd1, 0x8c, 0xb1, 0xf0, 0xfc, 0x0d, 0x28, 0xa3, 0xd4,
    0xf1, 0xf3, 0xe4, 0x45, 0x64, 0x03, 0x37, 0x48, 0x9a, 0xbb, 0x10, 0x40, 0x4f, 0x2d, 0x1e, 0x08,
    0x6b, 0xe4, 0x30, 0x21, 0x03, 0x59, 0xef, 0x50, 0x21, 0x96, 0x4f, 0xe2, 0x2d, 0x6f, 0x8e, 0x05,
    0xb2, 0x46, 0x3c, 0x95, 0x40, 0xce, 0x96, 0x88, 0x3f, 0xe3, 0xb2, 0x78, 0x76, 0x0f, 0x04, 0x8f,
    0x51, 0x89, 0xf2, 0xe6, 0xc4, 0x52, 0xae,
];

/// The default signet.
pub(super) const SIGNET: Params = Params {
    network: Network::Signet,
    magic: [0x0a, 0x03, 0xcf, 0x40],
    default_port: 38333,
    subdir: "signet",
    genesis: genesis(1_598_918_400, 52_613_770, 0x1e03_77ae, GENESIS_TXID),
    genesis_hash: block("00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"),
    subsidy_halving_interval: 210_000,
    bip34_height: 1,
    bip34_hash: None,
    bip65_height: 1,
    bip66_height: 1,
    csv_height: 1,
    segwit_height: 1,
    script_flag_exceptions: &[],
    pow_limit: number("00000377ae000000000000000000000000000000000000000000000000000000"),
    pow_target_timespan: 1_209_600,
    pow_target_spacing: 600,
    allow_min_difficulty: false,
    enforce_bip94: false,
    no_retargeting: false,
    signet_challenge: Some(Cow::Borrowed(&SIGNET_CHALLENGE)),
    minimum_chain_work: number("00000000000000000000000000000000000000000000000000000b463ea0a4b8"),
    // 293175
    assume_valid: Some(block("00000008414aab61092ef93f1aacc54cf9e9f16af29ddad493b908a01ff5c329")),
    assumeutxo: &[
        snapshot(
            160_000,
            "fe0a44309b74d6b5883d246cb419c6221bcccf0b308c9b59b7d70783dbdf928a",
            2_289_496,
            "0000003ca3c99aff040f2563c2ad8f8ec88bd0fd6b8f0895cfaf1ef90353a62c",
        ),
        snapshot(
            290_000,
            "97267e000b4b876800167e71b9123f1529d13b14308abec2888bbd2160d14545",
            28_547_497,
            "0000000577f2741bb30cd9d39d6d71b023afbeb9764f6260786a97969d5c9ac0",
        ),
    ],
    chain_tx_data: ChainTxData {
        time: 1_772_055_248,
        tx_count: 28_676_833,
        tx_rate: 0.06736623436338929,
    },
    headers_sync: HeadersSyncParams { commitment_period: 620, redownload_buffer_size: 15_724 },
};

/// The regression test network.
pub(super) const REGTEST: Params = Params {
    network: Network::Regtest,
    magic: [0xfa, 0xbf, 0xb5, 0xda],
    default_port: 18444,
    subdir: "regtest",
    genesis: genesis(1_296_688_602, 2, 0x207f_ffff, GENESIS_TXID),
    genesis_hash: block("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"),
    subsidy_halving_interval: 150,
    bip34_height: 1,
    bip34_hash: None,
    bip65_height: 1,
    bip66_height: 1,
    csv_height: 1,
    segwit_height: 0,
    script_flag_exceptions: &[],
    pow_limit: number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    pow_target_timespan: 86_400,
    pow_target_spacing: 600,
    allow_min_difficulty: true,
    enforce_bip94: false,
    no_retargeting: true,
    signet_challenge: None,
    minimum_chain_work: U256::ZERO,
    assume_valid: None,
    assumeutxo: &[
        snapshot(
            110,
            "86e9a1205b418b16dde3a18a78c730e30137e28466bda5dbf6b33ab8fc05447c",
            111,
            "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d",
        ),
        snapshot(
            200,
            "17dcc016d188d16068907cdeb38b75691a118d43053b8cd6a25969419381d13a",
            201,
            "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9",
        ),
        snapshot(
            299,
            "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac",
            334,
            "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853",
        ),
    ],
    chain_tx_data: ChainTxData { time: 0, tx_count: 0, tx_rate: 0.001 },
    headers_sync: HeadersSyncParams { commitment_period: 275, redownload_buffer_size: 7_017 },
};
